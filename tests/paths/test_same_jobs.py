"""Retries, tasks that run after others, and stopped runs are the same by every path: live or stopped, by hand or in a
file, with restarts, kills and handovers, on every store.

Random histories are played twice, as in `test_same_timetable`: straight ahead on a store in memory, and by detours.
"""

from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from budget import IS_FULL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from path_events import Beginning, Behave, Detour, Edit, Force, Pass, Pause, Start, Step, StopRun, Way, begin, play
from path_stores import EmptyDatabase, Stores, memory, postgres, sqlite
from path_world import T0, WatchedMemory, World

from evenbeat.model import RunKind
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.postgres_server import PostgresServer

EXAMPLES = {"memory": 1_000, "sqlite": 300, "postgres": 100} if IS_FULL else {"memory": 15, "sqlite": 5, "postgres": 3}
JOBS: Final[dict[str, dict[str, Any]]] = {
    "a": {"every": "10s", "phase": "0s", "retries": 2, "backoff": "1s"},
    "b": {"after": ["a"]},
    "c": {"after_failure": ["a"]},
    "d": {"after": ["b"], "retries": 1, "backoff": "1s"},
}
BEGINNING: Final = Beginning(JOBS, frozenset(), (), T0)
names = st.sampled_from(sorted(JOBS))
job_steps = st.builds(
    Step,
    st.one_of(
        st.builds(Pass, st.sampled_from((1, 2, 5, 13, 61))),
        st.builds(Pass, st.sampled_from((1, 2, 5, 13))),
        st.builds(Behave, names, st.sampled_from((0, 2, (0, 2), (2, 0))), st.sampled_from((0, 0, 3))),
        st.builds(Force, names),
        st.builds(StopRun, names),
        st.builds(Pause, names, st.booleans()),
        st.builds(
            Edit, st.just("a"), st.sampled_from([{"retries": 1}, {"retries": 2}, {"every": "20s", "phase": "0s"}])
        ),
    ),
    st.sampled_from(Way),
    st.sampled_from(Detour),
)
histories = st.lists(job_steps, min_size=2, max_size=12)


@pytest.fixture(scope="module")
def empty_database(newest_postgres: PostgresServer) -> EmptyDatabase:
    dsn = newest_postgres.create_database()
    PostgresStore(dsn).close()
    return EmptyDatabase(dsn)


def played(history: list[Step], store: object, *, straight: bool) -> World:
    world = World(store, BEGINNING.at)
    begin(world, BEGINNING)
    for step in [*history, Step(Start()), Step(Pass(61))]:
        play(world, step, straight=straight)
        judge(world)
    return world


def judge(world: World) -> None:
    """A chain never runs twice for a nominal time, and no retry comes without a run before it."""
    for name in JOBS:
        runs = [run for run in world.history.ran if run.task == name]
        chained = Counter(run.nominal for run in runs if run.kind is RunKind.CHAIN)
        assert not chained or max(chained.values()) == 1, (name, chained)
        for i, run in enumerate(runs):
            assert run.kind is not RunKind.RETRY or run.nominal == runs[i - 1].nominal, (name, run)


def became_of(world: World, name: str) -> tuple[object, ...]:
    """The runs of a task, and how they ended."""
    runs = [(run.nominal, run.kind) for run in world.history.ran if run.task == name]
    return runs, [ended.outcome for ended in world.history.ended if ended.task == name]


def must_be_the_same(history: list[Step], stores: Stores) -> None:
    straight = played(history, WatchedMemory(), straight=True)
    with stores() as store:
        detoured = played(history, store, straight=False)
        for name in JOBS:
            assert became_of(detoured, name) == became_of(straight, name), name


FAILS, WORKS = Step(Behave("a", 2, 0)), Step(Behave("a", 0, 0))
KNOWN: Final = {
    "a retry that waits, and restarts": [FAILS, Step(Pass(10)), WORKS, Step(Pass(13), detour=Detour.RESTART)],
    "a failure for good, and another node": [FAILS, Step(Pass(13)), Step(Pass(13), detour=Detour.HAND_OVER)],
    "a chain of three, and a kill": [Step(Pass(10)), Step(Pass(13), detour=Detour.KILL)],
    "a run that is stopped, and restarts": [
        *(Step(Behave("a", 2, 3)), Step(Pass(10)), Step(StopRun("a"))),
        *(WORKS, Step(Pass(13), detour=Detour.RESTART)),
    ],
    "a retry that is stopped, and a kill": [
        *(FAILS, Step(Pass(10)), Step(StopRun("a")), WORKS),
        Step(Pass(13), detour=Detour.KILL),
    ],
}


@pytest.mark.parametrize("what", KNOWN)
def test_known_histories(what: str) -> None:
    must_be_the_same(KNOWN[what], memory)


def test_the_histories_have_what_they_are_about() -> None:
    worlds = [played(history, WatchedMemory(), straight=True) for history in KNOWN.values()]
    kinds = {run.kind for world in worlds for run in world.history.ran}
    assert {RunKind.RETRY, RunKind.CHAIN} <= kinds
    outcomes = {ended.outcome for world in worlds for ended in world.history.ended}
    assert {"cancelled", "failed", "succeeded"} <= outcomes
    assert {run.task for world in worlds for run in world.history.ran} == set(JOBS)


@given(histories)
@settings(max_examples=EXAMPLES["memory"])
def test_in_memory(history: list[Step]) -> None:
    must_be_the_same(history, memory)


@given(history=histories)
@settings(max_examples=EXAMPLES["sqlite"], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_on_sqlite(tmp_path: Path, history: list[Step]) -> None:
    must_be_the_same(history, sqlite(tmp_path))


@given(history=histories)
@settings(max_examples=EXAMPLES["postgres"], suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_on_postgresql(empty_database: EmptyDatabase, history: list[Step]) -> None:
    must_be_the_same(history, postgres(empty_database))
