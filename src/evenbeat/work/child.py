"""One child process of the runner: its output, its end and result, and signals to it."""

import os
import signal
from contextlib import suppress
from typing import Final

from msgspec import Struct

from evenbeat.child_processes.process_table import ProcessInfo
from evenbeat.model import OUTPUT_LIMIT, Outcome
from evenbeat.wire.worker_frames import RunResult, RunSpec

_READ_SIZE: Final = OUTPUT_LIMIT
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

    def read(self, *, is_hung_up: bool) -> bool:
        """Read what the pipe has now, and keep it up to the limit. Was that all?"""
        data = os.read(self.pipe, _READ_SIZE)
        if not self.output:
            self.output = data  # nearly always the whole output
        elif data:
            free = OUTPUT_LIMIT - len(self.output)
            self.truncated |= len(data) > free
            if isinstance(self.output, bytes):
                self.output = bytearray(self.output)
            self.output += data[:free]
        # When nobody can write any more and everything was read, there is no need to wait for end of file.
        return not data or (is_hung_up and len(data) < _READ_SIZE)

    def signal(self, number: signal.Signals) -> None:
        """Send it to the whole process group."""
        try:
            os.killpg(self.process, number)
        except (ProcessLookupError, PermissionError):
            # A worker that is not root cannot signal a process that has changed its user.
            return

    def reap(self, now: int, offset: int) -> RunResult | None:
        """Has it ended? Then kill the rest of its group, reap it, and return the result of its run."""
        gone = os.waitid(os.P_PID, self.process, _GONE)
        if gone is None:
            return None
        # Before the child is reaped, as after that another process may get its id.
        self.signal(signal.SIGKILL)
        os.waitpid(self.process, 0)
        if self.pipe != NO_DESCRIPTOR:
            self._read_the_rest()
        status = gone.si_status if gone.si_code == os.CLD_EXITED else -gone.si_status
        if self.ending is not None:
            outcome = self.ending
        elif status == 0:
            outcome = Outcome.SUCCEEDED
        else:
            outcome = Outcome.FAILED if status > 0 else Outcome.KILLED
        started, ended, output = self.started + offset, now + offset, bytes(self.output)
        return RunResult(self.run.token, outcome, status, started, ended, output, None, self.truncated)

    def _read_the_rest(self) -> None:
        """Read what the child had written before its end. Another process may hold the pipe open for ever."""
        os.set_blocking(self.pipe, False)
        with suppress(BlockingIOError):
            # One read more than can be kept, to know whether that was all.
            for _ in range(1 + OUTPUT_LIMIT // _READ_SIZE):
                if self.read(is_hung_up=False):
                    break
