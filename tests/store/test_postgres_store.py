from pathlib import Path

import pytest

from evenbeat.store.contract import Store
from evenbeat.store.postgres import PostgresStore
from evenbeat.testing.store import StoreContract


class TestPostgresStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, dsn: str) -> None:
        self.dsn = dsn

    def make_store(self, folder: Path) -> Store:
        return PostgresStore(self.dsn)

    def make_bounded_store(self, folder: Path, plain_runs: int) -> Store:
        return PostgresStore(self.dsn, plain_runs=plain_runs)

    def reopen(self, store: Store, folder: Path) -> Store:
        store.close()
        return PostgresStore(self.dsn)
