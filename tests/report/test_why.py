"""Whoever asks why gets a sentence; here are the sentences."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from evenbeat.core.gate import Reason
from evenbeat.core.next_time import ScheduleProgress, next_run
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Entry, Instant, Outcome, Period, RunKind, State
from evenbeat.report.why import why_now
from evenbeat.report.why_facts import Answer, TaskFacts
from evenbeat.report.why_past import why_then
from evenbeat.store.contract import FOREVER, NEVER, Condition, RunRecord, SkipRecord
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.instant import parse_instant
from evenbeat.when.period import compile_periods
from evenbeat.when.zone import zone
from evenbeat.wire.live_runs import LiveTaskState

UTC = zone("UTC")
OFFICE = {"office": Period(ranges=("monday-friday 09:00-17:00",))}


def at(text: str) -> Instant:
    return parse_instant(text, UTC)


NOW = at("2026-11-16T12:00:30")  # a Monday


def condition(
    table: dict[str, Any] | None = None, *, check: bool = False, paused: bool = False, **how: Any
) -> Condition:
    keys = {"every": "5m", "phase": "0s", "command": ["true"], **(table or {})}
    task = task_from_table("web", {k: v for k, v in keys.items() if v is not None}, check=check)
    if paused:
        task = replace(task, paused=True)
    created = how.pop("created", at("2026-11-01"))
    entry = Entry(1, "id", how.pop("version", 1), "ana", created, how.pop("changed", created), task)
    plain: dict[str, Any] = dict.fromkeys(("extra", "running_since", "last_start", "last_end", "outcome", "state"))
    plain |= {
        "accounted": at("2026-11-16T12:00"),
        "extra_kind": RunKind.GRID,
        "pause_from": NEVER,
        "pause_until": NEVER,
    }
    plain |= {"hard": True, "attempt": 1, "flapping": False, "output": ""}
    return Condition(entry=entry, **{**plain, **how})


def run(nominal: str, *, late: int = 0, took: int = SECOND, **how: Any) -> RunRecord:
    due = at(nominal)
    plain: dict[str, Any] = {
        "task": "web",
        "nominal": due,
        "generation": 0,
        "kind": RunKind.GRID,
        "claimed": Instant(due + late),
        "started": Instant(due + late),
        "ended": Instant(due + late + took),
        "outcome": Outcome.SUCCEEDED,
        "status": 0,
        "state": None,
        "hard": True,
        "attempt": 1,
        "output": "",
    }
    return RunRecord(**{**plain, **how})


def skip(first: str, last: str, times: int, reason: Reason, kind: RunKind = RunKind.GRID) -> SkipRecord:
    return SkipRecord("web", at(first), at(last), times, reason.value, at(last), kind)


def facts(of: Condition, **known: Any) -> TaskFacts:
    plain: dict[str, Any] = {"runs": (), "skips": (), "periods": OFFICE, "now": NOW, "keep": 30 * DAY, "is_live": True}
    plain |= known
    progress = ScheduleProgress(of.accounted, of.extra or FOREVER, of.extra_kind)
    found = next_run(of.entry.task, progress, compile_periods(plain["periods"]), plain["now"])
    if found is not None:
        of = replace(of, next_run=found.at, next_kind=found.kind)
    return TaskFacts(of, **plain)


def then(of: Condition, time: str, length: int = MINUTE, **known: Any) -> Answer:
    start = at(time)
    return why_then(facts(of, **known), start, Instant(start + length))


class TestNow:
    def test_it_runs_next_because_of_its_schedule(self) -> None:
        found = why_now(facts(condition(), runs=[run("2026-11-16T12:00")]))
        assert found.answer == "web runs next on Mon 2026-11-16 12:05:00+00:00, in 4 min 30 s."
        assert found.reasons == [
            "its schedule is every 5m",
            "the last run started Mon 2026-11-16 12:00:00+00:00, took 1.0 s, succeeded",
        ]

    def test_times_are_in_the_zone_of_the_task(self) -> None:
        found = why_now(facts(condition({"zone": "Europe/Paris"})))
        assert "Mon 2026-11-16 13:05:00+01:00" in found.answer

    def test_it_is_running(self) -> None:
        found = why_now(facts(condition({"timebox": "1m"}, running_since=at("2026-11-16T12:00"))))
        assert found.answer == "web is running, since Mon 2026-11-16 12:00:00+00:00: 30 s."
        assert "its timebox ends on Mon 2026-11-16 12:01:00+00:00, in 30 s" in found.reasons

    def test_it_says_what_ends_the_next_run_or_that_nothing_does(self) -> None:
        found = why_now(facts(condition({"timebox": "1m"}, timebox=MINUTE, longer_than=HOUR)))
        assert "timebox 1 min" in found.reasons
        found = why_now(facts(condition(longer_than=HOUR)))
        assert "no timebox; a run longer than 1 h is unusual" in found.reasons

    def test_it_is_running_unusually_long(self) -> None:
        found = why_now(facts(condition(running_since=at("2026-11-16T12:00"), longer_than=10 * SECOND, long=True)))
        assert "this run is unusually long" in found.reasons
        assert "no timebox; a run longer than 10 s is unusual" in found.reasons

    def test_somebody_has_paused_it_and_here_is_how_to_resume_it(self) -> None:
        found = why_now(facts(condition(paused=True)))
        assert found.answer == "web does not run: it is paused."
        assert "`evenbeat resume web` lets it run again" in found.reasons

    def test_its_definition_disables_it(self) -> None:
        assert "enabled = false" in why_now(facts(condition({"enabled": False}))).answer

    def test_no_node_lives(self) -> None:
        found = why_now(facts(condition(accounted=at("2026-11-16T10:55")), is_live=False))
        assert found.answer == "web does not run: no node is running on this database."
        assert any("due since Mon 2026-11-16 11:00:00" in reason for reason in found.reasons)

    def test_a_run_that_was_under_way_when_the_node_died_is_not_called_running(self) -> None:
        found = why_now(facts(condition(running_since=at("2026-11-16T11:00")), is_live=False))
        assert "no node is running" in found.answer
        assert any("the next one will resolve it" in reason for reason in found.reasons)

    @pytest.mark.parametrize("reason", [Reason.NO_SLOT, Reason.LIMIT, Reason.RUNNING])
    def test_it_is_due_and_waits(self, reason: Reason) -> None:
        moment = LiveTaskState(at("2026-11-16T12:00"), RunKind.GRID, reason.value, 512, 512)
        found = why_now(facts(condition({"limit": "db"}), moment=moment))
        assert found.answer == f"web is due and {reason.value}, since Mon 2026-11-16 12:00:00+00:00."

    @pytest.mark.parametrize("of", [condition(paused=True), condition({"enabled": False})])
    def test_a_forced_run_starts_all_the_same(self, of: Condition) -> None:
        found = why_now(facts(of, moment=LiveTaskState(NOW, RunKind.FORCED, "", 0, 512)))
        assert found.answer == "web runs now: a forced run is due."
        assert any("a forced run starts all the same" in reason for reason in found.reasons)

    def test_a_forced_run_waits_for_the_next_node(self) -> None:
        found = why_now(facts(condition(paused=True, next_run=NOW, next_kind=RunKind.FORCED), is_live=False))
        assert "no node is running" in found.answer
        assert "a forced run waits: the next node makes it, whether the task is paused or not" in found.reasons

    def test_a_forced_run_does_not_mind_a_closed_period(self) -> None:
        moment = LiveTaskState(NOW, RunKind.FORCED, Reason.NO_SLOT.value, 512, 512)
        found = why_now(facts(condition({"period": "office"}), now=at("2026-11-16T18:00"), moment=moment))
        assert found.answer.startswith("web is due and waits for a slot")
        assert "its period 'office' is closed: a forced run starts all the same" in found.reasons
        assert "what waits is a forced run" in found.reasons

    def test_a_forced_run_waits_for_the_one_that_is_running(self) -> None:
        moment = LiveTaskState(NOW, RunKind.FORCED, Reason.RUNNING.value, 1, 512)
        found = why_now(facts(condition(paused=True, running_since=at("2026-11-16T12:00")), moment=moment))
        assert found.answer.startswith("web is running")
        assert "a forced run waits for this one to end" in found.reasons
        assert not any("no other follows" in reason for reason in found.reasons)

    def test_its_period_is_closed_and_opens_at_a_time(self) -> None:
        of = condition({"period": "office"}, accounted=at("2026-11-16T17:00"))
        found = why_now(facts(of, now=at("2026-11-16T18:00")))
        opens = "opens on Tue 2026-11-17 09:00:00+00:00, in 15 h"
        assert found.answer == f"web does not run now: its period 'office' is closed, and {opens}."

    def test_it_retries(self) -> None:
        of = condition(check=True, state=State.CRITICAL, hard=False, attempt=2)
        moment = LiveTaskState(at("2026-11-16T12:01:30"), RunKind.RETRY, "", 0, 512)
        found = why_now(facts(of, moment=moment))
        assert found.answer == "web runs next on Mon 2026-11-16 12:01:30+00:00, in 1 min."
        assert "it is CRITICAL (SOFT, attempt 2 of 3); after attempt 3 the problem is HARD" in found.reasons
        assert "that is a retry" in found.reasons

    def test_a_single_time_that_has_passed_does_not_come_again(self) -> None:
        of = condition({"every": None, "phase": None, "at": "2026-11-02T09:00"})
        assert why_now(facts(of)).answer == "web does not run again: no time of its schedule is left."

    def test_an_occasion_has_no_time(self) -> None:
        of = condition({"every": None, "phase": None, "cron": "@reboot"})
        assert why_now(facts(of)).answer == "web runs at every start of the node."

    def test_a_task_that_no_node_has_seen_is_due_by_its_schedule(self) -> None:
        found = why_now(facts(condition(accounted=None), is_live=False))
        assert "it would be due on Mon 2026-11-16 12:05:00+00:00, in 4 min 30 s" in found.reasons

    def test_the_last_skip_is_told(self) -> None:
        skipped = skip("2026-11-16T10:00", "2026-11-16T10:55", 12, Reason.COALESCED)
        found = why_now(facts(condition(), skips=[skipped]))
        span = "from Mon 2026-11-16 10:00:00+00:00 to Mon 2026-11-16 10:55:00+00:00"
        assert f"the last skip: 12 times coalesced, {span}" in found.reasons


class TestThen:
    def test_the_run_of_that_minute(self) -> None:
        failed = run(
            "2026-11-16T10:00", late=2 * SECOND, outcome=Outcome.FAILED, status=2, output="copying\ndisk full\n"
        )
        found = then(condition(), "2026-11-16T10:00", runs=[failed])
        assert found.answer == (
            "web ran then: it started on Mon 2026-11-16 10:00:02+00:00, took 1.0 s and failed with status 2."
        )
        assert found.reasons == [
            "that run was by its schedule, due Mon 2026-11-16 10:00:00+00:00",
            "it started 2 s after it was due",
            "it said: disk full",
        ]

    def test_a_run_that_was_under_way(self) -> None:
        found = then(condition(), "2026-11-16T10:02", runs=[run("2026-11-16T10:00", took=4 * MINUTE)])
        assert found.answer.startswith("web ran then: it started on Mon 2026-11-16 10:00:00+00:00")

    def test_of_many_runs_a_few_are_told_and_the_rest_counted(self) -> None:
        runs = [run(f"2026-11-16T{hour:02}:00") for hour in range(11, 1, -1)]
        found = then(condition(), "2026-11-16", DAY, runs=runs)
        assert "it started on Mon 2026-11-16 02:00:00" in found.answer
        assert found.reasons[-1] == "and 4 more runs"

    def test_a_run_that_still_goes_on(self) -> None:
        lasting = run("2026-11-16T12:00", ended=None, outcome=None, status=None)
        assert "and still does" in then(condition(), "2026-11-16T12:00", runs=[lasting]).answer

    def test_what_was_skipped_has_its_reason(self) -> None:
        missed = skip("2026-11-16T10:00", "2026-11-16T10:55", 12, Reason.MISSED)
        found = then(condition(), "2026-11-16T10:30", skips=[missed])
        assert found.answer == "web did not run then: missed while stopped."
        assert found.reasons[0].startswith("12 times missed while stopped, from Mon 2026-11-16 10:00:00")

    def test_a_refused_run_off_the_grid(self) -> None:
        refused = skip("2026-11-16T10:01", "2026-11-16T10:01", 1, Reason.PERIOD_CLOSED, RunKind.RETRY)
        found = then(condition(), "2026-11-16T10:01", skips=[refused])
        assert found.answer == "web did not run then: a retry was refused, period closed."

    def test_it_was_not_due(self) -> None:
        found = then(condition(), "2026-11-16T10:02")
        assert found.answer == "web did not run then: it was not due."
        assert found.reasons[1:] == [
            "the nominal time before that is Mon 2026-11-16 10:00:00+00:00",
            "the nominal time after that is Mon 2026-11-16 10:05:00+00:00",
        ]

    def test_its_period_was_closed(self) -> None:
        found = then(condition({"period": "office"}), "2026-11-16T08:00")
        assert found.answer == "web did not run then: its period 'office' was closed."
        assert "the nominal time before that is Fri 2026-11-13 16:55:00+00:00" in found.reasons

    def test_it_did_not_exist_yet(self) -> None:
        found = then(condition(), "2026-10-31T10:00")
        assert found.answer == "web did not run then: it did not exist yet."
        assert found.reasons == ["it was created on Sun 2026-11-01 00:00:00+00:00, by ana"]

    def test_history_does_not_go_back_so_far(self) -> None:
        found = then(condition(created=at("2026-01-01")), "2026-02-01T10:00")
        assert found.answer == "web has no record of that time any more."
        assert "history is kept for 30d" in found.reasons

    def test_no_node_was_there_to_account_for_it(self) -> None:
        of = condition(accounted=at("2026-11-16T08:55"))
        found = then(of, "2026-11-16T10:00", is_live=False)
        due = "it was due on Mon 2026-11-16 10:00:00+00:00"
        assert found.answer == f"web did not run then: {due}, but no node was running."

    def test_a_definition_that_was_changed_since_may_explain_a_missing_record(self) -> None:
        of = condition(changed=at("2026-11-16T11:00"), version=2)
        found = then(of, "2026-11-16T10:00")
        assert "there is no record of it" in found.answer
        assert any("changed on Mon 2026-11-16 11:00:00" in reason for reason in found.reasons)

    def test_the_future(self) -> None:
        assert then(condition(), "2026-11-17T10:00").answer == "web is due then, on Tue 2026-11-17 10:00:00+00:00."
        assert then(condition(), "2026-11-17T10:01").answer == "web is not due then."


@given(
    st.integers(-40 * DAY, 2 * DAY),
    st.sampled_from([SECOND, MINUTE, DAY]),
    st.booleans(),
    st.sampled_from([{}, {"period": "office"}, {"every": None, "phase": None, "cron": "H H * * 1"}]),
)
def test_there_is_always_one_sentence(offset: int, length: int, is_live: bool, table: dict[str, Any]) -> None:
    known = {
        "runs": [run("2026-11-16T09:00")],
        "skips": [skip("2026-11-15T09:00", "2026-11-15T12:00", 37, Reason.MISSED)],
    }
    start = Instant(NOW + offset)
    found = why_then(facts(condition(table), is_live=is_live, **known), start, Instant(start + length))
    assert found.answer.startswith("web ")
    assert found.answer.endswith(".")
    assert all(reason and reason[-1] != "." for reason in found.reasons)


def a_problem(opened: str, closed: str | None) -> ProblemRecord:
    bad = State.CRITICAL
    ended = None if closed is None else at(closed)
    return ProblemRecord(7, 1, "web", "state", at(opened), at(opened), bad, bad, ended)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("2026-11-16T09:59", []),
        ("2026-11-16T10:00", ["opened Mon 2026-11-16 10:00:20+00:00, closed Mon 2026-11-16 10:10:20+00:00"]),
        ("2026-11-16T10:10", ["opened Mon 2026-11-16 10:00:20+00:00, closed Mon 2026-11-16 10:10:20+00:00"]),
        ("2026-11-16T10:11", []),
        ("2026-11-16T11:30", ["opened Mon 2026-11-16 11:00:00+00:00, is open still"]),
        ("2026-11-17T11:30", []),
    ],
)
def test_a_problem_that_was_open_then_is_named(asked: str, said: list[str]) -> None:
    problems = [
        a_problem("2026-11-16T11:00", None),
        a_problem("2026-11-16T10:00:20", "2026-11-16T10:10:20"),
    ]
    answer = why_then(facts(condition(check=True), problems=problems), at(asked), Instant(at(asked) + MINUTE))
    found = [reason for reason in answer.reasons if "problem" in reason]
    assert found == [f"problem 7 was open then: at worst CRITICAL, {words}" for words in said]


def test_an_open_problem_is_named_now() -> None:
    answer = why_now(facts(condition(check=True), problems=[a_problem("2026-11-16T11:00", None)]))
    assert answer.reasons[-1] == "open problem 7: CRITICAL since Mon 2026-11-16 11:00:00+00:00, not acknowledged"
