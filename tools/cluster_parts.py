"""For `tools.cluster`: the processes that a cluster is made of, and the folder that remembers them."""

import fcntl
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PATIENCE: Final = 90.0
"""Seconds until something that does not come up, or does not end, is given up."""
_STARTED: Final = 18
"""The place of the start time in /proc/PID/stat, counted from the word after the state."""


class Part:
    """One process of the cluster, however it is started and ended."""

    def __init__(self, name: str, log: Path, begin: Callable[[], int], end: Callable[[], None]) -> None:
        """`begin` gives its number, and is called again when it is to come back; `end` waits until it has ended."""
        self.name = name
        self.log = log
        self._begin = begin
        self._end = end
        self.pid = 0
        self.back_at: float | None = None
        """When it is to be started again; None while it runs, or is being started."""

    def begin(self) -> None:
        self.pid = self._begin()

    def end(self) -> None:
        """In order; also if it has ended already."""
        if self.pid:
            self._end()
            self.pid = 0

    def has_ended(self) -> bool:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


class Command:
    """An `evenbeat` command with a log of its own."""

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._argv = argv
        self._environment = {**os.environ, **environment}
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None

    def begin(self) -> int:
        with self.log.open("ab") as log:
            # A session of its own: a Ctrl-C does not reach it, it is told when it is its turn.
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", "evenbeat", *self._argv],
                env=self._environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return self._process.pid

    def end(self, is_hurried: Callable[[], bool]) -> None:
        """Tell it to, and wait; kill it if somebody is in a hurry."""
        process = self._process
        assert process is not None
        if process.poll() is None:
            process.terminate()
            process.send_signal(signal.SIGCONT)  # somebody may have stopped it
        deadline = time.monotonic() + PATIENCE
        while process.poll() is None:
            if is_hurried() or time.monotonic() > deadline:
                process.kill()
            time.sleep(0.02)


class House:
    """The folder of a cluster: its secret, its logs, and which processes run for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self.logs = self.folder / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self._processes = self.folder / "processes"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else uses the folder meanwhile; raise BlockingIOError if somebody does."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield

    def secret(self) -> str:
        """What PostgreSQL and NATS ask for, so that not every user of this machine gets in."""
        file = self.folder / "secret"
        if not file.exists():
            self.write_private("secret", secrets.token_urlsafe(24))
        return file.read_text()

    def write_private(self, name: str, text: str) -> Path:
        """A file for ourselves alone to read."""
        file = self.folder / name
        file.touch(mode=0o600)
        file.write_text(text)
        return file

    def remember(self, parts: Sequence[Part]) -> None:
        """Which processes run for us; each with when it was started, as numbers are used again."""
        running = [(part.pid, _started(part.pid)) for part in parts if part.pid]
        self._processes.write_text("".join(f"{pid} {started}\n" for pid, started in running if started))

    def end_leftovers(self) -> int:
        """End what is left of a time that did not end in order; how many processes that were."""
        lines = self._processes.read_text().splitlines() if self._processes.exists() else []
        left = [(int(pid), started) for pid, started in map(str.split, lines) if _started(int(pid)) == started]
        for pid, _ in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)  # their children notice, and end too
        deadline = time.monotonic() + PATIENCE
        while any(_started(pid) == started for pid, started in left) and time.monotonic() < deadline:
            time.sleep(0.02)
        self._processes.unlink(missing_ok=True)
        return len(left)


def _started(pid: int) -> str:
    """When a process was started, as the kernel counts it; "" if there is none, or it has ended."""
    with suppress(OSError):
        state, *words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if state in "ZX" else words[_STARTED]
    return ""
