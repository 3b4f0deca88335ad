"""The first five minutes of a new user, as the tutorial tells them: with the real command, on the example file."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from waiting import PATIENCE

ROOT = Path(__file__).parent.parent


class Terminal:
    """Types commands on one database."""

    def __init__(self, database: Path) -> None:
        self._environment = {**os.environ, "EVENBEAT_DB": str(database)}

    def start(self, *argv: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "evenbeat", *argv]
        return subprocess.Popen(command, env=self._environment, stderr=subprocess.DEVNULL, cwd=ROOT)

    def __call__(self, *argv: str) -> str:
        command = [sys.executable, "-m", "evenbeat", *argv]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, cwd=ROOT, check=False)
        assert "Traceback" not in done.stderr
        return done.stdout

    def until(self, wanted: Callable[[str], bool], *argv: str) -> str:
        deadline = time.monotonic() + PATIENCE
        while not wanted(out := self(*argv)):
            assert time.monotonic() < deadline, out
            time.sleep(0.1)
        return out


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path / "first.db")


def test_start_look_add_run_pause_ask_why_stop_and_start_again(terminal: Terminal) -> None:
    node = terminal.start("up", "examples/first.toml")
    try:
        seen = terminal.until(lambda out: "hello" in out, "ls")
        assert all(name in seen for name in ("answer host5", "disk", "moody", "nap", "tidy"))
        terminal.until(lambda out: '"running_since": "' in out, "show", "nap", "--json")

        terminal("add", "greet", "--every", "1m", "--", "echo", "good day")
        assert "good day" in terminal("run", "greet", "--wait")
        terminal("pause", "greet")
        assert "paused" in terminal("why", "greet")
        terminal("resume", "greet")
        assert "paused" not in terminal("why", "greet")
        before = json.loads(terminal("show", "greet", "--json"))

        node.send_signal(signal.SIGINT)
        assert node.wait(PATIENCE) == 0
        assert "no node is running" in terminal("why", "greet")

        node = terminal.start("up", "examples/first.toml")
        terminal.until(lambda out: "no node is running" not in out, "why", "greet")
        again = json.loads(terminal("show", "greet", "--json"))
        assert [again[fact] for fact in ("id", "version", "task")] == [
            before[fact] for fact in ("id", "version", "task")
        ]
        history = terminal("history", "greet")
        assert "forced" in history
        assert "good day" in history
    finally:
        node.kill()
        node.wait()
