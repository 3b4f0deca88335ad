"""One child process of the runner: its output, its end and result, and signals to it."""

import os
import signal
from contextlib import suppress
from typing import Final

from msgspec import Struct

from evenbeat.child_processes.process_table import ProcessInfo
from evenbeat.model import OUTPUT_LIMIT, Outcome
from evenbeat.wire.worker_frames import RunResult, RunSpec
from evenbeat.work.output_buffer import OutputBuffer

_READ_SIZE: Final = OUTPUT_LIMIT
"""Bytes read from a pipe at once: all that it can hold, unless the writer made it larger."""
_GONE: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT
NO_DESCRIPTOR: Final = -1
_LAST_READS: Final = 16
"""Reads from the pipe of a child that has ended: as much as a pipe can be made to hold."""


class ChildProcess(Struct, gc=False, eq=False):
    """A process, leader of its group, and the pipe of its output."""

    run: RunSpec
    process: int
    pipe: int
    started: int
    """By the boot-time clock, as setting the clock must not shorten or stretch a timebox."""
    pidfd: int = NO_DESCRIPTOR
    output: bytes | OutputBuffer = b""
    keep: int | None = None
    """Bytes of its output to keep, if its task says so."""
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
            if isinstance(self.output, bytes):
                self.output = OutputBuffer(self.output, self.keep)
            self.output.write(data)
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
        result = RunResult(self.run.token, outcome, status, self.started + offset, now + offset, b"")
        output = self.output
        if self.keep is not None and isinstance(output, bytes):
            output = OutputBuffer(output, self.keep)
        if isinstance(output, OutputBuffer):
            result.output, result.truncated, result.whole = output.kept(), output.is_truncated, output.whole()
        else:
            result.output = output
        return result

    def output_after(self, position: int) -> tuple[int, bytes]:
        """What it has written from a position on, as far as that was read, and where that begins."""
        if isinstance(self.output, OutputBuffer):
            return self.output.after(position)
        return position, self.output[position:]

    def _read_the_rest(self) -> None:
        """Read what the child had written before its end. Another process may hold the pipe open for ever."""
        os.set_blocking(self.pipe, False)
        with suppress(BlockingIOError):
            for _ in range(_LAST_READS):
                if self.read(is_hung_up=False):
                    break
