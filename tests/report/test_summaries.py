"""Summaries as people ask for them, and `why` of a time whose runs are not kept any more."""

import pytest
from compacted_history import START, CompactedHistory

from evenbeat.core.retention import Retention
from evenbeat.model import DAY, HOUR, MINUTE, Instant
from evenbeat.report.summaries import read_summaries
from evenbeat.report.why import explain
from evenbeat.store.memory import MemoryStore
from evenbeat.wire.summaries import Summaries, SummaryLength

RETENTION = Retention(keep_runs=2 * DAY, keep=30 * DAY)


def a_history(until: int, *, is_compacted: bool = True) -> CompactedHistory:
    """One task runs every ten minutes and fails at each full hour; another runs each hour."""
    history = CompactedHistory(MemoryStore(), RETENTION)
    often, seldom = history.tasks[:2]

    def ten_minutes(start: int) -> None:
        fails = start % HOUR == 0
        outcome, state = ("failed", 2) if fails else ("succeeded", 0)
        history.record(often, start, f"x | load={start // HOUR % 24}", outcome=outcome, state=state, notable=fails)
        if fails:
            history.record(seldom, start)

    for now in history.live(until, 10 * MINUTE, ten_minutes):
        if is_compacted and now % (6 * HOUR) == 0:
            history.compact()
    if is_compacted:
        history.compact()
    return history


def asked(history: CompactedHistory, name: str, by: SummaryLength, **times: int) -> Summaries:
    entry = history.store.find(name)
    assert entry is not None
    since, until = (Instant(times[key]) if key in times else None for key in ("since", "until"))
    return read_summaries(history.store, entry, by, since, until, history.now)


class TestSummaries:
    @pytest.mark.parametrize("by", ["hour", "day"])
    def test_what_is_not_summed_up_yet_is_there_too(self, by: SummaryLength) -> None:
        until = START + 2 * DAY - 6 * HOUR - 20 * MINUTE
        compacted, plain = a_history(until), a_history(until, is_compacted=False)
        for name in ("task-0", "task-1"):
            found, expected = asked(compacted, name, by), asked(plain, name, by)
            counted = [(s.since, s.runs, s.outcomes, s.states, s.series, s.complete) for s in expected.summaries]
            assert [(s.since, s.runs, s.outcomes, s.states, s.series, s.complete) for s in found.summaries] == counted
            assert not found.summaries[-1].complete
            assert sum(s.runs for s in found.summaries) == len(
                plain.store.runs(plain.tasks[int(name[-1])], most=10_000)
            )

    def test_an_answer_says_where_it_comes_from(self) -> None:
        history = a_history(START + 4 * DAY)
        by_hour, by_day = asked(history, "task-0", "hour"), asked(history, "task-0", "day")
        assert (by_hour.layer, by_day.layer) == ("hours", "days")
        assert by_hour.runs_since == by_day.runs_since == "2024-10-06T00:00:00+00:00"
        assert (len(by_hour.summaries), len(by_day.summaries)) == (96, 4)
        first = by_hour.summaries[0]
        assert first.since == "2024-10-04T00:00:00+00:00"
        assert (first.runs, first.outcomes, first.states) == (
            6,
            {"failed": 1, "succeeded": 5},
            {"ok": 5, "critical": 1},
        )
        assert (first.duration.p50, first.lateness.max) == (1.0, 0.002)

    def test_of_a_task_that_runs_seldom_the_runs_are_summed_up(self) -> None:
        history = a_history(START + 3 * DAY)
        assert [s.runs for s in asked(history, "task-1", "hour").summaries] == [1] * 72

    def test_only_some_hours(self) -> None:
        history = a_history(START + 4 * DAY)
        since, until = START + DAY + 1, START + DAY + 4 * HOUR
        found = asked(history, "task-0", "hour", since=since, until=until).summaries
        assert [s.since[11:13] for s in found] == ["01", "02", "03"]

    def test_a_task_without_runs(self) -> None:
        assert asked(a_history(START + HOUR), "task-2", "day").summaries == []


class TestWhy:
    def why(self, history: CompactedHistory, name: str, at: str) -> str:
        answer = explain(history.store, name, at, history.now, lambda _: (True, None))
        return "\n".join([answer.answer, *answer.reasons])

    def test_of_an_hour_whose_runs_are_gone_its_summary_answers(self) -> None:
        found = self.why(a_history(START + 4 * DAY), "task-0", "2024-10-04T05:31")
        assert "ran 6 times between Fri 2024-10-04 05:00:00+00:00 and Fri 2024-10-04 06:00:00+00:00" in found
        assert "1 failed, 5 succeeded" in found
        assert "every run is kept for 2d; this is the summary of the hour" in found

    def test_a_run_that_is_kept_says_more(self) -> None:
        assert "ran then: it started" in self.why(a_history(START + 4 * DAY), "task-0", "2024-10-04T05:00")

    def test_of_a_day_its_summary_answers(self) -> None:
        history = a_history(START + 4 * DAY)
        history.now = Instant(START + 40 * DAY)
        history.compact()
        found = self.why(history, "task-0", "2024-10-04T05:31")
        assert "ran 144 times between Fri 2024-10-04 00:00:00+00:00 and Sat 2024-10-05 00:00:00+00:00" in found
        assert "this is the summary of the day" in found
