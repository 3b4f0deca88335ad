"""A contender as a process with a folder of its own: started, watched, and stopped with everything that it started."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final, NamedTuple

_STOP_SECONDS: Final = 10.0
"""Time to stop in order; after it the contender is killed."""
_KILL_SECONDS: Final = 5.0
"""Time for killed processes to disappear."""
_POLL_SECONDS: Final = 0.05
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_LOG_END: Final = 2_000


class ContenderFailed(Exception):
    """The contender ended by itself, or has not started in time."""


def common_environment(folder: Path) -> dict[str, str]:
    """The environment of every contender: without a locale, whose archive each child would open."""
    return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "LANG": "C"}


@contextmanager
def folder_for(user_name: str | None) -> Iterator[Path]:
    """A new temporary folder that belongs to this user, or to us."""
    folder = Path(tempfile.mkdtemp(prefix="evenbeat-peers-"))
    try:
        hand_over(folder, user_name)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def hand_over(path: Path, user_name: str | None) -> None:
    """Give a folder, with what is in it, to the user that the contender runs as."""
    user = user_to_run_as(user_name)
    if user is None:
        return
    for each in (path, *path.rglob("*")):
        os.chown(each, user.pw_uid, user.pw_gid)


def user_to_run_as(user_name: str | None) -> pwd.struct_passwd | None:
    """None if the contender runs as we do."""
    return pwd.getpwnam(user_name) if user_name is not None and os.geteuid() == 0 else None


class RunningContender:
    """A started contender."""

    def __init__(
        self, command: Sequence[str], folder: Path, user_name: str | None, environment: Mapping[str, str]
    ) -> None:
        user = user_to_run_as(user_name)
        self._log = folder / "contender.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603
                list(command),
                cwd=folder,
                env=common_environment(folder) | dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is ours: we stop the contender
                user=user and user.pw_uid,
                group=user and user.pw_gid,
                extra_groups=None if user is None else [],
            )
        self.began = monotonic()

    def wait_for(self, path: Path, seconds: float) -> float:
        """Wait until a file is there and not empty; returns the seconds since the start."""
        while not (path.exists() and path.stat().st_size):
            self.check_alive()
            if monotonic() - self.began > seconds:
                raise ContenderFailed(f"no run within {seconds:.0f} s. {self.end_of_log()}")
            sleep(_POLL_SECONDS)
        return monotonic() - self.began

    def work(self, seconds: float) -> None:
        """Let it work for so long."""
        until = monotonic() + seconds
        while (left := until - monotonic()) > 0:
            self.check_alive()
            sleep(min(left, 1.0))

    def check_alive(self) -> None:
        """Raise ContenderFailed if the contender has ended."""
        if self._process.poll() is not None:
            raise ContenderFailed(f"it ended with status {self._process.returncode}. {self.end_of_log()}")

    def reload(self) -> None:
        """Have it read its configuration again: all contenders do so on SIGHUP."""
        self._process.send_signal(signal.SIGHUP)

    def stop(self) -> None:
        """Stop it, in order if it does so in time, with everything that it started."""
        # A contender that dies leaves children behind that nothing connects with it any more: list them before.
        family = {pid: _start_time(pid) for pid in descendants(self._process.pid)}
        if self._process.poll() is None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        family |= {pid: _start_time(pid) for pid in _members_of_session(self._process.pid)}
        self._process.kill()
        self._process.wait()
        until = monotonic() + _KILL_SECONDS
        while (left := [pid for pid, started in family.items() if _is_alive(pid, started)]) and monotonic() < until:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            sleep(_POLL_SECONDS)

    def cpu_seconds(self) -> float:
        """Processor time of the contender and of everything that it started and reaped."""
        return sum(_cpu_seconds(pid) for pid in (self._process.pid, *descendants(self._process.pid)))

    def memory(self) -> int:
        """Bytes of memory of all its processes; what several share counts once (PSS)."""
        return sum(_memory(pid) for pid in (self._process.pid, *descendants(self._process.pid)))

    def end_of_log(self) -> str:
        """What the contender wrote last, in one line."""
        return " ".join(self._log.read_text(errors="replace")[-_LOG_END:].split())


class CpuUse(NamedTuple):
    """How many processors were busy on average."""

    contender: float
    others: float
    """With what else ran on this machine: the less, the more a measurement is worth."""


class CpuWatch:
    """Measures from when it is made until it is asked."""

    def __init__(self, contender: RunningContender) -> None:
        self._contender = contender
        self._began, self._machine, self._ours = monotonic(), _machine_cpu_seconds(), contender.cpu_seconds()

    def use(self) -> CpuUse:
        seconds = monotonic() - self._began
        ours = (self._contender.cpu_seconds() - self._ours) / seconds
        return CpuUse(ours, max(0.0, (_machine_cpu_seconds() - self._machine) / seconds - ours))


@contextmanager
def running(
    command: Sequence[str], folder: Path, user_name: str | None, environment: Mapping[str, str]
) -> Iterator[RunningContender]:
    """Run a contender until the block ends, however it ends."""
    contender = RunningContender(command, folder, user_name, environment)
    try:
        yield contender
    finally:
        contender.stop()


def _machine_cpu_seconds() -> float:
    """Processor time of everything, also what other guests of the same host took (steal)."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = Path("/proc/stat").read_text().split()[1:9]
    return sum(map(int, (user, nice, system, irq, softirq, steal))) / _TICKS


def descendants(pid: int) -> list[int]:
    """All processes below this one."""
    found: list[int] = []
    with suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            with suppress(OSError):
                for child in map(int, children.read_text().split()):
                    found += [child, *descendants(child)]
    return found


def _members_of_session(session: int) -> list[int]:
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [pid for pid in pids if _session(pid) == session]


def _start_time(pid: int) -> str:
    """Tells a process from a later one with its number; empty if there is none."""
    words = _stat_words(pid)
    return words[19] if words else ""


def _is_alive(pid: int, started: str) -> bool:
    words = _stat_words(pid)
    return bool(words) and words[19] == started and words[0] not in "ZX"


def _session(pid: int) -> int:
    words = _stat_words(pid)
    return int(words[3]) if words else 0


def _cpu_seconds(pid: int) -> float:
    words = _stat_words(pid)
    return sum(map(int, words[11:15])) / _TICKS if words else 0.0


def _stat_words(pid: int) -> list[str]:
    """The words of /proc/PID/stat after the name of the program, which may have spaces in it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _memory(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
