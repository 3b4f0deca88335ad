"""A node in a process of its own that is killed: tests look at what its tasks wrote, before and after."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from waiting import PATIENCE, eventually


class KilledNode:
    """A node in a process of its own, and tasks that write to a log; by its name, `job` is the one of most tests."""

    def __init__(self, folder: Path) -> None:
        self.database, self.log = folder / "a.db", folder / "log"
        self.log.touch()
        self.gate = folder / "gate"
        """A file for which runs may wait."""
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, verb: str, *words: str) -> Any:
        command = [sys.executable, "-m", "evenbeat", verb, "--db", str(self.database), "--json", *words]
        return json.loads(subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE).stdout)

    def start(self) -> None:
        command = [sys.executable, "-m", "evenbeat", "up", "--db", str(self.database), "--workers", "1"]
        environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
        null = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdout=null, stderr=null, env=environment)
        eventually(self._is_up, "the node is up")

    def _is_up(self) -> bool:
        command = [sys.executable, "-m", "evenbeat", "status", "--db", str(self.database)]
        return subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE).returncode == 0

    def kill(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            assert self._process.wait(PATIENCE) == -signal.SIGKILL

    def lines(self) -> list[str]:
        """What runs wrote, a word each."""
        return self.log.read_text().split()

    def runs(self, name: str = "job") -> list[tuple[str, int | None, str]]:
        """Kind, attempt and outcome of each run, oldest first."""
        return [(r["kind"], r["attempt"], r["outcome"]) for r in self.ask("history", name)["runs"][::-1]]
