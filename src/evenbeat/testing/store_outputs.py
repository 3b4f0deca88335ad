"""Part of the store contract: the whole outputs of runs."""

import pytest

from evenbeat.model import DAY, Instant
from evenbeat.store.contract import Batch, ContradictoryBatch, Store, WholeOutput
from evenbeat.testing.samples import T0, a_claim, a_finish
from evenbeat.testing.store_history import minutes_later
from evenbeat.testing.store_runs import number_of

KEEP = 30 * DAY
LARGE = bytes(range(256)) * 8_000


def record_output(store: Store, task: int, nominal: int, data: bytes, *, outcome: str = "succeeded") -> Instant:
    """Record a run with a whole output; when it was claimed."""
    claim = a_claim(task, nominal)
    store.record(Batch(claims=[claim])).result()
    finish = a_finish(task, nominal, "excerpt", outcome=outcome, notable=outcome != "succeeded")
    store.record(Batch(finishes=[finish], outputs=[WholeOutput(task, claim.at, data)])).result()
    return Instant(claim.at)


class OutputsContract:
    """Recorded with the end of a run, deleted with the run."""

    def test_the_whole_output_of_a_run_is_kept_beside_its_excerpt(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        first = record_output(store, a, T0, LARGE)
        second = record_output(store, a, minutes_later(1), b"\x00\xff", outcome="failed")
        assert store.whole_output(a, first) == LARGE
        assert store.whole_output(a, second) == b"\x00\xff"
        assert store.whole_output(b, first) is None
        assert store.whole_output(a, first + 1) is None
        assert {run.output for run in store.runs(a)} == {"excerpt"}

    def test_it_is_kept_with_the_end_of_its_run_or_not_at_all(self, store: Store) -> None:
        a = number_of(store)
        ends = Batch(finishes=[a_finish(a, T0)], outputs=[WholeOutput(a, T0, LARGE)])
        with pytest.raises(ContradictoryBatch):
            store.record(ends).result()
        assert store.whole_output(a, T0) is None

    def test_of_two_for_one_run_the_first_stays(self, store: Store) -> None:
        a = number_of(store)
        claimed = record_output(store, a, T0, b"first")
        store.record(Batch(outputs=[WholeOutput(a, claimed, b"second")])).result()
        assert store.whole_output(a, claimed) == b"first"

    def test_it_is_deleted_with_its_run(self, store: Store) -> None:
        a = number_of(store)
        old = record_output(store, a, T0, b"old")
        new = record_output(store, a, T0 + 20 * DAY, b"new", outcome="failed")
        now = Instant(T0 + 40 * DAY)
        while store.prune(now, KEEP):
            pass
        assert [run.claimed for run in store.runs(a)] == [new]
        assert (store.whole_output(a, old), store.whole_output(a, new)) == (None, b"new")

    def test_that_of_a_removed_task_stays_as_long_as_its_runs(self, store: Store) -> None:
        a = number_of(store)
        claimed = record_output(store, a, T0, b"last words")
        store.remove([a], minutes_later(5))
        assert store.whole_output(a, claimed) == b"last words"
