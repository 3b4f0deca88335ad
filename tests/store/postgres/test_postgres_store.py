from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from evenbeat.store.contract import Batch, Store
from evenbeat.store.postgres.batch_recorder import batch_statements
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.samples import T0, a_claim, a_finish, a_task
from evenbeat.testing.store import StoreContract
from evenbeat.testing.store_chains import a_follower, create, success


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

    def test_ends_of_runs_are_kept_only_while_a_task_follows_others(self, store: Store) -> None:
        (backup,) = create(store, a_task("backup", check=False))
        store.record(Batch(chain_ends=[success(backup)])).result()
        assert store.chain_parents(["backup"])[0].success is None
        create(store, a_follower("upload", ["backup"]))
        store.record(Batch(chain_ends=[success(backup, T0 + 1)])).result()
        assert store.chain_parents(["backup"])[0].success == success(backup, T0 + 1)

    def test_batches_whose_columns_have_one_value_or_many_are_one_statement_each(self) -> None:
        """The server prepares a statement for each combination of the types of its parameters."""
        same = [a_finish(1), a_finish(2)]
        different = [same[0], a_finish(2, output="other")._replace(status=None, state=2, attempt=70_000, hard=False)]
        for finishes in (same, different, [finish._replace(status=None) for finish in same]):
            (statement,) = batch_statements(Batch(finishes=finishes))
            assert isinstance(statement.values, dict)
            assert {type(value) for value in statement.values.values()} <= {str, type(None)}
