"""The sender process as its node sees it: started beside the node, replaced when it ends, and given what to deliver."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Final

import msgspec

from evenbeat.child_processes.descriptors import restore_original_limit
from evenbeat.child_processes.process_table import SessionLeader, kill_permitted, process_info, session_members
from evenbeat.child_processes.supervisor import ProcessSupervisor, SupervisedProcess
from evenbeat.core.environment import without_secrets
from evenbeat.wire.sender_documents import (
    MAX_DOCUMENT_SIZE,
    DeliveryEnd,
    DeliveryOrder,
    FrameFromSender,
    delivery_frames,
    encode_delivery_frame,
    sender_frame_decoder,
)

_SENDER_MODULE: Final = "evenbeat.sender.process"
_READ_SIZE: Final = 1 << 18
_MAX_LAST_READS: Final = 8
"""Reads from the socket of a dead process: more than its buffer holds."""
SILENCE_LIMIT: Final = 90.0
"""Seconds without a word from a process that has something to deliver, of which every delivery takes less: it hangs, or
was stopped, and is killed."""
_KILL_ROUNDS: Final = 3
"""A process that just forks may be missed once."""
_STOP_TIMEOUT: Final = 2.0
"""Seconds that it has to end when its socket is closed."""
SENDER_DIED: Final = "the sender process ended while it delivered the message"
_log: Final = logging.getLogger("evenbeat.node")


class SenderProcess:
    """Delivers what it is ordered, one message at a time to each channel. Use it on a running loop.

    Each order ends once, with `on_end`: also if the process dies, or cannot be started.
    """

    def __init__(
        self, on_end: Callable[[DeliveryEnd], None], *, pass_env: Sequence[str] = (), in_cluster: bool = False
    ) -> None:
        """`pass_env` names variables that commands get beside the usual ones, as for the commands of tasks."""
        self._on_end = on_end
        self._pass_env = ",".join(pass_env)
        self._in_cluster = in_cluster
        self._supervisor = ProcessSupervisor(self._new_process, self.start)
        self._all_delivered = asyncio.Event()

    @property
    def problem(self) -> str:
        """Why nothing can be delivered now, or ""."""
        if self._supervisor.start_problem:
            return f"the sender process cannot be started: {self._supervisor.start_problem}"
        return "the sender process ends again and again" if self._supervisor.is_hopeless else ""

    @property
    def pid(self) -> int | None:
        """The id of the process; None if there is none at the moment."""
        process = self._living
        return None if process is None else process.pid

    @property
    def restarts(self) -> int:
        """How often it ended before it was told to."""
        return self._supervisor.restarts

    @property
    def under_way(self) -> int:
        """How many orders have not ended."""
        return sum(len(process.outstanding) for process in self._supervisor.processes)

    def start(self) -> None:
        """Start it now, or in a while if the machine is short of processes or memory."""
        if self._supervisor.start() is None and not self._supervisor.is_stopping:
            problem = self._supervisor.start_problem
            _log.error("the sender process cannot be started: %s", problem, extra={"action": "sender_failed"})

    def order(self, order: DeliveryOrder) -> None:
        """Deliver this. `on_end` is not called before this returns."""
        process = self._living
        size = len(order.document)
        if process is None or size > MAX_DOCUMENT_SIZE:
            error = self.problem or "there is no sender process at the moment"
            if size > MAX_DOCUMENT_SIZE:
                error = f"the message has {size:,} bytes, accepted: at most {MAX_DOCUMENT_SIZE:,}"
            end = DeliveryEnd(order.message, order.channel, is_delivered=False, error=error)
            asyncio.get_running_loop().call_soon(self._on_end, end)
        else:
            process.give(order)

    async def stop(self, grace: float = 5.0) -> None:
        """Let what is under way end, for so many seconds; then the process ends. Give no orders from now on."""
        self._supervisor.is_stopping = True
        if self.under_way:
            self._all_delivered.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._all_delivered.wait(), grace)
        for process in self._supervisor.processes:
            process.close()
        await self._supervisor.stop(_STOP_TIMEOUT)

    @property
    def _living(self) -> "_Sender | None":
        return next((process for process in self._supervisor.processes if not process.is_closed), None)

    def _new_process(self) -> "_Sender":
        environment = without_secrets(os.environ, in_cluster=self._in_cluster)
        return _Sender(environment, self._pass_env, self._delivered, self._has_ended)

    def _delivered(self, end: DeliveryEnd) -> None:
        if not self.under_way:
            self._all_delivered.set()
        try:
            self._on_end(end)
        except Exception:
            _log.exception("the end of a delivery could not be handled", extra={"action": "failed"})

    def _has_ended(self, process: "_Sender", status: int) -> None:
        pause = self._supervisor.ended(process)
        if not self._supervisor.is_stopping:
            fields = {"action": "sender_failed", "status": status}
            message = "the sender process ended with status %d; another starts in %.1f s"
            _log.error(message, status, pause, extra=fields)
        for order in process.outstanding.values():
            self._delivered(
                DeliveryEnd(order.message, order.channel, is_delivered=False, error=SENDER_DIED, may_have_arrived=True)
            )


class _Sender:
    """One sender process, the socket to it, and its outstanding orders. Creating one starts it, or raises OSError."""

    def __init__(
        self,
        environment: dict[str, str],
        pass_env: str,
        on_end: Callable[[DeliveryEnd], None],
        on_gone: Callable[["_Sender", int], None],
    ) -> None:
        self.outstanding: dict[tuple[int, str], DeliveryOrder] = {}
        """By message and channel."""
        self.is_closed = False
        """It is not given anything any more."""
        self._on_end = on_end
        self._on_gone = on_gone
        self._frames = delivery_frames()
        self._unsent = bytearray()
        self._has_to_wait = False
        self._loop = asyncio.get_running_loop()
        self._last_heard = self._loop.time()
        self._watching = self._loop.call_later(0, lambda: None)
        with ExitStack() as opened:
            self._socket, theirs = socket.socketpair()
            opened.callback(self._socket.close)
            with theirs:
                self._process = SupervisedProcess(
                    [sys.executable, "-P", "-m", _SENDER_MODULE, str(theirs.fileno()), pass_env],
                    self._has_ended,
                    environment=environment,
                    pass_fds=(theirs.fileno(),),
                )
            opened.callback(self._process.kill)
            restore_original_limit(self._process.pid)
            about = process_info(self._process.pid)
            assert about is not None, "it is not reaped, so it is there"
            self._leader = SessionLeader(about.pid, about.started)
            opened.pop_all()  # from now on `_has_ended` closes it
        self._socket.setblocking(False)  # noqa: FBT003
        self._loop.add_reader(self._socket, self._read)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def started_at(self) -> float:
        """On the monotonic clock."""
        return self._process.started_at

    def signal(self, number: signal.Signals) -> None:
        """Send it to the process alone, not to the commands that it runs."""
        self._process.signal(number)

    def give(self, order: DeliveryOrder) -> None:
        """Send the order now, or as soon as the process reads."""
        if not self.outstanding:
            self._last_heard = self._loop.time()
            self._watch()
        self.outstanding[order.message, order.channel] = order
        self._unsent += encode_delivery_frame(order)
        if not self._has_to_wait:
            self._write()
            if self._unsent and not self.is_closed:
                self._has_to_wait = True
                self._loop.add_writer(self._socket, self._write)

    def _watch(self) -> None:
        """Kill the process if it does not say anything any more."""
        self._watching.cancel()
        left = self._last_heard + SILENCE_LIMIT - self._loop.time()
        if left > 0:
            self._watching = self._loop.call_later(left, self._watch)
        elif self.outstanding:
            message = "the sender process has not reported anything for %d s, and is killed"
            _log.error(message, SILENCE_LIMIT, extra={"action": "sender_failed"})
            self.signal(signal.SIGKILL)

    def close(self) -> None:
        """Tell it to end: it kills its commands first."""
        self.is_closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _write(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError:
            self._unsent.clear()  # it is dying, and `_has_ended` takes care of its orders
        if self._has_to_wait:
            self._has_to_wait = False
            self._loop.remove_writer(self._socket)

    def _read(self) -> bool:
        try:
            data = self._socket.recv(_READ_SIZE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if not data:
            # Without its socket it is of no use.
            self._loop.remove_reader(self._socket)
            self.is_closed = True
            self.signal(signal.SIGKILL)
            return False
        self._last_heard = self._loop.time()
        try:
            messages: list[FrameFromSender] = [sender_frame_decoder.decode(frame) for frame in self._frames.split(data)]
        except (ValueError, msgspec.DecodeError):
            self.signal(signal.SIGKILL)
            return False
        for message in messages:
            if isinstance(message, DeliveryEnd) and (message.message, message.channel) in self.outstanding:
                del self.outstanding[message.message, message.channel]
                self._on_end(message)
        return True

    def _has_ended(self, _process: SupervisedProcess) -> None:
        """Read its last frames, kill what it left, and let the owner take care of its orders."""
        self._watching.cancel()
        self.is_closed = True
        for _ in range(_MAX_LAST_READS):
            if not self._read():
                break
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        # Until the process is reaped, its id is that of its session.
        with suppress(OSError):
            for _ in range(_KILL_ROUNDS):
                kill_permitted(session_members([self._leader]))
        status = self._process.reap()
        self._socket.close()
        self._on_gone(self, status)
