from pathlib import Path

from evenbeat.store.contract import Store
from evenbeat.store.memory import MemoryStore
from evenbeat.testing.store import StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self, folder: Path) -> Store:
        return MemoryStore()

    def make_bounded_store(self, folder: Path, plain_runs: int) -> Store:
        return MemoryStore(plain_runs)
