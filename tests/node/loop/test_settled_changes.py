"""Changes count from their own instant on: made while a node lives, while none does, in a file, or just before a crash.

Each history is played in several ways, and what runs and is skipped afterwards must be the same.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hand_driven_node import T0, Hand

from evenbeat.load.config import Config
from evenbeat.load.task_keys import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Period, RunKind
from evenbeat.node.answers.task_state import next_run_time
from evenbeat.store.contract import FOREVER, Filter

KEYS: dict[str, Any] = {"command": ["true"]}
Play = Callable[[Hand, Callable[[], None]], None]


def live(hand: Hand, edit: Callable[[], None]) -> None:
    """A node takes the change over at once."""
    edit()
    hand.restart()


def stopped(hand: Hand, edit: Callable[[], None]) -> None:
    """No node is running while it is made."""
    hand.desk.on_changed = lambda _: None
    edit()
    hand.restart()


@pytest.fixture(params=[live, stopped])
def play(request: pytest.FixtureRequest) -> Play:
    found: Play = request.param
    return found


def kinds(hand: Hand, length: int, step: int = SECOND) -> list[tuple[RunKind, int]]:
    """What begins meanwhile: its kind, and when it is due."""
    return [(RunKind(run.kind), (run.nominal - T0) // SECOND) for run in hand.advance(length, step=step)]


def skipped(hand: Hand) -> list[tuple[int, int, str]]:
    """First second, how many, why; oldest first."""
    return [((s.first - T0) // SECOND, s.times, s.reason) for s in reversed(hand.store.skips())]


def periods(hand: Hand, some: dict[str, Period]) -> None:
    hand.desk.set_periods(some, "ana", "ana")
    hand.node.apply_changes()


def edited(hand: Hand, name: str, **keys: Any) -> Callable[[], None]:
    def edit() -> None:
        hand.set(name, **keys, **KEYS)

    return edit


class TestSchedules:
    def test_a_shorter_interval(self, play: Play) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="30m")
        hand.advance(MINUTE)
        play(hand, edited(hand, "a", every="10s", phase="0s"))
        assert hand.condition("a").next_run == T0 + 70 * SECOND
        assert kinds(hand, 20 * SECOND) == [(RunKind.GRID, 70), (RunKind.GRID, 80)]
        assert skipped(hand) == []

    def test_another_cron_entry_and_another_zone(self, play: Play) -> None:
        hand = Hand()
        hand.add("a", cron="0 0 1 1 *", second=0)
        play(hand, edited(hand, "a", cron="* * * * *", second=0))
        assert kinds(hand, MINUTE) == [(RunKind.GRID, 60)]
        play(hand, edited(hand, "a", cron="30 1 * * *", second=0, zone="Europe/London"))
        assert hand.condition("a").next_run == T0 + 30 * MINUTE  # London is an hour ahead in October

    def test_a_start_that_is_asked_for_while_nothing_runs(self, play: Play) -> None:
        hand = Hand()
        hand.add("a", every="10s", phase="0s")
        hand.advance(11 * SECOND)
        play(hand, edited(hand, "a", every="10s", phase="0s", start_at="2024-10-04T00:01:05"))
        assert hand.condition("a").next_run == T0 + 65 * SECOND
        assert kinds(hand, MINUTE) == [(RunKind.START_AT, 65), (RunKind.GRID, 70)]
        assert skipped(hand) == [(20, 5, "postponed by start_at")]

    def test_a_start_that_is_given_up(self, play: Play) -> None:
        hand = Hand()
        hand.add("a", every="10s", phase="0s", start_at="2024-10-04T01:00")
        hand.advance(15 * SECOND)
        play(hand, edited(hand, "a", every="10s", phase="0s"))
        assert kinds(hand, 20 * SECOND) == [(RunKind.GRID, 20), (RunKind.GRID, 30)]
        assert skipped(hand) == [(10, 1, "postponed by start_at")]

    def test_a_one_off_gets_another_time(self, play: Play) -> None:
        hand = Hand()
        hand.add("a", at="2024-10-04T00:00:10")
        assert kinds(hand, 20 * SECOND) == [(RunKind.GRID, 10)]
        play(hand, edited(hand, "a", at="2024-10-04T00:01:00"))
        assert kinds(hand, MINUTE) == [(RunKind.GRID, 60)]

    def test_a_period_is_changed(self, play: Play) -> None:
        hand = Hand()
        periods(hand, {"p": Period(ranges=("12:00-13:00",))})
        hand.add("a", every="10m", phase="0s", period="p")
        hand.advance(HOUR, step=MINUTE)
        play(hand, lambda: periods(hand, {"p": Period(ranges=("01:00-02:00",))}))
        assert hand.condition("a").next_run == T0 + 70 * MINUTE
        assert kinds(hand, 15 * MINUTE) == [(RunKind.GRID, 4200)]
        assert skipped(hand) == []

    def test_a_pause(self, play: Play) -> None:
        hand = Hand()
        hand.add("a", every="10s", phase="0s")
        play(hand, lambda: hand.pause("a", paused=True))
        hand.advance(25 * SECOND)
        assert hand.condition("a").next_run is None
        play(hand, lambda: hand.pause("a", paused=False))
        assert kinds(hand, 10 * SECOND) == [(RunKind.GRID, 30)]
        assert skipped(hand) == [(10, 2, "disabled")]


class TestThePastIsSettledByTheOldDefinition:
    def test_what_was_missed_before_the_change_is_made_up_for(self) -> None:
        hand = Hand()
        hand.add("a", every="10s", phase="0s")
        hand.desk.on_changed = lambda _: None
        hand.now += 35 * SECOND
        hand.set("a", every="1h", phase="30m", **KEYS)
        hand.restart(after=MINUTE)
        assert skipped(hand) == [(10, 3, "missed while stopped")]
        assert [kind for kind, _ in kinds(hand, 30 * MINUTE, MINUTE)] == [RunKind.CATCH_UP, RunKind.GRID]

    def test_times_before_the_change_are_none_of_the_new_schedule(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="30m")
        hand.desk.on_changed = lambda _: None
        hand.now += 10 * MINUTE
        hand.set("a", every="10s", phase="0s", **KEYS)
        hand.restart(after=25 * SECOND)
        assert skipped(hand) == [(610, 2, "missed while stopped")]

    def test_several_changes_are_settled_one_after_the_other(self) -> None:
        hand = Hand()
        hand.add("a", every="10s", phase="0s", missed="skip")
        hand.desk.on_changed = lambda _: None
        for length, change in (
            (15, lambda: hand.pause("a", paused=True)),
            (20, lambda: hand.pause("a", paused=False)),
            (10, lambda: hand.set("a", every="8s", phase="0s", missed="skip", **KEYS)),
        ):
            hand.now += length * SECOND
            change()
        hand.restart(after=10 * SECOND)
        assert skipped(hand) == [
            (10, 1, "missed while stopped"),
            (20, 2, "disabled"),
            (40, 1, "missed while stopped"),
            (48, 1, "missed while stopped"),
        ]
        assert kinds(hand, 5 * SECOND) == [(RunKind.GRID, 56)]

    def test_a_period_that_was_closed_then_has_nothing_to_make_up_for(self) -> None:
        hand = Hand()
        periods(hand, {"p": Period(ranges=("12:00-13:00",))})
        hand.add("a", every="10m", phase="0s", period="p")
        hand.desk.on_changed = lambda _: None
        hand.now += HOUR
        periods(hand, {"p": Period()})
        hand.restart(after=15 * MINUTE)
        assert skipped(hand) == [(4200, 1, "missed while stopped")]

    def test_a_period_that_goes_with_the_change_counted_until_then(self) -> None:
        hand = Hand()
        keys = {"every": "10m", "phase": "0s", **KEYS}
        inside = task_from_table("a", {**keys, "period": "p"}, check=False)
        hand.desk.apply_config("f", Config((inside,), {"p": Period(ranges=("12:00-13:00",))}, {}, None), "")
        hand.node.apply_changes()
        hand.desk.on_changed = lambda _: None
        hand.now += HOUR
        hand.desk.apply_config("f", Config((task_from_table("a", keys, check=False),), {}, {}, None), "")
        hand.restart(after=15 * MINUTE)
        assert skipped(hand) == [(4200, 1, "missed while stopped")]

    def test_nothing_is_left_to_settle_once_a_node_has_seen_it(self, play: Play) -> None:
        hand = Hand()
        hand.add("a", every="10s", phase="0s")
        play(hand, edited(hand, "a", every="20s", phase="0s"))
        play(hand, lambda: periods(hand, {"p": Period()}))
        assert list(hand.store.past_definitions()) == []

    def test_a_task_that_no_node_has_seen_has_nothing_to_settle(self) -> None:
        hand = Hand()
        hand.desk.on_changed = lambda _: None
        hand.add("a", every="1h", phase="0s")
        hand.now += 2 * HOUR
        hand.set("a", every="10s", phase="0s", **KEYS)
        hand.restart(after=MINUTE)
        assert (skipped(hand), list(hand.store.past_definitions())) == ([], [])
        assert [kind for kind, _ in kinds(hand, 10 * SECOND)] == [RunKind.GRID]

    def test_a_start_that_was_asked_for_when_it_was_created_and_has_passed(self) -> None:
        hand = Hand()
        hand.desk.on_changed = lambda _: None
        hand.add("a", every="1h", phase="0s", start_at="2024-10-04T00:05")
        hand.restart(after=10 * MINUTE)
        assert [kind for kind, _ in kinds(hand, 5 * SECOND)] == [RunKind.START_AT]


class TestWhatIsDecidedIsKept:
    def test_a_refused_start_does_not_come_back_with_the_next_node(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="0s", start_at="2024-10-04T00:01")
        hand.pause("a", paused=True)
        hand.advance(2 * MINUTE)
        assert hand.progress("a").extra == FOREVER
        hand.pause("a", paused=False)
        hand.restart()
        assert kinds(hand, MINUTE) == []
        assert len([skip for skip in hand.store.skips() if skip.kind is RunKind.START_AT]) == 1

    def test_a_new_check_outside_its_period_is_due_when_it_opens(self) -> None:
        hand = Hand()
        periods(hand, {"p": Period(ranges=("12:00-13:00",))})
        hand.add("a", check=True, every="10m", phase="0s", period="p")
        for _ in range(2):
            hand.advance(MINUTE)
            assert hand.condition("a").next_run == T0 + 12 * HOUR
            hand.restart()
        assert hand.store.skips() == []

    def test_an_interrupted_catch_up_goes_on_after_a_pause_and_a_crash(self) -> None:
        hand = Hand()
        hand.add("a", every="10m", phase="0s", missed="all")
        hand.restart(after=35 * MINUTE)
        assert [run.nominal for run in hand.turn()] == [T0 + 10 * MINUTE]
        hand.end("a")
        hand.pause("a", paused=True)
        hand.turn()
        hand.restart()
        hand.advance(6 * MINUTE)
        hand.restart()
        hand.pause("a", paused=False)
        hand.restart()
        made = []
        for _ in range(5):
            made += [(run.nominal - T0) // MINUTE for run in hand.advance(3 * SECOND)]
            assert made == [20, 30]
        assert skipped(hand) == [(2400, 1, "disabled")]


def test_every_answer_to_when_next_is_the_same(play: Play) -> None:
    hand = Hand()
    periods(hand, {"p": Period(ranges=("06:00-07:00",))})
    tasks: dict[str, dict[str, Any]] = {
        "interval": {"every": "1h", "phase": "1m"},
        "period": {"every": "5m", "phase": "0s", "period": "p"},
        "later": {"every": "1h", "phase": "0s", "start_at": "2024-10-04T05:00"},
        "outside": {"every": "1h", "phase": "0s", "start_at": "2024-10-04T05:00", "period": "p"},
        "cron": {"cron": "7 * * * *", "second": 0},
    }

    def add() -> None:
        for name, keys in tasks.items():
            hand.desk.add([task_from_table(name, {**keys, **KEYS}, check=False)], "me", "")

    play(hand, add)
    hand.turn()
    rows = {name: hand.roster.row_or_raise(hand.desk.find_or_raise(name).number) for name in tasks}
    expected = {"interval": 1, "period": 360, "later": 300, "outside": 360, "cron": 7}
    for name, row in rows.items():
        answers = {hand.condition(name).next_run, next_run_time(hand.node, row)}
        if name != "outside":  # the timetable has the start that will be refused
            answers.add(Instant(int(hand.roster.columns.due[row])))
        assert answers == {T0 + expected[name] * MINUTE}, name
    assert list(hand.store.entries(Filter(state="disabled"))) == []


def test_a_catch_up_that_is_left_to_the_grid_is_made_if_the_grid_moves_away(play: Play) -> None:
    hand = Hand()
    hand.add("a", every="1m", phase="0s")
    hand.restart(after=115 * SECOND)
    assert hand.condition("a").next_run == T0 + 2 * MINUTE, "near enough to make up for what was missed"
    play(hand, edited(hand, "a", every="1h", phase="30m"))
    assert [kind for kind, _ in kinds(hand, MINUTE)] == [RunKind.CATCH_UP]
