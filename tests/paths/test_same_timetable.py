"""However a change reaches a scheduler, on whatever store, and whatever restarts there are between: the timetable from
then on is the same, and every nominal time is accounted for once, truly.

Random histories are played twice. Straight ahead: every change is made by the live node, on a store in
memory. And by detours: while the node is stopped, in a file, through another node, killed before it heard of it; with
restarts, kills, handovers and moves between files at every step where nothing runs. Both lead to the same timetable,
and both are judged by an oracle that knows nothing of evenbeat.
"""

from contextlib import closing
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
    Hours,
    Pass,
    Pause,
    Start,
    Step,
    Stop,
    Way,
    begin,
    beginnings,
    comings_and_goings,
    play,
    steps,
)
from path_oracle import Oracle
from path_stores import CopyingSqlite, EmptyDatabase, Stores, memory, postgres, sqlite
from path_timetable import timetable
from path_world import PERIOD, WatchedMemory, World

from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.postgres_server import PostgresServer

EXAMPLES = {"memory": 2_000, "sqlite": 500, "postgres": 200} if IS_FULL else {"memory": 24, "sqlite": 8, "postgres": 4}
LAST = 130
"""Seconds for which the timetable is compared after everything that happened."""

histories = st.lists(steps, min_size=2, max_size=14)


@pytest.fixture(scope="module")
def empty_database(newest_postgres: PostgresServer) -> EmptyDatabase:
    dsn = newest_postgres.create_database()
    PostgresStore(dsn).close()
    return EmptyDatabase(dsn)


def played(beginning: Beginning, history: list[Step], store: object, *, straight: bool) -> World:
    world = World(store, beginning.at)
    begin(world, beginning)
    for step in history:
        play(world, step, straight=straight)
        if straight and world.is_up and world.is_idle:
            assert world.next_times_after_restart() == world.next_times()
    play(world, Step(Start()))
    play(world, Step(Pass(LAST)))
    return world


def must_be_the_same(beginning: Beginning, history: list[Step], stores: Stores) -> None:
    straight = played(beginning, history, WatchedMemory(), straight=True)
    with stores() as store:
        detoured = played(beginning, history, store, straight=False)
        for name in beginning.keys:
            # Of two that wait for the same limit since the same moment either may be the first.
            if not straight.in_the_way(name) and not detoured.in_the_way(name):
                assert timetable(detoured, name) == timetable(straight, name)
                assert detoured.condition(name) == straight.condition(name)
            assert Oracle(straight.task_history(name)).judge() == []
            assert Oracle(detoured.task_history(name)).judge() == []


TEN = {"every": "10s", "phase": "0s"}
SOFT = {"every": "300s", "phase": "2s", "retry": "2s", "attempts": 9}
NEVER_YET = {"cron": "7 2 * * *", "second": 0, "zone": "UTC"}
MINUTELY = {"cron": "* * * * *", "second": 0}
SHORT = ("00:00:20-00:00:40", "00:01:30-23:00")
FAILS, HANGS = Behave("a", 2, 0), Behave("a", 0, None)


def only(keys: dict[str, Any], *, check: bool = False, **more: Any) -> Beginning:
    return Beginning({"a": keys | more}, frozenset("a" if check else ""), ())


KNOWN: dict[str, tuple[Beginning, list[Step]]] = {
    "an interval edited while stopped": (
        only(TEN),
        [Step(Edit("a", {"every": "3s", "phase": "1s"}), Way.RESTART)],
    ),
    "a cron entry edited in a file before a restart": (
        only(NEVER_YET),
        [Step(Edit("a", MINUTELY), Way.FILE_RESTART)],
    ),
    "start_at set while stopped": (
        only(TEN),
        [Step(Edit("a", {"start_at": 30}), Way.RESTART)],
    ),
    "a period edited while stopped": (
        only(TEN, period=PERIOD),
        [Step(Hours(("00:10-24:00",)), Way.RESTART)],
    ),
    "an edit in the middle of a stop": (
        only({"every": "60s", "phase": "0s"}),
        [Step(Stop()), Step(Pass(200)), Step(Edit("a", TEN)), Step(Pass(13))],
    ),
    "a refused first run": (
        only(TEN, check=True, enabled=False),
        [Step(Pass(1), detour=Detour.RESTART)],
    ),
    "a refused start_at": (
        only(TEN, start_at=4.5),
        [Step(Pause("a", True)), Step(Pass(5)), Step(Pause("a", False)), Step(Pass(1), detour=Detour.KILL)],
    ),
    "a SOFT check that is paused": (
        only(SOFT, check=True),
        [Step(FAILS), Step(Pass(5)), Step(Pause("a", True)), Step(Pass(5)), Step(Pause("a", False)), Step(Pass(13))],
    ),
    "a SOFT check that is paused, and a restart": (
        only(SOFT, check=True),
        [
            *(Step(FAILS), Step(Pass(5)), Step(Pause("a", True)), Step(Pass(5))),
            *(Step(Pass(1), detour=Detour.RESTART), Step(Pause("a", False))),
        ],
    ),
    "a SOFT check whose period closes": (
        only(SOFT, check=True, period=PERIOD),
        [Step(FAILS), Step(Pass(5)), Step(Hours(SHORT)), Step(Pass(13))],
    ),
    "a pause while missed times are made up for": (
        only(TEN, missed="all"),
        [
            *(Step(Stop()), Step(Pass(61)), Step(Start())),
            *(Step(Pause("a", True)), Step(Pass(1)), Step(Pause("a", False)), Step(Pass(5))),
        ],
    ),
    "a move between files while it runs": (
        only(TEN),
        [Step(HANGS), Step(Force("a")), Step(Pass(13), detour=Detour.MOVE)],
    ),
    "a forced run that waits, as start_at does, when another node takes over": (
        only(MINUTELY, start_at=100.5),
        [Step(Behave("a", 0, 4)), Step(Force("a")), Step(Force("a")), Step(End("a"), detour=Detour.HAND_OVER)],
    ),
    "a missed start_at that is left to the grid, and a restart": (
        only({"every": "7s", "phase": "2s"}, start_at=4.5),
        [Step(Stop()), Step(Pass(15)), Step(Hours(SHORT), Way.RESTART)],
    ),
    "a forced run while it waits for start_at": (
        only({"every": "7s", "phase": "1s"}, start_at=30),
        [Step(Force("a")), Step(Edit("a", {"start_at": 4.5}))],
    ),
}


@pytest.mark.parametrize("what", KNOWN)
def test_known_histories(what: str) -> None:
    """What used to go wrong."""
    must_be_the_same(*KNOWN[what], memory)


@given(beginnings, histories)
@settings(max_examples=EXAMPLES["memory"])
def test_in_memory(beginning: Beginning, history: list[Step]) -> None:
    must_be_the_same(beginning, history, memory)


@given(beginning=beginnings, history=histories)
@settings(max_examples=EXAMPLES["sqlite"], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_on_sqlite(tmp_path: Path, beginning: Beginning, history: list[Step]) -> None:
    must_be_the_same(beginning, history, sqlite(tmp_path))


@given(beginning=beginnings, history=histories)
@settings(max_examples=EXAMPLES["sqlite"], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_on_sqlite_with_copies_of_definitions(tmp_path: Path, beginning: Beginning, history: list[Step]) -> None:
    must_be_the_same(beginning, history, sqlite(tmp_path, CopyingSqlite))


def test_a_restart_gets_definitions_from_the_copy(tmp_path: Path) -> None:
    """Otherwise the histories above would compare nothing."""
    with closing(CopyingSqlite(tmp_path / "a.db")) as store:
        history = [Step(Pass(5), detour=Detour.RESTART), Step(Pass(5), detour=Detour.KILL)]
        played(only(TEN), history, store, straight=False)
        # The first scheduler starts without tasks, the second one leaves a copy.
        assert [copy.used for copy in store.copies] == [0, 0, 1]


@given(beginning=beginnings, history=histories)
@settings(max_examples=EXAMPLES["postgres"])
def test_on_postgres(empty_database: EmptyDatabase, beginning: Beginning, history: list[Step]) -> None:
    must_be_the_same(beginning, history, postgres(empty_database))


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_stores_tell_the_same(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The same history, kills included, leaves the same behind in every store."""
    stores = sqlite(tmp_path) if store == "sqlite" else postgres(request.getfixturevalue("empty_database"))

    @given(beginnings, histories)
    @settings(max_examples=EXAMPLES[store] // 2)
    def same(beginning: Beginning, history: list[Step]) -> None:
        model = played(beginning, history, WatchedMemory(), straight=False)
        with stores() as other:
            world = played(beginning, history, other, straight=False)
            assert world.contents() == model.contents()

    same()


@given(beginnings, st.lists(comings_and_goings, min_size=4, max_size=14))
@settings(max_examples=EXAMPLES["memory"] // 2)
def test_a_name_never_runs_twice_at_once(beginning: Beginning, history: list[Step]) -> None:
    """Tasks go and come back, by hand and with their files, while they run and while they do not; `World.dispatch`
    looks whether the name runs already.
    """
    for straight in (True, False):
        world = played(beginning, history, WatchedMemory(), straight=straight)
        runs = [claim.task for claim in world.history.ran]
        ends = [end.task for end in world.history.ended]
        assert all(runs.count(name) - ends.count(name) in (0, 1) for name in beginning.keys)
