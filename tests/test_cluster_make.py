"""`make cluster`, in a smaller size: it comes up, works, ends in order, and cleans up after a crash of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen

import pytest
from waiting import PATIENCE

ROOT = Path(__file__).parents[1]
TASKS = """
[tasks.here]
every = "1h"
shell = true
command = "echo run by $SITE"

[tasks.there]
every = "1h"
pool = "berlin"
shell = true
command = "echo run by $SITE"
"""


class Tool:
    """`python -m tools.cluster` on a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tasks = folder.parent / "tasks.toml"
        self.tasks.write_text(TASKS)

    @contextmanager
    def running(self) -> Iterator["subprocess.Popen[str]"]:
        argv = ["--folder", str(self.folder), "--file", str(self.tasks), "--nats", "1", "--port", "18629"]
        command = [sys.executable, "-m", "tools.cluster", *argv, "--pool", "default", "--pool", "berlin"]
        environment = {name: value for name, value in os.environ.items() if "DISPLAY" not in name}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process
            finally:
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(PATIENCE)
                finally:
                    process.kill()

    def until_up(self, process: "subprocess.Popen[str]") -> str:
        """What it has said by then."""
        assert process.stdout is not None
        said = ""
        for line in process.stdout:
            said += line
            if "Ctrl-C ends all" in line:
                return said
        raise AssertionError(f"it ended with {process.wait()}: {said}")

    def evenbeat(self, *argv: str) -> str:
        """A command as the user types it, after `. env`."""
        script = f'. "{self.folder}/env"; exec "$0" -m evenbeat "$@"'
        command = ["sh", "-c", script, sys.executable, *argv]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE, cwd=ROOT).stdout

    @property
    def processes(self) -> list[int]:
        return [int(line.split()[0]) for line in (self.folder / "processes").read_text().splitlines()]


@pytest.fixture
def tool() -> Iterator[Tool]:
    # Not tmp_path: if we are root, PostgreSQL runs as somebody else, and must get there.
    with TemporaryDirectory(prefix="evenbeat-cluster-") as folder:
        Path(folder).chmod(0o711)
        yield Tool(Path(folder) / "cluster")


def _is_there(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_it_comes_up_works_survives_its_own_crash_and_ends_in_order(tool: Tool) -> None:
    with tool.running() as first:
        said = tool.until_up(first)
        for place in ("The page:", "or from:"):
            page, code = said.partition(place)[2].split()[0].split("#/sign-in/")
            body = json.dumps({"code": code}).encode()
            request = Request(f"{page}v1/session/link", body, {"Content-Type": "application/json"})
            with urlopen(request, timeout=PATIENCE) as answer:
                assert json.load(answer) == {"role": "admin", "needs_token": False}
        before = tool.processes
        assert len(before) == len(["PostgreSQL", "NATS", "2 workers", "", "2 schedulers", ""])
        assert "run by default, worker 1" in tool.evenbeat("run", "here", "--wait")
        assert "run by berlin, worker 2" in tool.evenbeat("run", "there", "--wait")
        first.kill()
        first.wait()
    assert all(map(_is_there, before))

    with tool.running() as second:
        assert "6 processes of a cluster that did not end in order were ended" in tool.until_up(second)
        after = tool.processes
        assert not any(map(_is_there, before))
        assert "forced" in tool.evenbeat("history", "there")
        second.send_signal(signal.SIGINT)
        assert second.wait(PATIENCE) == 0
    _until(lambda: not any(map(_is_there, after)))
    assert tool.processes == []


def test_a_folder_in_use_is_refused(tool: Tool) -> None:
    from tools.cluster_parts import House

    with House(tool.folder).alone(), tool.running() as another:
        assert another.stdout is not None
        assert "running in" in another.stdout.read()
        assert another.wait(PATIENCE) == 1
