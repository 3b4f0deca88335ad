"""What a live node is asked for by those who show it and drive it: actions by filter, periods, numbers, what runs."""

import os
import signal
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from hand_driven_node import HandDrivenNode
from live_node import LiveNode
from waiting import eventually

from evenbeat.client.node_or_database import open_client
from evenbeat.client.socket import SocketBackend
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import MINUTE, SECOND, Invalid, Outcome, Period, RunKind, Task
from evenbeat.node.answers.running_runs import running_runs_of
from evenbeat.node.answers.status import status_of
from evenbeat.store.contract import Conflict, Filter
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.replies import AffectedTasks
from evenbeat.wire.requests import (
    ForceTasks,
    GetNodeIdentity,
    GetNodeMetrics,
    GetRunningRuns,
    PauseTasks,
    RemovePeriod,
    RemoveTasks,
    Request,
    SetPeriods,
)

WORK = Period(ranges=("monday-friday 09:00-17:00",))


def task(name: str, *, check: bool = False, **keys: Any) -> Task:
    return task_from_table(name, {"every": "1h", "command": ["echo", name], **keys}, check=check)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def node(database: Path) -> Iterator[LiveNode]:
    with LiveNode(database) as node:
        yield node


@pytest.fixture
def backend(node: LiveNode) -> Iterator[SocketBackend]:
    backend = SocketBackend(node.database)
    yield backend
    backend.close()


def add(node: LiveNode, *tasks: Task) -> None:
    with node.client() as client:
        client.add(tasks, "cli")


# Actions by filter


def test_tasks_are_forced_paused_and_removed_by_what_fits(node: LiveNode, backend: SocketBackend) -> None:
    add(node, task("web/a"), task("Web/b"), task("disk"))
    only = Filter(contains="WEB")
    reply = backend.ask(ForceTasks(("disk", "web/a"), "ana", wait=True, only=only))
    assert [ended.task for ended in reply.ended or []] == ["disk", "web/a", "Web/b"]
    assert reply.touched == AffectedTasks(3, ["disk", "web/a", "Web/b"])
    reply = backend.ask(PauseTasks(only, paused=True, who="ana", briefly=True))
    assert reply.touched == AffectedTasks(2, ["Web/b", "web/a"])
    assert reply.changed is None
    reply = backend.ask(PauseTasks(Filter(), paused=True, who="ana", briefly=True))
    assert reply.touched == AffectedTasks(1, ["disk"], unchanged=2)
    assert backend.ask(RemoveTasks(only, "ana", briefly=True)).touched == AffectedTasks(2, ["Web/b", "web/a"])
    with node.client() as client:
        status = client.status()
    assert status is not None
    assert (status.tasks, status.disabled, status.runs) == (1, 1, 3)


def test_a_short_answer_names_a_hundred(node: LiveNode, backend: SocketBackend) -> None:
    add(node, *(task(f"t{i:03}") for i in range(120)))
    touched = backend.ask(ForceTasks((), "ana", only=Filter(contains="t"))).touched
    assert touched is not None
    assert touched.count == 120
    assert touched.names == [f"t{i:03}" for i in range(100)]


# Periods


def test_a_period_comes_changes_and_goes_while_the_node_lives(node: LiveNode, backend: SocketBackend) -> None:
    backend.ask(SetPeriods({"work": WORK, "rest": Period(exclude=("work",))}, "ana"))
    add(node, task("a", period="work"))
    assert node.node.tasks.periods.keys() >= {"work", "rest"}
    before = node.node.tasks.periods["work"]
    backend.ask(SetPeriods({"work": Period(ranges=("saturday 00:00-24:00",))}, "bob"))
    assert node.node.tasks.periods["work"] is not before, "tasks are due by the new one"
    with pytest.raises(Conflict, match="period 'rest'"):
        backend.ask(RemovePeriod("work", "bob"))
    backend.ask(SetPeriods({"rest": Period()}, "bob"))
    with pytest.raises(Conflict, match="task 'a'"):
        backend.ask(RemovePeriod("work", "bob"))
    backend.ask(RemoveTasks(Filter(), "ana"))
    backend.ask(RemovePeriod("rest", "ana"))
    changed = backend.ask(RemovePeriod("work", "ana")).changed
    assert changed is not None
    assert changed.settings
    with pytest.raises(Invalid, match="no period 'work'"):
        backend.ask(RemovePeriod("work", "ana"))
    store = SqliteStore(node.database, read_only=True)
    assert store.periods() == {}
    assert {change.who for change in store.changes() if change.name == "period work"} == {"ana", "bob"}
    store.close()


def test_a_bad_period_is_refused_and_nothing_is_changed(node: LiveNode, backend: SocketBackend) -> None:
    backend.ask(SetPeriods({"work": WORK}, "ana"))
    for bad in ({"work": Period(ranges=("noneday 09:00",))}, {"x": Period(include=("nobody",))}, {"x" * 300: WORK}):
        with pytest.raises(Invalid):
            backend.ask(SetPeriods({"fine": WORK, **bad}, "ana"))
    store = SqliteStore(node.database, read_only=True)
    assert store.periods() == {"work": ("api", WORK)}
    store.close()


def test_a_period_that_is_changed_stays_with_its_owner() -> None:
    driven = HandDrivenNode()
    driven.periods(work=WORK)
    driven.admin.set_periods({"work": Period(), "new": WORK}, "api", "bob")
    assert driven.store.periods() == {"work": ("ana", Period()), "new": ("api", WORK)}
    assert not driven.admin.set_periods({"work": Period()}, "api", "bob").settings, "it was so already"


# What a node tells of itself


def test_a_node_says_who_it_is(node: LiveNode, backend: SocketBackend) -> None:
    identity = backend.ask(GetNodeIdentity()).node
    assert identity is not None
    assert identity.id == node.node.start_id
    assert identity.pid == os.getpid()
    assert identity.version == version("evenbeat")
    assert identity.started == node.node.started_at
    assert identity.database == str(node.database.resolve())
    assert [worker.kind for worker in identity.workers] == ["commands"]


def test_a_node_counts_what_it_does_and_shows_that_it_lives(node: LiveNode, backend: SocketBackend) -> None:
    add(node, task("a", check=True), task("bad", command=["false"]))
    backend.ask(ForceTasks(("a", "bad", "bad"), "ana", wait=True))
    numbers = backend.ask(GetNodeMetrics()).numbers
    assert numbers is not None
    runs = numbers.status.runs
    assert runs >= 2
    assert numbers.lateness.counts[-1] == runs
    assert numbers.duration.counts[-1] == sum(numbers.status.outcomes.values())
    assert numbers.status.outcomes["failed"] >= 1
    assert numbers.commit_time.counts[-1] > 0
    assert numbers.commit_time.sum > 0
    assert (numbers.workers, numbers.worker_restarts) == (1, 0)
    assert numbers.last_turn < 60
    assert numbers.oldest_unsafe < 60
    assert numbers.cpu > 0


def test_a_worker_that_dies_is_counted(node: LiveNode, backend: SocketBackend) -> None:
    identity = backend.ask(GetNodeIdentity()).node
    assert identity is not None
    os.kill(identity.workers[0].pid, signal.SIGKILL)

    def replaced() -> bool:
        numbers = backend.ask(GetNodeMetrics()).numbers
        return numbers is not None and (numbers.worker_restarts, numbers.workers) == (1, 1)

    eventually(replaced)


def test_what_is_not_safe_yet_gets_older() -> None:
    driven = HandDrivenNode()
    driven.add("a")
    assert driven.outbox.oldest_age() == 0
    driven.store.is_failing = True
    driven.turn(MINUTE)
    driven.loop.wait(5.5)
    assert driven.outbox.oldest_age() == pytest.approx(5.5)
    before = driven.outbox.commit_seconds.read().counts[-1]
    driven.store.is_failing = False
    driven.loop.wait(2)
    assert driven.outbox.oldest_age() == 0
    assert driven.outbox.commit_seconds.read().counts[-1] == before + 1


def test_a_check_without_a_result_is_not_ok() -> None:
    driven = HandDrivenNode()
    driven.add("a", check=True)
    driven.add("b", check=True)
    driven.add("no-check")
    assert status_of(driven.node).states == {"ok": 0, "warning": 0, "critical": 0, "unknown": 0, "unchecked": 2}
    driven.turn(MINUTE)
    driven.end("a", Outcome.FAILED, 1)
    driven.turn()
    assert status_of(driven.node).states == {"ok": 0, "warning": 1, "critical": 0, "unknown": 0, "unchecked": 1}
    driven.end("b")
    driven.turn()
    assert status_of(driven.node).states == {"ok": 1, "warning": 1, "critical": 0, "unknown": 0, "unchecked": 0}


# What runs


def test_what_runs_is_told_with_its_start_and_its_timebox(node: LiveNode, backend: SocketBackend) -> None:
    add(node, task("a", command=["sleep", "600"], timebox="20m", missed="skip"))
    assert backend.ask(GetRunningRuns()).running.total == 0  # type: ignore[union-attr]
    backend.ask(ForceTasks(("a",), "ana"))

    def started() -> bool:
        running = backend.ask(GetRunningRuns()).running
        return running is not None and running.total == 1 and running.runs[0].started is not None

    eventually(started)
    running = backend.ask(GetRunningRuns(1)).running
    assert running is not None
    (run,) = running.runs
    assert (run.task, run.kind, run.timebox) == ("a", RunKind.FORCED, 1_200 * SECOND)
    assert run.started is not None
    assert node.node.started_at < run.claimed <= node.node.clock.now()
    with pytest.raises(Invalid):
        backend.ask(GetRunningRuns(1_000_000))
    node.do(node.node.queue.cancel)


def test_those_that_began_first_come_first() -> None:
    driven = HandDrivenNode()
    for second in (3, 1, 2):
        driven.add(f"t{second}", every="1m", phase=f"{second}s")
    for second in range(4):
        driven.turn(second and SECOND)
    token = driven.under_way["t1"].token
    driven.turns.add_starts([(token, driven.now + SECOND)])
    driven.turn(SECOND)
    assert [run.task for run in running_runs_of(driven.node, 10).runs] == ["t2", "t3", "t1"]
    found = running_runs_of(driven.node, 1)
    assert ([run.task for run in found.runs], found.total) == (["t2"], 3)
    for name in ("t1", "t2", "t3"):
        driven.end(name)
    driven.turn()
    assert running_runs_of(driven.node, 10).total == 0
    assert driven.turns.started_runs == {}


@pytest.mark.parametrize(
    "request_", [GetNodeIdentity(), GetNodeMetrics(), GetRunningRuns(), ForceTasks((), "ana", only=Filter())]
)
def test_without_a_node_there_is_nobody_to_tell(database: Path, request_: Request) -> None:
    with open_client(database, "ana") as client, pytest.raises(Invalid, match="no node is running"):
        client.connect().ask(request_)
