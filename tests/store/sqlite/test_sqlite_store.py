from pathlib import Path

from evenbeat.store.contract import Store
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.store import StoreContract


class TestSqliteStore(StoreContract):
    def make_store(self, folder: Path) -> Store:
        return SqliteStore(folder / "evenbeat.db")

    def make_bounded_store(self, folder: Path, plain_runs: int) -> Store:
        return SqliteStore(folder / "evenbeat.db", plain_runs=plain_runs)

    def reopen(self, store: Store, folder: Path) -> Store:
        store.close()
        return self.make_store(folder)

    def open_backup(self, path: Path) -> Store:
        return SqliteStore(path, read_only=True)
