"""Part of the store contract: results that were submitted externally, without a claim."""

import pytest

from evenbeat.model import MINUTE, Outcome, RunKind, State
from evenbeat.store.contract import PLAIN_OUTPUT_LENGTH, Batch, ContradictoryBatch, Filter, Store
from evenbeat.testing.samples import T0, a_claim, a_finish, a_progress_record, a_submitted_result
from evenbeat.testing.store_runs import number_of, progress_of


class SubmittedResultsContract:
    """A submitted result is a run of its own, also while the task runs."""

    def test_a_submitted_result_is_the_latest_of_its_check(self, store: Store) -> None:
        a = number_of(store)
        submitted = a_submitted_result(a, T0 + 5, "no answer | t=3", made=2, notable=True)._replace(
            started=T0 + 1, attempt=2, changes=5, flapping=True, extra=T0 + 9, extra_kind=RunKind.RETRY
        )
        store.record(Batch(standings=[a_progress_record(a)])).result()
        store.record(Batch(told=[submitted])).result()
        found = progress_of(store, a)
        assert (found.state, found.hard, found.attempt, found.changes, found.flapping) == (2, False, 2, 5, True)
        assert (found.result_at, found.claimed) == (T0 + 5, None)
        assert (found.accounted, found.extra, found.extra_kind) == (T0 + MINUTE, T0 + 9, RunKind.RETRY)
        (run,) = store.runs(a)
        assert (run.kind, run.nominal, run.claimed, run.started, run.ended) == (
            RunKind.TOLD, T0 + 5, T0 + 5, T0 + 1, T0 + 5,
        )  # fmt: skip
        assert (run.outcome, run.status, run.state, run.attempt) == (Outcome.FAILED, 2, State.CRITICAL, 2)
        (condition,) = store.conditions(Filter(names=("a",)))
        assert (condition.state, condition.output, condition.last_start) == (State.CRITICAL, "no answer | t=3", T0 + 1)

    def test_an_outdated_result_is_only_in_the_history(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(told=[a_submitted_result(a, T0 + 9, "new", made=1, notable=True)])).result()
        old = a_submitted_result(a, T0 + 2, "old", made=None)._replace(
            at=T0 + 20, state=1, hard=False, result_at=T0 + 9
        )
        store.record(Batch(told=[old])).result()
        (condition,) = store.conditions(Filter(names=("a",)))
        assert (condition.state, condition.output, condition.last_end) == (State.WARNING, "new", T0 + 9)
        assert [(run.output, run.state) for run in store.runs(a)] == [("old", None), ("new", State.WARNING)]

    def test_an_open_claim_stays_open(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(claims=[a_claim(a)])).result()
        store.record(
            Batch(told=[a_submitted_result(a, T0 + 5_000, made=2)._replace(extra=T0 + 7, extra_kind=RunKind.RETRY)])
        ).result()
        found = progress_of(store, a)
        assert (found.claimed, found.state, found.extra) == (T0, 2, T0 + 7)
        store.record(Batch(finishes=[a_finish(a)._replace(extra=T0 + 7)])).result()
        found = progress_of(store, a)
        assert (found.claimed, found.accounted, found.extra) == (None, T0 + MINUTE, T0 + 7)
        assert {run.kind for run in store.runs(a)} == {RunKind.GRID, RunKind.TOLD}

    def test_a_run_that_began_before_the_latest_result_is_only_in_the_history(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(claims=[a_claim(a)])).result()
        submitted = a_submitted_result(a, T0 + 5_000, "submitted", made=2, notable=True)
        store.record(Batch(told=[submitted])).result()
        older = a_finish(a)._replace(
            started=T0 + 10, ended=T0 + 9_000, output="older", state=2, hard=False, result_at=submitted.result_at
        )
        store.record(Batch(finishes=[older])).result()
        (condition,) = store.conditions(Filter(names=("a",)))
        assert (condition.state, condition.output, condition.outcome) == (State.CRITICAL, "submitted", Outcome.FAILED)
        assert (condition.last_start, condition.last_end) == (submitted.started, submitted.ended)
        assert {(run.output, run.state) for run in store.runs(a)} == {("older", None), ("submitted", State.CRITICAL)}
        assert progress_of(store, a).claimed is None

    def test_many_of_one_check_in_one_batch_are_all_kept(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        submitted = [a_submitted_result(n, T0 + i, f"{n} {i}", notable=i % 3 == 0) for i in range(20) for n in (a, b)]
        store.record(Batch(told=submitted)).result()
        assert [run.output for run in store.runs(a)] == [f"{a} {i}" for i in reversed(range(20))]
        assert progress_of(store, a).result_at == T0 + 19

    def test_of_a_plain_one_history_keeps_the_beginning(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(told=[a_submitted_result(a, output="x" * 1_000)])).result()
        assert [run.output for run in store.runs(a)] == ["x" * PLAIN_OUTPUT_LENGTH]
        assert next(iter(store.conditions())).output == "x" * 1_000

    def test_a_result_of_an_unknown_task_is_refused(self, store: Store) -> None:
        a = number_of(store)
        with pytest.raises(ContradictoryBatch, match="4711"):
            store.record(Batch(told=[a_submitted_result(a), a_submitted_result(4711)])).result()
        assert store.runs() == []
