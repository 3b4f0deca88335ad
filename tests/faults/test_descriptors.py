"""A node or worker that is out of descriptors goes on as far as it can, says so, recovers, and can be stopped."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from budget import IS_FULL
from waiting import PATIENCE, eventually

LIMIT = 100
TASKS = """
[tasks.quick]
every = "1s"
shell = true
command = "echo run >> runs"

[tasks.lasting]
every = "1s"
shell = true
timebox = "50s"
command = "echo begin >> lasting; sleep 1; echo end >> lasting"
"""


class Node:
    """`evenbeat up` in a folder, with few descriptors."""

    def __init__(self, folder: Path, descriptors: int) -> None:
        self.folder = folder
        self.database = folder / "x.db"
        (folder / "tasks.toml").write_text(TASKS)
        self._log = (folder / "log").open("wb")

        words = ["up", str(folder / "tasks.toml"), "--db", str(self.database), "--workers", "1"]
        self.process = subprocess.Popen([sys.executable, "-m", "evenbeat", *words], cwd=folder, stderr=self._log)
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (descriptors, descriptors))
        self._clients: list[socket.socket] = []
        eventually(lambda: "action=ready" in self.log, "it is up")

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def workers(self) -> list[int]:
        pid = self.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        found = []
        for child in map(int, children):
            with suppress(OSError):
                if b"evenbeat.work.runner" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(child)
        return found

    def runs(self, name: str = "runs") -> int:
        path = self.folder / name
        return path.read_text().count("\n") if path.exists() else 0

    def must_run(self, what: str, name: str = "runs") -> None:
        before = self.runs(name)
        eventually(lambda: self.runs(name) > before + 1, what)

    def connect(self, count: int) -> None:
        """So many clients that ask nothing; the node has a descriptor for each, as long as it has any."""
        for _ in range(count):
            client = socket.socket(socket.AF_UNIX)
            client.setblocking(False)
            self._clients.append(client)
            with suppress(BlockingIOError):
                client.connect(str(self.database) + ".sock")

    def disconnect(self) -> None:
        while self._clients:
            self._clients.pop().close()

    def status(self) -> tuple[int, str]:
        words = ["status", "--db", str(self.database)]
        done = subprocess.run(
            [sys.executable, "-m", "evenbeat", *words], capture_output=True, text=True, check=False, timeout=PATIENCE
        )
        return done.returncode, done.stdout + done.stderr

    def last(self, name: str) -> str:
        path = self.folder / name
        return path.read_text().split()[-1] if path.exists() and path.read_text() else ""

    def ask_status(self) -> Callable[[], dict[str, Any]]:
        """Through a connection that was there before: there is no descriptor for another one."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.database) + ".sock")
        self._clients.append(client)
        lines = client.makefile("rb")

        def ask() -> dict[str, Any]:
            client.sendall(b'{"type":"status"}\n')
            found: dict[str, Any] = json.loads(lines.readline())["status"]
            return found

        ask()
        return ask

    def outcomes(self) -> dict[str, int]:
        words = ["status", "--json", "--db", str(self.database)]
        done = subprocess.run([sys.executable, "-m", "evenbeat", *words], capture_output=True, check=False)
        found: dict[str, int] = json.loads(done.stdout)["outcomes"]
        return found

    def left(self) -> list[str]:
        """Processes of its runs."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cwd"):
            with suppress(OSError):
                if path.readlink() == self.folder:
                    found.append(path.parent.name)
        return found

    def close(self) -> None:
        self.disconnect()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    one = Node(tmp_path, LIMIT)
    yield one
    one.close()


def test_a_worker_is_replaced_while_clients_hold_every_descriptor(node: Node) -> None:
    node.must_run("it runs")
    node.connect(150)
    eventually(lambda: "out of system resource" in node.log, "there is no descriptor left")
    (worker,) = node.workers()
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: node.workers() not in ([], [worker]), "another worker is up")
    node.must_run("it runs again", "runs")
    node.must_run("and so does what lasts", "lasting")
    # Asyncio reports each of a hundred attempts per second, with a traceback.
    assert len(node.log.splitlines()) < 200
    node.disconnect()
    eventually(lambda: node.status()[0] == 0, "all is well")
    node.process.terminate()
    assert node.process.wait(PATIENCE) == 0


def test_a_node_whose_limit_was_lowered_raises_it_again(node: Node) -> None:
    node.must_run("it runs")
    (worker,) = node.workers()
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (0, LIMIT))
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: node.workers() not in ([], [worker]), "another worker is up")
    node.must_run("it runs again")
    assert node.status()[0] == 0


@pytest.mark.skipif(not IS_FULL, reason="half a minute: only in `make faults`")
def test_a_node_that_can_replace_no_worker_says_so_and_can_be_stopped(node: Node) -> None:
    node.must_run("it runs", "lasting")
    eventually(lambda: node.last("lasting") == "begin", "it runs")
    node.connect(1)
    asked = node.ask_status()
    (worker,) = node.workers()
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (0, 0))
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: "cannot be ended yet" in node.log, "it does not know what is left of the worker")
    eventually(lambda: "cannot be ended" in str(asked()["problems"]), "it says so")
    node.process.terminate()
    node.process.terminate()
    node.process.wait(PATIENCE)
    assert len(node.log.splitlines()) < 100
    lines = node.runs("lasting")
    eventually(lambda: not node.left(), "nothing is left")
    assert node.runs("lasting") == lines


def test_a_worker_without_any_descriptor_sees_its_children_end(node: Node) -> None:
    eventually(lambda: node.last("lasting") == "begin", "it runs")
    (worker,) = node.workers()
    before = resource.prlimit(worker, resource.RLIMIT_NOFILE, (0, LIMIT))
    eventually(lambda: node.last("lasting") == "end", "what was begun ends")
    eventually(lambda: node.outcomes().get("broken"), "what cannot be started is told")
    resource.prlimit(worker, resource.RLIMIT_NOFILE, before)
    node.must_run("it runs again", "lasting")
    assert node.workers() == [worker]
