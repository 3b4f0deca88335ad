from pathlib import Path

from evenbeat.model import Instant
from evenbeat.store.contract import Batch, RunRecord, SnapshotReader, Store
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_claim, a_finish, a_task
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


class TestASnapshotOfATask:
    def test_it_is_what_single_reads_say_and_none_without_the_task(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "evenbeat.db")
        (entry,) = store.create([a_task("web")], "me", T0)
        store.record(Batch(claims=[a_claim(entry.number)])).result()
        for name in ("web", entry.id):
            found = store.task_snapshot(name, 10)
            assert found is not None
            assert found.condition == next(store.conditions())
            assert (found.runs, found.skips) == (store.runs(entry.number), store.skips(entry.number))
        assert store.task_snapshot("w*", 10) is None
        store.close()

    def test_its_parts_agree_while_a_node_writes_between_the_reads(self, tmp_path: Path) -> None:
        writer = SqliteStore(tmp_path / "evenbeat.db")
        (entry,) = writer.create([a_task("web")], "me", T0)
        writer.record(Batch(claims=[a_claim(entry.number)])).result()

        class Interrupted(SqliteStore):
            def runs(
                self, task: int | None = None, before: Instant | None = None, most: int = 100, *, notable: bool = False
            ) -> list[RunRecord]:
                writer.record(Batch(finishes=[a_finish(entry.number)])).result()
                return super().runs(task, before, most, notable=notable)

        reader = Interrupted(tmp_path / "evenbeat.db", read_only=True)
        found = reader.task_snapshot("web", 10)
        assert found is not None
        assert found.condition.running_since is not None
        assert [run.ended for run in found.runs] == [None]
        assert next(reader.conditions()).running_since is None
        assert isinstance(reader, SnapshotReader)
        reader.close()
        writer.close()
