"""What is unreachable is so by every path: live or stopped, by hand or in a file, with restarts, kills and handovers.

Random histories of two checks and a task that depends on them are played twice, as in `test_same_timetable`. After each
step the flags of the live node are what a report derives from the store alone; and straight ahead or by detours, on
whatever store, the same tasks are unreachable, and the same nominal times are skipped for it.
"""

from pathlib import Path
from typing import Any

import pytest
from budget import IS_FULL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from path_events import (
    Beginning,
    Behave,
    Detour,
    Edit,
    End,
    Force,
    Kill,
    Pass,
    Pause,
    Remove,
    Return,
    Start,
    Step,
    Stop,
    Way,
    begin,
    play,
)
from path_stores import EmptyDatabase, Stores, memory, postgres, sqlite
from path_timetable import timetable
from path_world import T0, WatchedMemory, World

from evenbeat.core.task import Flag
from evenbeat.model import Instant
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import ALL_TASKS
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.postgres_server import PostgresServer

EXAMPLES = {"memory": 1_000, "sqlite": 300, "postgres": 100} if IS_FULL else {"memory": 15, "sqlite": 5, "postgres": 3}
NAMES = ("a", "b", "c")
"""Two checks, and a task that is none; each depends only on those before it."""
CHECKS = frozenset("ab")

some_names = st.sampled_from(NAMES)
some_checks = st.sampled_from(sorted(CHECKS))
parents = st.lists(some_checks, min_size=1, max_size=2, unique=True)
dependencies: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(lambda names: {"depends": names}, parents),
    st.builds(lambda names: {"depends_any": names}, parents),
    st.sampled_from([{"depends": None}, {"depends_any": None}]),
    st.sampled_from([{"when_unreachable": "skip"}, {"when_unreachable": "run"}]),
)
lengths = st.builds(Pass, st.sampled_from((1, 5, 13, 61)))
fails = st.builds(Behave, some_checks, st.sampled_from((0, 1, 2, 2, 3)), st.sampled_from((0, 0, 4, None)))
events = st.one_of(
    lengths,
    fails,
    st.builds(Edit, some_names, dependencies),
    lengths,
    st.builds(Edit, some_names, dependencies),
    fails,
    st.builds(Edit, some_names, st.sampled_from([{"every": "3s", "phase": "1s"}, {"every": "10s", "phase": "0s"}])),
    st.builds(Pause, some_names, st.booleans()),
    st.builds(Force, some_names),
    st.builds(End, some_names),
    st.builds(Remove, some_names, st.booleans()),
    st.builds(Return, some_names),
    st.just(Stop()),
    st.builds(Kill, st.booleans()),
    st.just(Start()),
)
steps = st.builds(Step, events, st.sampled_from(Way), st.sampled_from(Detour))
histories = st.lists(steps, min_size=3, max_size=16)
first_keys = st.builds(
    lambda every, keys: {"every": f"{every}s", "phase": "1s", "missed": "skip"} | keys,
    st.sampled_from((3, 7, 10, 60)),
    dependencies,
)


def possible(world: World, event: object) -> object | None:
    """The event, without what would be refused; None if nothing is left."""
    match event:
        case Remove(name) if any(name in parents_of(world, other) for other in set(NAMES) - world.gone - {name}):
            return None
        case Return(name) if set(parents_of(world, name)) & world.gone:
            return None
        case Edit(name, keys):
            allowed = [check for check in NAMES[: NAMES.index(name)] if check in CHECKS and check not in world.gone]
            for key in keys.keys() & {"depends", "depends_any"}:
                left = [check for check in keys[key] or () if check in allowed]
                keys = {**keys, key: left or None}
            after = {**world.keys.get(name, {}), **keys}
            if not after.get("depends") and not after.get("depends_any"):
                keys = {**keys, "when_unreachable": None}
            return Edit(name, keys)
    return event


def parents_of(world: World, name: str) -> list[str]:
    keys = world.keys[name]
    return [*keys.get("depends", ()), *keys.get("depends_any", ())]


def unreachable_by_node(world: World) -> set[str]:
    assert world.node is not None
    tasks = world.node.tasks
    rows = tasks.all_rows()
    return set(tasks.names.names(rows[tasks.columns.flags[rows] & int(Flag.REACHABLE) == 0]))


def unreachable_by_store(world: World) -> dict[str, tuple[str, ...]]:
    found = ConditionReader(world.store, Instant(world.now)).conditions(ALL_TASKS)
    return {one.entry.task.name: one.unreachable_through for one in found if one.unreachable_through}


class Played(World):
    """A world, and what was unreachable in it after each step."""

    unreachable: list[dict[str, tuple[str, ...]]]


def played(beginning: Beginning, history: list[Step], store: object, *, straight: bool) -> Played:
    world = Played(store, beginning.at)
    world.unreachable = []
    begin(world, Beginning({name: {"every": "10s", "phase": "0s"} for name in NAMES}, CHECKS, (), beginning.at))
    first = [Step(Edit(name, keys)) for name, keys in beginning.keys.items()]
    for step in [*first, *history, Step(Start()), Step(Pass(130))]:
        event = possible(world, step.event)
        if event is None:
            event = Pass(1)
        play(world, step._replace(event=event), straight=straight)  # type: ignore[arg-type]
        world.unreachable.append(unreachable_by_store(world))
        if world.is_up:
            assert unreachable_by_node(world) == world.unreachable[-1].keys()
    return world


def must_be_the_same(beginning: Beginning, history: list[Step], stores: Stores) -> None:
    straight = played(beginning, history, WatchedMemory(), straight=True)
    with stores() as store:
        detoured = played(beginning, history, store, straight=False)
        assert detoured.unreachable == straight.unreachable
        for name in NAMES:
            if name not in straight.gone:
                assert timetable(detoured, name) == timetable(straight, name)
                assert detoured.condition(name) == straight.condition(name)


beginnings = st.builds(
    Beginning,
    st.fixed_dictionaries(dict.fromkeys(NAMES, first_keys)),
    st.just(CHECKS),
    st.just(()),
    st.just(T0),
)
SKIPS: dict[str, dict[str, Any]] = {
    "a": {"attempts": 1},
    "b": {"attempts": 1, "depends": ["a"]},
    "c": {"depends": ["b"], "when_unreachable": "skip"},
}
BREAKS, RECOVERS = (Step(Behave("a", 2, 0)), Step(Pass(23))), (Step(Behave("a", 0, 0)), Step(Pass(13)))
KNOWN: dict[str, list[Step]] = {
    "a restart": [*BREAKS, Step(Pass(13), detour=Detour.RESTART), *RECOVERS],
    "a kill": [*BREAKS, Step(Pass(13), detour=Detour.KILL), *RECOVERS],
    "another node": [*BREAKS, Step(Pass(13), detour=Detour.HAND_OVER), *RECOVERS],
    "another file": [*BREAKS, Step(Pass(13), detour=Detour.MOVE), *RECOVERS],
    "a pause of what fails, while stopped": [*BREAKS, Step(Pause("a", True), Way.RESTART), Step(Pass(13))],
    "other dependencies, killed before it knew": [
        *BREAKS,
        Step(Edit("b", {"depends": None}), Way.KILLED),
        Step(Pass(13)),
    ],
    "other dependencies, in a file": [*BREAKS, Step(Edit("c", {"depends": ["a"]}), Way.FILE), Step(Pass(13))],
    "a task that goes and comes back": [*BREAKS, Step(Remove("c", True)), Step(Return("c")), Step(Pass(13))],
    "a check that hangs": [
        *BREAKS,
        Step(Behave("a", 0, None)),
        Step(Pass(61), detour=Detour.HAND_OVER),
        Step(End("a")),
    ],
}


@pytest.mark.parametrize("what", KNOWN)
def test_known_histories(what: str) -> None:
    beginning = Beginning(SKIPS, CHECKS, (), T0)
    must_be_the_same(beginning, KNOWN[what], memory)
    world = played(beginning, KNOWN[what], WatchedMemory(), straight=False)
    assert {"b": ("a",), "c": ("b",)} in world.unreachable
    assert "unreachable" in {skipped.reason for skipped in world.history.skipped}


@given(beginnings, histories)
@settings(max_examples=EXAMPLES["memory"])
def test_in_memory(beginning: Beginning, history: list[Step]) -> None:
    must_be_the_same(beginning, history, memory)


@given(beginning=beginnings, history=histories)
@settings(max_examples=EXAMPLES["sqlite"], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_on_sqlite(tmp_path: Path, beginning: Beginning, history: list[Step]) -> None:
    must_be_the_same(beginning, history, sqlite(tmp_path))


@pytest.fixture(scope="module")
def empty_database(newest_postgres: PostgresServer) -> EmptyDatabase:
    dsn = newest_postgres.create_database()
    PostgresStore(dsn).close()
    return EmptyDatabase(dsn)


@given(beginning=beginnings, history=histories)
@settings(max_examples=EXAMPLES["postgres"])
def test_on_postgres(empty_database: EmptyDatabase, beginning: Beginning, history: list[Step]) -> None:
    must_be_the_same(beginning, history, postgres(empty_database))
