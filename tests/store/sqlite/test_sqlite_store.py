from contextlib import closing
from itertools import chain
from pathlib import Path

from evenbeat.model import Instant
from evenbeat.store.contract import (
    PLAIN_PROGRESS,
    Batch,
    PlainProgressReader,
    RunRecord,
    SnapshotReader,
    Store,
    TaskProgress,
)
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_claim, a_finish, a_progress_record, a_task
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


class TestVersionsOfTasks:
    def test_every_change_of_a_definition_changes_what_names_it(self, tmp_path: Path) -> None:
        with closing(SqliteStore(tmp_path / "evenbeat.db")) as store:
            first, second, third = store.create([a_task("a"), a_task("b"), a_task("c")], "me", T0)
            store.update([(first.number, a_task("d"))], Instant(T0 + 1))
            store.update([(second.number, a_task("b"))], Instant(T0 + 2), owner="you")
            store.remove([third.number], Instant(T0 + 3))
            assert [*store.task_versions()] == [[(first.number, 2, T0 + 1), (second.number, 2, T0 + 2)]]
            (again,) = store.create([a_task("c")], "me", Instant(T0 + 4))
            assert [*chain(*store.task_versions())][2:] == [(again.number, again.version, T0 + 4)]

    def test_a_task_that_still_runs_comes_back_with_another_version(self, tmp_path: Path) -> None:
        with closing(SqliteStore(tmp_path / "evenbeat.db")) as store:
            (entry,) = store.create([a_task("a")], "me", T0)
            store.record(Batch(claims=[a_claim(entry.number)])).result()
            store.remove([entry.number], Instant(T0 + 1))
            assert [*store.task_versions()] == []
            store.create([a_task("a")], "me", Instant(T0 + 2))
            assert [*store.task_versions()] == [[(entry.number, 2, T0 + 2)]]

    def test_entries_by_their_numbers(self, tmp_path: Path) -> None:
        with closing(SqliteStore(tmp_path / "evenbeat.db")) as store:
            first, second, third = store.create([a_task("a"), a_task("b"), a_task("c")], "me", T0)
            store.remove([second.number], T0)
            assert [*store.numbered_entries([third.number, second.number, first.number, 99])] == [first, third]
            assert [*store.numbered_entries([])] == []

    def test_many_tasks_are_created_with_progress_and_audit_of_each(self, tmp_path: Path) -> None:
        with closing(SqliteStore(tmp_path / "evenbeat.db")) as store:
            (old,) = store.create([a_task("old")], "me", T0)
            names = [f"n{i:05}" for i in range(12_345)]
            store.create([a_task(name) for name in names], "me", T0, "who")
            assert [condition.entry.task.name for condition in store.conditions()] == [*names, "old"]
            noted = store.changes(most=20_000)[::-1]
            assert [(change.name, change.action) for change in noted] == [
                (name, "created") for name in (old.task.name, *names)
            ]


class TestProgressInTwoHalves:
    def test_together_they_are_all_progress_and_only_the_other_half_has_claims_and_pauses(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "evenbeat.db")
        entries = store.create([a_task(f"t{i}") for i in range(2_500)], "me", T0)
        plain, claimed, paused, both, removed, still_running, new = (entry.number for entry in entries[:7])
        standings = [a_progress_record(entry.number, T0 + i) for i, entry in enumerate(entries) if entry.number != new]
        store.record(Batch(standings=standings)).result()
        for number in (plain, claimed, both, still_running):
            store.record(Batch(claims=[a_claim(number)])).result()
        result = a_finish(plain, T0 + 5)._replace(state=2, hard=False, attempt=3, changes=7, flapping=True)
        store.record(Batch(finishes=[result])).result()
        pauses = [a_progress_record(n)._replace(pause_from=T0, pause_until=T0 + 9) for n in (paused, both)]
        store.record(Batch(standings=pauses)).result()
        store.remove([removed, still_running], Instant(T0 + 10))
        rows = [tuple(row) for some in store.plain_progress() for row in some]
        others = list(store.other_progress())
        assert [p.task for p in others] == [claimed, paused, both, still_running]
        assert [row[0] for row in rows] == [plain, removed, *(entry.number for entry in entries[7:])]
        known = {p.task: p for p in store.progress()}
        assert {p.task: p for p in others} == {p.task: known.pop(p.task) for p in others}
        assert {row[0]: row for row in rows if row[0] != removed} == {
            number: p[: len(PLAIN_PROGRESS)] for number, p in known.items()
        }
        assert {p[len(PLAIN_PROGRESS) :] for p in known.values()} == {_NOTHING_ELSE}
        assert isinstance(store, PlainProgressReader)
        store.close()


_NOTHING_ELSE = TaskProgress(0, 0, 0, 0, 0, 0, True, 0, 0, False, 0, None, 0, 0, 0)[len(PLAIN_PROGRESS) :]
