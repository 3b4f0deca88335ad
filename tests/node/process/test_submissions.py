"""Results and heartbeats as others tell them to a live node, and what of it outlives the node."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from live_node import LiveNode
from waiting import eventually

from evenbeat.client.node_or_database import open_client
from evenbeat.client.socket import SocketBackend
from evenbeat.client.store_based import LocalClient
from evenbeat.core.submitted_results import join_perfdata
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import HOUR, SECOND, Instant, Invalid, Outcome, RunKind, State
from evenbeat.store.contract import Condition, Conflict, Filter
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.replies import NotFound
from evenbeat.wire.requests import (
    CreateHeartbeatToken,
    HeartbeatSignal,
    RemoveHeartbeatToken,
    SendHeartbeat,
    SubmitResult,
)


@pytest.fixture(scope="module")
def live_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with LiveNode(tmp_path_factory.mktemp("node") / "a.db") as node:
        yield node


@pytest.fixture
def node(live_node: LiveNode) -> Iterator[LiveNode]:
    """The same for all tests, with tasks of their own."""
    with live_node.client() as client:
        add_tasks(client)
        yield live_node
        client.remove(Filter(names=("*",)))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Without a node."""
    path = tmp_path / "a.db"
    with open_client(path, "ana") as client:
        add_tasks(client)
    return path


def add_tasks(client: LocalClient) -> None:
    passive = task_from_table("backup", {"passive": True, "every": "1h", "timebox": "10m", "attempts": 3}, check=False)
    check = task_from_table("web", {"every": "1d", "phase": "0s", "command": ["sleep", "1"]}, check=True)
    task = task_from_table("job", {"every": "1d", "command": ["noop"]}, check=False)
    client.add([passive, check, task], "ana")


@pytest.fixture
def backend(node: LiveNode) -> Iterator[SocketBackend]:
    backend = SocketBackend(node.database)
    yield backend
    backend.close()


def condition(database: Path, name: str) -> Condition:
    store = SqliteStore(database, read_only=True)
    try:
        (found,) = store.conditions(Filter(names=(name,)))
        return found
    finally:
        store.close()


def settings(database: Path) -> dict[str, str]:
    store = SqliteStore(database, read_only=True)
    try:
        return {k: v for what in ("beat:", "begun:", "good until:") for k, v in store.settings(what).items()}
    finally:
        store.close()


# Results


def test_a_result_is_told_by_name_or_id_and_safe_when_it_is_answered(backend: SocketBackend, node: LiveNode) -> None:
    id_ = condition(node.database, "backup").entry.id
    for name, attempt in (("backup", 1), (id_, 2)):
        taken = backend.ask(SubmitResult(name, 2, "ana", "disk full\nfor long", "free=0B")).taken
        assert taken is not None
        assert (taken.task, taken.state, taken.hard, taken.attempt) == ("backup", State.CRITICAL, False, attempt)
        found = condition(node.database, "backup")
        assert (found.state, found.attempt) == (State.CRITICAL, attempt)
        assert found.output == "disk full | free=0B\nfor long"


def test_an_older_one_says_that_it_changed_nothing(backend: SocketBackend, node: LiveNode) -> None:
    now = node.node.clock.now()
    assert backend.ask(SubmitResult("backup", 0, "ana", at=now)).taken is not None
    taken = backend.ask(SubmitResult("backup", 2, "ana", at=Instant(now - HOUR))).taken
    assert taken is not None
    assert (taken.state, taken.is_newest) == (State.OK, False)


def test_a_check_that_runs_is_told_of_and_runs_on(backend: SocketBackend, node: LiveNode) -> None:
    with node.client() as client:
        client.run_now(["web"], wait=False)
    eventually(lambda: condition(node.database, "web").running_since)
    assert backend.ask(SubmitResult("web", 1, "ana", "slow")).taken is not None
    found = condition(node.database, "web")
    assert (found.state, found.running_since is None) == (State.WARNING, False)
    eventually(lambda: condition(node.database, "web").running_since is None)
    assert {run.kind for run in node.runs("web")} >= {RunKind.TOLD, RunKind.FORCED}


def test_what_cannot_be_told_is_refused(backend: SocketBackend, node: LiveNode) -> None:
    with pytest.raises(NotFound, match="there is no task 'nobody'"):
        backend.ask(SubmitResult("nobody", 0, "ana"))
    with pytest.raises(Conflict, match="'job' is a task and no check"):
        backend.ask(SubmitResult("job", 0, "ana"))
    with pytest.raises(Invalid, match="at: a result of 60 s from now"):
        backend.ask(SubmitResult("backup", 0, "ana", at=Instant(node.node.clock.now() + 60 * SECOND)))
    with pytest.raises(Invalid, match="<= 3"):
        backend.ask(SubmitResult("backup", 4, "ana"))
    with pytest.raises(Conflict, match="'backup' is a passive check: it has nothing to run"), node.client() as client:
        client.run_now(["backup"], wait=True)
    assert node.runs("backup") == []


def test_without_a_node_nobody_is_told(database: Path) -> None:
    with open_client(database, "ana") as client, pytest.raises(Invalid, match="no node is running on"):
        client.submit_result("backup", 0)


def test_a_ttl_outlives_the_node(database: Path) -> None:
    with LiveNode(database) as node, node.client() as client:
        client.submit_result("backup", 0, ttl=HOUR)
        assert len(settings(database)) == 1
    with LiveNode(database) as node:
        row = node.node.tasks.row(condition(database, "backup").entry.number)
        assert row is not None
        (remembered,) = settings(database).values()
        until, since = node.node.turns.passive.good_until(row) or (0, 0)
        assert f"{until} {since}" == remembered
        with node.client() as client:
            client.submit_result("backup", 0)
    assert settings(database) == {}


@pytest.mark.parametrize(
    ("output", "perfdata", "whole"),
    [
        ("", "", ""),
        ("fine", "", "fine"),
        ("fine", "a=1\nb=2", "fine | a=1 b=2"),
        ("fine\nmore", "a=1", "fine | a=1\nmore"),
    ],
)
def test_performance_data_stands_behind_the_first_line(output: str, perfdata: str, whole: str) -> None:
    assert join_perfdata(output, perfdata) == whole


# Heartbeats


def new_token(backend: SocketBackend, name: str = "backup") -> str:
    return backend.ask(CreateHeartbeatToken(name, "ana")).token


def test_a_token_is_enough_to_tell_that_all_is_well_or_not(backend: SocketBackend, node: LiveNode) -> None:
    token = new_token(backend)
    assert token.startswith("evb_beat_")
    assert len(token) == len("evb_beat_") + 32
    for signal, state in ((HeartbeatSignal.FAIL, State.CRITICAL), (HeartbeatSignal.SUCCESS, State.OK)):
        taken = backend.ask(SendHeartbeat(token, signal, "curl", "bye")).taken
        assert taken is not None
        assert taken.state == state
        assert condition(node.database, "backup").output == "bye"
    assert token not in str(settings(node.database)), "only its digest is kept"


def test_start_tells_when_it_began(backend: SocketBackend, node: LiveNode) -> None:
    token = new_token(backend)
    backend.ask(SendHeartbeat(token, HeartbeatSignal.START, "curl"))
    assert node.runs("backup") == []
    assert any(key.startswith("begun:") for key in settings(node.database))
    backend.ask(SendHeartbeat(token, HeartbeatSignal.SUCCESS, "curl"))
    (run,) = node.runs("backup")
    assert run.started is not None
    assert run.ended is not None
    assert run.started < run.ended
    assert run.outcome is Outcome.SUCCEEDED
    assert not any(key.startswith("begun:") for key in settings(node.database))


def test_what_began_is_known_to_the_next_node(database: Path) -> None:
    with LiveNode(database) as node:
        backend = SocketBackend(database)
        token = new_token(backend)
        backend.ask(SendHeartbeat(token, HeartbeatSignal.START, "curl"))
        backend.close()
        began = dict(node.node.turns.passive.begun_rows)
    with LiveNode(database) as node:
        assert node.node.turns.passive.begun_rows == began


def test_a_new_token_takes_the_place_of_the_old_one(backend: SocketBackend, node: LiveNode) -> None:
    old, new = new_token(backend), new_token(backend)
    with pytest.raises(NotFound, match="nobody has this token"):
        backend.ask(SendHeartbeat(old, HeartbeatSignal.SUCCESS, "curl"))
    backend.ask(SendHeartbeat(new, HeartbeatSignal.SUCCESS, "curl"))
    backend.ask(RemoveHeartbeatToken("backup", "ana"))
    with pytest.raises(NotFound, match="nobody has this token"):
        backend.ask(SendHeartbeat(new, HeartbeatSignal.SUCCESS, "curl"))
    with pytest.raises(NotFound, match="'backup' has no heartbeat"):
        backend.ask(RemoveHeartbeatToken("backup", "ana"))
    assert [change.action for change in node.node.store.changes("backup", 3)] == [
        "heartbeat removed", "heartbeat created", "heartbeat created",
    ]  # fmt: skip


def test_only_passive_checks_have_heartbeats(backend: SocketBackend, node: LiveNode) -> None:
    with pytest.raises(Conflict, match="only passive checks have heartbeats"):
        new_token(backend, "web")
    with pytest.raises(NotFound, match="there is no task 'nobody'"):
        new_token(backend, "nobody")
    token = new_token(backend)
    with node.client() as client:
        client.set("backup", task_from_table("backup", {"every": "1h", "command": ["noop"]}, check=True))
    with pytest.raises(Conflict, match="only passive checks have heartbeats"):
        backend.ask(SendHeartbeat(token, HeartbeatSignal.SUCCESS, "curl"))


def test_all_that_was_kept_goes_with_the_task(backend: SocketBackend, node: LiveNode) -> None:
    token = new_token(backend)
    backend.ask(SendHeartbeat(token, HeartbeatSignal.START, "curl"))
    backend.ask(SubmitResult("backup", 0, "ana", ttl=HOUR))
    assert len(settings(node.database)) == 3
    with node.client() as client:
        client.remove(Filter(names=("backup",)))
    assert settings(node.database) == {}
    with pytest.raises(NotFound, match="nobody has this token"):
        backend.ask(SendHeartbeat(token, HeartbeatSignal.SUCCESS, "curl"))
