"""One worker process as its node sees it: start it, exchange frames with it, and clean up when it has ended."""

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

from evenbeat.child_processes.descriptors import restore_original_limit, restore_raised_limit
from evenbeat.child_processes.orphan_guard import OrphanGuard
from evenbeat.child_processes.process_table import SessionLeader, kill_permitted, process_info, session_members
from evenbeat.child_processes.supervisor import SupervisedProcess
from evenbeat.child_processes.worker_records import WORKER_VARIABLE
from evenbeat.core.environment import without_secrets
from evenbeat.model import OUTPUT_LIMIT
from evenbeat.wire import worker_frames
from evenbeat.wire.plain_results import MessageToNode, read_messages
from evenbeat.wire.worker_frames import (
    TOKEN_OF,
    FrameToWorker,
    OutputFrame,
    ReadOutputFrame,
    RunsFrame,
    RunSpec,
)

_READ: Final = 1 << 20
_RUNS_PER_FRAME: Final = 256
_BYTES_PER_FRAME: Final = 1 << 20
_MAX_LAST_READS: Final = 4
"""Reads from the socket of a dead process. Its buffer holds less than one of them takes; a daemon that has inherited
the
other end must not keep us reading."""
_KILL_ROUNDS: Final = 3
_RETRY_CLEANUP_AFTER: Final = 0.5
"""Seconds between two attempts to clean up after a worker."""
_STANDARD_ERROR: Final = 2
_log: Final = logging.getLogger("evenbeat.node")


class WorkerHandle:
    """A worker process, the socket to it, and its outstanding runs.

    Creating one starts the process; raise OSError if the machine is too full for that at the moment.
    """

    def __init__(
        self,
        program: tuple[str, ...],
        on_frames: Callable[["WorkerHandle", list[MessageToNode]], None],
        on_gone: Callable[["WorkerHandle"], None],
        orphan_guard: OrphanGuard,
        *,
        lifeline: bool,
        environment: dict[str, str] | None = None,
        output: int = _STANDARD_ERROR,
        frame_limit: int = worker_frames.MAX_FRAME_SIZE,
    ) -> None:
        """`environment` is by default ours without our secrets; `output` takes what the process writes outside of runs.
        `frame_limit`: bytes of one frame from it.
        """
        self.outstanding: dict[int, RunSpec] = {}
        """Runs that it was given and has not reported the end of, by token, in the order they were sent."""
        self.accepted_count = 0
        """How many of them it had started, or were not due yet, by its last report."""
        self.reported_running: dict[int, int] = {}
        """Tokens and start times of runs that are known to last: they cost next to nothing."""
        self.is_ready = False
        """Until then it has started none of its runs. True as well once `distrust` was called."""
        self.is_gone = False
        """It has ended. It is replaced when nothing that it started is left."""
        self.cleanup_problem = ""
        """Why the processes that it left cannot be ended yet."""
        self.resource_problem = ""
        """Why it can start no run now."""
        self.read_signal: int | None = None
        """Sent with a question about the output of a run, for a process that reads no frames while it has a run."""
        self.last_heard = time.monotonic()
        self._readers: dict[int, asyncio.Future[OutputFrame]] = {}
        """Questions about the output of a run that are not answered, at most one for each run."""
        self._on_frames = on_frames
        self._on_gone = on_gone
        self._orphan_guard = orphan_guard
        self._frames = worker_frames.FrameSplitter(frame_limit)
        self._unsent = bytearray()
        self._has_to_wait = False
        self._loop = asyncio.get_running_loop()
        with orphan_guard.reserve, ExitStack() as opened, ExitStack() as passed:
            self._socket, theirs = socket.socketpair()
            opened.callback(self._socket.close)
            passed.callback(theirs.close)
            descriptors, owned = [theirs.fileno()], []
            if lifeline:
                reader, writer = os.pipe()
                owned.append(writer)
                passed.callback(os.close, reader)
                descriptors.append(reader)
            command = [sys.executable, "-P", "-m", program[0], *map(str, descriptors), *program[1:]]
            self._process = SupervisedProcess(
                command,
                self._has_ended,
                environment={
                    **(without_secrets(os.environ) if environment is None else environment),
                    WORKER_VARIABLE: orphan_guard.secret,
                },
                output=output,
                pass_fds=descriptors,
                owned_descriptors=owned,
            )
            opened.callback(self._process.kill)
            self.pid: Final = self._process.pid
            restore_original_limit(self.pid)
            about = process_info(self.pid)
            assert about is not None, "it is not reaped, so it is there"
            self.leader: Final = SessionLeader(self.pid, about.started)
            orphan_guard.add(self.leader)
            opened.pop_all()  # from now on `_has_ended` closes them
        self._listen()

    def _listen(self) -> None:
        self._socket.setblocking(False)  # noqa: FBT003
        self._descriptor = self._socket.fileno()
        self._loop.add_reader(self._descriptor, self._read)

    @property
    def started_at(self) -> float:
        """On the monotonic clock."""
        return self._process.started_at

    def move(self, by: int) -> None:
        """The clock was set: move the outstanding runs. The process itself gets a ClockFrame."""
        for run in self.outstanding.values():
            run.move(by)

    @property
    def unstarted_count(self) -> int:
        """Runs that it has had no time to start."""
        return len(self.outstanding) - max(self.accepted_count, len(self.reported_running))

    @property
    def backlog(self) -> int:
        """Runs that still cost processor time."""
        return len(self.outstanding) - len(self.reported_running)

    def give(self, runs: list[RunSpec]) -> None:
        """Send runs, in frames of limited size."""
        self.outstanding.update(zip(map(TOKEN_OF, runs), runs, strict=True))
        for first in range(0, len(runs), _RUNS_PER_FRAME):
            self._send_runs(runs[first : first + _RUNS_PER_FRAME])

    def _send_runs(self, runs: list[RunSpec]) -> None:
        size = sum([len(memoryview(run.job)) for run in runs])
        if size > _BYTES_PER_FRAME and len(runs) > 1:
            half = len(runs) // 2
            self._send_runs(runs[:half])
            self._send_runs(runs[half:])
        else:
            self.send(RunsFrame(runs))

    def have_ended(self, tokens: list[int]) -> None:
        """It has reported the ends of these runs."""
        for token in tokens:
            self.outstanding.pop(token, None)
        for token in tokens if self.reported_running else ():
            self.reported_running.pop(token, None)

    def send(self, message: FrameToWorker) -> None:
        """Send a frame now, or as soon as the worker reads."""
        if self.is_gone:
            return
        self._unsent += worker_frames.encode_frame(message)
        if not self._has_to_wait:
            self._write()
            if self._unsent:
                self._has_to_wait = True
                self._loop.add_writer(self._descriptor, self._write)

    def signal(self, number: signal.Signals) -> None:
        """Send it to the process alone, not to what it has started."""
        self._process.signal(number)

    def read_output(self, token: int, position: int) -> asyncio.Future[OutputFrame]:
        """Ask what one of its runs has written; while an earlier question is open, the answer to that is awaited."""
        reader = self._readers.get(token)
        if reader is None:
            reader = self._readers[token] = self._loop.create_future()
            self.send(ReadOutputFrame(token, position))
        if self.read_signal is not None and self.is_ready:
            self._process.signal(self.read_signal)
        return reader

    def _answer_readers(self, messages: list[MessageToNode]) -> list[MessageToNode]:
        """Give answers to those who asked; returns the other messages."""
        for message in messages:
            if isinstance(message, OutputFrame) and (reader := self._readers.pop(message.token, None)) is not None:
                message.data = message.data[:OUTPUT_LIMIT]
                if not reader.done():
                    reader.set_result(message)
        return [message for message in messages if not isinstance(message, OutputFrame)]

    def distrust(self) -> None:
        """Kill a process that sends what it should not.

        What it sent last is dropped, perhaps with the message that it is ready. So the run at the head of its queue
        counts as started, and is not given to another process.
        """
        self.is_ready = True
        self.signal(signal.SIGKILL)

    def close(self) -> None:
        """Tell it to end: it kills its runs first."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()  # it is dying, and `_has_ended` takes care of its runs
        if self._has_to_wait:
            self._has_to_wait = False
            self._loop.remove_writer(self._descriptor)

    def _read(self) -> bool:
        try:
            data = self._socket.recv(_READ)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            # A worker without its socket is of no use.
            self._loop.remove_reader(self._descriptor)
            self.signal(signal.SIGKILL)
            return False
        self.last_heard = time.monotonic()
        try:
            messages = read_messages(self._frames, data)
        except ValueError:
            self.distrust()
            return False
        if self._readers:
            messages = self._answer_readers(messages)
        if messages:
            try:
                self._on_frames(self, messages)
            except Exception:
                # We do not know which of its runs were handled. When it has ended, the rest of them are.
                message = "messages of worker process %d could not be handled"
                _log.exception(message, self.pid, extra={"action": "failed"})
                self.distrust()
                return False
        return True

    def _has_ended(self, _process: SupervisedProcess) -> None:
        """It has ended: read its last frames, kill what it left, and let the owner take care of its runs."""
        for _ in range(_MAX_LAST_READS):
            if not self._read():
                break
        self.is_gone = True
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        self._clean_up()

    def _clean_up(self) -> None:
        """Clean up now, or as soon as possible: none of its runs is over before every process of it has ended."""
        try:
            with self._orphan_guard.reserve:
                self._kill_leftovers()
        except OSError as e:
            fields = {"action": "leftovers", "worker": self.pid}
            _log.error("processes that a dead worker left cannot be ended yet: %s", e.strerror, extra=fields)
            self.cleanup_problem = e.strerror or str(e)
            restore_raised_limit()
            self._loop.call_later(_RETRY_CLEANUP_AFTER, self._clean_up)
            return
        self._orphan_guard.remove(self.leader)
        self._process.reap()
        self._socket.close()
        try:
            self._on_gone(self)
        except Exception:
            _log.exception("a dead worker process could not be replaced", extra={"action": "failed"})

    def _kill_leftovers(self) -> None:
        # Until the worker is reaped, its process id identifies its session. A process that just forks may be missed
        # once, hence several rounds. A daemon in its own session, whose parent has ended, is meant to stay.
        for _ in range(_KILL_ROUNDS):
            kill_permitted(session_members([self.leader]))
