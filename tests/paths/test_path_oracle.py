"""The oracle can fail: books that are right, and the same books cooked."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pytest
from path_events import Beginning, Behave, Detour, Edit, Event, Pass, Pause, Start, Step, Stop
from path_model import SECOND
from path_oracle import Oracle, Ran, TaskHistory
from path_stores import memory
from path_world import T0, WatchedMemory
from test_same_timetable import KNOWN, must_be_the_same, played

from evenbeat.store.contract import FOREVER, PastDefinition, TaskProgress

BEGINNING = Beginning({"a": {"every": "10s", "phase": "0s", "retry": "2s", "attempts": 9}}, frozenset("a"), ())
EVENTS: list[Event] = [
    *(Pass(13), Pause("a", True), Pass(13), Pause("a", False), Pass(5)),
    *(Stop(), Pass(61), Edit("a", {"every": "60s", "phase": "31s"}), Start(), Pass(13)),
    *(Behave("a", 2, 0), Pass(61)),
]
HISTORY = [Step(event) for event in EVENTS]


def book() -> TaskHistory:
    return played(BEGINNING, HISTORY, WatchedMemory(), straight=True).task_history("a")


def without(task_history: TaskHistory, is_gone: Callable[[Ran], bool]) -> TaskHistory:
    return task_history._replace(ran=[ran for ran in task_history.ran if not is_gone(ran)])


def cooked(task_history: TaskHistory) -> Iterator[tuple[str, TaskHistory]]:
    grid = [ran for ran in task_history.ran if ran.kind == "grid"]
    (catch_up,) = (ran for ran in task_history.ran if ran.kind == "catch-up")
    yield "accounted for 0 times", without(task_history, lambda ran: ran == grid[0])
    yield "two runs at once", task_history._replace(ran=sorted([*task_history.ran, grid[-1]], key=lambda ran: ran.at))
    yield "accounted for 2 times", task_history._replace(skipped=[*task_history.skipped, task_history.skipped[0]])
    moved = [ran._replace(nominal=ran.nominal + SECOND) if ran == grid[0] else ran for ran in task_history.ran]
    yield "at no nominal time", task_history._replace(ran=moved)
    reasons = [
        s._replace(reason="missed while stopped" if s.reason == "disabled" else "disabled")
        for s in task_history.skipped
    ]
    yield "a reason that is not true", task_history._replace(skipped=reasons)
    counts = [s._replace(times=s.times + 1) for s in task_history.skipped]
    yield "should be", task_history._replace(skipped=counts)
    yield "an owed run was not made", without(task_history, lambda ran: ran.step == catch_up.step)
    twice = catch_up._replace(at=catch_up.at + SECOND, nominal=catch_up.nominal + SECOND, ended=catch_up.at + SECOND)
    yield (
        "a catch-up that nobody owes",
        task_history._replace(ran=sorted([*task_history.ran, twice], key=lambda ran: ran.at)),
    )
    yield "a SOFT check was not retried", without(task_history, lambda ran: ran.kind == "retry")
    paused = grid[1]._replace(
        nominal=T0 + SECOND // 2 + 19 * SECOND, at=T0 + 19 * SECOND, ended=T0 + 20 * SECOND, step=3
    )
    yield (
        "disabled or outside its period",
        task_history._replace(ran=sorted([*task_history.ran, paused], key=lambda ran: ran.at)),
    )


def test_books_that_are_right() -> None:
    task_history = book()
    assert {ran.kind for ran in task_history.ran} >= {"grid", "catch-up", "retry"}
    assert {skipped.reason for skipped in task_history.skipped} >= {"disabled", "missed while stopped"}
    assert Oracle(task_history).judge() == []


def test_cooked_books() -> None:
    for what, task_history in cooked(book()):
        assert any(what in problem for problem in Oracle(task_history).judge()), what


class Forgetful(WatchedMemory):
    """What is planned off the grid is not there after a restart."""

    def progress(self) -> Iterator[TaskProgress]:
        return (progress._replace(extra=FOREVER) for progress in super().progress())


class Blind(WatchedMemory):
    """Nobody hears how tasks were before they were edited."""

    def past_definitions(self) -> Iterator[PastDefinition]:
        return iter(())


AWAY = [Step(Edit("a", {"start_at": 30})), Step(Pass(5), detour=Detour.RESTART)]


@pytest.mark.parametrize(
    ("store", "history"),
    [(Forgetful, AWAY), (Blind, KNOWN["an edit in the middle of a stop"][1])],
    ids=["off-grid runs", "edits"],
)
def test_a_store_that_forgets_is_found(store: type[WatchedMemory], history: list[Step]) -> None:
    beginning = KNOWN["an edit in the middle of a stop"][0]
    must_be_the_same(beginning, history, memory)
    with pytest.raises(AssertionError):
        must_be_the_same(beginning, history, lambda: nullcontext(store()))
