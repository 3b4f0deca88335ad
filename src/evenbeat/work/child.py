"""One child process of the runner: its output, its end and result, and signals to it."""

import os
import signal
from contextlib import suppress
from typing import Final

from msgspec import Struct

from evenbeat.child_processes.process_table import ProcessInfo
from evenbeat.model import OUTPUT_LIMIT, Outcome
from evenbeat.wire.worker_frames import RunResult, RunSpec

READ_SIZE: Final = OUTPUT_LIMIT
"""Bytes read from a pipe at once: all that it can hold, unless the writer made it larger."""
_GONE: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT
NO_DESCRIPTOR: Final = -1


class ChildProcess(Struct, gc=False, eq=False):
    """A process, leader of its group, and the pipe of its output."""

    run: RunSpec
    process: int
    pipe: int
    started: int
    """By the boot-time clock, as setting the clock must not shorten or stretch a timebox."""
    pidfd: int = NO_DESCRIPTOR
    output: bytes | bytearray = b""
    truncated: bool = False
    ending: Outcome | None = None
    """The outcome if we told it to end; None if we did not."""
    kill_at: int = 0
    """When it is killed, once it was told to end."""
    strays: tuple[ProcessInfo, ...] = ()
    """Processes that it had started outside its group when it was told to end."""
    status: int = 0
    """After its end: the exit status, negative for a signal."""

    def read(self) -> int:
        """Read what the pipe has now, and keep it up to the limit; the number of bytes read, 0 at end of file."""
        data = os.read(self.pipe, READ_SIZE)
        if not self.output:
            self.output = data  # nearly always the whole output
        elif data:
            free = OUTPUT_LIMIT - len(self.output)
            self.truncated |= len(data) > free
            if isinstance(self.output, bytes):
                self.output = bytearray(self.output)
            self.output += data[:free]
        return len(data)

    def read_the_rest(self) -> None:
        """Read what the child had written before its end. Another process may hold the pipe open for ever."""
        os.set_blocking(self.pipe, False)
        with suppress(BlockingIOError):
            # One read more than can be kept, to know whether that was all.
            for _ in range(1 + OUTPUT_LIMIT // READ_SIZE):
                if not self.read():
                    break

    def signal(self, number: signal.Signals) -> None:
        """Send it to the whole process group."""
        try:
            os.killpg(self.process, number)
        except (ProcessLookupError, PermissionError):
            # A worker that is not root cannot signal a process that has changed its user.
            return

    def reap(self) -> bool:
        """Has it ended? Then kill the rest of its group and reap it."""
        gone = os.waitid(os.P_PID, self.process, _GONE)
        if gone is None:
            return False
        # Before the child is reaped, as after that another process may get its id.
        self.signal(signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.status = gone.si_status if gone.si_code == os.CLD_EXITED else -gone.si_status
        return True

    def result(self, now: int, offset: int) -> RunResult:
        """The result of its run, once it was reaped."""
        status = self.status
        if self.ending is not None:
            outcome = self.ending
        elif status == 0:
            outcome = Outcome.SUCCEEDED
        else:
            outcome = Outcome.FAILED if status > 0 else Outcome.KILLED
        started, ended, output = self.started + offset, now + offset, bytes(self.output)
        return RunResult(self.run.token, outcome, status, started, ended, output, None, self.truncated)
