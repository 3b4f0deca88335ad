"""One worker process as its node sees it: started, spoken to, and buried with all that it left behind."""

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

from evenbeat.child_processes.cleanup import OrphanGuard
from evenbeat.child_processes.descriptors import restore_original_limit, restore_raised_limit
from evenbeat.child_processes.process_table import SessionLeader, kill_permitted, process_info, session_members
from evenbeat.child_processes.supervisor import SupervisedProcess
from evenbeat.child_processes.worker_records import WORKER_VARIABLE
from evenbeat.core.environment import without_secrets
from evenbeat.wire import worker_frames
from evenbeat.wire.worker_frames import CancelFrame, ClockFrame, FrameToNode, RunsFrame, RunSpec

_READ: Final = 1 << 20
_RUNS_PER_FRAME: Final = 256
_BYTES_PER_FRAME: Final = 1 << 20
_LAST_LINES: Final = 4
"""Reads from the socket of a dead process, which holds less than one of them takes: a daemon that has got hold of its
end must not keep us listening."""
_MAX_SWEEPS: Final = 3
_SWEEP_INTERVAL: Final = 0.5
"""Seconds between two attempts to clear up after a worker."""
_STANDARD_ERROR: Final = 2
_log: Final = logging.getLogger("evenbeat.node")


class WorkerHandle:
    """A process that runs things, the socket to it, and the runs it has been given and not yet told the end of.

    Creating one starts the process; OSError, if the machine is too full for that at the moment.
    """

    def __init__(
        self,
        program: tuple[str, ...],
        heard: Callable[["WorkerHandle", list[FrameToNode]], None],
        died: Callable[["WorkerHandle"], None],
        keeper: OrphanGuard,
        *,
        lifeline: bool,
        environment: dict[str, str] | None = None,
        output: int = _STANDARD_ERROR,
        frame_limit: int = worker_frames.MAX_FRAME_SIZE,
    ) -> None:
        """`environment` is ours without our secrets, unless another one is given; `output` is where it writes what no
        run has said. `frame_limit`: bytes of what it may say at once.
        """
        self.outstanding: dict[int, RunSpec] = {}
        """In the order they were sent."""
        self.accepted_count = 0
        """Of them, those that it has begun or that were not due yet when it said so last."""
        self.reported_running: dict[int, int] = {}
        """Those known to have started, and when: they wait for something and cost next to nothing."""
        self.is_ready = False
        """Before that, nothing it was given has been begun."""
        self.is_gone = False
        """It has ended. It is replaced when nothing of it is left."""
        self.cleanup_problem = ""
        """Why what it left behind cannot be ended yet."""
        self.resource_problem = ""
        """Why it can start nothing now."""
        self.last_heard = time.monotonic()
        self._heard = heard
        self._died = died
        self._keeper = keeper
        self._frames = worker_frames.FrameSplitter(frame_limit)
        self._unsent = bytearray()
        self._has_to_wait = False
        self._loop = asyncio.get_running_loop()
        with keeper.reserve, ExitStack() as opened, ExitStack() as passed:
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
                self._bury,
                environment={
                    **(without_secrets(os.environ) if environment is None else environment),
                    WORKER_VARIABLE: keeper.secret,
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
            keeper.add(self.leader)
            opened.pop_all()  # from now on `_bury` closes them
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
        """The clock was set; the process itself hears of it by its `Clock`."""
        for run in self.outstanding.values():
            run.move(by)

    @property
    def unstarted_count(self) -> int:
        """Runs that it has not begun for want of time."""
        return len(self.outstanding) - max(self.accepted_count, len(self.reported_running))

    @property
    def backlog(self) -> int:
        """Runs that still cost something."""
        return len(self.outstanding) - len(self.reported_running)

    def give(self, runs: list[RunSpec]) -> None:
        """Send runs, in frames of a bearable size."""
        self.outstanding.update((run.token, run) for run in runs)
        part: list[RunSpec] = []
        size = 0
        for run in runs:
            part.append(run)
            size += len(memoryview(run.job))
            if len(part) == _RUNS_PER_FRAME or size > _BYTES_PER_FRAME:
                self.send(RunsFrame(part))
                part, size = [], 0
        if part:
            self.send(RunsFrame(part))

    def send(self, message: RunsFrame | ClockFrame | CancelFrame) -> None:
        """Send it now, or as soon as the worker reads."""
        if self.is_gone:
            return
        self._unsent += worker_frames.encode_frame(message)
        if not self._has_to_wait:
            self._write()
            if self._unsent:
                self._has_to_wait = True
                self._loop.add_writer(self._descriptor, self._write)

    def signal(self, number: signal.Signals) -> None:
        """Tell the process, not what it has started."""
        self._process.signal(number)

    def close(self) -> None:
        """Tell it to go: it kills what it runs, and ends."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()  # it is dying, and `_bury` will see to its runs
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
            # Its end of the socket is its life.
            self._loop.remove_reader(self._descriptor)
            self.signal(signal.SIGKILL)
            return False
        self.last_heard = time.monotonic()
        try:
            messages = worker_frames.decode_node_frames(self._frames.split(data))
        except ValueError:
            self.signal(signal.SIGKILL)  # what cannot be understood cannot be trusted with runs
            return False
        if messages:
            try:
                self._heard(self, messages)
            except Exception:
                # Nobody knows which of its runs were seen to. When it has ended, all that are left are.
                _log.exception("what worker process %d said was not understood", self.pid, extra={"action": "failed"})
                self.signal(signal.SIGKILL)
                return False
        return True

    def _bury(self, _process: SupervisedProcess) -> None:
        """It has ended: hear its last words, end what it left behind, and let the owner see to its runs."""
        for _ in range(_LAST_LINES):
            if not self._read():
                break
        self.is_gone = True
        self._loop.remove_reader(self._descriptor)
        self._loop.remove_writer(self._descriptor)
        self._clear_up()

    def _clear_up(self) -> None:
        """Now, or as soon as it can be done: before nothing of it is left, none of its runs is over."""
        try:
            with self._keeper.reserve:
                self._sweep()
        except OSError as e:
            told = {"action": "leftovers", "worker": self.pid}
            _log.error("what a dead worker process left cannot be ended yet: %s", e.strerror, extra=told)
            self.cleanup_problem = e.strerror or str(e)
            restore_raised_limit()
            self._loop.call_later(_SWEEP_INTERVAL, self._clear_up)
            return
        self._keeper.remove(self.leader)
        self._process.reap()
        self._socket.close()
        try:
            self._died(self)
        except Exception:
            _log.exception("a dead worker process was not replaced in order", extra={"action": "failed"})

    def _sweep(self) -> None:
        # Until it is reaped, its number names its session and nothing else. A process that is just forking may be
        # missed once, hence more than one sweep; a daemon, whose parent has ended, wanted to stay.
        for _ in range(_MAX_SWEEPS):
            kill_permitted(session_members([self.leader]))
