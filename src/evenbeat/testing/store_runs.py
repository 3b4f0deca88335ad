"""Part of the store contract: the progress of tasks, claims, and the ends of runs."""

import threading
from typing import TYPE_CHECKING

import pytest

from evenbeat.model import DAY, MINUTE, Instant, RunKind
from evenbeat.store.contract import (
    FOREVER,
    NEVER,
    Batch,
    ContradictoryBatch,
    CursorChange,
    ProgressRecord,
    Returned,
    ReturnedValues,
    RunStart,
    RunStop,
    Store,
    TaskProgress,
    WithdrawnTasks,
)
from evenbeat.testing.samples import T0, a_claim, a_finish, a_progress_record, a_refusal, a_skip, a_task

if TYPE_CHECKING:
    from concurrent.futures import Future


def number_of(store: Store, name: str = "a", *, check: bool = True) -> int:
    """The number of a new task."""
    (entry,) = store.create([a_task(name, check=check)], "me", T0)
    return entry.number


def progress_of(store: Store, task: int) -> TaskProgress:
    """The progress of one task."""
    (found,) = (progress for progress in store.progress() if progress.task == task)
    return found


def new_task_progress(
    task: int, accounted: int = T0, extra: int = FOREVER, extra_kind: int = RunKind.FIRST
) -> TaskProgress:
    """The progress of a task that has never run."""
    return TaskProgress(
        task,
        accounted,
        extra,
        extra_kind,
        NEVER,
        0,
        True,
        1,
        0,
        False,
        NEVER,
        None,
        0,
        0,
        0,
    )


class RunsContract:
    """A batch is kept as a whole or not at all."""

    def test_a_task_that_never_stood_anywhere_has_no_progress(self, store: Store) -> None:
        number_of(store)
        assert list(store.progress()) == []

    def test_a_standing_says_where_a_task_stands(self, store: Store) -> None:
        a, b = number_of(store, "b"), number_of(store, "a")
        store.record(Batch(standings=[a_progress_record(b, T0, T0 + 5), a_progress_record(a)])).result()
        assert list(store.progress()) == [new_task_progress(a), new_task_progress(b, T0, T0 + 5)], (
            "in the order of their numbers"
        )
        store.record(Batch(standings=[ProgressRecord(a, T0 + 1, T0 + 2, RunKind.START_AT, T0 - 3, T0 - 4)])).result()
        expected = new_task_progress(a, T0 + 1, T0 + 2, RunKind.START_AT)._replace(last_start=T0 - 3, result_at=T0 - 4)
        assert progress_of(store, a) == expected

    def test_of_two_standings_the_later_counts(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(standings=[a_progress_record(a, T0), a_progress_record(a, T0 + 7)])).result()
        assert progress_of(store, a).accounted == T0 + 7

    def test_an_open_claim_is_there_until_the_run_ends(self, store: Store) -> None:
        a = number_of(store)
        claim = a_claim(a, kind=RunKind.RETRY)._replace(generation=3, extra=T0 + 9, extra_kind=RunKind.START_AT)
        store.record(Batch(standings=[a_progress_record(a)], claims=[claim])).result()
        found = progress_of(store, a)
        assert (found.claimed, found.claimed_kind, found.claimed_at) == (T0, RunKind.RETRY, T0 + 1_000)
        assert found.claimed_generation == 3
        assert (found.accounted, found.extra, found.extra_kind) == (T0 + MINUTE, T0 + 9, RunKind.START_AT)
        store.record(Batch(finishes=[a_finish(a)])).result()
        found = progress_of(store, a)
        assert found.claimed is None
        assert found.accounted == T0 + MINUTE
        assert found.extra == FOREVER

    def test_a_finish_says_what_the_run_made_of_the_task(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(claims=[a_claim(a)])).result()
        finish = a_finish(a, state=2)._replace(
            attempt=2, changes=5, flapping=True, extra=T0 + 8, extra_kind=RunKind.RETRY
        )
        store.record(Batch(finishes=[finish])).result()
        start = T0 + 2_000
        assert progress_of(store, a) == TaskProgress(
            a,
            T0 + MINUTE,
            T0 + 8,
            RunKind.RETRY,
            start,
            2,
            False,
            2,
            5,
            True,
            start,
            None,
            0,
            0,
            0,
        )

    def test_a_run_that_ended_makes_room_for_the_next_in_the_same_batch(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(claims=[a_claim(a)])).result()
        store.record(Batch(finishes=[a_finish(a)], claims=[a_claim(a, T0 + MINUTE)])).result()
        assert progress_of(store, a).claimed == T0 + MINUTE

    def test_a_second_claim_is_refused(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        store.record(Batch(claims=[a_claim(a)])).result()
        with pytest.raises(ContradictoryBatch, match=str(a)):
            store.record(Batch(claims=[a_claim(b), a_claim(a, T0 + MINUTE)])).result()
        assert progress_of(store, a).claimed == T0
        assert len(list(store.progress())) == 1, "nothing of the batch was kept"
        with pytest.raises(ContradictoryBatch):
            store.record(Batch(claims=[a_claim(b), a_claim(b, T0 + MINUTE)])).result()

    def test_an_end_without_a_claim_is_refused(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        store.record(Batch(claims=[a_claim(a)])).result()
        for finishes in ([a_finish(a), a_finish(b)], [a_finish(a), a_finish(a)]):
            with pytest.raises(ContradictoryBatch):
                store.record(Batch(finishes=finishes, standings=[a_progress_record(b)])).result()
        assert [progress.claimed for progress in store.progress()] == [T0], "nothing of the batches was kept"
        assert [run.ended for run in store.runs()] == [None]

    @pytest.mark.parametrize(
        "batch",
        [
            Batch(standings=[a_progress_record(4711)]),
            Batch(skips=[a_skip(4711)]),
            Batch(refusals=[a_refusal(4711)]),
            Batch(claims=[a_claim(4711)]),
            Batch(finishes=[a_finish(4711)]),
        ],
    )
    def test_a_task_that_never_was_is_refused(self, store: Store, batch: Batch) -> None:
        a = number_of(store)
        if not batch.standings:
            batch = Batch(
                batch.starts, batch.finishes, [a_progress_record(a)], batch.skips, batch.refusals, batch.claims
            )
        with pytest.raises(ContradictoryBatch, match="4711"):
            store.record(batch).result()
        assert list(store.progress()) == []
        assert store.skips() == []

    def test_a_batch_that_is_refused_does_not_harm_others(self, store: Store) -> None:
        a, b, c = (number_of(store, name) for name in "abc")
        bad = Batch(finishes=[a_finish(b)])
        futures = [store.record(batch) for batch in (Batch(claims=[a_claim(a)]), bad, Batch(claims=[a_claim(c)]))]
        assert [type(future.exception()) for future in futures] == [type(None), ContradictoryBatch, type(None)]
        assert [progress.task for progress in store.progress()] == [a, c]

    def test_batches_are_remembered_in_the_order_they_come(self, store: Store) -> None:
        a = number_of(store)
        futures: list[Future[WithdrawnTasks]] = []
        for nominal in range(T0, T0 + 50 * MINUTE, MINUTE):
            futures.append(store.record(Batch(claims=[a_claim(a, nominal)])))
            futures.append(store.record(Batch(finishes=[a_finish(a, nominal)])))
        for future in futures:
            future.result()
        assert len(store.runs(a)) == 50
        assert progress_of(store, a).accounted == T0 + 50 * MINUTE

    def test_a_batch_may_be_large_or_empty(self, store: Store) -> None:
        entries = store.create([a_task(f"t{i}") for i in range(1_300)], "me", T0)
        numbers = [entry.number for entry in entries]
        store.record(Batch()).result()
        store.record(
            Batch(standings=[a_progress_record(n) for n in numbers], skips=[a_skip(n) for n in numbers])
        ).result()
        store.record(Batch(claims=[a_claim(n) for n in numbers])).result()
        store.record(Batch(finishes=[a_finish(n, notable=n % 3 == 0) for n in numbers])).result()
        assert {run.task for run in store.runs(most=10_000)} == {entry.task.name for entry in entries}
        assert len(store.skips(most=10_000)) == 1_300

    def test_a_start_tells_since_when_the_last_on_grid_run_counts(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        store.record(Batch(claims=[a_claim(a), a_claim(b, kind=RunKind.FORCED)])).result()
        store.record(Batch(starts=[RunStart(a, T0 + 5), RunStart(b, T0 + 5)])).result()
        assert progress_of(store, a).last_start == T0 + 5
        assert progress_of(store, b).last_start == NEVER
        assert {condition.running_since for condition in store.conditions()} == {T0 + 5}

    def test_a_start_of_a_run_that_ended_is_ignored(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(claims=[a_claim(a)])).result()
        store.record(Batch(finishes=[a_finish(a)])).result()
        store.record(Batch(starts=[RunStart(a, T0 + 5)])).result()
        assert progress_of(store, a).claimed is None
        assert progress_of(store, a).last_start == T0 + 2_000

    def test_skips_move_a_task_on_also_while_it_runs(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(skips=[a_skip(a, T0, 2)], claims=[a_claim(a, T0 + 2 * MINUTE)])).result()
        skip = a_skip(a, T0 + 3 * MINUTE, 4, "coalesced")._replace(extra=T0 + 1, extra_kind=RunKind.RETRY)
        store.record(Batch(skips=[skip])).result()
        found = progress_of(store, a)
        assert (found.accounted, found.extra, found.extra_kind) == (T0 + 6 * MINUTE, T0 + 1, RunKind.RETRY)
        assert found.claimed == T0 + 2 * MINUTE
        store.record(Batch(finishes=[a_finish(a, T0 + 2 * MINUTE)])).result()
        assert progress_of(store, a).accounted == T0 + 6 * MINUTE

    def test_a_refusal_moves_a_task_on_also_while_it_runs(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(standings=[a_progress_record(a, T0, T0 + 5, RunKind.START_AT)])).result()
        store.record(Batch(refusals=[a_refusal(a, T0 + 5, RunKind.START_AT)._replace(accounted=T0 + 2)])).result()
        found = progress_of(store, a)
        assert (found.accounted, found.extra) == (T0 + 2, FOREVER), "what was refused is not planned any more"
        store.record(Batch(claims=[a_claim(a)])).result()
        again = a_refusal(a, T0 + 6)._replace(accounted=T0 + 3, extra=T0 + 9, extra_kind=RunKind.CATCH_UP)
        store.record(Batch(refusals=[a_refusal(a, T0 + 5), again])).result()
        found = progress_of(store, a)
        assert (found.claimed, found.accounted, found.extra, found.extra_kind) == (T0, T0 + 3, T0 + 9, RunKind.CATCH_UP)

    def test_a_standing_says_which_nominal_times_a_pause_has_settled(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        store.record(
            Batch(standings=[a_progress_record(a)._replace(pause_from=T0, pause_until=T0 + 9), a_progress_record(b)])
        ).result()
        assert [(p.pause_from, p.pause_until) for p in store.progress()] == [(T0, T0 + 9), (NEVER, NEVER)]
        assert [(c.pause_from, c.pause_until) for c in store.conditions()] == [(T0, T0 + 9), (NEVER, NEVER)]
        store.record(Batch(claims=[a_claim(a)], skips=[a_skip(b)])).result()
        assert (progress_of(store, a).pause_from, progress_of(store, a).pause_until) == (T0, T0 + 9)
        store.record(
            Batch(standings=[a_progress_record(a), a_progress_record(b)._replace(pause_from=T0, pause_until=FOREVER)])
        ).result()
        assert [(p.pause_from, p.pause_until) for p in store.progress()] == [(NEVER, NEVER), (T0, FOREVER)]

    def test_a_cursor_is_kept_until_there_is_another(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        for i, cursor in enumerate((None, b"", b"x", None)):
            store.record(Batch(claims=[a_claim(a, T0 + i)])).result()
            store.record(Batch(finishes=[a_finish(a, T0 + i, cursor=cursor)])).result()
            expected = {} if i == 0 else {a: b"" if i == 1 else b"x"}
            assert store.cursors([a, b, 4711]) == expected

    def test_a_cursor_is_set_and_reset_without_a_run(self, store: Store) -> None:
        a, b, removed = (number_of(store, name) for name in "abc")
        store.remove([removed], T0)
        first = [CursorChange(a, b"x"), CursorChange(a, b"y"), CursorChange(removed, b"z"), CursorChange(10**6, b"z")]
        store.record(Batch(cursors=first)).result()
        assert store.cursors([a, b]) == {a: b"y"}, "the last one of a batch counts"
        store.record(Batch(cursors=[CursorChange(a, None), CursorChange(b, b"")])).result()
        assert store.cursors([a, b]) == {b: b""}
        store.record(Batch(claims=[a_claim(a)])).result()
        end = Batch(finishes=[a_finish(a, cursor=b"of the run")], cursors=[CursorChange(a, b"of a person")])
        store.record(end).result()
        assert store.cursors([a]) == {a: b"of a person"}, "it comes after the end of the run"

    def test_what_functions_returned_is_kept_by_task_and_claim(self, store: Store) -> None:
        if not isinstance(store, ReturnedValues):
            pytest.skip("it keeps no such values")
        a, b = number_of(store, "a"), number_of(store, "b")
        for task, value in ((a, '{"value":"\\u0000 é"}'), (b, '{"value":[1]}')):
            store.record(Batch(claims=[a_claim(task)])).result()
            claimed = a_claim(task).at
            returned = [Returned(task, claimed, T0 + MINUTE, value)]
            store.record(Batch(finishes=[a_finish(task)], returned=returned)).result()
            assert store.returned(task, Instant(claimed)) == value
            assert store.returned(task, Instant(claimed + 1)) is None
        store.remove([a], T0)
        assert store.returned(a, Instant(a_claim(a).at)) is not None, "as long as its history"
        while store.prune(Instant(T0 + MINUTE + DAY), DAY):
            pass
        assert store.returned(b, Instant(a_claim(b).at)) is not None
        while store.prune(Instant(T0 + MINUTE + DAY + 1), DAY):
            pass
        assert store.returned(b, Instant(a_claim(b).at)) is None

    def test_the_run_of_a_removed_task_still_ends(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(claims=[a_claim(a)])).result()
        store.remove([a], T0)
        assert progress_of(store, a).claimed == T0, "until its run has ended"
        store.record(Batch(finishes=[a_finish(a, output="bye")])).result()
        assert list(store.progress()) == []
        assert [(run.task, run.output) for run in store.runs(a)] == [("a", "bye")]

    def test_a_claimed_run_is_known_to_be_stopped_until_it_ends(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        by = 'stopped by \u0100na: "wrong" \\ database'
        store.record(Batch(claims=[a_claim(a), a_claim(b)]), Batch(stops=[RunStop(a, by)])).result()
        assert [progress_of(store, task).claimed_stop for task in (a, b)] == [by, ""]
        store.record(Batch(finishes=[a_finish(a)])).result()
        assert progress_of(store, a).claimed_stop == ""
        store.record(Batch(claims=[a_claim(a, T0 + MINUTE)])).result()
        assert progress_of(store, a).claimed_stop == ""

    def test_a_run_may_be_stopped_in_the_batch_that_claims_it(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(claims=[a_claim(a)], stops=[RunStop(a, "stopped by ana")])).result()
        assert progress_of(store, a).claimed_stop == "stopped by ana"

    def test_a_stop_of_a_run_that_ended_or_never_was_is_ignored(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        store.record(Batch(claims=[a_claim(a)]), Batch(finishes=[a_finish(a)])).result()
        store.record(Batch(stops=[RunStop(number, "stopped by ana") for number in (a, b, 10**6)])).result()
        store.record(Batch(claims=[a_claim(a, T0 + MINUTE)])).result()
        assert progress_of(store, a).claimed_stop == ""

    def test_a_claim_that_comes_after_the_removal_is_withdrawn(self, store: Store) -> None:
        """Otherwise a node that does not know of the removal yet would run the old task beside a new one."""
        a, b = number_of(store), number_of(store, "b")
        store.record(Batch(standings=[a_progress_record(a), a_progress_record(b)])).result()
        store.remove([a], T0)
        batches = Batch(skips=[a_skip(b)]), Batch(claims=[a_claim(b, T0 + MINUTE), a_claim(a)])
        assert store.record(*batches).result() == {a}
        assert [(progress.task, progress.claimed) for progress in store.progress()] == [(b, T0 + MINUTE)]
        assert store.removed_running() == []
        again = number_of(store)
        assert again != a
        assert store.record(Batch(claims=[a_claim(again)])).result() == set()
        assert store.record(Batch(claims=[a_claim(a)])).result() == {a}
        assert sorted(run.task for run in store.runs()) == ["a", "b"], "those of the new task, and of the other"
        assert store.runs(a) == []

    def test_a_claim_that_comes_before_the_removal_brings_the_task_back(self, store: Store) -> None:
        a = number_of(store)
        assert store.record(Batch(claims=[a_claim(a)])).result() == set()
        store.remove([a], T0)
        assert number_of(store) == a
        store.record(Batch(finishes=[a_finish(a)])).result()
        assert store.record(Batch(claims=[a_claim(a, T0 + MINUTE)])).result() == set(), "it is there again"

    @pytest.mark.parametrize("other", ["unknown", "open"])
    def test_a_batch_that_contradicts_is_refused_beside_a_withdrawn_claim(self, store: Store, other: str) -> None:
        a, b = number_of(store), number_of(store, "b")
        store.record(Batch(claims=[a_claim(b)])).result()
        store.remove([a], T0)
        wrong = {"unknown": 4711, "open": b}[other]
        with pytest.raises(ContradictoryBatch, match=f"task {wrong}"):
            store.record(Batch(claims=[a_claim(a), a_claim(wrong, T0 + MINUTE)])).result()

    def test_reads_from_many_threads_see_whole_batches(self, store: Store) -> None:
        numbers = [entry.number for entry in store.create([a_task(f"t{i}") for i in range(20)], "me", T0)]
        wrong: list[set[int]] = []
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                seen = {progress.accounted for progress in store.progress()}
                if len(seen) > 1:
                    wrong.append(seen)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for i in range(100):
            store.record(Batch(standings=[a_progress_record(n, T0 + i) for n in numbers])).result()
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []
