"""Which runs stay: the rules, and properties that hold of any hour."""

from collections import Counter
from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.retention import (
    RARE_RUNS,
    RARE_RUNS_KEPT,
    RECORDS_PER_HOUR,
    OlderRuns,
    Retention,
    hour_of,
    is_kept_longer,
    thin_hour,
)
from evenbeat.model import DAY, HOUR, MINUTE, RunKind
from evenbeat.past_runs import PackedRun

NOW = 20_000 * DAY
RETENTION = Retention(2 * DAY, 30 * DAY)


def a_run(
    task: int = 1, minute: int = 0, outcome: str = "succeeded", *, state: int = 0, notable: bool = False, kind: int = 0
) -> PackedRun:
    """A run of a second."""
    at = NOW + minute * MINUTE
    return PackedRun(task, at, at + 1, at, 0, kind, at, outcome, 0, state, not state, 1, "", notable)


def a_failure(minute: int, state: int = 2) -> PackedRun:
    return a_run(1, minute, "failed", state=state, notable=True)


runs_of_an_hour = st.lists(
    st.builds(
        a_run,
        st.integers(1, 4),
        st.integers(0, 59),
        st.sampled_from(["succeeded", "succeeded", "failed", "timeboxed"]),
        state=st.integers(-1, 3),
        notable=st.booleans(),
        kind=st.sampled_from([RunKind.GRID, RunKind.GRID, RunKind.FORCED]),
    ),
    max_size=120,
).map(lambda runs: sorted(runs, key=lambda run: (run.task, run.claimed)))


class TestOneHour:
    @given(runs_of_an_hour)
    def test_each_run_is_kept_or_left_out_and_the_order_stays(self, runs: list[PackedRun]) -> None:
        for thinned, (_, of_task) in zip(thin_hour(runs), groupby(runs, lambda run: run.task), strict=True):
            group = list(of_task)
            kept = [run._replace(rare=False) for run in thinned.kept]
            assert Counter([*kept, *thinned.left_out]) == Counter(group)
            assert kept == sorted(kept, key=lambda run: run.claimed)
            if len(group) <= RARE_RUNS:
                assert all(run.rare for run in thinned.kept)
                assert len(kept) == len(group)
            else:
                longer = [run for run in group if is_kept_longer(run)]
                assert len(kept) == min(len(longer), RECORDS_PER_HOUR)
                assert kept[-1:] == longer[-1:]
                assert not any(run.rare for run in thinned.kept)

    def test_changes_are_kept_before_repeated_failures(self) -> None:
        runs = [a_failure(minute, state=1 if minute in (20, 40) else 2) for minute in range(60)]
        ((kept, left_out),) = thin_hour(runs)
        minutes = [(run.claimed - NOW) // MINUTE for run in kept]
        # The first, each other state and the return from it, the first repetitions, and the last.
        assert minutes == [0, 1, 2, 3, 4, 20, 21, 40, 41, 59]
        assert len(left_out) == 50

    def test_a_recovery_is_a_change(self) -> None:
        runs = [a_failure(minute) for minute in range(30)]
        runs += [a_run(minute=30, notable=True), *(a_run(minute=minute) for minute in range(31, 60))]
        ((kept, _),) = thin_hour(runs)
        assert kept[-1].outcome == "succeeded"

    def test_the_hour_of_a_run_whose_clock_was_set_back(self) -> None:
        run = a_run()
        assert hour_of(run) == NOW
        assert hour_of(run._replace(ended=NOW - 5 * HOUR)) == NOW
        assert hour_of(run._replace(ended=NOW + HOUR - 1)) == NOW
        assert hour_of(run._replace(ended=NOW + HOUR)) == NOW + HOUR


class TestOlderRuns:
    def test_the_last_hundred_of_a_rare_task_stay(self) -> None:
        runs = [a_run(minute=minute)._replace(rare=True) for minute in range(RARE_RUNS_KEPT + 20)]
        older = OlderRuns(RETENTION, NOW + 1_000 * DAY, {1}, ())
        assert list(older.stay(runs[60:])) == [True] * 60
        assert list(older.stay(runs[:60])) == [False] * 20 + [True] * 40

    def test_what_says_more_stays_for_a_while(self) -> None:
        run = a_failure(0)
        assert list(OlderRuns(RETENTION, run.ended + RETENTION.keep, {1}, ()).stay([run])) == [True]
        assert list(OlderRuns(RETENTION, run.ended + RETENTION.keep + 1, {1}, ()).stay([run])) == [False]

    def test_of_a_task_that_is_gone_or_runs_often_now_nothing_is_rare(self) -> None:
        run = a_run()._replace(rare=True)
        assert list(OlderRuns(RETENTION, NOW + DAY, set(), ()).stay([run])) == [False]
        assert list(OlderRuns(RETENTION, NOW + DAY, {1}, {1}).stay([run])) == [False]
        assert list(OlderRuns(RETENTION, NOW + DAY, {1}, ()).stay([run])) == [True]

    @given(runs_of_an_hour, st.integers(0, 60 * DAY))
    def test_what_stays_now_stayed_before(self, runs: list[PackedRun], age: int) -> None:
        runs = [run for thinned in thin_hour(runs) for run in thinned.kept]
        tasks = {run.task for run in runs}
        now = list(OlderRuns(RETENTION, NOW + age, tasks, ()).stay(runs))
        later = list(OlderRuns(RETENTION, NOW + age + DAY, tasks, ()).stay(runs))
        assert all(a or not b for a, b in zip(now, later, strict=True))
