"""Problems are the same by every path: live or stopped, by hand or in a file, with restarts, kills and handovers.

Random histories are played twice, as in `test_same_timetable`: straight ahead on a store in memory, and by detours.
After each step a problem is open exactly if what was recorded of runs says so, and the node knows what the store has.
"""

from collections.abc import Sequence
from pathlib import Path

import pytest
from budget import IS_FULL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from path_events import (
    Become,
    Beginning,
    Behave,
    Detour,
    End,
    Force,
    Kill,
    Pass,
    Remove,
    Return,
    Start,
    Step,
    Stop,
    Way,
    begin,
    beginnings,
    play,
    problem_steps,
)
from path_stores import Stores, memory, sqlite
from path_world import T0, Ended, WatchedMemory, World

from evenbeat.model import SECOND, Cause, Outcome, State
from evenbeat.store.problem_records import ProblemRecord

EXAMPLES = {"memory": 2_000, "sqlite": 500} if IS_FULL else {"memory": 15, "sqlite": 5}

histories = st.lists(problem_steps, min_size=2, max_size=14)


class Expectation:
    """Which tasks should have an open problem, by what was recorded of their runs alone."""

    def __init__(self, names: Sequence[str]) -> None:
        self._is_open: dict[str, bool | None] = dict.fromkeys(names, False)
        """None: what was recorded does not say."""
        self._heard = 0

    def hear(self, world: World, step: Step) -> None:
        if isinstance(step.event, Become | Remove | Return):
            # Of what happens in these steps it is unknown whether it came before or after the change.
            self._is_open[step.event.task] = None
        new, self._heard = world.history.ended[self._heard :], len(world.history.ended)
        for ended in new:
            said = _check_says(ended) if ended.task in world.checks else _task_says(ended, world)
            if said != "nothing" and (said != "unknown" or not self._is_open[ended.task]):
                self._is_open[ended.task] = {"open": True, "closed": False, "unknown": None}[said]

    def verify(self, world: World) -> None:
        for name, expected in self._is_open.items():
            found = [problem for problem in world.problems(name) if problem.closed is None]
            assert len(found) <= 1
            assert expected in (None, bool(found)), (name, found)
            self._is_open[name] = bool(found)
            if found:
                assert name not in world.gone
                # A node learns of a change that was made while it was stopped when it starts.
                cause = Cause.STATE if name in world.checks else Cause.FAILED
                assert found[0].cause == cause or not world.is_up


def _check_says(ended: Ended) -> str:
    if ended.outcome == Outcome.LOST:
        return "nothing"
    if ended.hard and ended.state != State.OK:
        return "open"
    return "closed" if ended.state == State.OK and not ended.flapping else "nothing"


def _task_says(ended: Ended, world: World) -> str:
    if ended.outcome == Outcome.LOST:
        is_simple = "start_at" not in world.keys[ended.task]
        missed = {moment.keys[ended.task].get("missed", "once") for moment in world.moments}
        return "unknown" if not is_simple or len(missed) > 1 else "open" if missed == {"skip"} else "nothing"
    return "closed" if ended.outcome == Outcome.SUCCEEDED else "open"


def the_node_knows(world: World) -> None:
    """The problems of the node are those of the store."""
    if world.node is None:
        return
    tasks = world.node.tasks
    stored = [problem for name in world.keys for problem in world.problems(name) if problem.closed is None]
    states = [problem.state for problem in stored]
    assert tasks.problems.count_by_state() == {state: states.count(state) for state in State}
    opened = tasks.columns.problem_opened[tasks.problems.rows()]
    assert sorted(opened.tolist()) == sorted(problem.opened for problem in stored)


def played(beginning: Beginning, history: list[Step], store: object, *, straight: bool) -> World:
    world, expectation = World(store, beginning.at), Expectation(list(beginning.keys))
    begin(world, beginning)
    for step in [*history, Step(Start()), Step(Pass(130))]:
        play(world, step, straight=straight)
        expectation.hear(world, step)
        expectation.verify(world)
        the_node_knows(world)
    return world


def must_be_the_same(beginning: Beginning, history: list[Step], stores: Stores) -> None:
    straight = played(beginning, history, WatchedMemory(), straight=True)
    with stores() as store:
        detoured = played(beginning, history, store, straight=False)
        for name in beginning.keys:
            # Of two that wait for the same limit since the same moment either may be the first.
            if not straight.in_the_way(name) and not detoured.in_the_way(name):
                assert became_of(detoured, name) == became_of(straight, name)


def became_of(world: World, name: str) -> list[ProblemRecord]:
    """The problems of a task. Its owner depends on the way, and its output on what was lost."""
    return [replace(problem, owner="", output="") for problem in world.problems(name)]


def one(*steps: Step, check: bool = False, **keys: object) -> tuple[Beginning, list[Step]]:
    keys = {"every": "10s", "phase": "0s", **({"attempts": 1} if check else {}), **keys}
    return Beginning({"a": keys}, frozenset("a" if check else ""), (), T0), list(steps)


BREAKS, RECOVERS = (Step(Behave("a", 2, 0)), Step(Pass(13))), (Step(Behave("a", 0, 0)), Step(Pass(13)))
KNOWN = {
    "a check, and a restart": one(*BREAKS, Step(Pass(1), detour=Detour.RESTART), *RECOVERS, check=True),
    "a task, and another node": one(*BREAKS, Step(Pass(1), detour=Detour.HAND_OVER), *RECOVERS),
    "a failed task that becomes a check while stopped": one(*BREAKS, Step(Become("a"), Way.RESTART), Step(Pass(30))),
    "a check that becomes a task, killed before it knew": one(*BREAKS, Step(Become("a"), Way.KILLED), check=True),
    "a check that flaps, and restarts": one(
        Step(Behave("a", (0, 2), 0)),
        Step(Pass(200), detour=Detour.RESTART),
        Step(Pass(61), detour=Detour.KILL),
        *(RECOVERS[0], Step(Pass(61), detour=Detour.RESTART), Step(Pass(200), detour=Detour.HAND_OVER)),
        every="7s",
        check=True,
    ),
    "a run that is lost and not repeated": one(
        Step(Behave("a", 0, None)), Step(Force("a")), Step(Kill(False)), Step(Start()), missed="skip"
    ),
    "a check that is removed while it runs and comes back": one(
        *(*BREAKS, Step(Behave("a", 0, None)), Step(Force("a")), Step(Remove("a", False)), Step(Return("a"))),
        *(Step(Pass(1), detour=Detour.HAND_OVER), Step(End("a"))),
        check=True,
    ),
    "a check that is removed while the node is stopped": one(
        *BREAKS, Step(Stop()), Step(Remove("a", True)), Step(Start()), Step(Return("a")), *BREAKS, check=True
    ),
}


@pytest.mark.parametrize("what", KNOWN)
def test_known_histories(what: str) -> None:
    beginning, history = KNOWN[what]
    must_be_the_same(beginning, history, memory)


def test_the_histories_have_what_they_are_about() -> None:
    """Each known history ends with a problem in its store, and one of them is of a check that flapped."""
    for beginning, history in KNOWN.values():
        world = played(beginning, history, WatchedMemory(), straight=False)
        assert world.problems("a")
    beginning, history = KNOWN["a check that flaps, and restarts"]
    world = played(beginning, history, WatchedMemory(), straight=False)
    assert any(ended.flapping and ended.state == State.OK for ended in world.history.ended)
    last = world.problems("a")[-1]
    assert last.since > last.opened + 100 * SECOND


@given(beginnings, histories)
@settings(max_examples=EXAMPLES["memory"])
def test_in_memory(beginning: Beginning, history: list[Step]) -> None:
    must_be_the_same(beginning, history, memory)


@given(beginning=beginnings, history=histories)
@settings(max_examples=EXAMPLES["sqlite"], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_on_sqlite(tmp_path: Path, beginning: Beginning, history: list[Step]) -> None:
    must_be_the_same(beginning, history, sqlite(tmp_path))
