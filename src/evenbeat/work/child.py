"""One child process as its runner sees it: what it has said, how it ended, and how it is made to end."""

import os
import signal
from contextlib import suppress
from typing import Final

from msgspec import Struct

from evenbeat.child_processes.process_table import ProcessInfo
from evenbeat.model import OUTPUT_LIMIT, Outcome
from evenbeat.wire.worker_frames import RunResult, RunSpec

READ_SIZE: Final = OUTPUT_LIMIT
"""Bytes taken from a pipe at once: all it can hold, unless its writer made it larger."""
_GONE: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT
NO_DESCRIPTOR: Final = -1


class ChildProcess(Struct, gc=False, eq=False):
    """A process, leader of its group, and the pipe its output comes through."""

    run: RunSpec
    process: int
    pipe: int
    started: int
    """On the boot-time clock, as a set clock must not shorten or stretch a timebox."""
    pidfd: int = NO_DESCRIPTOR
    output: bytes | bytearray = b""
    truncated: bool = False
    ending: Outcome | None = None
    """Why we told it to end; None as long as we did not."""
    kill_at: int = 0
    """When patience ends too, once it was told."""
    strays: tuple[ProcessInfo, ...] = ()
    """What it had started outside its group when it was told to end."""
    status: int = 0
    """Once it has ended: its exit status, or less than nothing for a signal."""

    def read(self) -> int:
        """Take what the pipe has now, keep of it what the limit allows; how much it was, 0 at the end of it."""
        data = os.read(self.pipe, READ_SIZE)
        if not self.output:
            self.output = data  # nearly always all there is
        elif data:
            free = OUTPUT_LIMIT - len(self.output)
            self.truncated |= len(data) > free
            if isinstance(self.output, bytes):
                self.output = bytearray(self.output)
            self.output += data[:free]
        return len(data)

    def read_the_rest(self) -> None:
        """What the child had written when it ended. Another process may hold the pipe and never close it."""
        os.set_blocking(self.pipe, False)
        with suppress(BlockingIOError):
            # Once more than can be kept, to know whether that was all.
            for _ in range(1 + OUTPUT_LIMIT // READ_SIZE):
                if not self.read():
                    break

    def signal(self, number: signal.Signals) -> None:
        """Tell the whole group."""
        try:
            os.killpg(self.process, number)
        except (ProcessLookupError, PermissionError):
            # What changed its user cannot be told by a worker that is not root, and there is nobody else to ask.
            return

    def reap(self) -> bool:
        """Has it ended? Then what it left in its group ends with it."""
        gone = os.waitid(os.P_PID, self.process, _GONE)
        if gone is None:
            return False
        # Before the child is reaped, as from then on its number may belong to somebody else.
        self.signal(signal.SIGKILL)
        os.waitpid(self.process, 0)
        self.status = gone.si_status if gone.si_code == os.CLD_EXITED else -gone.si_status
        return True

    def result(self, now: int, offset: int) -> RunResult:
        """How it ended, and all it has said."""
        status = self.status
        if self.ending is not None:
            outcome = self.ending
        elif status == 0:
            outcome = Outcome.SUCCEEDED
        else:
            outcome = Outcome.FAILED if status > 0 else Outcome.KILLED
        started, ended, output = self.started + offset, now + offset, bytes(self.output)
        return RunResult(self.run.token, outcome, status, started, ended, output, None, self.truncated)
