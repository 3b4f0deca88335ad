"""Ends what a worker runs when the worker itself cannot: stopped, or too busy to notice that nobody renews its runs.

`evenbeat.queue.nats_watchdog`, a process beside the worker, hears from it until when its runs are renewed. What goes on
after that could go on elsewhere too: every process that runs things for it is killed, with all that it started.
It imports almost nothing, so that it costs little.
"""

import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from typing import Final

_LOOK: Final = 250
"""Milliseconds between two looks at the clock, which goes on while the machine sleeps, unlike a timer."""
_NUMBER: Final = 8
_SWEEPS: Final = 3
"""A process that is just being started may be missed once."""
_HOST: Final = b"evenbeat.work."
_PARENT: Final = 1
"""Place of the parent after the name of a process in /proc/PID/stat: state, parent, ..."""


class Watchdog:
    """The worker's end of it."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._told = 0

    def start(self) -> None:
        # A session of its own: what stops the worker from a terminal must not stop it.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "evenbeat.queue.nats_watchdog"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._told = 0

    @property
    def pid(self) -> int:
        return -1 if self._process is None else self._process.pid

    def expect(self, until: int) -> None:
        """Nothing may run any more then, on the boot-time clock, unless it hears of us again; 0: nothing runs."""
        if until == self._told or self._process is None or self._process.stdin is None:
            return
        try:
            os.write(self._process.stdin.fileno(), until.to_bytes(_NUMBER, "big"))
            self._told = until
        except BlockingIOError:
            pass  # it is stopped, and so is its part of the work
        except OSError:
            self.stop()
            with suppress(OSError):
                self.start()

    def stop(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            self._process.kill()
            self._process.wait()
            self._process = None


def _boot_time() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def _parent_of(process: int) -> int:
    with suppress(OSError), open(f"/proc/{process}/stat", "rb") as f:  # noqa: PTH123
        return int(f.read().rpartition(b")")[2].split()[_PARENT])
    return 0


def _is_host(process: int) -> bool:
    with suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as f:  # noqa: PTH123
        return _HOST in f.read()
    return False


def end_all(worker: int) -> None:
    """Kill all processes that run things for the worker, each the first of a session, and what they have started."""
    sessions = {process for process in _processes() if _parent_of(process) == worker and _is_host(process)}
    for process in sessions:
        with suppress(OSError):
            os.kill(process, signal.SIGKILL)
    for _ in range(_SWEEPS):
        for process in _processes():
            with suppress(OSError):
                if os.getsid(process) in sessions:
                    os.kill(process, signal.SIGKILL)


def main() -> None:
    """Watch until the worker has gone: then its processes go by themselves."""
    worker, until = os.getppid(), 0
    poll = select.poll()
    poll.register(0, select.POLLIN)
    while True:
        if poll.poll(_LOOK if until else None):
            told = os.read(0, _NUMBER << 9)
            if not told:
                return
            until = int.from_bytes(told[-_NUMBER:], "big")
        elif until and _boot_time() >= until:
            end_all(worker)
            until = 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    main()
