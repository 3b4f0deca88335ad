"""The same operations through a live node, on a database alone, and from within the node's own loop."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest
from live_node import LiveNode
from waiting import PATIENCE, eventually

from evenbeat.client.in_process import client_on_own_loop
from evenbeat.client.node_or_database import connect_to_live_node, open_client
from evenbeat.client.socket import SocketBackend
from evenbeat.client.store_based import LocalClient
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import Invalid, Task
from evenbeat.store.contract import Conflict, Filter, StoreError
from evenbeat.store.sqlite.ownership import DatabaseOwnership, socket_path
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.requests import GetLiveTaskState, GetStatus

T = TypeVar("T")
Use = Callable[[Callable[[LocalClient], T]], T]


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


def task(name: str, **keys: Any) -> Task:
    return task_from_table(name, {"every": "1h", "command": ["echo", name], **keys}, check=False)


def names(database: Path) -> list[str]:
    store = SqliteStore(database, read_only=True)
    try:
        return [entry.task.name for entry in store.entries()]
    finally:
        store.close()


class Within:
    """A client that is only used on the loop of the node."""

    def __init__(self, node: LiveNode) -> None:
        self._node = node

    def use(self, work: Callable[[LocalClient], Any]) -> Any:
        found: list[Any] = []
        done = threading.Event()

        def on_the_loop() -> None:
            try:
                with client_on_own_loop(self._node.node, "ana") as client:
                    found.append(work(client))
            except Exception as e:
                found.append(e)
            done.set()

        self._node.do(on_the_loop)
        assert done.wait(PATIENCE)
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]


@contextmanager
def side(kind: str, database: Path) -> Iterator[Callable[[Callable[[LocalClient], Any]], Any]]:
    def use(work: Callable[[LocalClient], Any]) -> Any:
        with open_client(database, "ana") as client:
            assert client.is_live is (kind == "live")
            return work(client)

    if kind == "alone":
        yield use
        return
    with LiveNode(database) as node:
        yield use if kind == "live" else Within(node).use


@pytest.mark.parametrize("kind", ["live", "alone", "within"])
def test_every_operation_does_the_same_whatever_answers_the_client(kind: str, database: Path, tmp_path: Path) -> None:
    with side(kind, database) as use:
        created = use(lambda d: d.add([task("a"), task("b")], "cli")).created
        assert [entry.task.name for entry in created] == ["a", "b"]
        assert use(lambda d: d.set("a", task("a", priority=3))).changed[0].task.priority == 3
        assert use(lambda d: d.set("a", task("a", priority=3))).unchanged == 1
        with pytest.raises(Conflict):
            use(lambda d: d.set("a", task("a", priority=4), 1))
        with pytest.raises(Conflict, match="already: b"):
            use(lambda d: d.add([task("c"), task("b")], "cli"))
        with pytest.raises(Invalid, match="there is no task 'nobody'"):
            use(lambda d: d.set("nobody", task("nobody")))
        with pytest.raises(Invalid, match="there is no period 'x'"):
            use(lambda d: d.add([task("c", period="x")], "cli"))
        assert use(lambda d: d.pause(Filter(names=("a",)), paused=True)).changed[0].task.paused
        file = tmp_path / "f.toml"
        file.write_text('[tasks.c]\nevery = "1h"\ncommand = ["true"]\n')
        assert [e.task.name for e in use(lambda d: d.apply([file])).created] == ["c"]
        file.write_text("[tasks\n")
        with pytest.raises(ValueError, match=r"f\.toml:1:7"):
            use(lambda d: d.apply([file]))
        assert [e.task.name for e in use(lambda d: d.remove(Filter(names=("b",)))).removed] == ["b"]
        assert names(database) == ["a", "c"]
    store = SqliteStore(database, read_only=True)
    assert {change.who for change in store.changes()} == {"ana"}
    store.close()


@pytest.mark.parametrize("kind", ["live", "alone"])
def test_a_backup_is_a_copy_and_overwrites_nothing(kind: str, database: Path, tmp_path: Path) -> None:
    with side(kind, database) as use:
        use(lambda d: d.add([task("a")], "cli"))
        use(lambda d: d.backup(tmp_path / "copy.db"))
        assert names(tmp_path / "copy.db") == ["a"]
        with pytest.raises(StoreError):
            use(lambda d: d.backup(tmp_path / "copy.db"))


def test_what_is_changed_through_a_live_node_is_true_of_it_at_once(database: Path) -> None:
    with LiveNode(database) as node, node.client() as client:
        client.add([task("a", every="1s", command=["true"])], "cli")
        eventually(lambda: node.runs("a"))
        client.remove(Filter(names=("a",)))
        status = client.status()
        assert status is not None
        assert status.tasks == 0


def test_a_forced_run_can_be_waited_for(database: Path) -> None:
    with LiveNode(database) as node, node.client() as client:
        client.add([task("a"), task("b")], "cli")
        ended = client.run_now(["a", "b", "a"], wait=True)
        assert [(e.task, e.outcome, e.output) for e in ended] == [
            ("a", "succeeded", "a\n"),
            ("b", "succeeded", "b\n"),
            ("a", "succeeded", "a\n"),
        ]
        assert client.run_now(["a"], wait=False) == []
        with pytest.raises(Invalid, match="there is no task 'c'"):
            client.run_now(["c"], wait=True)


def test_a_run_that_is_forced_while_one_is_running_is_the_one_after_it(database: Path) -> None:
    with LiveNode(database) as node, node.client() as client:
        client.add([task("a", command=["sleep", "0.3"])], "cli")
        client.run_now(["a"], wait=False)
        eventually(lambda: node.runs("a"))
        first = node.runs("a")[0]
        (ended,) = client.run_now(["a"], wait=True)
        assert ended.started > first.claimed + 300_000


def test_whoever_waits_for_a_run_of_a_task_that_is_removed_is_told(database: Path) -> None:
    with LiveNode(database, max_concurrent=1) as node, node.client() as client:
        client.add([task("busy", command=["sleep", "600"]), task("a")], "cli")
        client.run_now(["busy"], wait=False)
        eventually(lambda: node.runs("busy"))
        refusals: list[str] = []

        def wait() -> None:
            with node.client() as mine, pytest.raises(Invalid) as refused:
                mine.run_now(["a"], wait=True)
            refusals.append(str(refused.value))

        waiting = threading.Thread(target=wait)
        waiting.start()
        eventually(lambda: len(node.node.tasks.lifecycle.waiting))
        Within(node).use(lambda d: d.remove(Filter(names=("a",))))
        waiting.join(PATIENCE)
        assert refusals == ["the task was removed before it ran"]
        client.remove(Filter(names=("busy",)))
        node.do(lambda: node.node.stop_or_stop_now("test"))
        node.do(lambda: node.node.stop_or_stop_now("test"))


def test_whoever_waits_for_a_run_when_the_node_stops_is_told(database: Path) -> None:
    refusals: list[str] = []
    with LiveNode(database, max_concurrent=1, grace=0.0) as node:
        with node.client() as client:
            client.add([task("busy", command=["sleep", "600"]), task("a")], "cli")
            client.run_now(["busy"], wait=False)
        eventually(lambda: node.runs("busy"))

        def wait() -> None:
            with node.client() as mine, pytest.raises(StoreError) as refused:
                mine.run_now(["a"], wait=True)
            refusals.append(str(refused.value))

        waiting = threading.Thread(target=wait)
        waiting.start()
        eventually(lambda: len(node.node.tasks.lifecycle.waiting))
    waiting.join(PATIENCE)
    assert refusals[0].startswith("the node stopped before it had answered")


def test_who_still_holds_a_client_of_a_node_that_is_gone_is_told(database: Path) -> None:
    with LiveNode(database) as node:
        client = node.client()
        assert client.status() is not None
    with client, pytest.raises(StoreError, match="the node stopped before it had answered"):
        client.status()


def test_without_a_node_nothing_can_be_run_and_it_is_said_how_to_start_one(database: Path) -> None:
    with open_client(database, "ana") as client:
        client.add([task("a")], "cli")
        assert client.status() is None
        with pytest.raises(Invalid, match=r"no node is running on .*a\.db; `evenbeat up --db .*a\.db` starts one"):
            client.run_now(["a"], wait=False)
        with pytest.raises(Invalid, match="no node is running on"):
            client.apply([])


def test_nobody_becomes_the_node_while_somebody_changes_something_alone(database: Path) -> None:
    from evenbeat.store.sqlite.ownership import DatabaseInUse

    with open_client(database, "ana"), pytest.raises(DatabaseInUse):
        DatabaseOwnership(database)
    DatabaseOwnership(database).close()


@pytest.mark.parametrize(
    "work", [lambda d: d.run_now(["a"], wait=True), lambda d: d.status(), lambda d: d.backup(Path("x"))]
)
def test_on_the_loop_of_the_node_nobody_may_wait_for_it(database: Path, work: Callable[[LocalClient], Any]) -> None:
    with LiveNode(database) as node, pytest.raises(RuntimeError, match="call it from another thread"):
        Within(node).use(work)


def test_from_within_a_run_can_be_forced(database: Path) -> None:
    with LiveNode(database) as node:
        within = Within(node)
        within.use(lambda d: d.add([task("a")], "cli"))
        within.use(lambda d: d.run_now(["a"], wait=False))
        eventually(lambda: [run for run in node.runs("a") if run.ended])


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class TestSocket:
    def test_a_database_with_a_very_long_path_has_a_node_like_any_other(self, tmp_path: Path) -> None:
        folder = tmp_path / ("d" * 100) / ("e" * 100)
        folder.mkdir(parents=True)
        database = folder / ("n" * 120 + ".db")
        before = descriptors()
        with LiveNode(database) as node:
            with node.client() as client:
                assert client.is_live
                client.add([task("a")], "cli")
            up = descriptors()
            for _ in range(5):
                node.client().close()
            eventually(lambda: descriptors() <= up)
        assert not socket_path(database).exists()
        eventually(lambda: descriptors() <= before)

    def test_only_the_user_of_the_node_may_connect(self, database: Path) -> None:
        with LiveNode(database):
            assert socket_path(database).stat().st_mode & 0o777 == 0o600

    def test_a_socket_that_a_killed_node_left_behind_is_no_trouble(self, database: Path) -> None:
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(socket_path(database)))
        assert connect_to_live_node(database) is None
        with LiveNode(database) as node, node.client() as client:
            assert client.is_live

    @pytest.mark.parametrize("line", [b"hello\n", b"{}\n", b'{"type":"dance"}\n', b"\xff\xfe\n", b"\n"])
    def test_what_is_no_request_is_refused_and_the_next_is_answered(self, database: Path, line: bytes) -> None:
        with LiveNode(database), socket.socket(socket.AF_UNIX) as raw:
            raw.connect(str(socket_path(database)))
            raw.settimeout(PATIENCE)
            with raw.makefile("rwb") as lines:
                lines.write(line)
                lines.flush()
                answer = msgspec.json.decode(lines.readline())
                assert answer["kind"] == "invalid"
                assert answer["problem"]
                lines.write(msgspec.json.encode(GetStatus()) + b"\n")
                lines.flush()
                assert msgspec.json.decode(lines.readline())["status"]["tasks"] == 0

    def test_a_request_beyond_all_measure_is_refused_before_it_is_sent(self, database: Path) -> None:
        huge = [task(f"t{i}", command=["x" * 90_000]) for i in range(800)]
        with LiveNode(database), open_client(database, "ana") as client:
            with pytest.raises(Invalid, match=r"a request of 6\d MiB, accepted: up to 64"):
                client.add(huge, "cli")
            assert client.status() is not None

    def test_one_who_hangs_up_in_the_middle_harms_nobody(self, database: Path) -> None:
        with LiveNode(database):
            with socket.socket(socket.AF_UNIX) as raw:
                raw.connect(str(socket_path(database)))
                raw.sendall(b'{"type":"sta')
            with open_client(database, "ana") as client:
                assert client.status() is not None

    def test_a_node_knows_the_moment_of_a_task(self, database: Path) -> None:
        with LiveNode(database) as node:
            with node.client() as client:
                (entry,) = client.add([task("a")], "cli").created
            raw = SocketBackend(database)
            moment = raw.ask(GetLiveTaskState(entry.number)).moment
            assert moment is not None
            assert (moment.waiting, moment.pending) == ("", 0)
            assert raw.ask(GetLiveTaskState(999)).moment is None
            raw.close()
