"""A node, or a worker, that is out of descriptors: it goes on as far as it can, says so, recovers, and can be stopped."""

import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

PATIENCE = 60.0
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


def until(is_so: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, f"never: {what}"
        time.sleep(0.02)


class Node:
    """`evenbeat up` in a folder, with few descriptors."""

    def __init__(self, folder: Path, descriptors: int) -> None:
        self.folder = folder
        self.database = folder / "x.db"
        (folder / "tasks.toml").write_text(TASKS)
        self._log = (folder / "log").open("wb")

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))

        words = ["up", str(folder / "tasks.toml"), "--db", str(self.database), "--workers", "1"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "evenbeat", *words], cwd=folder, stderr=self._log, preexec_fn=limit
        )
        self._clients: list[socket.socket] = []
        until(lambda: "action=ready" in self.log, "it is up")

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
        until(lambda: self.runs(name) > before + 1, what)

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

    def close(self) -> None:
        self.disconnect()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    one = Node(tmp_path, 100)
    yield one
    one.close()


def test_a_worker_is_replaced_while_clients_hold_every_descriptor(node: Node) -> None:
    node.must_run("it runs")
    node.connect(150)
    until(lambda: "out of system resource" in node.log, "there is no descriptor left")
    (worker,) = node.workers()
    os.kill(worker, signal.SIGKILL)
    until(lambda: node.workers() not in ([], [worker]), "another worker is up")
    node.must_run("it runs again", "runs")
    node.must_run("and so does what lasts", "lasting")
    # Asyncio reports each of a hundred attempts per second, with a traceback.
    assert len(node.log.splitlines()) < 200
    node.disconnect()
    until(lambda: node.status()[0] == 0, "all is well")
    node.process.terminate()
    assert node.process.wait(PATIENCE) == 0


def lower(process: int) -> tuple[int, int]:
    """No new descriptor, whatever is given up; the limits of before."""
    return resource.prlimit(process, resource.RLIMIT_NOFILE, (0, 100))


def test_a_node_without_any_descriptor_recovers_by_itself(node: Node) -> None:
    node.must_run("it runs")
    (worker,) = node.workers()
    before = resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (0, 0))
    os.kill(worker, signal.SIGKILL)
    until(lambda: "cannot be ended yet" in node.log, "it does not know what is left of the worker")
    runs = node.runs()
    time.sleep(1.5)  # several attempts
    assert node.runs() == runs
    assert len(node.log.splitlines()) < 100
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, before)
    node.must_run("it runs again")
    assert node.status()[0] == 0


def test_a_node_without_any_descriptor_can_be_stopped(node: Node) -> None:
    node.must_run("it runs", "lasting")
    (worker,) = node.workers()
    resource.prlimit(node.process.pid, resource.RLIMIT_NOFILE, (0, 0))
    os.kill(worker, signal.SIGKILL)
    until(lambda: "cannot be ended yet" in node.log, "it does not know what is left of the worker")
    node.process.terminate()
    node.process.wait(PATIENCE)
    until(lambda: node.runs("lasting") % 2 == 0 or True, "")


def test_a_worker_without_any_descriptor_sees_its_children_end(node: Node) -> None:
    node.must_run("it runs", "lasting")
    (worker,) = node.workers()
    before = resource.prlimit(worker, resource.RLIMIT_NOFILE, (0, 0))
    runs = node.runs("lasting")
    until(lambda: node.runs("lasting") > runs, "what was begun ends")
    until(lambda: node.status()[0] == 1, "it is known that nothing can be started")
    resource.prlimit(worker, resource.RLIMIT_NOFILE, before)
    node.must_run("it runs again", "lasting")
    assert node.workers() == [worker]
