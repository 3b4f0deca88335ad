"""One attempt to deliver a message: how much time is left, what it waits for, and how it is interrupted."""

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import msgspec

from evenbeat.core.channels import is_reference
from evenbeat.model import SECOND
from evenbeat.sender.references import SecretScrubber, read_reference
from evenbeat.wire.sender_documents import DeliveryOrder, MessageDocument, Refusal, message_decoder


class NotDelivered(Exception):
    """A message was not delivered; says why, for the person who must act."""

    def __init__(
        self, problem: str, *, may_have_arrived: bool = False, detail: str = "", refusal: Refusal = ""
    ) -> None:
        super().__init__(problem)
        self.refusal = refusal
        self.may_have_arrived = may_have_arrived
        self.detail = detail


class Attempt:
    """Shared by the thread that delivers and the main thread, which ends the attempt when its time is over."""

    def __init__(self, order: DeliveryOrder) -> None:
        self.order = order
        self.started = time.monotonic()
        self.deadline = self.started + order.timeout / SECOND
        self.waits_for = "the delivery to begin"
        """Reported if time runs out."""
        self.has_left = False
        """So much was sent that the receiver may have the message."""
        self._scrubber = SecretScrubber()
        self._interrupt: Callable[[], None] | None = None
        self._is_interrupted = False
        self._lock = threading.Lock()

    def document(self) -> MessageDocument:
        """The message as it is delivered in this attempt."""
        document = message_decoder.decode(self.order.document)
        document.possible_repetition |= self.order.possible_repetition
        return document

    def remaining(self) -> float:
        """Seconds left; raise NotDelivered if there are none."""
        left = self.deadline - time.monotonic()
        if left <= 0 or self._is_interrupted:
            raise NotDelivered(self.timeout_text(), may_have_arrived=self.has_left)
        return left

    def timeout_text(self) -> str:
        """What is said if time runs out."""
        return f"gave up after {self.order.timeout / SECOND:g} s while waiting for {self.waits_for}"

    def resolve(self, text: str, what: str) -> str:
        """The value of a text that may be a reference. `quote` removes the value from what is reported.

        Raise NotDelivered, which names the reference, if it cannot be read.
        """
        try:
            value = read_reference(text, what)
        except ValueError as e:
            raise NotDelivered(str(e)) from None
        self._scrubber.add(value, with_host=is_reference(text))
        return value

    def quote(self, text: str) -> str:
        """Words of a receiver or of a library, which may repeat a secret, as they may be reported."""
        return self._scrubber.scrub(text)

    def connect(self, host: str, port: int, shown: str) -> socket.socket:
        """A connection to this host. Raise NotDelivered, which calls it `shown`."""
        self.waits_for = f"the address of {shown}"
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as e:
            reason = getattr(e, "strerror", None) or "not a valid host name"
            raise NotDelivered(f"no address of {shown} was found: {reason}") from None
        self.waits_for = f"a connection to {shown}"
        problem = "it has no address"
        for family, kind, protocol, _, address in found:
            try:
                connection = socket.socket(family, kind, protocol)
            except OSError as e:
                problem = _in_words(e)
                continue
            self.watch_socket(connection)
            try:
                connection.settimeout(self.remaining())
                connection.connect(address)
            except OSError as e:
                connection.close()
                self.remaining()
                problem = _in_words(e)
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        raise NotDelivered(f"no connection to {shown}: {problem}")

    def watch_socket(self, connection: socket.socket) -> None:
        """Shut it down if the attempt is interrupted: what waits for it ends at once."""

        def shut_down() -> None:
            with suppress(OSError, ValueError):
                connection.shutdown(socket.SHUT_RDWR)

        self.interrupt_by(shut_down)

    def interrupt_by(self, interrupt: Callable[[], None]) -> None:
        """Call this, from another thread, if the attempt is interrupted; at once if it is already."""
        with self._lock:
            self._interrupt = interrupt
            if not self._is_interrupted:
                return
        interrupt()

    def interrupt(self) -> None:
        """End it as soon as possible. It may still report an end, which does not count any more."""
        with self._lock:
            self._is_interrupted = True
            interrupt = self._interrupt
        if interrupt is not None:
            interrupt()


def encode_document(document: MessageDocument) -> bytes:
    """The JSON that webhooks and commands get."""
    return msgspec.json.encode(document)


def _in_words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer"
    return (error.strerror or str(error) or type(error).__name__).lower()
