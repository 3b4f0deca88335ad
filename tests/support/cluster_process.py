"""A scheduler or a worker of a cluster, as a process of its own that can be killed, stopped and held."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from waiting import PATIENCE, eventually

_HERE: Final = Path(__file__).parent


class ClusterProcess:
    """`evenbeat ARGUMENT...`, again and again; all lives write to one log."""

    def __init__(
        self,
        name: str,
        folder: Path,
        arguments: list[str],
        planted: dict[str, Any] | None = None,
        python: str = sys.executable,
    ) -> None:
        """`python`: of an environment with the version of evenbeat that its next life is to have."""
        self.name = name
        self.python = python
        self.planted = planted or {}
        self._arguments = arguments
        self._ready = "action=ready" if arguments[0] == "scheduler" else "action=queue_up"
        self._log = folder / f"{name}.log"
        self._log.touch()
        self._began = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """It is on its way when this returns, and up when `is_ready` says so."""
        assert not self.is_alive
        words = (
            [str(_HERE / "cluster_process_launcher.py"), json.dumps(self.planted)]
            if self.planted
            else ["-m", "evenbeat"]
        )
        self._began = self._log.stat().st_size
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                [self.python, *words, *self._arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output
            )

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def output(self) -> str:
        """What it has said in this life."""
        return self._log.read_bytes()[self._began :].decode(errors="replace")

    def is_ready(self) -> bool:
        assert self.is_alive, f"{self.name} is gone:\n{self.output}"
        return self._ready in self.output

    def wait_until_ready(self) -> None:
        eventually(self.is_ready, f"{self.name} is ready")

    def kill(self) -> None:
        """At once, whatever it does."""
        assert self._process is not None
        self._process.kill()
        assert self._process.wait(PATIENCE) == -signal.SIGKILL

    def terminate(self) -> None:
        """Ask it to stop in order."""
        os.kill(self.pid, signal.SIGTERM)

    def wait_until_stopped(self) -> None:
        assert self._process is not None
        assert self._process.wait(PATIENCE) == 0, f"{self.name}:\n{self.output}"

    def hold(self) -> None:
        """As a machine does that swaps, or a hypervisor that moves it elsewhere."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """Whatever became of the test, nothing goes on."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
