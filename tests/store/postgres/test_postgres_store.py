from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from evenbeat.store.contract import Batch, Store
from evenbeat.store.postgres.batch_recorder import batch_statements
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.samples import T0, a_claim, a_task
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

    def test_who_gives_a_removed_name_again_waits_for_the_claims_that_do_not_know_of_the_removal(self) -> None:
        """The claim is made before the removal is committed, and committed after it."""
        node, person = PostgresStore(self.dsn), PostgresStore(self.dsn)
        try:
            (entry,) = person.create([a_task("a")], "me", T0)
            with (
                psycopg.connect(self.dsn, autocommit=True) as claiming,
                psycopg.connect(self.dsn, autocommit=True) as watching,
                ThreadPoolExecutor(1) as thread,
            ):
                claiming.execute("SET search_path = evenbeat")
                claiming.execute("BEGIN")
                ((text, values, _),) = batch_statements(Batch(claims=[a_claim(entry.number)]))
                assert claiming.execute(text, values).fetchall() == []
                person.remove([entry.number], T0)
                created = thread.submit(person.create, [a_task("a"), a_task("b")], "me", T0)
                while not created.done() and not self._waits_for_claims(watching):
                    pass
                claiming.execute("COMMIT")
                back, other = created.result()
            assert back.number == entry.number, "its run lasts: it is the same task"
            assert other.number != entry.number
            assert node.removed_running() == []
        finally:
            person.close()
            node.close()

    def _waits_for_claims(self, connection: psycopg.Connection[tuple[object, ...]]) -> bool:
        asked = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_locks%' AND pid <> pg_backend_pid()"
        return connection.execute(asked).fetchone() is not None
