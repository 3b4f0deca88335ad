"""Results that are submitted externally, and what becomes of a check without results."""

from typing import Any

import pytest
from hand_driven_node import T0, Hand
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, Outcome, Period, RunKind, State
from evenbeat.node.answers.status import status_of
from evenbeat.node.loop.submitted_results import finish_of_submitted
from evenbeat.store.contract import RunRecord, SubmittedResult


@pytest.fixture
def hand() -> Hand:
    return Hand()


def add_passive(hand: Hand, name: str = "a", **keys: Any) -> None:
    hand.add(name, passive=True, **{"timebox": "10s", "grace": "5s", **keys})


def tell(
    hand: Hand, status: int = 0, *, name: str = "a", output: str = "", at: int | None = None, **more: Any
) -> SubmittedResult:
    now = Instant(hand.now)
    return hand.beat.passive.submit(hand.row(name), status, output, now if at is None else Instant(at), now, **more)


def live(hand: Hand, length: int, step: int = SECOND) -> None:
    """Time passes; there is nothing to run."""
    assert hand.advance(length, step) == []


def runs(hand: Hand, name: str = "a") -> list[RunRecord]:
    """Oldest first."""
    return hand.store.runs(hand.desk.find_or_raise(name).number, most=1_000)[::-1]


def kinds(hand: Hand, name: str = "a") -> list[RunKind]:
    return [run.kind for run in runs(hand, name)]


def stale_at(hand: Hand, name: str = "a") -> list[float]:
    """When nobody had told anything, in seconds since T0."""
    return [(run.claimed - T0) / SECOND for run in runs(hand, name) if run.kind is RunKind.STALE]


# Telling


def test_a_told_result_is_a_result_like_any_other(hand: Hand) -> None:
    add_passive(hand, attempts=3)
    live(hand, 3 * SECOND)
    told = tell(hand, 2, output="broken | t=1s")
    assert (told.made, told.state, told.hard, told.attempt) == (2, State.CRITICAL, False, 1)
    for attempt, hard in ((2, False), (3, True), (3, True)):
        live(hand, SECOND)
        told = tell(hand, 1)
        assert (told.attempt, told.hard) == (attempt, hard)
    condition = hand.condition("a")
    assert (condition.state, condition.hard, condition.attempt) == (State.WARNING, True, 3)
    first = runs(hand)[0]
    assert (first.kind, first.started, first.outcome, first.status) == (RunKind.TOLD, T0 + 3 * SECOND, "failed", 2)
    assert (first.output, first.state) == ("broken | t=1s", State.CRITICAL)
    live(hand, SECOND)
    assert tell(hand, 0).state == State.OK
    assert hand.condition("a").outcome is Outcome.SUCCEEDED


def test_it_needs_no_slot_and_no_turn() -> None:
    hand = Hand(slots=1)
    hand.add("busy", every="10s", phase="0s")
    add_passive(hand)
    assert hand.names(hand.turn(10 * SECOND)) == ["busy"]
    assert tell(hand, 2).state == State.CRITICAL
    assert (hand.life.pending, hand.life.slots, len(hand.life.waiting)) == (1, 1, 0)


def test_an_older_result_is_recorded_and_changes_nothing(hand: Hand) -> None:
    add_passive(hand)
    live(hand, 30 * SECOND)
    tell(hand, 0, output="new")
    hand.now += SECOND
    told = tell(hand, 2, output="old", at=hand.now - 10 * SECOND)
    assert (told.made, told.state) == (None, State.OK)
    assert (hand.condition("a").state, hand.condition("a").output) == (State.OK, "new")
    assert [(run.output, run.state) for run in runs(hand)] == [("new", State.OK), ("old", None)]


def test_who_listens_to_results_hears_which_is_the_latest(hand: Hand) -> None:
    add_passive(hand)
    hand.beat.passive.begin(hand.row("a"), Instant(hand.now))
    live(hand, 5 * SECOND)
    ended = hand.beat.passive.end(hand.row("a"), 0, "", Instant(hand.now))
    hand.now += SECOND
    results = [ended, tell(hand, 2), tell(hand, 0, at=hand.now - SECOND // 2)]
    assert [finish_of_submitted(told).is_latest for told in results] == [True, True, False]


def test_of_two_within_one_tick_the_second_is_newer(hand: Hand) -> None:
    add_passive(hand)
    live(hand, SECOND)
    assert [tell(hand, status).made for status in (0, 2, 0)] == [0, 2, 0]
    assert hand.condition("a").state == State.OK


def test_a_check_that_runs_may_be_told_of_meanwhile(hand: Hand) -> None:
    hand.add("a", check=True, every="1m", phase="0s")
    (run,) = hand.turn(30 * SECOND) or hand.turn(30 * SECOND)
    live_claim = hand.progress("a").claimed
    hand.now += SECOND
    told = tell(hand, 2, output="from outside")
    assert told.made == State.CRITICAL
    assert hand.progress("a").claimed == live_claim is not None
    assert hand.life.pending == 1
    hand.now += SECOND
    hand.end(run.name)  # it began when it ends here, so it is newer
    hand.turn()
    assert (hand.life.pending, hand.progress("a").claimed) == (0, None)
    assert hand.condition("a").state == State.OK
    assert set(kinds(hand)) >= {RunKind.TOLD}


def test_a_run_that_began_before_the_told_result_is_older(hand: Hand) -> None:
    hand.add("a", check=True, every="1m", phase="0s", retry="0s")
    while not hand.under_way:
        hand.turn(SECOND)
    started = hand.now
    hand.now += SECOND
    tell(hand, 2)
    hand.now -= SECOND
    hand.end("a", lasted=5 * SECOND, output=b"older")
    hand.turn()
    found = hand.condition("a")
    assert (found.state, found.output, found.outcome) == (State.CRITICAL, "", Outcome.FAILED)
    assert [run.state for run in runs(hand) if run.started == started] == [None]


def test_a_told_problem_of_an_active_check_is_retried_by_a_run(hand: Hand) -> None:
    hand.add("a", check=True, every="5m", phase="0s", retry="20s")
    hand.advance(6 * MINUTE)
    tell(hand, 1)
    assert [run.kind for run in hand.advance(30 * SECOND)] == [RunKind.RETRY]
    assert hand.condition("a").state == State.OK


# Freshness


def test_whoever_tells_in_time_is_never_stale(hand: Hand) -> None:
    add_passive(hand, every="1m")
    for _ in range(60):
        live(hand, MINUTE)
        tell(hand)
    assert kinds(hand) == [RunKind.TOLD] * 60
    assert hand.store.skips() == []
    assert hand.beat.passive.stale_rows == set()


def test_silence_is_a_problem_once_for_each_expected_time(hand: Hand) -> None:
    add_passive(hand, every="1m", phase="0s", attempts=3)
    live(hand, 30 * SECOND)
    tell(hand)
    live(hand, MINUTE)
    tell(hand, output="fine")
    # Of 00:01:30. At 00:02 it is new enough, at 00:03 it is not: looked at when timebox and grace are over.
    live(hand, 10 * MINUTE - 90 * SECOND)
    assert stale_at(hand) == [m * 60 + 15 for m in range(3, 10)]
    assert [(r.state, r.hard, r.attempt) for r in runs(hand) if r.kind is RunKind.STALE][:4] == [
        (State.CRITICAL, False, 1),
        (State.CRITICAL, False, 2),
        (State.CRITICAL, True, 3),
        (State.CRITICAL, True, 3),
    ]
    output = hand.condition("a").output
    assert output.startswith("no result since Fri 2024-10-04 00:01:30+00:00, expected by ")
    assert output.endswith("00:09:15+00:00")
    assert hand.beat.passive.stale_rows == {hand.row("a")}
    assert (status_of(hand.node).stale, status_of(hand.node).late) == (1, 0)
    assert hand.columns.nominal[hand.row("a")] == T0 + 10 * MINUTE
    tell(hand)
    assert (hand.condition("a").state, hand.beat.passive.stale_rows) == (State.OK, set())


def test_a_new_check_has_an_interval_before_anything_is_late(hand: Hand) -> None:
    hand.now += 50 * SECOND
    add_passive(hand, every="1m", phase="0s")
    live(hand, 74 * SECOND)
    assert kinds(hand) == []
    live(hand, 2 * SECOND)
    assert stale_at(hand) == [50 + 75]
    assert "no result yet" in runs(hand)[0].output


def test_what_was_late_but_newer_than_the_last_one_counts_against_staleness(hand: Hand) -> None:
    add_passive(hand, every="1m", phase="0s")
    live(hand, 5 * MINUTE)
    assert hand.condition("a").state == State.CRITICAL
    assert tell(hand, at=hand.now - 30 * SECOND).made == State.OK


def test_a_nightly_result_must_come_every_night(hand: Hand) -> None:
    """That of last night, ten minutes after two, says nothing of this one."""
    add_passive(hand, cron="0 2 * * *", grace="1h")
    night = 2 * HOUR + 10 * MINUTE
    live(hand, night, MINUTE)
    tell(hand)
    live(hand, DAY, MINUTE)
    tell(hand)
    assert kinds(hand) == [RunKind.TOLD] * 2
    live(hand, DAY - 11 * MINUTE, MINUTE)
    assert kinds(hand) == [RunKind.TOLD] * 2
    live(hand, 80 * MINUTE, MINUTE)
    assert kinds(hand) == [RunKind.TOLD] * 2 + [RunKind.STALE]


def test_a_sender_whose_clock_is_a_little_fast_is_in_time(hand: Hand) -> None:
    add_passive(hand, cron="0 * * * *", second=30)
    tell(hand)
    for _ in range(10):
        live(hand, HOUR, MINUTE)
        tell(hand, at=hand.now - 5 * SECOND)
    assert set(kinds(hand)) == {RunKind.TOLD}


def test_one_expected_once_is_looked_at_once(hand: Hand) -> None:
    add_passive(hand, "told", at="2024-10-04T01:00")
    add_passive(hand, "silent", at="2024-10-04T01:00")
    tell(hand, name="told")
    live(hand, 3 * HOUR, MINUTE)
    assert kinds(hand, "told") == [RunKind.TOLD]
    assert kinds(hand, "silent") == [RunKind.STALE]


def test_nothing_is_expected_while_it_is_paused_or_its_period_is_closed(hand: Hand) -> None:
    hand.periods(work=Period(ranges=("00:00-00:30",)))
    add_passive(hand, every="1m", period="work")
    add_passive(hand, "b", every="1m", phase="0s")
    hand.pause("b")
    live(hand, 2 * HOUR, 10 * SECOND)
    assert 25 <= len(stale_at(hand)) <= 30
    assert max(stale_at(hand)) < 30 * 60 + 15 + 10
    assert kinds(hand, "b") == []
    (skip,) = hand.store.skips(hand.desk.find_or_raise("b").number)
    assert (skip.reason, skip.times) == ("disabled", 119)
    hand.pause("b", paused=False)
    live(hand, 70 * SECOND)
    assert kinds(hand, "b") == [], "it has an interval, as if it were new"
    live(hand, 10 * SECOND)
    assert kinds(hand, "b") == [RunKind.STALE]


def test_a_nightly_backup_that_fails_is_a_hard_problem_the_first_morning(hand: Hand) -> None:
    hand.add("silent", passive=True, cron="0 2 * * *", second=0)
    hand.add("failing", passive=True, cron="0 2 * * *", second=0)
    live(hand, 2 * HOUR + 5 * MINUTE, MINUTE)
    assert (tell(hand, 2, name="failing").state, hand.condition("failing").hard) == (State.CRITICAL, True)
    live(hand, 55 * MINUTE, MINUTE)
    assert hand.condition("silent").state is None
    live(hand, 2 * MINUTE, MINUTE)
    assert stale_at(hand, "silent") == [3 * 3600 + 60], "a minute of timebox and an hour of grace after two"
    found = hand.condition("silent")
    assert (found.state, found.hard, found.attempt) == (State.CRITICAL, True, 1)


@pytest.mark.parametrize(("word", "state"), [("warning", 1), ("critical", 2), ("unknown", 3)])
def test_when_missing_says_what_silence_means(hand: Hand, word: str, state: State) -> None:
    add_passive(hand, every="1m", phase="0s", when_missing=word)
    add_passive(hand, "ttl", every="1d", when_missing=word)
    add_passive(hand, "begun", every="1d", when_missing=word)
    tell(hand, name="ttl", ttl=MINUTE)
    hand.beat.passive.begin(hand.row("begun"), Instant(hand.now))
    live(hand, 3 * MINUTE)
    found = [(c.state, c.hard, c.outcome) for c in map(hand.condition, ("a", "ttl", "begun"))]
    assert found == [(state, True, "failed"), (state, True, "failed"), (state, True, "timeboxed")]


# A command for when no result came


def add_with_command(hand: Hand, name: str = "a", **keys: Any) -> None:
    add_passive(hand, name, **{"every": "1m", "phase": "0s", "command": ["check"], **keys})


def test_a_command_runs_when_no_result_came_and_its_result_counts(hand: Hand) -> None:
    add_with_command(hand)
    live(hand, 30 * SECOND)
    tell(hand)
    (run,) = hand.advance(2 * MINUTE)
    assert (run.kind, run.nominal, run.check) == (RunKind.FRESHNESS, T0 + 135 * SECOND, True)
    assert kinds(hand) == [RunKind.TOLD, RunKind.FRESHNESS]
    found = hand.condition("a")
    assert (found.state, found.outcome) == (State.OK, Outcome.SUCCEEDED)
    assert (hand.beat.passive.missing_count, hand.beat.passive.stale_rows) == (1, set())
    assert hand.store.skips() == []


def test_it_does_not_run_while_results_come(hand: Hand) -> None:
    add_with_command(hand)
    for _ in range(60):
        live(hand, MINUTE)
        tell(hand)
    assert kinds(hand) == [RunKind.TOLD] * 60


def test_its_failure_is_a_hard_problem_and_it_runs_again_for_a_later_time(hand: Hand) -> None:
    add_with_command(hand)
    while not hand.under_way:
        hand.turn(SECOND)
    assert hand.now == T0 + 76 * SECOND, "it is looked at a second before, in a turn of its own"
    hand.end("a", Outcome.FAILED, 2, output=b"no backup")
    hand.turn()
    found = hand.condition("a")
    assert (found.state, found.hard, found.output) == (State.CRITICAL, True, "no backup")
    assert [run.kind for run in hand.advance(3 * MINUTE)] == [RunKind.FRESHNESS]


def test_it_obeys_pause_and_period_and_may_be_forced(hand: Hand) -> None:
    hand.periods(work=Period(ranges=("00:00-00:30",)))
    add_with_command(hand, "paused")
    add_with_command(hand, "closed", period="work", timebox="20s", grace="5m")
    hand.pause("paused")
    made = hand.advance(HOUR)
    assert {run.name for run in made} == {"closed"}
    assert max(run.nominal for run in made) < T0 + 30 * MINUTE
    # Its last times were looked at after the period had closed: all that can be said is that nothing came.
    assert (hand.condition("closed").state, kinds(hand, "closed")[-1]) == (State.CRITICAL, RunKind.STALE)
    assert hand.beat.passive.stale_rows == {hand.row("closed")}
    hand.force("closed", "paused")
    assert sorted(run.name for run in hand.advance(MINUTE)) == ["closed", "paused"]
    assert (hand.condition("closed").state, hand.beat.passive.stale_rows) == (State.OK, set())


def test_a_planned_run_outlives_the_node(hand: Hand) -> None:
    hand = Hand(slots=1)
    hand.add("busy", every="1d", phase="10s", timebox="1h")
    add_with_command(hand)
    hand.turn(10 * SECOND)
    assert list(hand.under_way) == ["busy"]
    for _ in range(75):
        hand.turn(SECOND)
    assert (hand.progress("a").extra, hand.progress("a").extra_kind) == (T0 + 75 * SECOND, RunKind.FRESHNESS)
    hand.restart(after=SECOND)
    assert (RunKind.FRESHNESS, "a") in [(run.kind, run.name) for run in hand.advance(10 * SECOND)]


def test_a_heartbeat_that_does_not_end_and_a_result_that_is_too_old_have_it_run_too(hand: Hand) -> None:
    add_with_command(hand, "begun", every="1d", phase="12h")
    add_with_command(hand, "ttl", every="1d", phase="12h")
    tell(hand, name="ttl", ttl=MINUTE)
    hand.beat.passive.begin(hand.row("begun"), Instant(hand.now))
    made = hand.advance(2 * MINUTE)
    assert [(run.name, run.kind, run.nominal) for run in made] == [
        ("begun", RunKind.FRESHNESS, T0 + 10 * SECOND),
        ("ttl", RunKind.FRESHNESS, T0 + MINUTE),
    ]
    assert (hand.condition("begun").state, hand.condition("ttl").state) == (State.OK, State.OK)


def test_a_check_that_runs_by_its_schedule_runs_when_a_submitted_result_is_too_old(hand: Hand) -> None:
    hand.add("a", every="1h", phase="30m", check=True)
    hand.advance(10 * SECOND)
    tell(hand, 2, ttl=5 * MINUTE)
    assert [run.kind for run in hand.advance(6 * MINUTE)] == [RunKind.FRESHNESS]
    assert hand.condition("a").state == State.OK


def test_a_command_that_comes_or_goes_changes_what_is_planned(hand: Hand) -> None:
    add_with_command(hand)
    hand.turn(30 * SECOND)
    hand.set("a", passive=True, every="1m", phase="0s", timebox="10s", grace="5s")
    live(hand, 3 * MINUTE)
    assert set(kinds(hand)) == {RunKind.STALE}
    hand.set("a", passive=True, every="1m", phase="0s", timebox="10s", grace="5s", command=["x"])
    assert [run.kind for run in hand.advance(2 * MINUTE)] == [RunKind.FRESHNESS]


# A result that is good for some time only


def test_a_result_is_good_for_its_ttl(hand: Hand) -> None:
    hand.add("a", every="1h", phase="30m", passive=True)
    hand.advance(10 * SECOND)
    tell(hand, ttl=MINUTE)
    hand.advance(30 * SECOND)
    tell(hand, ttl=MINUTE)
    hand.advance(59 * SECOND)
    assert stale_at(hand) == []
    hand.advance(2 * SECOND)
    assert stale_at(hand) == [100]
    assert runs(hand)[-1].output.endswith("that one was good for 1m")
    hand.advance(5 * MINUTE)
    assert stale_at(hand) == [100], "once"


def test_one_without_a_ttl_ends_that_of_the_one_before(hand: Hand) -> None:
    add_passive(hand, every="1h")
    tell(hand, ttl=MINUTE)
    live(hand, 30 * SECOND)
    tell(hand)
    live(hand, 10 * MINUTE)
    assert kinds(hand) == [RunKind.TOLD] * 2


def test_what_is_over_is_not_remembered_again(hand: Hand) -> None:
    add_passive(hand, every="1h")
    passive, row = hand.beat.passive, hand.row("a")
    tell(hand, ttl=MINUTE)
    passive.begin(row, Instant(hand.now))
    until = passive.good_until(row)
    assert until is not None
    live(hand, 2 * MINUTE)
    assert {run.outcome for run in runs(hand)} >= {Outcome.TIMEBOXED}
    passive.restore_ttl(row, *until)
    passive.restore_begun(row, T0)
    assert (passive.good_until(row), passive.begun_rows) == (None, {})


# Begun and not ended


def test_what_begins_and_ends_has_a_duration(hand: Hand) -> None:
    add_passive(hand, every="1h", timebox="10m")
    hand.beat.passive.begin(hand.row("a"), Instant(hand.now))
    live(hand, 5 * MINUTE)
    hand.beat.passive.end(hand.row("a"), 0, "done", Instant(hand.now))
    (run,) = runs(hand)
    assert (run.started, run.ended, run.state) == (T0, T0 + 5 * MINUTE, State.OK)
    live(hand, 20 * MINUTE)
    assert kinds(hand) == [RunKind.TOLD]


def test_what_begins_and_does_not_end_is_critical(hand: Hand) -> None:
    add_passive(hand, every="1h", timebox="10m")
    hand.beat.passive.begin(hand.row("a"), Instant(hand.now))
    live(hand, 11 * MINUTE)
    (run,) = runs(hand)
    assert (run.outcome, run.state, run.started) == (Outcome.TIMEBOXED, State.CRITICAL, T0)
    assert "has not ended within its timebox of 10m" in run.output


# What ends while its check is paused


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("keys", [{"passive": True, "every": "1d"}, {"check": True, "every": "1d", "phase": "12h"}])
def test_a_ttl_that_ends_during_a_pause_is_looked_at_when_the_check_is_resumed(
    hand: Hand, keys: dict[str, Any], *, restarts: bool
) -> None:
    hand.add("a", **keys)
    hand.advance(SECOND)
    until = tell(hand, ttl=MINUTE).result_at + MINUTE
    before = kinds(hand)
    hand.pause("a")
    live(hand, 10 * MINUTE)
    if restarts:
        hand.restart(after=SECOND)
        hand.beat.passive.restore_ttl(hand.row("a"), until, until - MINUTE)
        live(hand, MINUTE)
    assert kinds(hand) == before
    hand.pause("a", paused=False)
    hand.advance(SECOND)
    assert kinds(hand)[len(before) :] == [RunKind.STALE if "passive" in keys else RunKind.FRESHNESS]


def test_a_newer_result_during_the_pause_ends_the_ttl(hand: Hand) -> None:
    add_passive(hand, every="1d")
    tell(hand, ttl=MINUTE)
    hand.pause("a")
    live(hand, 10 * MINUTE)
    tell(hand)
    hand.pause("a", paused=False)
    live(hand, 10 * MINUTE)
    assert kinds(hand) == [RunKind.TOLD] * 2


def test_a_heartbeat_that_should_have_ended_during_a_pause_is_looked_at_when_the_check_is_resumed(hand: Hand) -> None:
    for name in ("silent", "ended"):
        add_passive(hand, name, every="1d")
        hand.beat.passive.begin(hand.row(name), Instant(hand.now))
    hand.pause("silent", "ended")
    live(hand, 10 * MINUTE)
    hand.beat.passive.end(hand.row("ended"), 0, "", Instant(hand.now))
    hand.pause("silent", "ended", paused=False)
    live(hand, SECOND)
    (run,) = runs(hand, "silent")
    assert (run.outcome, run.state, run.started) == (Outcome.TIMEBOXED, State.CRITICAL, T0)
    (run,) = runs(hand, "ended")
    assert (run.state, run.started) == (State.OK, T0)


# Stops, clocks and changes


def test_after_a_stop_nobody_is_called_stale_before_senders_had_a_chance(hand: Hand) -> None:
    for i in range(20):
        add_passive(hand, f"c{i}", every="1m")
    for _ in range(3):
        live(hand, MINUTE)
        for i in range(20):
            tell(hand, name=f"c{i}")
    hand.restart(after=HOUR)
    live(hand, 59 * SECOND)
    assert [run.kind for run in hand.store.runs(most=1_000)] == [RunKind.TOLD] * 60
    assert {skip.reason for skip in hand.store.skips()} == {"missed while stopped"}
    for i in range(19):
        tell(hand, name=f"c{i}")
    live(hand, 2 * MINUTE)
    stale = [run for run in hand.store.runs(most=1_000) if run.kind is RunKind.STALE]
    assert {run.task for run in stale} >= {"c19"}
    assert stale[-1].task == "c19"
    assert stale[-1].claimed == T0 + 3 * MINUTE + HOUR + 75 * SECOND


def test_a_short_stop_between_two_results_excuses_nobody(hand: Hand) -> None:
    """Else a node that is restarted every day would never miss a daily result."""
    add_passive(hand, every="1d", phase="12h")
    live(hand, 6 * HOUR, MINUTE)
    tell(hand)
    for _ in range(4):
        live(hand, 17 * HOUR, MINUTE)
        hand.node.membership.store_clock()
        hand.restart(after=5 * SECOND)
        live(hand, 7 * HOUR, MINUTE)
    assert len(stale_at(hand)) == 3
    assert DAY / SECOND < stale_at(hand)[0] < 2 * DAY / SECOND


def test_a_machine_that_slept_is_a_stop(hand: Hand) -> None:
    add_passive(hand, every="1m", phase="0s")
    live(hand, 2 * MINUTE)
    tell(hand)
    hand.now += HOUR
    hand.node.membership.handle_standstill(HOUR)
    live(hand, 50 * SECOND)
    tell(hand)
    live(hand, 30 * SECOND)
    assert kinds(hand) == [RunKind.STALE, RunKind.TOLD, RunKind.TOLD]
    (skip,) = hand.store.skips()
    assert (skip.reason, skip.times) == ("missed while stopped", 60)


def test_a_clock_that_is_set_back_makes_nobody_stale(hand: Hand) -> None:
    add_passive(hand, every="1m")
    tell(hand)
    for _ in range(3):
        live(hand, MINUTE)
        tell(hand, ttl=2 * MINUTE)
    hand.clock_is_set(-HOUR)
    for _ in range(3):
        live(hand, MINUTE)
        assert tell(hand).made == State.OK
    assert set(kinds(hand)) == {RunKind.TOLD}
    live(hand, 5 * MINUTE)
    assert RunKind.STALE in kinds(hand)


def test_an_active_check_becomes_passive_and_active_again(hand: Hand) -> None:
    hand.add("a", check=True, every="1m", phase="0s")
    assert len(hand.advance(3 * MINUTE)) >= 3
    hand.set("a", every="1m", phase="0s", passive=True)
    live(hand, 3 * MINUTE)
    assert RunKind.STALE in kinds(hand)
    hand.set("a", every="1m", phase="0s", command=["true"])
    assert len(hand.advance(3 * MINUTE)) >= 3
    assert hand.condition("a").state == State.OK


def test_whoever_gets_the_row_of_a_removed_check_has_none_of_its_alarms(hand: Hand) -> None:
    add_passive(hand, every="1h")
    tell(hand, ttl=MINUTE)
    hand.beat.passive.begin(hand.row("a"), Instant(hand.now))
    row = hand.row("a")
    hand.remove("a")
    add_passive(hand, "b", every="1h")
    assert hand.row("b") == row
    live(hand, 10 * MINUTE)
    assert hand.store.runs(hand.desk.find_or_raise("b").number) == []


@settings(max_examples=60, deadline=None)
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
    hand = Hand()
    add_passive(hand, every=f"{every}s", phase=f"{phase}s", timebox="10s", grace="5s")
    times = [offset % every + 7 + k * every + jitter[k] for k in range(silent_from)]
    last = times[-1] if times else 0
    end = (silent_from + 4) * every + 60
    for second in range(end):
        hand.now = T0 + second * SECOND
        hand.turn()
        if second in times:
            tell(hand)
    hand.turn()
    found = stale_at(hand)
    assert all(t > last for t in found), "nobody who comes in time is ever stale"
    assert found, "and silence is noticed"
    assert found[0] <= last + 2 * every + 15 + 7 + 1
    assert len(set(found)) == len(found)
    # Each nominal time was settled once, up to the one that is still awaited.
    assert T0 + (end - 1 - 15) * SECOND < hand.columns.nominal[hand.row("a")] <= T0 + (end + every) * SECOND
