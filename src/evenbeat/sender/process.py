"""The sender process: delivers the messages that its node orders, each in a thread of its own, and ends with its node.

Threads, because finding an address, mail and apprise block. A thread that does not return when its time is over is left
alone: the main thread reports the end of the delivery, so a receiver that hangs keeps nothing but its own messages.
"""

import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

import msgspec

from evenbeat.child_processes.descriptors import raise_descriptor_limit
from evenbeat.load.safe_text import escaped_line
from evenbeat.model import SECOND
from evenbeat.sender.apprise_urls import deliver_by_apprise
from evenbeat.sender.attempt import Attempt, NotDelivered
from evenbeat.sender.command import deliver_by_command
from evenbeat.sender.mail import deliver_by_mail
from evenbeat.sender.webhook import deliver_by_webhook
from evenbeat.wire.sender_documents import (
    RESULT_TEXT_LIMIT,
    DeliveryEnd,
    DeliveryOrder,
    Refusal,
    SenderReady,
    delivery_frames,
    encode_delivery_frame,
    order_decoder,
)

_QUICK_LIMIT: Final = 64
"""Deliveries at once that have just begun ..."""
_QUICK_TIME: Final = 0.25
"""... that is within this many seconds. Those that last longer only wait for their receivers."""
_THREAD_LIMIT: Final = 1_024
"""Threads, with those that do not return."""
_SUSPECT_LIMIT: Final = 512
"""Threads that may deliver to channels whose last delivery took all of its time, or that did not return."""
_STACK_SIZE: Final = 1 << 20
_READ_SIZE: Final = 1 << 20
_CANNOT_GO_ON: Final = 3
"""Exit status of a sender with too many threads that do not return; the node starts another one."""


class Sender:
    """What is to be delivered, what is being delivered, and the socket to the node."""

    def __init__(self, connection: socket.socket, pass_env: Sequence[str] = ()) -> None:
        self._connection = connection
        self._pass_env = pass_env
        self._frames = delivery_frames()
        self._unsent = bytearray()
        self._waiting: deque[DeliveryOrder] = deque()
        self._at_work: dict[str, Attempt] = {}
        """By channel."""
        self._threads: dict[Attempt, threading.Thread] = {}
        self._suspects: set[str] = set()
        """Channels whose last delivery took all of its time."""
        self._ends: SimpleQueue[tuple[Attempt, DeliveryEnd]] = SimpleQueue()
        self._wake_reader, self._wake_writer = socket.socketpair()

    def run(self) -> int:
        """Deliver until the node closes its end; the exit status. Then all that is under way is interrupted."""
        try:
            return self._run()
        finally:
            for attempt in self._threads:
                attempt.interrupt()  # commands are killed
            self._wake_reader.close()
            self._wake_writer.close()

    def _run(self) -> int:
        for one in (self._connection, self._wake_reader, self._wake_writer):
            one.setblocking(False)  # noqa: FBT003
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_reader, selectors.EVENT_READ)
            selector.register(self._connection, selectors.EVENT_READ)
            self._send(SenderReady(os.getpid()))
            while True:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)
                selector.modify(self._connection, wanted)
                for key, events in selector.select(self._pause()):
                    if key.fileobj is self._wake_reader:
                        with suppress(BlockingIOError):
                            self._wake_reader.recv(_READ_SIZE)
                    elif events & selectors.EVENT_READ and not self._read():
                        return 0
                if not self._write():
                    return 0
                self._collect_ends()
                self._end_overdue()
                if len(self._threads) - len(self._at_work) > _SUSPECT_LIMIT:
                    return _CANNOT_GO_ON
                self._begin_waiting()

    # What waits and what begins

    def _begin_waiting(self) -> None:
        """Begin all that may begin now. Channels that took all of their time before come after the others."""
        if not self._waiting:
            return
        since = time.monotonic() - _QUICK_TIME
        room = _QUICK_LIMIT - sum(attempt.started > since for attempt in self._at_work.values())
        for suspects in (False, True):
            for _ in range(len(self._waiting)):
                order = self._waiting.popleft()
                if room > 0 and (order.channel in self._suspects) is suspects and self._may_begin(order.channel):
                    self._begin(order)
                    room -= 1
                else:
                    self._waiting.append(order)

    def _may_begin(self, channel: str) -> bool:
        limit = _SUSPECT_LIMIT if channel in self._suspects else _THREAD_LIMIT
        return channel not in self._at_work and len(self._threads) < limit

    def _begin(self, order: DeliveryOrder) -> None:
        attempt = Attempt(order)
        thread = threading.Thread(target=self._deliver, args=(attempt,), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            end = DeliveryEnd(order.message, order.channel, is_delivered=False, error="the machine has no thread left")
            self._send(end)
            return
        self._threads[attempt] = thread
        self._at_work[order.channel] = attempt

    def _pause(self) -> float | None:
        """Seconds until something is due."""
        now = time.monotonic()
        due = [attempt.deadline for attempt in self._at_work.values()]
        if self._waiting:
            due += [at for one in self._at_work.values() if (at := one.started + _QUICK_TIME) > now]
        return max(min(due) - now, 0) if due else None

    # What ends

    def _deliver(self, attempt: Attempt) -> None:
        """In a thread."""
        end = deliver(attempt, self._pass_env)
        self._ends.put((attempt, end))
        with suppress(OSError):
            self._wake_writer.send(b".")

    def _collect_ends(self) -> None:
        while True:
            try:
                attempt, end = self._ends.get_nowait()
            except Empty:
                return
            del self._threads[attempt]
            if self._at_work.get(end.channel) is attempt:
                del self._at_work[end.channel]
                self._suspects.discard(end.channel)
                self._send(end)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for channel, attempt in list(self._at_work.items()):
            if attempt.deadline <= now:
                attempt.interrupt()
                del self._at_work[channel]
                self._suspects.add(channel)
                self._send(_end_of(attempt, error=attempt.timeout_text(), may_have_arrived=attempt.has_left))

    # The socket

    def _read(self) -> bool:
        try:
            data = self._connection.recv(_READ_SIZE)
        except BlockingIOError:
            return True
        except OSError:
            return False
        for frame in self._frames.split(data):
            self._waiting.append(order_decoder.decode(frame))
        return bool(data)

    def _send(self, message: DeliveryEnd | SenderReady) -> None:
        self._unsent += encode_delivery_frame(message)

    def _write(self) -> bool:
        try:
            while self._unsent:
                del self._unsent[: self._connection.send(self._unsent)]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True


def deliver(attempt: Attempt, pass_env: Sequence[str] = ()) -> DeliveryEnd:
    """Deliver a message, once; how that ended."""
    problem = ""
    try:
        match attempt.order.kind:
            case "webhook":
                detail = deliver_by_webhook(attempt)
            case "command":
                detail = deliver_by_command(attempt, pass_env)
            case "email":
                detail, problem = deliver_by_mail(attempt)
            case "send":
                detail, problem = deliver_by_apprise(attempt)
    except NotDelivered as e:
        return _end_of(attempt, error=str(e), detail=e.detail, may_have_arrived=e.may_have_arrived, refusal=e.refusal)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return _end_of(attempt, error="the message cannot be read")
    except Exception as e:  # its words may have a secret in them
        error = f"the delivery failed unexpectedly ({type(e).__name__})"
        return _end_of(attempt, error=error, may_have_arrived=attempt.has_left)
    return _end_of(attempt, is_delivered=True, error=problem, detail=detail)


def _end_of(
    attempt: Attempt,
    *,
    is_delivered: bool = False,
    error: str = "",
    detail: str = "",
    may_have_arrived: bool = False,
    refusal: Refusal = "",
) -> DeliveryEnd:
    order = attempt.order
    return DeliveryEnd(
        order.message,
        order.channel,
        is_delivered=is_delivered,
        error=_reported(error),
        detail=_reported(detail),
        lasted=int((time.monotonic() - attempt.started) * SECOND),
        may_have_arrived=may_have_arrived,
        refusal=refusal,
    )


def _reported(text: str) -> str:
    """One short line without control characters."""
    return escaped_line(" ".join(text.split()))[:RESULT_TEXT_LIMIT]


def main(descriptor: int, pass_env: Sequence[str]) -> int:
    """Deliver until the node closes the socket."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the node says when it is over
    raise_descriptor_limit()
    threading.stack_size(_STACK_SIZE)
    # With vfork all threads would wait for a program on a file server that does not answer.
    subprocess._USE_VFORK = False  # type: ignore[misc] # its documentation says so
    with socket.socket(fileno=descriptor) as connection:
        return Sender(connection, pass_env).run()


if __name__ == "__main__":
    exit_status = main(int(sys.argv[1]), [name for name in sys.argv[2].split(",") if name])
    os._exit(exit_status)  # without waiting for threads that do not return
