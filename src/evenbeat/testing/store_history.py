"""Part of the store contract: the history of runs and skips, and the conditions of tasks."""

from evenbeat.model import MINUTE, SECOND, Instant, Outcome, RunKind, State
from evenbeat.store.contract import (
    NEVER,
    PLAIN_OUTPUT_LENGTH,
    Batch,
    Condition,
    Filter,
    RunRecord,
    RunStart,
    SkipRecord,
    Store,
)
from evenbeat.testing.samples import T0, a_claim, a_finish, a_progress_record, a_refusal, a_skip
from evenbeat.testing.store_runs import number_of


def record_run(
    store: Store, task: int, nominal: int, output: str = "", *, outcome: str = "succeeded", state: int = 0
) -> None:
    """Record a run from claim to end; it is notable unless it is a success."""
    store.record(Batch(claims=[a_claim(task, nominal)])).result()
    finish = a_finish(task, nominal, output, outcome=outcome, state=state, notable=outcome != "succeeded")
    store.record(Batch(finishes=[finish])).result()


def minutes_later(minutes: int) -> Instant:
    """An instant this long after T0."""
    return Instant(T0 + minutes * MINUTE)


class HistoryContract:
    """Runs and skips, newest first."""

    def test_a_run_that_ended(self, store: Store) -> None:
        a = number_of(store)
        claim = a_claim(a, kind=RunKind.RETRY)._replace(generation=2)
        store.record(Batch(claims=[claim])).result()
        finish = a_finish(a, T0, "BAD", outcome="failed", state=2, notable=True)._replace(
            status=2, attempt=3, hard=True
        )
        store.record(Batch(finishes=[finish])).result()
        start = Instant(T0 + 2_000)
        assert store.runs(a) == [
            RunRecord(
                "a",
                T0,
                2,
                RunKind.RETRY,
                Instant(T0 + 1_000),
                start,
                Instant(start + 1_000_000),
                Outcome.FAILED,
                2,
                State.CRITICAL,
                hard=True,
                attempt=3,
                output="BAD",
                number=a,
            )
        ]
        (run,) = store.runs()
        assert isinstance(run.outcome, Outcome)
        assert isinstance(run.kind, RunKind)
        assert isinstance(run.state, State)

    def test_how_many_were_started_in_each_second(self, store: Store) -> None:
        a, b, c = (number_of(store, name) for name in "abc")
        second = T0 // SECOND
        record_run(store, a, T0)
        record_run(store, b, T0, outcome="failed")
        record_run(store, a, T0 + 3 * SECOND)
        store.record(Batch(claims=[a_claim(c, T0 + 3 * SECOND)])).result()
        claimed = Instant(T0 + 1_000)
        assert store.starts(claimed, Instant(T0 + MINUTE)) == {second: 2, second + 3: 2}
        assert store.starts(Instant(claimed + 1), Instant(T0 + MINUTE)) == {second + 3: 2}
        assert store.starts(claimed, Instant(claimed + 3 * SECOND)) == {second: 2}

    def test_a_run_that_still_runs(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(claims=[a_claim(a)])).result()
        expected = RunRecord(
            *("a", T0, 0, RunKind.GRID, Instant(T0 + 1_000), None, None, None, None, None),
            hard=False,
            attempt=0,
            output="",
            number=a,
        )
        assert store.runs(a) == store.runs() == [expected]
        store.record(Batch(starts=[RunStart(a, T0 + 5_000)])).result()
        assert [run.started for run in store.runs(a)] == [T0 + 5_000]
        assert store.runs(notable=True) == []

    def test_runs_come_newest_first_by_when_they_were_claimed(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        store.record(Batch(claims=[a_claim(a, minutes_later(0))])).result()
        for i, outcome in enumerate(("succeeded", "failed", "succeeded"), start=1):
            record_run(store, b, minutes_later(i), outcome=outcome)
        store.record(Batch(finishes=[a_finish(a, minutes_later(0))], claims=[a_claim(b, minutes_later(4))])).result()
        assert [(run.task, run.nominal) for run in store.runs()] == [
            ("b", minutes_later(4)),
            ("b", minutes_later(3)),
            ("b", minutes_later(2)),
            ("b", minutes_later(1)),
            ("a", minutes_later(0)),
        ]
        assert [run.nominal for run in store.runs(b)] == [
            minutes_later(4),
            minutes_later(3),
            minutes_later(2),
            minutes_later(1),
        ]
        assert [run.nominal for run in store.runs(notable=True)] == [minutes_later(2)]
        assert [run.nominal for run in store.runs(b, notable=True)] == [minutes_later(2)]
        assert store.runs(a, notable=True) == []

    def test_runs_come_in_pages(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        for i in range(6):
            record_run(store, (a, b)[i % 2], minutes_later(i), outcome=("succeeded", "succeeded", "failed")[i % 3])
        for task in (None, a):
            whole = store.runs(task)
            paged: list[RunRecord] = []
            while page := store.runs(task, before=paged[-1].claimed if paged else None, most=2):
                assert len(page) <= 2
                paged += page
            assert paged == whole
            assert len(whole) == (6 if task is None else 3)

    def test_of_a_plain_success_history_keeps_the_beginning_of_the_output(self, store: Store) -> None:
        a = number_of(store)
        text = "é" * 3 * PLAIN_OUTPUT_LENGTH
        record_run(store, a, T0, text)
        record_run(store, a, minutes_later(1), text, outcome="failed")
        failed, succeeded = store.runs(a)
        assert succeeded.output == text[:PLAIN_OUTPUT_LENGTH]
        assert failed.output == text

    def test_a_task_that_is_no_check_has_no_state(self, store: Store) -> None:
        a = number_of(store, check=False)
        record_run(store, a, T0, outcome="failed", state=3)
        assert [run.state for run in store.runs()] == [None]
        assert [condition.state for condition in store.conditions()] == [None]

    def test_a_run_that_had_no_say_has_no_state(self, store: Store) -> None:
        a = number_of(store)
        record_run(store, a, T0, outcome="failed", state=1)
        store.record(Batch(claims=[a_claim(a, minutes_later(1))])).result()
        lost = a_finish(a, minutes_later(1), outcome="lost", state=1, notable=True)._replace(
            result_at=T0 + 2_000, status=None
        )
        store.record(Batch(finishes=[lost])).result()
        assert [(run.outcome, run.state, run.status) for run in store.runs(a)] == [
            (Outcome.LOST, None, None),
            (Outcome.FAILED, State.WARNING, 1),
        ]
        assert [condition.state for condition in store.conditions()] == [State.WARNING]

    def test_history_of_a_removed_task_stays(self, store: Store) -> None:
        a = number_of(store)
        record_run(store, a, T0)
        store.record(Batch(skips=[a_skip(a)])).result()
        store.remove([a], T0)
        assert [run.task for run in store.runs(a)] == ["a"]
        assert [skip.task for skip in store.skips()] == ["a"]

    # Skips

    def test_a_skip_that_goes_on_extends_its_range(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        for i in range(0, 30, 3):
            store.record(Batch(skips=[a_skip(a, minutes_later(i), 3), a_skip(b, minutes_later(i), 3)])).result()
        told = SkipRecord("a", minutes_later(0), minutes_later(29), 30, "disabled", minutes_later(29), number=a)
        assert store.skips(a) == [told]
        assert len(store.skips()) == 2

    def test_two_skips_of_one_batch_can_be_one_range(self, store: Store) -> None:
        a = number_of(store)
        store.record(
            Batch(
                skips=[
                    a_skip(a, minutes_later(0)),
                    a_skip(a, minutes_later(1)),
                    a_skip(a, minutes_later(2), reason="coalesced"),
                ]
            )
        ).result()
        assert [(skip.first, skip.times, skip.reason) for skip in store.skips(a)] == [
            (minutes_later(2), 1, "coalesced"),
            (minutes_later(0), 2, "disabled"),
        ]

    def test_a_skip_after_a_gap_or_for_another_reason_is_another_range(self, store: Store) -> None:
        a = number_of(store)
        for skip in (
            a_skip(a, minutes_later(0)),
            a_skip(a, minutes_later(2)),
            a_skip(a, minutes_later(3), reason="period_closed"),
            a_skip(a, minutes_later(4)),
        ):
            store.record(Batch(skips=[skip])).result()
        assert [skip.first for skip in store.skips(a)] == [
            minutes_later(4),
            minutes_later(3),
            minutes_later(2),
            minutes_later(0),
        ]

    def test_refused_off_grid_runs_are_among_the_skips(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(skips=[a_skip(a, minutes_later(0))], refusals=[a_refusal(a, minutes_later(1))])).result()
        refused, skipped = store.skips(a)
        assert refused == SkipRecord(
            "a", minutes_later(1), minutes_later(1), 1, "period_closed", minutes_later(1), RunKind.RETRY, a
        )
        assert skipped.kind is RunKind.GRID

    def test_skips_come_newest_first_and_in_pages(self, store: Store) -> None:
        a, b = number_of(store), number_of(store, "b")
        store.record(Batch(skips=[a_skip(a, minutes_later(0))])).result()
        for i in range(1, 5):
            store.record(Batch(refusals=[a_refusal(b, minutes_later(i))])).result()
        store.record(Batch(skips=[a_skip(a, minutes_later(1), 8)])).result()
        assert [skip.at for skip in store.skips()] == [
            minutes_later(8),
            minutes_later(4),
            minutes_later(3),
            minutes_later(2),
            minutes_later(1),
        ]
        assert [skip.at for skip in store.skips(before=minutes_later(4), most=2)] == [
            minutes_later(3),
            minutes_later(2),
        ]
        assert [skip.at for skip in store.skips(b, before=minutes_later(4), most=2)] == [
            minutes_later(3),
            minutes_later(2),
        ]

    # Conditions

    def test_a_new_task_is_in_no_condition(self, store: Store) -> None:
        number_of(store)
        (found,) = store.conditions()
        entry = store.find("a")
        assert entry is not None
        assert found == Condition(
            entry,
            None,
            None,
            RunKind.GRID,
            NEVER,
            NEVER,
            None,
            None,
            None,
            None,
            None,
            hard=True,
            attempt=1,
            flapping=False,
            output="",
        )

    def test_a_task_in_its_course(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(standings=[a_progress_record(a, minutes_later(0), minutes_later(-1))])).result()
        (found,) = store.conditions()
        assert (found.accounted, found.extra) == (minutes_later(0), minutes_later(-1))
        store.record(Batch(claims=[a_claim(a)])).result()
        (found,) = store.conditions()
        assert (found.accounted, found.extra, found.running_since) == (minutes_later(1), None, T0 + 1_000)
        text = "WORSE" * 1_000
        finish = a_finish(a, T0, text, outcome="failed", state=1, notable=True)._replace(attempt=2, flapping=True)
        store.record(Batch(finishes=[finish])).result()
        (found,) = store.conditions(Filter(names=("a",)))
        assert found.running_since is None
        assert (found.last_start, found.last_end) == (T0 + 2_000, T0 + 1_002_000)
        assert (found.outcome, found.state) == (Outcome.FAILED, State.WARNING)
        assert (found.hard, found.attempt, found.flapping) == (False, 2, True)
        assert found.output == text

    def test_the_latest_output_is_that_of_the_latest_run(self, store: Store) -> None:
        a = number_of(store)
        record_run(store, a, T0, "something")
        record_run(store, a, minutes_later(1), "")
        assert [condition.output for condition in store.conditions()] == [""]

    def test_a_check_whose_first_run_was_lost_has_no_state_yet(self, store: Store) -> None:
        a = number_of(store)
        store.record(Batch(claims=[a_claim(a)])).result()
        store.record(Batch(finishes=[a_finish(a, outcome="lost", notable=True)._replace(result_at=NEVER)])).result()
        (found,) = store.conditions()
        assert (found.outcome, found.state) == (Outcome.LOST, None)
