"""Results that are submitted externally, and what becomes of a check without results."""

from typing import Any

import pytest
from budget import examples
from hand_driven_node import T0, HandDrivenNode
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, Outcome, Period, RunKind, State
from evenbeat.node.answers.status import status_of
from evenbeat.node.loop.submitted_results import finish_of_submitted
from evenbeat.store.contract import RunRecord, SubmittedResult


@pytest.fixture
def driven() -> HandDrivenNode:
    return HandDrivenNode()


def add_passive(driven: HandDrivenNode, name: str = "a", **keys: Any) -> None:
    driven.add(name, passive=True, **{"timebox": "10s", "grace": "5s", **keys})


def submit(
    driven: HandDrivenNode, status: int = 0, *, name: str = "a", output: str = "", at: int | None = None, **more: Any
) -> SubmittedResult:
    now = Instant(driven.now)
    return driven.turns.passive.submit(
        driven.row(name), status, output, now if at is None else Instant(at), now, **more
    )


def live(driven: HandDrivenNode, length: int, step: int = SECOND) -> None:
    """Time passes; there is nothing to run."""
    assert driven.advance(length, step) == []


def runs(driven: HandDrivenNode, name: str = "a") -> list[RunRecord]:
    """Oldest first."""
    return driven.store.runs(driven.admin.find_or_raise(name).number, most=1_000)[::-1]


def kinds(driven: HandDrivenNode, name: str = "a") -> list[RunKind]:
    return [run.kind for run in runs(driven, name)]


def stale_at(driven: HandDrivenNode, name: str = "a") -> list[float]:
    """When nobody had told anything, in seconds since T0."""
    return [(run.claimed - T0) / SECOND for run in runs(driven, name) if run.kind is RunKind.STALE]


# Telling


def test_a_told_result_is_a_result_like_any_other(driven: HandDrivenNode) -> None:
    add_passive(driven, attempts=3)
    live(driven, 3 * SECOND)
    submitted = submit(driven, 2, output="broken | t=1s")
    assert (submitted.made, submitted.state, submitted.hard, submitted.attempt) == (2, State.CRITICAL, False, 1)
    for attempt, hard in ((2, False), (3, True), (3, True)):
        live(driven, SECOND)
        submitted = submit(driven, 1)
        assert (submitted.attempt, submitted.hard) == (attempt, hard)
    condition = driven.condition("a")
    assert (condition.state, condition.hard, condition.attempt) == (State.WARNING, True, 3)
    first = runs(driven)[0]
    assert (first.kind, first.started, first.outcome, first.status) == (RunKind.TOLD, T0 + 3 * SECOND, "failed", 2)
    assert (first.output, first.state) == ("broken | t=1s", State.CRITICAL)
    live(driven, SECOND)
    assert submit(driven, 0).state == State.OK
    assert driven.condition("a").outcome is Outcome.SUCCEEDED


def test_it_needs_no_slot_and_no_turn() -> None:
    driven = HandDrivenNode(slots=1)
    driven.add("busy", every="10s", phase="0s")
    add_passive(driven)
    assert driven.names(driven.turn(10 * SECOND)) == ["busy"]
    assert submit(driven, 2).state == State.CRITICAL
    assert (driven.lifecycle.pending, driven.lifecycle.slots, len(driven.lifecycle.waiting)) == (1, 1, 0)


def test_an_older_result_is_recorded_and_changes_nothing(driven: HandDrivenNode) -> None:
    add_passive(driven)
    live(driven, 30 * SECOND)
    submit(driven, 0, output="new")
    driven.now += SECOND
    submitted = submit(driven, 2, output="old", at=driven.now - 10 * SECOND)
    assert (submitted.made, submitted.state) == (None, State.OK)
    assert (driven.condition("a").state, driven.condition("a").output) == (State.OK, "new")
    assert [(run.output, run.state) for run in runs(driven)] == [("new", State.OK), ("old", None)]


def test_who_listens_to_results_hears_which_is_the_latest(driven: HandDrivenNode) -> None:
    add_passive(driven)
    driven.turns.passive.begin(driven.row("a"), Instant(driven.now))
    live(driven, 5 * SECOND)
    ended = driven.turns.passive.end(driven.row("a"), 0, "", Instant(driven.now))
    driven.now += SECOND
    results = [ended, submit(driven, 2), submit(driven, 0, at=driven.now - SECOND // 2)]
    assert [finish_of_submitted(submitted).is_latest for submitted in results] == [True, True, False]


def test_of_two_within_one_tick_the_second_is_newer(driven: HandDrivenNode) -> None:
    add_passive(driven)
    live(driven, SECOND)
    assert [submit(driven, status).made for status in (0, 2, 0)] == [0, 2, 0]
    assert driven.condition("a").state == State.OK


def test_a_check_that_runs_may_be_told_of_meanwhile(driven: HandDrivenNode) -> None:
    driven.add("a", check=True, every="1m", phase="0s")
    (run,) = driven.turn(30 * SECOND) or driven.turn(30 * SECOND)
    live_claim = driven.progress("a").claimed
    driven.now += SECOND
    submitted = submit(driven, 2, output="from outside")
    assert submitted.made == State.CRITICAL
    assert driven.progress("a").claimed == live_claim is not None
    assert driven.lifecycle.pending == 1
    driven.now += SECOND
    driven.end(run.name)  # it began when it ends here, so it is newer
    driven.turn()
    assert (driven.lifecycle.pending, driven.progress("a").claimed) == (0, None)
    assert driven.condition("a").state == State.OK
    assert set(kinds(driven)) >= {RunKind.TOLD}


def test_a_run_that_began_before_the_told_result_is_older(driven: HandDrivenNode) -> None:
    driven.add("a", check=True, every="1m", phase="0s", retry="0s")
    while not driven.under_way:
        driven.turn(SECOND)
    started = driven.now
    driven.now += SECOND
    submit(driven, 2)
    driven.now -= SECOND
    driven.end("a", lasted=5 * SECOND, output=b"older")
    driven.turn()
    found = driven.condition("a")
    assert (found.state, found.output, found.outcome) == (State.CRITICAL, "", Outcome.FAILED)
    assert [run.state for run in runs(driven) if run.started == started] == [None]


def test_a_told_problem_of_an_active_check_is_retried_by_a_run(driven: HandDrivenNode) -> None:
    driven.add("a", check=True, every="5m", phase="0s", retry="20s")
    driven.advance(6 * MINUTE)
    submit(driven, 1)
    assert [run.kind for run in driven.advance(30 * SECOND)] == [RunKind.RETRY]
    assert driven.condition("a").state == State.OK


# Freshness


def test_whoever_tells_in_time_is_never_stale(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1m")
    for _ in range(60):
        live(driven, MINUTE)
        submit(driven)
    assert kinds(driven) == [RunKind.TOLD] * 60
    assert driven.store.skips() == []
    assert driven.turns.passive.stale_rows == set()


def test_silence_is_a_problem_once_for_each_expected_time(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1m", phase="0s", attempts=3)
    live(driven, 30 * SECOND)
    submit(driven)
    live(driven, MINUTE)
    submit(driven, output="fine")
    # Of 00:01:30. At 00:02 it is new enough, at 00:03 it is not: looked at when timebox and grace are over.
    live(driven, 10 * MINUTE - 90 * SECOND)
    assert stale_at(driven) == [m * 60 + 15 for m in range(3, 10)]
    assert [(r.state, r.hard, r.attempt) for r in runs(driven) if r.kind is RunKind.STALE][:4] == [
        (State.CRITICAL, False, 1),
        (State.CRITICAL, False, 2),
        (State.CRITICAL, True, 3),
        (State.CRITICAL, True, 3),
    ]
    output = driven.condition("a").output
    assert output.startswith("no result since Fri 2024-10-04 00:01:30+00:00, expected by ")
    assert output.endswith("00:09:15+00:00")
    assert driven.turns.passive.stale_rows == {driven.row("a")}
    assert (status_of(driven.node).stale, status_of(driven.node).late) == (1, 0)
    assert driven.columns.nominal[driven.row("a")] == T0 + 10 * MINUTE
    submit(driven)
    assert (driven.condition("a").state, driven.turns.passive.stale_rows) == (State.OK, set())


def test_a_new_check_has_an_interval_before_anything_is_late(driven: HandDrivenNode) -> None:
    driven.now += 50 * SECOND
    add_passive(driven, every="1m", phase="0s")
    live(driven, 74 * SECOND)
    assert kinds(driven) == []
    live(driven, 2 * SECOND)
    assert stale_at(driven) == [50 + 75]
    assert "no result yet" in runs(driven)[0].output


def test_what_was_late_but_newer_than_the_last_one_counts_against_staleness(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1m", phase="0s")
    live(driven, 5 * MINUTE)
    assert driven.condition("a").state == State.CRITICAL
    assert submit(driven, at=driven.now - 30 * SECOND).made == State.OK


def test_a_nightly_result_must_come_every_night(driven: HandDrivenNode) -> None:
    """That of last night, ten minutes after two, says nothing of this one."""
    add_passive(driven, cron="0 2 * * *", grace="1h")
    night = 2 * HOUR + 10 * MINUTE
    live(driven, night, MINUTE)
    submit(driven)
    live(driven, DAY, MINUTE)
    submit(driven)
    assert kinds(driven) == [RunKind.TOLD] * 2
    live(driven, DAY - 11 * MINUTE, MINUTE)
    assert kinds(driven) == [RunKind.TOLD] * 2
    live(driven, 80 * MINUTE, MINUTE)
    assert kinds(driven) == [RunKind.TOLD] * 2 + [RunKind.STALE]


def test_a_sender_whose_clock_is_a_little_fast_is_in_time(driven: HandDrivenNode) -> None:
    add_passive(driven, cron="0 * * * *", second=30)
    submit(driven)
    for _ in range(10):
        live(driven, HOUR, MINUTE)
        submit(driven, at=driven.now - 5 * SECOND)
    assert set(kinds(driven)) == {RunKind.TOLD}


def test_one_expected_once_is_looked_at_once(driven: HandDrivenNode) -> None:
    add_passive(driven, "told", at="2024-10-04T01:00")
    add_passive(driven, "silent", at="2024-10-04T01:00")
    submit(driven, name="told")
    live(driven, 3 * HOUR, MINUTE)
    assert kinds(driven, "told") == [RunKind.TOLD]
    assert kinds(driven, "silent") == [RunKind.STALE]


def test_nothing_is_expected_while_it_is_paused_or_its_period_is_closed(driven: HandDrivenNode) -> None:
    driven.periods(work=Period(ranges=("00:00-00:30",)))
    add_passive(driven, every="1m", period="work")
    add_passive(driven, "b", every="1m", phase="0s")
    driven.pause("b")
    live(driven, 2 * HOUR, 10 * SECOND)
    assert 25 <= len(stale_at(driven)) <= 30
    assert max(stale_at(driven)) < 30 * 60 + 15 + 10
    assert kinds(driven, "b") == []
    (skip,) = driven.store.skips(driven.admin.find_or_raise("b").number)
    assert (skip.reason, skip.times) == ("disabled", 119)
    driven.pause("b", paused=False)
    live(driven, 70 * SECOND)
    assert kinds(driven, "b") == [], "it has an interval, as if it were new"
    live(driven, 10 * SECOND)
    assert kinds(driven, "b") == [RunKind.STALE]


def test_a_nightly_backup_that_fails_is_a_hard_problem_the_first_morning(driven: HandDrivenNode) -> None:
    driven.add("silent", passive=True, cron="0 2 * * *", second=0)
    driven.add("failing", passive=True, cron="0 2 * * *", second=0)
    live(driven, 2 * HOUR + 5 * MINUTE, MINUTE)
    assert (submit(driven, 2, name="failing").state, driven.condition("failing").hard) == (State.CRITICAL, True)
    live(driven, 55 * MINUTE, MINUTE)
    assert driven.condition("silent").state is None
    live(driven, 2 * MINUTE, MINUTE)
    assert stale_at(driven, "silent") == [3 * 3600 + 60], "a minute of timebox and an hour of grace after two"
    found = driven.condition("silent")
    assert (found.state, found.hard, found.attempt) == (State.CRITICAL, True, 1)


@pytest.mark.parametrize(("word", "state"), [("warning", 1), ("critical", 2), ("unknown", 3)])
def test_when_missing_says_what_silence_means(driven: HandDrivenNode, word: str, state: State) -> None:
    add_passive(driven, every="1m", phase="0s", when_missing=word)
    add_passive(driven, "ttl", every="1d", when_missing=word)
    add_passive(driven, "begun", every="1d", when_missing=word)
    submit(driven, name="ttl", ttl=MINUTE)
    driven.turns.passive.begin(driven.row("begun"), Instant(driven.now))
    live(driven, 3 * MINUTE)
    found = [(c.state, c.hard, c.outcome) for c in map(driven.condition, ("a", "ttl", "begun"))]
    assert found == [(state, True, "failed"), (state, True, "failed"), (state, True, "timeboxed")]


# A command for when no result came


def add_with_command(driven: HandDrivenNode, name: str = "a", **keys: Any) -> None:
    add_passive(driven, name, **{"every": "1m", "phase": "0s", "command": ["check"], **keys})


def test_a_command_runs_when_no_result_came_and_its_result_counts(driven: HandDrivenNode) -> None:
    add_with_command(driven)
    live(driven, 30 * SECOND)
    submit(driven)
    (run,) = driven.advance(2 * MINUTE)
    assert (run.kind, run.nominal, run.check) == (RunKind.FRESHNESS, T0 + 135 * SECOND, True)
    assert kinds(driven) == [RunKind.TOLD, RunKind.FRESHNESS]
    found = driven.condition("a")
    assert (found.state, found.outcome) == (State.OK, Outcome.SUCCEEDED)
    assert (driven.turns.passive.missing_count, driven.turns.passive.stale_rows) == (1, set())
    assert driven.store.skips() == []


def test_it_does_not_run_while_results_come(driven: HandDrivenNode) -> None:
    add_with_command(driven)
    for _ in range(60):
        live(driven, MINUTE)
        submit(driven)
    assert kinds(driven) == [RunKind.TOLD] * 60


def test_its_failure_is_a_hard_problem_and_it_runs_again_for_a_later_time(driven: HandDrivenNode) -> None:
    add_with_command(driven)
    while not driven.under_way:
        driven.turn(SECOND)
    assert driven.now == T0 + 76 * SECOND, "it is looked at a second before, in a turn of its own"
    driven.end("a", Outcome.FAILED, 2, output=b"no backup")
    driven.turn()
    found = driven.condition("a")
    assert (found.state, found.hard, found.output) == (State.CRITICAL, True, "no backup")
    assert [run.kind for run in driven.advance(3 * MINUTE)] == [RunKind.FRESHNESS]


def test_it_obeys_pause_and_period_and_may_be_forced(driven: HandDrivenNode) -> None:
    driven.periods(work=Period(ranges=("00:00-00:30",)))
    add_with_command(driven, "paused")
    add_with_command(driven, "closed", period="work", timebox="20s", grace="5m")
    driven.pause("paused")
    made = driven.advance(HOUR)
    assert {run.name for run in made} == {"closed"}
    assert max(run.nominal for run in made) < T0 + 30 * MINUTE
    # Its last times were looked at after the period had closed: all that can be said is that nothing came.
    assert (driven.condition("closed").state, kinds(driven, "closed")[-1]) == (State.CRITICAL, RunKind.STALE)
    assert driven.turns.passive.stale_rows == {driven.row("closed")}
    driven.force("closed", "paused")
    assert sorted(run.name for run in driven.advance(MINUTE)) == ["closed", "paused"]
    assert (driven.condition("closed").state, driven.turns.passive.stale_rows) == (State.OK, set())


def test_a_planned_run_outlives_the_node(driven: HandDrivenNode) -> None:
    driven = HandDrivenNode(slots=1)
    driven.add("busy", every="1d", phase="10s", timebox="1h")
    add_with_command(driven)
    driven.turn(10 * SECOND)
    assert list(driven.under_way) == ["busy"]
    for _ in range(75):
        driven.turn(SECOND)
    assert (driven.progress("a").extra, driven.progress("a").extra_kind) == (T0 + 75 * SECOND, RunKind.FRESHNESS)
    driven.restart(after=SECOND)
    assert (RunKind.FRESHNESS, "a") in [(run.kind, run.name) for run in driven.advance(10 * SECOND)]


def test_a_heartbeat_that_does_not_end_and_a_result_that_is_too_old_have_it_run_too(driven: HandDrivenNode) -> None:
    add_with_command(driven, "begun", every="1d", phase="12h")
    add_with_command(driven, "ttl", every="1d", phase="12h")
    submit(driven, name="ttl", ttl=MINUTE)
    driven.turns.passive.begin(driven.row("begun"), Instant(driven.now))
    made = driven.advance(2 * MINUTE)
    assert [(run.name, run.kind, run.nominal) for run in made] == [
        ("begun", RunKind.FRESHNESS, T0 + 10 * SECOND),
        ("ttl", RunKind.FRESHNESS, T0 + MINUTE),
    ]
    assert (driven.condition("begun").state, driven.condition("ttl").state) == (State.OK, State.OK)


def test_a_check_that_runs_by_its_schedule_runs_when_a_submitted_result_is_too_old(driven: HandDrivenNode) -> None:
    driven.add("a", every="1h", phase="30m", check=True)
    driven.advance(10 * SECOND)
    submit(driven, 2, ttl=5 * MINUTE)
    assert [run.kind for run in driven.advance(6 * MINUTE)] == [RunKind.FRESHNESS]
    assert driven.condition("a").state == State.OK


def test_a_command_that_comes_or_goes_changes_what_is_planned(driven: HandDrivenNode) -> None:
    add_with_command(driven)
    driven.turn(30 * SECOND)
    driven.set("a", passive=True, every="1m", phase="0s", timebox="10s", grace="5s")
    live(driven, 3 * MINUTE)
    assert set(kinds(driven)) == {RunKind.STALE}
    driven.set("a", passive=True, every="1m", phase="0s", timebox="10s", grace="5s", command=["x"])
    assert [run.kind for run in driven.advance(2 * MINUTE)] == [RunKind.FRESHNESS]


# A result that is good for some time only


def test_a_result_is_good_for_its_ttl(driven: HandDrivenNode) -> None:
    driven.add("a", every="1h", phase="30m", passive=True)
    driven.advance(10 * SECOND)
    submit(driven, ttl=MINUTE)
    driven.advance(30 * SECOND)
    submit(driven, ttl=MINUTE)
    driven.advance(59 * SECOND)
    assert stale_at(driven) == []
    driven.advance(2 * SECOND)
    assert stale_at(driven) == [100]
    assert runs(driven)[-1].output.endswith("that one was good for 1m")
    driven.advance(5 * MINUTE)
    assert stale_at(driven) == [100], "once"


def test_one_without_a_ttl_ends_that_of_the_one_before(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1h")
    submit(driven, ttl=MINUTE)
    live(driven, 30 * SECOND)
    submit(driven)
    live(driven, 10 * MINUTE)
    assert kinds(driven) == [RunKind.TOLD] * 2


def test_what_is_over_is_not_remembered_again(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1h")
    passive, row = driven.turns.passive, driven.row("a")
    submit(driven, ttl=MINUTE)
    passive.begin(row, Instant(driven.now))
    until = passive.good_until(row)
    assert until is not None
    live(driven, 2 * MINUTE)
    assert {run.outcome for run in runs(driven)} >= {Outcome.TIMEBOXED}
    passive.restore_ttl(row, *until)
    passive.restore_begun(row, T0)
    assert (passive.good_until(row), passive.begun_rows) == (None, {})


# Begun and not ended


def test_what_begins_and_ends_has_a_duration(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1h", timebox="10m")
    driven.turns.passive.begin(driven.row("a"), Instant(driven.now))
    live(driven, 5 * MINUTE)
    driven.turns.passive.end(driven.row("a"), 0, "done", Instant(driven.now))
    (run,) = runs(driven)
    assert (run.started, run.ended, run.state) == (T0, T0 + 5 * MINUTE, State.OK)
    live(driven, 20 * MINUTE)
    assert kinds(driven) == [RunKind.TOLD]


def test_what_begins_and_does_not_end_is_critical(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1h", timebox="10m")
    driven.turns.passive.begin(driven.row("a"), Instant(driven.now))
    live(driven, 11 * MINUTE)
    (run,) = runs(driven)
    assert (run.outcome, run.state, run.started) == (Outcome.TIMEBOXED, State.CRITICAL, T0)
    assert "has not ended within its timebox of 10m" in run.output


# What ends while its check is paused


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("keys", [{"passive": True, "every": "1d"}, {"check": True, "every": "1d", "phase": "12h"}])
def test_a_ttl_that_ends_during_a_pause_is_looked_at_when_the_check_is_resumed(
    driven: HandDrivenNode, keys: dict[str, Any], *, restarts: bool
) -> None:
    driven.add("a", **keys)
    driven.advance(SECOND)
    until = submit(driven, ttl=MINUTE).result_at + MINUTE
    before = kinds(driven)
    driven.pause("a")
    live(driven, 10 * MINUTE)
    if restarts:
        driven.restart(after=SECOND)
        driven.turns.passive.restore_ttl(driven.row("a"), until, until - MINUTE)
        live(driven, MINUTE)
    assert kinds(driven) == before
    driven.pause("a", paused=False)
    driven.advance(SECOND)
    assert kinds(driven)[len(before) :] == [RunKind.STALE if "passive" in keys else RunKind.FRESHNESS]


def test_a_newer_result_during_the_pause_ends_the_ttl(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1d")
    submit(driven, ttl=MINUTE)
    driven.pause("a")
    live(driven, 10 * MINUTE)
    submit(driven)
    driven.pause("a", paused=False)
    live(driven, 10 * MINUTE)
    assert kinds(driven) == [RunKind.TOLD] * 2


def test_a_heartbeat_that_should_have_ended_during_a_pause_is_looked_at_when_the_check_is_resumed(
    driven: HandDrivenNode,
) -> None:
    for name in ("silent", "ended"):
        add_passive(driven, name, every="1d")
        driven.turns.passive.begin(driven.row(name), Instant(driven.now))
    driven.pause("silent", "ended")
    live(driven, 10 * MINUTE)
    driven.turns.passive.end(driven.row("ended"), 0, "", Instant(driven.now))
    driven.pause("silent", "ended", paused=False)
    live(driven, SECOND)
    (run,) = runs(driven, "silent")
    assert (run.outcome, run.state, run.started) == (Outcome.TIMEBOXED, State.CRITICAL, T0)
    (run,) = runs(driven, "ended")
    assert (run.state, run.started) == (State.OK, T0)


# Stops, clocks and changes


def test_after_a_stop_nobody_is_called_stale_before_senders_had_a_chance(driven: HandDrivenNode) -> None:
    for i in range(20):
        add_passive(driven, f"c{i}", every="1m")
    for _ in range(3):
        live(driven, MINUTE)
        for i in range(20):
            submit(driven, name=f"c{i}")
    driven.restart(after=HOUR)
    live(driven, 59 * SECOND)
    assert [run.kind for run in driven.store.runs(most=1_000)] == [RunKind.TOLD] * 60
    assert {skip.reason for skip in driven.store.skips()} == {"missed while stopped"}
    for i in range(19):
        submit(driven, name=f"c{i}")
    live(driven, 2 * MINUTE)
    stale = [run for run in driven.store.runs(most=1_000) if run.kind is RunKind.STALE]
    assert {run.task for run in stale} >= {"c19"}
    assert stale[-1].task == "c19"
    assert stale[-1].claimed == T0 + 3 * MINUTE + HOUR + 75 * SECOND


def test_a_short_stop_between_two_results_excuses_nobody(driven: HandDrivenNode) -> None:
    """Else a node that is restarted every day would never miss a daily result."""
    add_passive(driven, every="1d", phase="12h")
    live(driven, 6 * HOUR, MINUTE)
    submit(driven)
    for _ in range(4):
        live(driven, 17 * HOUR, MINUTE)
        driven.node.membership.store_clock()
        driven.restart(after=5 * SECOND)
        live(driven, 7 * HOUR, MINUTE)
    assert len(stale_at(driven)) == 3
    assert DAY / SECOND < stale_at(driven)[0] < 2 * DAY / SECOND


def test_a_machine_that_slept_is_a_stop(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1m", phase="0s")
    live(driven, 2 * MINUTE)
    submit(driven)
    driven.now += HOUR
    driven.node.membership.handle_standstill(HOUR)
    live(driven, 50 * SECOND)
    submit(driven)
    live(driven, 30 * SECOND)
    assert kinds(driven) == [RunKind.STALE, RunKind.TOLD, RunKind.TOLD]
    (skip,) = driven.store.skips()
    assert (skip.reason, skip.times) == ("missed while stopped", 60)


def test_a_clock_that_is_set_back_makes_nobody_stale(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1m")
    submit(driven)
    for _ in range(3):
        live(driven, MINUTE)
        submit(driven, ttl=2 * MINUTE)
    driven.clock_is_set(-HOUR)
    for _ in range(3):
        live(driven, MINUTE)
        assert submit(driven).made == State.OK
    assert set(kinds(driven)) == {RunKind.TOLD}
    live(driven, 5 * MINUTE)
    assert RunKind.STALE in kinds(driven)


def test_an_active_check_becomes_passive_and_active_again(driven: HandDrivenNode) -> None:
    driven.add("a", check=True, every="1m", phase="0s")
    assert len(driven.advance(3 * MINUTE)) >= 3
    driven.set("a", every="1m", phase="0s", passive=True)
    live(driven, 3 * MINUTE)
    assert RunKind.STALE in kinds(driven)
    driven.set("a", every="1m", phase="0s", command=["true"])
    assert len(driven.advance(3 * MINUTE)) >= 3
    assert driven.condition("a").state == State.OK


def test_whoever_gets_the_row_of_a_removed_check_has_none_of_its_alarms(driven: HandDrivenNode) -> None:
    add_passive(driven, every="1h")
    submit(driven, ttl=MINUTE)
    driven.turns.passive.begin(driven.row("a"), Instant(driven.now))
    row = driven.row("a")
    driven.remove("a")
    add_passive(driven, "b", every="1h")
    assert driven.row("b") == row
    live(driven, 10 * MINUTE)
    assert driven.store.runs(driven.admin.find_or_raise("b").number) == []


@settings(max_examples=examples(60), deadline=None)
@given(
    every=st.integers(10, 120),
    phase=st.integers(0, 9),
    offset=st.integers(0, 200),
    jitter=st.lists(st.integers(-7, 7), min_size=20, max_size=20),
    silent_from=st.integers(0, 20),
)
def test_who_tells_once_an_interval_is_fresh_and_who_stops_is_noticed(
    every: int, phase: int, offset: int, jitter: list[int], silent_from: int
) -> None:
    """Wherever on its own clock the sender comes, give or take half of what is allowed."""
    driven = HandDrivenNode()
    add_passive(driven, every=f"{every}s", phase=f"{phase}s", timebox="10s", grace="5s")
    times = [offset % every + 7 + k * every + jitter[k] for k in range(silent_from)]
    last = times[-1] if times else 0
    end = (silent_from + 4) * every + 60
    for second in range(end):
        driven.now = T0 + second * SECOND
        driven.turn()
        if second in times:
            submit(driven)
    driven.turn()
    found = stale_at(driven)
    assert all(t > last for t in found), "nobody who comes in time is ever stale"
    assert found, "and silence is noticed"
    assert found[0] <= last + 2 * every + 15 + 7 + 1
    assert len(set(found)) == len(found)
    # Each nominal time was settled once, up to the one that is still awaited.
    assert T0 + (end - 1 - 15) * SECOND < driven.columns.nominal[driven.row("a")] <= T0 + (end + every) * SECOND
