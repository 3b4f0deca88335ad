"""Start child processes, watch them, start them again when they end, and stop them: the one place that does.

`SupervisedProcess` is one process. `ProcessSupervisor` keeps processes of one kind and says when another may start.
"""

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final, Generic, Protocol, TypeVar

_STANDARD_ERROR: Final = 2


class SupervisedProcess:
    """A process of ours, in a session of its own: no Ctrl-C of our terminal reaches it.

    Creating one starts the process and watches it on the running loop; raise OSError if the machine is too full.
    """

    def __init__(
        self,
        command: Sequence[str],
        on_exit: Callable[["SupervisedProcess"], None],
        *,
        environment: Mapping[str, str],
        executable: str | None = None,
        stdin: int = subprocess.DEVNULL,
        output: int = _STANDARD_ERROR,
        pass_fds: Sequence[int] = (),
        owned_descriptors: Sequence[int] = (),
    ) -> None:
        """`on_exit` is called once when it has ended, and must see to it that `reap` is called.

        `owned_descriptors` of this process are closed when the child is reaped, or if it cannot be started.
        """
        self._on_exit = on_exit
        self._descriptors = ExitStack()
        for descriptor in owned_descriptors:
            self._descriptors.callback(os.close, descriptor)
        self.started_at: Final = time.monotonic()
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                executable=executable,
                env=environment,
                stdin=stdin,
                stdout=output,
                stderr=output,
                pass_fds=pass_fds,
                start_new_session=True,
                bufsize=0,
            )
        except OSError:
            self._descriptors.close()
            raise
        if self._process.stdin is not None:
            self._descriptors.callback(self._process.stdin.close)
        self.pid: Final = self._process.pid
        try:
            self._pidfd = os.pidfd_open(self.pid)
        except OSError:
            self._process.kill()
            self._process.wait()
            self._descriptors.close()
            raise
        self._descriptors.callback(os.close, self._pidfd)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._pidfd, self._has_ended)

    @property
    def stdin(self) -> int:
        """The descriptor that leads to its standard input, if that is a pipe."""
        assert self._process.stdin is not None
        return self._process.stdin.fileno()

    def signal(self, number: int) -> None:
        """Send it to this process alone, not to what it has started."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, number)

    def reap(self) -> int:
        """Release its number and our descriptors; its exit status, negative for a signal. It must have ended."""
        self._unwatch()
        status = self._process.wait()
        self._descriptors.close()
        return status

    def kill(self) -> None:
        """End it at once and reap it; `on_exit` is not called."""
        self.signal(signal.SIGKILL)
        self.reap()

    def close_stdin_and_wait(self, seconds: float) -> None:
        """Let it end by itself, and wait for that so long; `on_exit` is not called."""
        self._unwatch()
        self._descriptors.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def _has_ended(self) -> None:
        self._unwatch()
        self._on_exit(self)

    def _unwatch(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.remove_reader(self._pidfd)


class RestartBackoff:
    """How long to wait before the next start: not at all, unless the last processes ended soon after their start."""

    SHORT_LIFE: Final = 5.0
    """Seconds: a process that lives no longer than this counts as one that ended at once."""
    FIRST_PAUSE: Final = 0.1
    LONGEST_PAUSE: Final = 10.0
    HOPELESS_AFTER: Final = 4
    """Short lives in a row after which starting another is not expected to help."""
    RETRY_START_AFTER: Final = 1.0
    """Seconds until a machine without room for another process is tried again."""

    def __init__(self) -> None:
        self._short_lives = 0

    def pause_after(self, started_at: float) -> float:
        """Seconds until a process that was started then, and has just ended, may be replaced."""
        if time.monotonic() - started_at > self.SHORT_LIFE:
            self._short_lives = 0
            return 0
        self._short_lives += 1
        return 0 if self._short_lives == 1 else min(self.FIRST_PAUSE * 2 ** (self._short_lives - 2), self.LONGEST_PAUSE)

    @property
    def is_hopeless(self) -> bool:
        """Have processes ended soon after their start again and again?"""
        return self._short_lives >= self.HOPELESS_AFTER


class RunningProcess(Protocol):
    """What a supervisor needs of a process."""

    @property
    def started_at(self) -> float:
        """On the monotonic clock."""

    def signal(self, number: signal.Signals) -> None: ...


P = TypeVar("P", bound=RunningProcess)


class ProcessSupervisor(Generic[P]):
    """The processes of one kind. Use it on a running loop."""

    def __init__(self, start: Callable[[], P], resume: Callable[[], None], *, least_pause: float = 0.0) -> None:
        """`start` makes a process or raises OSError; `resume` is called when another start may be tried.

        `least_pause`: seconds between the end of a process and the next start, at least.
        """
        self._start = start
        self._resume = resume
        self._least_pause = least_pause
        self._backoff = RestartBackoff()
        self._all_ended = asyncio.Event()
        self.processes: Final[list[P]] = []
        """Those that have not ended, or have left something behind."""
        self.restarts = 0
        """Processes that ended before they were told to."""
        self.start_problem = ""
        """Why the last attempt to start one failed, or ""."""
        self.is_pausing = False
        """Is the next start put off? `resume` is called when it is time."""
        self.is_stopping = False
        """No process is started any more."""

    @property
    def is_hopeless(self) -> bool:
        """Have processes ended soon after their start again and again?"""
        return self._backoff.is_hopeless

    def start(self) -> P | None:
        """One more; None if the machine is too full for it now, or if all are to stop."""
        if self.is_stopping:
            return None
        try:
            process = self._start()
        except OSError as e:
            self.start_problem = e.strerror or str(e)
            self._resume_after(RestartBackoff.RETRY_START_AFTER)
            return None
        self.start_problem = ""
        self.processes.append(process)
        return process

    def ended(self, process: P, *, as_wanted: bool = False) -> float:
        """It has ended, `as_wanted` if we have killed it; in how many seconds `resume` is called."""
        self.processes.remove(process)
        if self.is_stopping:
            if not self.processes:
                self._all_ended.set()
            return 0
        self.restarts += not as_wanted
        pause = 0.0 if as_wanted else max(self._backoff.pause_after(process.started_at), self._least_pause)
        self._resume_after(pause)
        return pause

    async def stop(self, grace: float) -> None:
        """Tell all to end, kill those that have not after so many seconds, and wait until they have ended."""
        self.is_stopping = True
        for number in (signal.SIGTERM, signal.SIGKILL):
            if not self.processes:
                return
            for process in self.processes:
                process.signal(number)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_ended.wait(), grace if number == signal.SIGTERM else None)

    def _resume_after(self, seconds: float) -> None:
        self.is_pausing = True
        asyncio.get_running_loop().call_later(seconds, self._resume_now)

    def _resume_now(self) -> None:
        self.is_pausing = False
        if not self.is_stopping:
            self._resume()
