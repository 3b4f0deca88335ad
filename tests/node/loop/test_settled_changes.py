"""Changes count from their own instant on: made while a node lives, while none does, in a file, or just before a crash.

Each history is played in several ways, and what runs and is skipped afterwards must be the same.
"""

from collections.abc import Callable
from typing import Any

import pytest
from hand_driven_node import T0, HandDrivenNode

from evenbeat.load.config import Config
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Period, RunKind
from evenbeat.node.answers.task_state import next_run_time
from evenbeat.store.contract import FOREVER, Filter

KEYS: dict[str, Any] = {"command": ["true"]}
Play = Callable[[HandDrivenNode, Callable[[], None]], None]


def live(driven: HandDrivenNode, edit: Callable[[], None]) -> None:
    """A node takes the change over at once."""
    edit()
    driven.restart()


def stopped(driven: HandDrivenNode, edit: Callable[[], None]) -> None:
    """No node is running while it is made."""
    driven.admin.on_changed = lambda _: None
    edit()
    driven.restart()


@pytest.fixture(params=[live, stopped])
def play(request: pytest.FixtureRequest) -> Play:
    found: Play = request.param
    return found


def kinds(driven: HandDrivenNode, length: int, step: int = SECOND) -> list[tuple[RunKind, int]]:
    """What begins meanwhile: its kind, and when it is due."""
    return [(RunKind(run.kind), (run.nominal - T0) // SECOND) for run in driven.advance(length, step=step)]


def skipped(driven: HandDrivenNode) -> list[tuple[int, int, str]]:
    """First second, how many, why; oldest first."""
    return [((s.first - T0) // SECOND, s.times, s.reason) for s in reversed(driven.store.skips())]


def periods(driven: HandDrivenNode, some: dict[str, Period]) -> None:
    driven.admin.set_periods(some, "ana", "ana")
    driven.node.apply_changes()


def edited(driven: HandDrivenNode, name: str, **keys: Any) -> Callable[[], None]:
    def edit() -> None:
        driven.set(name, **keys, **KEYS)

    return edit


class TestSchedules:
    def test_a_shorter_interval(self, play: Play) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="30m")
        driven.advance(MINUTE)
        play(driven, edited(driven, "a", every="10s", phase="0s"))
        assert driven.condition("a").next_run == T0 + 70 * SECOND
        assert kinds(driven, 20 * SECOND) == [(RunKind.GRID, 70), (RunKind.GRID, 80)]
        assert skipped(driven) == []

    def test_another_cron_entry_and_another_zone(self, play: Play) -> None:
        driven = HandDrivenNode()
        driven.add("a", cron="0 0 1 1 *", second=0)
        play(driven, edited(driven, "a", cron="* * * * *", second=0))
        assert kinds(driven, MINUTE) == [(RunKind.GRID, 60)]
        play(driven, edited(driven, "a", cron="30 1 * * *", second=0, zone="Europe/London"))
        assert driven.condition("a").next_run == T0 + 30 * MINUTE  # London is an hour ahead in October

    def test_a_start_that_is_asked_for_while_nothing_runs(self, play: Play) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10s", phase="0s")
        driven.advance(11 * SECOND)
        play(driven, edited(driven, "a", every="10s", phase="0s", start_at="2024-10-04T00:01:05"))
        assert driven.condition("a").next_run == T0 + 65 * SECOND
        assert kinds(driven, MINUTE) == [(RunKind.START_AT, 65), (RunKind.GRID, 70)]
        assert skipped(driven) == [(20, 5, "postponed by start_at")]

    def test_a_start_that_is_given_up(self, play: Play) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10s", phase="0s", start_at="2024-10-04T01:00")
        driven.advance(15 * SECOND)
        play(driven, edited(driven, "a", every="10s", phase="0s"))
        assert kinds(driven, 20 * SECOND) == [(RunKind.GRID, 20), (RunKind.GRID, 30)]
        assert skipped(driven) == [(10, 1, "postponed by start_at")]

    def test_a_one_off_gets_another_time(self, play: Play) -> None:
        driven = HandDrivenNode()
        driven.add("a", at="2024-10-04T00:00:10")
        assert kinds(driven, 20 * SECOND) == [(RunKind.GRID, 10)]
        play(driven, edited(driven, "a", at="2024-10-04T00:01:00"))
        assert kinds(driven, MINUTE) == [(RunKind.GRID, 60)]

    def test_a_period_is_changed(self, play: Play) -> None:
        driven = HandDrivenNode()
        periods(driven, {"p": Period(ranges=("12:00-13:00",))})
        driven.add("a", every="10m", phase="0s", period="p")
        driven.advance(HOUR, step=MINUTE)
        play(driven, lambda: periods(driven, {"p": Period(ranges=("01:00-02:00",))}))
        assert driven.condition("a").next_run == T0 + 70 * MINUTE
        assert kinds(driven, 15 * MINUTE) == [(RunKind.GRID, 4200)]
        assert skipped(driven) == []

    def test_a_pause(self, play: Play) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10s", phase="0s")
        play(driven, lambda: driven.pause("a", paused=True))
        driven.advance(25 * SECOND)
        assert driven.condition("a").next_run is None
        play(driven, lambda: driven.pause("a", paused=False))
        assert kinds(driven, 10 * SECOND) == [(RunKind.GRID, 30)]
        assert skipped(driven) == [(10, 2, "disabled")]


class TestThePastIsSettledByTheOldDefinition:
    def test_what_was_missed_before_the_change_is_made_up_for(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10s", phase="0s")
        driven.admin.on_changed = lambda _: None
        driven.now += 35 * SECOND
        driven.set("a", every="1h", phase="30m", **KEYS)
        driven.restart(after=MINUTE)
        assert skipped(driven) == [(10, 3, "missed while stopped")]
        assert [kind for kind, _ in kinds(driven, 30 * MINUTE, MINUTE)] == [RunKind.CATCH_UP, RunKind.GRID]

    def test_times_before_the_change_are_none_of_the_new_schedule(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="30m")
        driven.admin.on_changed = lambda _: None
        driven.now += 10 * MINUTE
        driven.set("a", every="10s", phase="0s", **KEYS)
        driven.restart(after=25 * SECOND)
        assert skipped(driven) == [(610, 2, "missed while stopped")]

    def test_several_changes_are_settled_one_after_the_other(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10s", phase="0s", missed="skip")
        driven.admin.on_changed = lambda _: None
        for length, change in (
            (15, lambda: driven.pause("a", paused=True)),
            (20, lambda: driven.pause("a", paused=False)),
            (10, lambda: driven.set("a", every="8s", phase="0s", missed="skip", **KEYS)),
        ):
            driven.now += length * SECOND
            change()
        driven.restart(after=10 * SECOND)
        assert skipped(driven) == [
            (10, 1, "missed while stopped"),
            (20, 2, "disabled"),
            (40, 1, "missed while stopped"),
            (48, 1, "missed while stopped"),
        ]
        assert kinds(driven, 5 * SECOND) == [(RunKind.GRID, 56)]

    def test_a_period_that_was_closed_then_has_nothing_to_make_up_for(self) -> None:
        driven = HandDrivenNode()
        periods(driven, {"p": Period(ranges=("12:00-13:00",))})
        driven.add("a", every="10m", phase="0s", period="p")
        driven.admin.on_changed = lambda _: None
        driven.now += HOUR
        periods(driven, {"p": Period()})
        driven.restart(after=15 * MINUTE)
        assert skipped(driven) == [(4200, 1, "missed while stopped")]

    def test_a_period_that_goes_with_the_change_counted_until_then(self) -> None:
        driven = HandDrivenNode()
        keys = {"every": "10m", "phase": "0s", **KEYS}
        inside = task_from_table("a", {**keys, "period": "p"}, check=False)
        driven.admin.apply_config("f", Config((inside,), {"p": Period(ranges=("12:00-13:00",))}, {}, None), "")
        driven.node.apply_changes()
        driven.admin.on_changed = lambda _: None
        driven.now += HOUR
        driven.admin.apply_config("f", Config((task_from_table("a", keys, check=False),), {}, {}, None), "")
        driven.restart(after=15 * MINUTE)
        assert skipped(driven) == [(4200, 1, "missed while stopped")]

    def test_nothing_is_left_to_settle_once_a_node_has_seen_it(self, play: Play) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10s", phase="0s")
        play(driven, edited(driven, "a", every="20s", phase="0s"))
        play(driven, lambda: periods(driven, {"p": Period()}))
        assert list(driven.store.past_definitions()) == []

    def test_a_task_that_no_node_has_seen_has_nothing_to_settle(self) -> None:
        driven = HandDrivenNode()
        driven.admin.on_changed = lambda _: None
        driven.add("a", every="1h", phase="0s")
        driven.now += 2 * HOUR
        driven.set("a", every="10s", phase="0s", **KEYS)
        driven.restart(after=MINUTE)
        assert (skipped(driven), list(driven.store.past_definitions())) == ([], [])
        assert [kind for kind, _ in kinds(driven, 10 * SECOND)] == [RunKind.GRID]

    def test_a_start_that_was_asked_for_when_it_was_created_and_has_passed(self) -> None:
        driven = HandDrivenNode()
        driven.admin.on_changed = lambda _: None
        driven.add("a", every="1h", phase="0s", start_at="2024-10-04T00:05")
        driven.restart(after=10 * MINUTE)
        assert [kind for kind, _ in kinds(driven, 5 * SECOND)] == [RunKind.START_AT]


class TestWhatIsDecidedIsKept:
    def test_a_refused_start_does_not_come_back_with_the_next_node(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="0s", start_at="2024-10-04T00:01")
        driven.pause("a", paused=True)
        driven.advance(2 * MINUTE)
        assert driven.progress("a").extra == FOREVER
        driven.pause("a", paused=False)
        driven.restart()
        assert kinds(driven, MINUTE) == []
        assert len([skip for skip in driven.store.skips() if skip.kind is RunKind.START_AT]) == 1

    def test_a_new_check_outside_its_period_is_due_when_it_opens(self) -> None:
        driven = HandDrivenNode()
        periods(driven, {"p": Period(ranges=("12:00-13:00",))})
        driven.add("a", check=True, every="10m", phase="0s", period="p")
        for _ in range(2):
            driven.advance(MINUTE)
            assert driven.condition("a").next_run == T0 + 12 * HOUR
            driven.restart()
        assert driven.store.skips() == []

    def test_an_interrupted_catch_up_goes_on_after_a_pause_and_a_crash(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10m", phase="0s", missed="all")
        driven.restart(after=35 * MINUTE)
        assert [run.nominal for run in driven.turn()] == [T0 + 10 * MINUTE]
        driven.end("a")
        driven.pause("a", paused=True)
        driven.turn()
        driven.restart()
        driven.advance(6 * MINUTE)
        driven.restart()
        driven.pause("a", paused=False)
        driven.restart()
        made = []
        for _ in range(5):
            made += [(run.nominal - T0) // MINUTE for run in driven.advance(3 * SECOND)]
            assert made == [20, 30]
        assert skipped(driven) == [(2400, 1, "disabled")]


def test_every_answer_to_when_next_is_the_same(play: Play) -> None:
    driven = HandDrivenNode()
    periods(driven, {"p": Period(ranges=("06:00-07:00",))})
    tasks: dict[str, dict[str, Any]] = {
        "interval": {"every": "1h", "phase": "1m"},
        "period": {"every": "5m", "phase": "0s", "period": "p"},
        "later": {"every": "1h", "phase": "0s", "start_at": "2024-10-04T05:00"},
        "outside": {"every": "1h", "phase": "0s", "start_at": "2024-10-04T05:00", "period": "p"},
        "cron": {"cron": "7 * * * *", "second": 0},
    }

    def add() -> None:
        for name, keys in tasks.items():
            driven.admin.add([task_from_table(name, {**keys, **KEYS}, check=False)], "me", "")

    play(driven, add)
    driven.turn()
    rows = {name: driven.tasks.row_or_raise(driven.admin.find_or_raise(name).number) for name in tasks}
    expected = {"interval": 1, "period": 360, "later": 300, "outside": 360, "cron": 7}
    for name, row in rows.items():
        answers = {driven.condition(name).next_run, next_run_time(driven.node, row)}
        if name != "outside":  # the timetable has the start that will be refused
            answers.add(Instant(int(driven.tasks.columns.due[row])))
        assert answers == {T0 + expected[name] * MINUTE}, name
    assert list(driven.store.entries(Filter(state="disabled"))) == []


def test_a_catch_up_that_is_left_to_the_grid_is_made_if_the_grid_moves_away(play: Play) -> None:
    driven = HandDrivenNode()
    driven.add("a", every="1m", phase="0s")
    driven.restart(after=115 * SECOND)
    assert driven.condition("a").next_run == T0 + 2 * MINUTE, "near enough to make up for what was missed"
    play(driven, edited(driven, "a", every="1h", phase="30m"))
    assert [kind for kind, _ in kinds(driven, MINUTE)] == [RunKind.CATCH_UP]
