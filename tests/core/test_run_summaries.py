"""Summaries of runs: exact ones of an hour, compared with numpy, and estimates of a day that stay within bounds."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.run_summaries import MAX_SERIES, add_up, by_day, one_per_time, summarize
from evenbeat.model import HOUR, Outcome, RunKind
from evenbeat.past_runs import PackedRun, PerfSummary, RunSummary, Spread

HOUR_OF_RUNS = 500_000 * HOUR


def a_run(
    took: int = 7, late: int = 3, output: str = "", *, outcome: str = "succeeded", state: int = 0, kind: int = 0
) -> PackedRun:
    """A run in the hour."""
    started = HOUR_OF_RUNS + late
    return PackedRun(
        *(1, HOUR_OF_RUNS, started + took, HOUR_OF_RUNS, 0, kind, started, outcome, 0, state),
        hard=True,
        attempt=1,
        output=output,
        notable=outcome != "succeeded",
    )


outputs = st.builds(
    "OK | a={}s b={}".format, st.floats(allow_nan=False, allow_infinity=False), st.integers(-1000, 1000)
)
some_runs = st.lists(
    st.builds(
        a_run,
        st.integers(0, 10**9),
        st.integers(1, 10**9),
        st.one_of(st.just(""), outputs, st.text(max_size=30)),
        outcome=st.sampled_from(["succeeded", "failed"]),
        state=st.integers(-1, 3),
    ),
    min_size=1,
    max_size=200,
)


class TestHour:
    @given(some_runs)
    def test_percentiles_are_those_of_the_runs(self, runs: list[PackedRun]) -> None:
        found = summarize(runs, HOUR_OF_RUNS)
        for spread, values in (
            (found.duration, [run.ended - run.started for run in runs]),
            (found.lateness, [run.started - run.nominal for run in runs]),
        ):
            expected = np.percentile(values, (50, 99, 100), method="inverted_cdf")
            assert list(spread) == expected.tolist()
        assert found.runs == len(runs) == sum(found.outcomes.values())
        assert sum(found.states.values()) == sum(run.state >= 0 for run in runs)
        for series in found.series:
            assert series.min <= series.mean <= series.max
            assert 0 < series.count <= len(runs)

    def test_series_are_added_up_by_label_and_unit(self) -> None:
        runs = [a_run(output=f"OK | '/ var'={n}MB;90;95 load={n * 2} x=U") for n in (1, 2, 6)]
        assert summarize(runs, HOUR_OF_RUNS).series == (
            PerfSummary("/ var", "MB", 3, 1.0, 3.0, 6.0),
            PerfSummary("load", "", 3, 2.0, 6.0, 12.0),
        )

    def test_there_are_at_most_eight_series(self) -> None:
        many = " ".join(f"s{n}=1" for n in range(20))
        assert len(summarize([a_run(output=f"OK | {many}")], HOUR_OF_RUNS).series) == MAX_SERIES

    def test_a_value_that_history_has_cut_off_does_not_count(self) -> None:
        output = ("OK | a=1 " + "x" * 300)[:190] + " b=123456789"
        (series,) = summarize([a_run(output=output[:200])], HOUR_OF_RUNS).series
        assert series.label == "a"

    def test_what_a_job_prints_is_no_measurement(self) -> None:
        assert summarize([a_run(output="a | b=1", state=-1)], HOUR_OF_RUNS).series == ()

    def test_runs_that_never_started_took_no_time(self) -> None:
        dropped = a_run(50, outcome=Outcome.DROPPED)._replace(started=HOUR_OF_RUNS)
        lost = a_run(10**12, outcome=Outcome.LOST)
        told = a_run(10**12, kind=RunKind.TOLD)
        found = summarize([dropped, lost, told, a_run(5, 9), a_run(6, 10**12, kind=RunKind.FORCED)], HOUR_OF_RUNS)
        assert (found.runs, found.duration, found.lateness) == (5, Spread(5, 6, 6), Spread(9, 9, 9))

    def test_a_clock_that_was_set_back_makes_nothing_negative(self) -> None:
        assert summarize([a_run(-HOUR, -HOUR)], HOUR_OF_RUNS).duration == Spread(0, 0, 0)


class TestDay:
    @given(st.lists(some_runs, min_size=1, max_size=8))
    def test_estimates_stay_within_what_is_known(self, hours: list[list[PackedRun]]) -> None:
        summaries = [summarize(runs, HOUR_OF_RUNS + i * HOUR) for i, runs in enumerate(hours)]
        day = add_up(summaries, HOUR_OF_RUNS)
        everything = summarize([run for runs in hours for run in runs], HOUR_OF_RUNS)
        assert (day.runs, day.outcomes, day.states) == (everything.runs, everything.outcomes, everything.states)
        for name in ("duration", "lateness"):
            spread: Spread = getattr(day, name)
            known: list[Spread] = [getattr(summary, name) for summary in summaries]
            assert spread.max == getattr(everything, name).max
            assert spread.p50 <= spread.p99 <= spread.max
            assert min(one.p50 for one in known) <= spread.p50 <= max(one.p99 for one in known)
        for series in day.series:
            assert series.min <= series.mean <= series.max
        exact = {(s.label, s.unit): s for s in everything.series}
        for series in day.series:
            if (of_all := exact.get((series.label, series.unit))) is not None and len(exact) < MAX_SERIES:
                assert (series.count, series.min, series.max) == (of_all.count, of_all.min, of_all.max)

    @given(some_runs, st.integers(1, 24))
    def test_hours_that_are_alike_make_a_day_like_them(self, runs: list[PackedRun], count: int) -> None:
        hour = summarize(runs, HOUR_OF_RUNS)
        day = add_up([hour] * count, HOUR_OF_RUNS)
        assert (day.duration, day.lateness, day.runs) == (hour.duration, hour.lateness, hour.runs * count)

    def test_one_bad_hour_of_many_shows_in_the_99th_percentile(self) -> None:
        good, bad = Spread(10, 20, 30), Spread(1_000, 2_000, 3_000)
        hours = [RunSummary(1, i * HOUR, 60, {}, {}, bad if i == 5 else good, good) for i in range(24)]
        assert add_up(hours, 0).duration == Spread(10, 2_000, 3_000)

    def test_summaries_of_the_same_hour_become_one(self) -> None:
        a, b = summarize([a_run(5)], HOUR_OF_RUNS), summarize([a_run(9), a_run(9)], HOUR_OF_RUNS)
        other = b._replace(task=2)
        assert [(s.task, s.runs) for s in one_per_time([a, b, other])] == [(1, 3), (2, 2)]
        assert [(s.task, s.since, s.runs) for s in by_day([a, b, other], 5)] == [(1, 5, 3), (2, 5, 2)]
