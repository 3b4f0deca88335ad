"""Who is in downtime is the same by every path: set live, stopped, in a file or through another node; with handovers.

Random histories are played twice: straight ahead on a store in memory, and by detours on each kind of store. After each
step both have the same tasks in downtime, by the flags of the live node and by what a report reads in the store.
"""

from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from budget import IS_FULL
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from path_stores import EmptyDatabase, Stores, memory, postgres, sqlite
from path_world import WatchedMemory, World

from evenbeat.admin.downtimes import change_downtimes
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.core.task import Flag
from evenbeat.load.config import Config
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.downtimes import downtime_from_table
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Period, Task
from evenbeat.report.downtimes import DowntimeReader
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries
from evenbeat.wire.replies import ChangeResult
from evenbeat.wire.requests import AddDowntime, EndDowntime

EXAMPLES = {"memory": 60, "sqlite": 25, "postgres": 10} if IS_FULL else {"memory": 15, "sqlite": 6, "postgres": 3}
NAMES = ("web1", "web2", "db", "lb")
HOURS = (("00:00-01:00",), ("00:30-02:00", "03:00-04:00"))


class Way(Enum):
    """How a change reaches the scheduler."""

    LIVE = 0
    STOPPED = 1
    ELSEWHERE = 2
    HANDED_OVER = 3


class Step(NamedTuple):
    what: str
    way: Way
    i: int
    j: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(("begin", "later", "labels", "end", "declare", "label", "depends", "hours", "wait")),
        st.sampled_from(Way),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    min_size=2,
    max_size=10,
)


class Played:
    """A world in which downtimes are set, and tasks edited, as the steps say."""

    def __init__(self, store: Any) -> None:
        self.world = World(store)
        self.known: list[str] = []
        self.keys: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
        admin = self.world.other_admin()
        for i, name in enumerate(NAMES):
            self.world.keys[name] = {}
            admin.add([self.task(name)], ("ana", "bo")[i % 2], "ana")
        admin.set_periods({"night": Period(HOURS[0])}, "ana", "ana")
        self.world.start()

    def task(self, name: str) -> Task:
        return task_from_table(
            name, {"every": "1h", "phase": "30m", "command": ["true"], **self.keys[name]}, check=True
        )

    def step(self, step: Step, way: Way) -> None:
        world = self.world
        world.now += SECOND
        change = self.change_of(step)
        match way if change is not None else Way.LIVE:
            case Way.STOPPED:
                world.stop()
                assert change is not None
                change(world.admin())
                world.start()
            case Way.ELSEWHERE:
                assert change is not None
                world.elsewhere(change)
            case Way.HANDED_OVER | Way.LIVE:
                if change is not None:
                    change(world.admin())
                    world.learn()
                if way is Way.HANDED_OVER:
                    world.hand_over()
        world.turn()

    def change_of(self, step: Step) -> Callable[[TaskAdmin], ChangeResult] | None:
        _, _, i, j = step
        name, now = NAMES[i], self.world.now
        match step.what:
            case "begin":
                return self.add((("web*", "*b", name)[j % 3],), end=Instant(now + HOUR), dependents=j > 0)
            case "later":
                start = Instant(now + j * 20 * MINUTE)
                return self.add((name,), start=start, end=Instant(start + HOUR), period="night" if i % 2 else None)
            case "labels":
                return self.add(
                    (), labels={"site": "ab"[j % 2]}, owner="bo" if i % 2 else None, end=Instant(now + HOUR)
                )
            case "end" if self.known:
                id_ = self.known.pop(i % len(self.known))
                return lambda admin: change_downtimes(admin, EndDowntime(id_, "ana"))
            case "declare":
                return lambda admin: admin.apply_config("file", declared(name, j), "ana")
            case "label" | "depends":
                return self.edit(step)
            case "hours":
                period = Period(HOURS[j % 2])
                return lambda admin: admin.set_periods({"night": period}, "ana", "ana")
            case "wait":
                self.world.now += (1 + j) * 15 * MINUTE
                self.known.clear()
        return None

    def add(self, names: tuple[str, ...], **keys: Any) -> Callable[[TaskAdmin], ChangeResult]:
        def add(admin: TaskAdmin) -> ChangeResult:
            changed = change_downtimes(admin, AddDowntime("ana", names, **keys))
            assert changed.downtime is not None
            self.known.append(changed.downtime.id)
            return changed

        return add

    def edit(self, step: Step) -> Callable[[TaskAdmin], ChangeResult] | None:
        low, high = min(step.i, step.j), max(step.i, step.j)
        if step.what == "depends" and low != high:
            self.keys[NAMES[high]]["depends"] = [NAMES[low]]
        elif step.what == "label":
            high = step.i
            self.keys[NAMES[high]]["labels"] = {"site": "ab"[step.j % 2]}
        task = self.task(NAMES[high])
        return lambda admin: admin.set(task.name, task, "ana")

    def in_downtime(self) -> set[str]:
        """By the flags of the live node, which are what a report says."""
        node = self.world.node
        assert node is not None
        rows = node.tasks.all_rows()
        found = set(node.tasks.names.names(rows[node.tasks.columns.flags[rows] & int(Flag.DOWNTIME) != 0]))
        store = self.world.store
        assert found == set(DowntimeReader(store, Instant(self.world.now)).of(list(store.entries())))
        return found


def declared(name: str, j: int) -> Config:
    """A file that has one downtime, or none."""
    table = {"names": [name], "from": "2020-01-01", "dependents": j == 1}
    downtime = downtime_from_table(DocumentErrors(), ("downtimes", 0), table)
    assert downtime is not None
    return Config((), {}, {}, None, downtimes=(downtime,) if j % 2 else ())


def must_be_the_same(history: list[Step], stores: Stores) -> None:
    straight = Played(WatchedMemory())
    with stores() as store:
        detoured = Played(store)
        for step in history:
            straight.step(step, Way.LIVE)
            detoured.step(step, step.way)
            assert detoured.in_downtime() == straight.in_downtime()


QUICK = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(QUICK, max_examples=EXAMPLES["memory"])
@given(history=STEPS)
def test_in_memory(history: list[Step]) -> None:
    must_be_the_same(history, memory)


@settings(QUICK, max_examples=EXAMPLES["sqlite"])
@given(history=STEPS)
def test_in_sqlite(history: list[Step], tmp_path: Path) -> None:
    must_be_the_same(history, sqlite(tmp_path))


@pytest.fixture(scope="module")
def empty_database(newest_postgres: PostgresServer) -> EmptyDatabase:
    dsn = newest_postgres.create_database()
    PostgresStore(dsn).close()
    return EmptyDatabase(dsn)


@pytest.mark.skipif(not find_postgres_binaries(), reason="there is no PostgreSQL")
@settings(QUICK, max_examples=EXAMPLES["postgres"])
@given(history=STEPS)
def test_in_postgresql(history: list[Step], empty_database: EmptyDatabase) -> None:
    must_be_the_same(history, postgres(empty_database))
