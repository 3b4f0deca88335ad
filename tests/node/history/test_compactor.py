"""The compactor on a virtual clock: what stays of runs, what becomes of them, and no crash loses or doubles any."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from compacted_history import START, CompactedHistory, LayeredStore, hourly

from evenbeat.core.retention import RARE_RUNS_KEPT, RECORDS_PER_HOUR, Retention
from evenbeat.model import DAY, HOUR, MINUTE, Instant, RunKind
from evenbeat.node.history.compactor import Compactor
from evenbeat.store.contract import StoreError
from evenbeat.store.history_contract import Layer, PartGone
from evenbeat.store.memory import MemoryStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore

RETENTION = Retention(keep_runs=6 * HOUR, keep=3 * DAY, keep_days=10 * DAY)
STEP = 10 * MINUTE


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LayeredStore]:
    store: LayeredStore = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "history.db")
    yield store
    store.close()


def a_while_in_the_life(history: CompactedHistory, start: int) -> None:
    """Ten minutes: one task that runs every minute, one that fails now and then, one that runs every half hour."""
    often, failing, seldom = history.tasks
    for minute in range(start, start + STEP, MINUTE):
        history.record(often, minute, f"OK | load={minute // MINUTE % 7}", took=1_000_000 + minute // MINUTE % 60)
        fails = minute // MINUTE % 30 < 20
        history.record(
            failing, minute + 1, outcome="failed" if fails else "succeeded", state=2 if fails else 0, notable=fails
        )
    if start % (30 * MINUTE) == 0:
        history.record(seldom, start + 2, whole=True)


def lived(store: LayeredStore, until: int, *, compacts: bool = True) -> CompactedHistory:
    """A history up to a time."""
    history = CompactedHistory(store, RETENTION)
    for _ in history.live(until, STEP, lambda start: a_while_in_the_life(history, start)):
        if compacts:
            history.compact()
    return history


class TestLayers:
    def test_packed_runs_are_found_as_before(self, store: LayeredStore) -> None:
        packed = lived(store, START + 5 * HOUR)
        plain = lived(MemoryStore(), START + 5 * HOUR, compacts=False)
        assert packed.history().runs == plain.history().runs
        assert packed.store.size().unpacked == 0
        assert plain.store.size().unpacked == len(plain.history().runs)
        for task in packed.tasks:
            before = Instant(START + 3 * HOUR)
            assert packed.store.runs(task, before, 50) == plain.store.runs(task, before, 50)
            assert packed.store.runs(task, notable=True) == plain.store.runs(task, notable=True)
        assert packed.store.starts(START, Instant(START + HOUR)) == plain.store.starts(START, Instant(START + HOUR))

    def test_an_hour_is_merged_when_it_has_been_over_for_five_minutes(self, store: LayeredStore) -> None:
        history = lived(store, START + HOUR)
        history.now = Instant(START + HOUR + 4 * MINUTE)
        history.compact()
        assert store.parts(Layer.RECENT)
        assert not store.parts(Layer.RUNS)
        history.now = Instant(START + HOUR + 5 * MINUTE)
        history.compact()
        assert not store.parts(Layer.RECENT)
        (runs,), (hours,) = store.parts(Layer.RUNS), store.parts(Layer.HOURS)
        assert (runs.since, runs.rows) == (START, 122)
        assert (hours.since, hours.rows) == (START, 3)

    def test_hours_and_days_count_every_run(self, store: LayeredStore) -> None:
        history = lived(store, START + 2 * DAY + HOUR)
        plain = lived(MemoryStore(), START + 2 * DAY + HOUR, compacts=False)
        often, _, seldom = history.tasks
        hours, days = history.summaries(often, Layer.HOURS), history.summaries(often, Layer.DAYS)
        recorded = hourly(plain.store.runs(often, most=1_000_000))
        assert {s.since: s.runs for s in hours} == {h: n for h, n in recorded.items() if h < START + 2 * DAY}
        assert [(s.since, s.runs) for s in days] == [(START, 1440), (START + DAY, 1440)]
        assert days[0].outcomes == {"succeeded": 1440}
        assert days[0].states == {0: 1440}
        assert days[0].duration.max == 1_000_059
        ((label, _, count, least, mean, most),) = days[0].series
        assert (label, count, least, most) == ("load", 1440, 0.0, 6.0)
        assert mean == pytest.approx(3, abs=0.01)
        # Of a task that runs seldom the runs stay, and no summary of an hour.
        assert [s.since for s in history.summaries(seldom, Layer.HOURS)] == []
        assert [s.runs for s in history.summaries(seldom, Layer.DAYS)] == [48, 48]

    def test_of_older_runs_stay_those_that_say_more(self, store: LayeredStore) -> None:
        history = lived(store, START + 2 * DAY)
        often, failing, seldom = history.tasks
        oldest = history.now - RETENTION.keep_runs - HOUR - STEP
        assert all(run.claimed >= oldest for run in store.runs(often, most=1_000_000))
        old = [run for run in store.runs(failing, most=1_000_000) if run.claimed < oldest]
        assert old
        assert max(hourly(old).values()) == RECORDS_PER_HOUR
        assert len(store.runs(seldom, most=1_000)) == 96

    def test_of_a_rare_task_the_last_hundred_stay_however_old(self, store: LayeredStore) -> None:
        history = lived(store, START + 4 * DAY)
        history.now = Instant(START + 300 * DAY)
        history.compact()
        history.now = Instant(history.now + DAY)
        history.compact()
        often, failing, seldom = history.tasks
        assert not store.runs(often) + store.runs(failing, most=1)
        kept = store.runs(seldom, most=1_000)
        # A part of a day is written anew only if it is worth it.
        assert RARE_RUNS_KEPT <= len(kept) <= RARE_RUNS_KEPT + 48 // 10
        assert kept[0].claimed > START + 4 * DAY - HOUR
        assert not history.summaries(often, Layer.HOURS) + history.summaries(often, Layer.DAYS)

    def test_of_a_removed_task_nothing_stays_forever(self, store: LayeredStore) -> None:
        history = lived(store, START + DAY)
        history.tasks.pop()
        history.now = Instant(START + 30 * DAY)
        history.compact()
        assert store.parts(Layer.KEPT) == []

    def test_a_task_that_runs_often_now_is_not_rare_any_more(self, store: LayeredStore) -> None:
        history = CompactedHistory(store, RETENTION)
        task = history.tasks[0]
        for minute in range(3):
            history.record(task, START + minute * MINUTE)
        for start in range(0, 5 * DAY, HOUR):
            for minute in range(60) if start else ():
                history.record(task, START + start + minute * MINUTE)
            history.now = Instant(START + start + HOUR)
            history.compact()
        assert min(run.claimed for run in store.runs(task, most=100_000)) > START + 4 * DAY

    def test_whole_outputs_go_with_their_runs(self, store: LayeredStore) -> None:
        history = CompactedHistory(store, RETENTION)
        task, rare = history.tasks[:2]
        for minute in range(30):
            history.record(task, START + minute * MINUTE, whole=True, notable=minute == 7)
        history.record(rare, START, whole=True)
        history.now = Instant(START + 2 * HOUR)
        history.compact()
        assert len(store.whole_outputs_between(0, START + DAY)) == 31
        history.now = Instant(START + 8 * HOUR)
        history.compact()
        (kept,) = store.runs(task)
        assert sorted(store.whole_outputs_between(0, START + DAY)) == [(task, kept.claimed), (rare, START + 1_000)]
        history.now = Instant(START + 8 * DAY)
        history.compact()
        assert store.whole_outputs_between(0, START + DAY) == [(rare, START + 1_000)]

    def test_forced_runs_are_kept_for_longer(self, store: LayeredStore) -> None:
        history = CompactedHistory(store, RETENTION)
        task = history.tasks[0]
        for minute in range(30):
            history.record(task, START + minute * MINUTE, kind=RunKind.FORCED if minute == 7 else RunKind.GRID)
        history.now = Instant(START + DAY)
        history.compact()
        assert [run.kind for run in store.runs(task)] == [RunKind.FORCED]

    def test_many_parts_of_an_hour_are_merged_meanwhile(self, store: LayeredStore) -> None:
        history = CompactedHistory(store, RETENTION)
        for minute in range(50):
            history.record(history.tasks[0], START + minute * MINUTE)
            history.now = Instant(START + minute * MINUTE + MINUTE + 2_000_000)
            history.compact()
        assert len(store.parts(Layer.RECENT)) < 16
        assert len(store.runs(most=100)) == 50


class TestLateRuns:
    def test_what_comes_late_is_added_to_its_hour_and_day(self, store: LayeredStore) -> None:
        history = lived(store, START + DAY + 2 * HOUR)
        often = history.tasks[0]
        for minute in range(10):
            history.record(often, START + 3 * HOUR + minute * MINUTE + 30_000_000)  # thinned out long ago
            history.record(often, START + 23 * HOUR + minute * MINUTE + 30_000_000)  # merged, and not thinned out
        history.now = Instant(history.now + MINUTE)
        history.compact()
        hours = {s.since: s.runs for s in history.summaries(often, Layer.HOURS)}
        assert hours[START + 3 * HOUR] == hours[START + 23 * HOUR] == 70
        assert [s.runs for s in history.summaries(often, Layer.DAYS)] == [1460]
        last_hour = [run for run in store.runs(often, most=2_000) if run.claimed // HOUR == START // HOUR + 23]
        assert len(last_hour) == 70

    def test_a_database_that_was_never_compacted(self, store: LayeredStore) -> None:
        history = lived(store, START + 3 * DAY, compacts=False)
        history.compact()
        at_once = history.history()
        step_by_step = lived(MemoryStore(), START + 3 * DAY)
        step_by_step.compact()
        assert at_once.hours == step_by_step.history().hours
        assert at_once.days == step_by_step.history().days
        assert at_once.runs == step_by_step.history().runs

    def test_a_clock_that_was_set_back(self, store: LayeredStore) -> None:
        history = lived(store, START + 3 * HOUR)
        history.now = Instant(START + HOUR)
        for minute in range(10):
            history.record(history.tasks[0], history.now + minute * MINUTE + 7)
        history.now = Instant(START + 5 * HOUR)
        history.compact()
        assert sum(s.runs for s in history.summaries(history.tasks[0], Layer.HOURS)) == 190
        assert len(store.runs(history.tasks[0], most=1_000)) == 190


class Interrupted:
    """A store that fails at the nth change, before or after making it."""

    def __init__(self, store: Any, place: int, error: type[Exception], *, is_done: bool) -> None:
        self._store, self._left, self._error, self._is_done = store, place, error, is_done

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("pack", "begin_part", "add_runs", "add_summaries", "complete"):
            return method

        def change(*args: Any, **names: Any) -> Any:
            self._left -= 1
            if self._left == 0 and not self._is_done:
                raise self._error("interrupted")
            found = method(*args, **names)
            if self._left == 0:
                raise self._error("interrupted")
            return found

        return change


class Copied:
    """A store in a file that is copied after each change."""

    def __init__(self, store: Any, folder: Path, copies: list[Path]) -> None:
        self._store, self._folder, self._copies = store, folder, copies

    def copy(self) -> None:
        path = self._folder / f"copy-{len(self._copies)}.db"
        for end in ("", "-wal"):
            shutil.copyfile(self._folder / f"live.db{end}", f"{path}{end}")
        self._copies.append(path)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("pack", "begin_part", "add_runs", "add_summaries", "complete"):
            return method

        def change(*args: Any, **names: Any) -> Any:
            found = method(*args, **names)
            self.copy()
            return found

        return change


def rounds(compactor: Compactor) -> None:
    for _ in compactor.round():
        pass


def settle(history: CompactedHistory) -> None:
    """As a node does that has just started, and another one after it: old runs are looked through each time."""
    for _ in range(2):
        rounds(history.new_compactor())


class TestCrashes:
    @pytest.mark.parametrize("is_done", [False, True])
    @pytest.mark.parametrize("error", [StoreError, PartGone])
    def test_a_crash_at_any_step_loses_and_doubles_nothing(self, error: type[Exception], *, is_done: bool) -> None:
        def prepared() -> CompactedHistory:
            """A day and some hours, and late results of the first day, that are not compacted yet."""
            history = CompactedHistory(MemoryStore(), RETENTION)
            for start in range(START, START + 2 * HOUR, STEP):
                a_while_in_the_life(history, start)
            history.now = Instant(START + DAY)
            history.compact()
            a_while_in_the_life(history, START + DAY)
            a_while_in_the_life(history, START + DAY + HOUR)
            history.record(history.tasks[0], START + 30_000_000)
            history.now = Instant(START + DAY + 5 * HOUR)
            return history

        reference = prepared()
        settle(reference)
        expected = reference.history()
        place = 0
        while True:
            place += 1
            history = prepared()
            all_runs = len(history.history().runs)
            try:
                rounds(history.new_compactor(Interrupted(history.store, place, error, is_done=is_done)))
            except error:
                runs = history.history().runs
                assert len(runs) == len({(run.number, run.claimed, run.ended) for run in runs}) <= all_runs
                settle(history)
                assert history.history() == expected
            else:
                break
        assert place > 20

    def test_a_node_that_is_killed_at_any_commit_loses_and_doubles_nothing(self, tmp_path: Path) -> None:
        """A copy of the files of the database is what a killed node leaves."""

        def prepared(path: Path) -> CompactedHistory:
            history = CompactedHistory(SqliteStore(path), RETENTION)
            for start in range(START, START + 2 * HOUR, STEP):
                a_while_in_the_life(history, start)
            history.now = Instant(START + DAY)
            history.compact()
            a_while_in_the_life(history, START + DAY)
            history.record(history.tasks[0], START + 30_000_000)
            history.now = Instant(START + DAY + 5 * HOUR)
            return history

        live = prepared(tmp_path / "live.db")
        all_runs = len(live.history().runs)
        copies: list[Path] = []
        copied = Copied(live.store, tmp_path, copies)
        for _ in live.new_compactor(copied).round():
            copied.copy()
        settle(live)
        expected = live.history()
        live.store.close()
        assert len(copies) > 20
        for path in copies:
            with closing(SqliteStore(path)) as store:
                live.store = store
                runs = live.history().runs
                assert len(runs) == len({(run.number, run.claimed, run.ended) for run in runs}) <= all_runs
                live.compactor = live.new_compactor(store)
                settle(live)
                assert live.history() == expected

    def test_a_round_that_is_left_in_the_middle_is_continued(self) -> None:
        expected = lived(MemoryStore(), START + 26 * HOUR)
        expected.compact()
        history = lived(MemoryStore(), START + 26 * HOUR, compacts=False)
        slices, unfinished = 0, True
        while unfinished:
            slices += 1
            unfinished = False
            for i, _ in enumerate(history.new_compactor().round()):
                if i == slices:
                    unfinished = True
                    break
        assert slices > 10
        assert history.history() == expected.history()


class TestRounds:
    def test_nothing_is_done_where_nothing_is_due(self, store: LayeredStore) -> None:
        history = lived(store, START + DAY)
        history.compact()
        before: Sequence[Any] = [store.parts(layer) for layer in Layer]
        history.compact()
        assert [store.parts(layer) for layer in Layer] == before
