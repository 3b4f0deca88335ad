"""The messages that a cluster worker has fetched, and the runs in them."""

from typing import Final

from evenbeat.model import SECOND, Outcome
from evenbeat.queue.nats.connection import NatsConnection
from evenbeat.queue.nats.stream import IN_PROGRESS_INTERVAL
from evenbeat.wire.worker_frames import RunResult, RunSpec

_NAK_WITH_DELAY: Final = b'-NAK {"delay": 200000000}'
_ACK_IN_PROGRESS: Final = b"+WPI"
ACK_TERMINATE: Final = b"+TERM"


class FetchedMessage:
    """A message that was fetched, until all of its runs are done."""

    __slots__ = ("key", "last_progress_at", "open", "reply")

    def __init__(self, key: tuple[int, str], reply: str, now: int) -> None:
        self.key = key
        self.reply = reply
        self.open: set[int] = set()
        self.last_progress_at = now
        """When the servers were last told that we still work on it."""


class HeldRun:
    """A run that came with a message."""

    __slots__ = (
        "delivery",
        "fetched_at",
        "function",
        "is_cancelled",
        "is_fenced",
        "kill_at",
        "node",
        "plain_times",
        "renewed_at",
        "result",
        "run",
        "sends",
        "sent",
        "task",
        "token",
    )  # fmt: skip

    def __init__(
        self, task: int, run: RunSpec, function: str | None, node: str, delivery: FetchedMessage, now: int
    ) -> None:
        self.token = run.token
        self.task = task
        self.run = run
        self.function = function
        self.node = node
        """The node that is asked and reported to first: it offered, granted or last renewed the run."""
        self.delivery: FetchedMessage | None = delivery
        self.fetched_at = now
        self.renewed_at = 0
        """When the status or request was sent whose answer last renewed it."""
        self.kill_at = 0
        """It was told to end, and is killed at this time; 0 if it was not."""
        self.is_cancelled = False
        self.is_fenced = False
        """It was ended because no node renewed it."""
        self.result: RunResult | None = None
        self.plain_times: tuple[int, int] | None = None
        """When it started and ended, if that is all that its result says; then it has no `result`."""
        self.sent = 0
        self.sends = 0

    @property
    def full_result(self) -> RunResult | None:
        """The result, None if the run has not ended."""
        if self.plain_times is None:
            return self.result
        return RunResult(self.token, Outcome.SUCCEEDED, 0, *self.plain_times, b"")


class FetchedMessages:
    """The messages whose runs a worker has not finished."""

    def __init__(self, connection: NatsConnection) -> None:
        self._connection = connection
        self._open: dict[tuple[int, str], FetchedMessage] = {}

    def fetched(self, key: tuple[int, str], reply: str, now: int) -> FetchedMessage:
        """A message has arrived, perhaps again."""
        delivery = self._open.get(key)
        if delivery is None:
            delivery = self._open[key] = FetchedMessage(key, reply, now)
        delivery.reply, delivery.last_progress_at = reply, now
        return delivery

    def settle(self, delivery: FetchedMessage) -> None:
        """Acknowledge the message if none of its runs is left to do."""
        if not delivery.open and self._open.pop(delivery.key, None) is delivery:
            self._connection.send(delivery.reply, b"")

    def done(self, held_run: HeldRun) -> None:
        """This run is done; acknowledge its message if that was the last one."""
        if held_run.delivery is not None:
            held_run.delivery.open.discard(held_run.token)
            self.settle(held_run.delivery)

    def give_back(self, held_run: HeldRun) -> None:
        """Return the message of this run to the servers, for another worker."""
        delivery, held_run.delivery = held_run.delivery, None
        if delivery is not None:
            delivery.open.discard(held_run.token)
            if self._open.pop(delivery.key, None) is delivery:
                self._connection.send(delivery.reply, _NAK_WITH_DELAY)

    def is_open(self, delivery: FetchedMessage | None) -> bool:
        return delivery is not None and self._open.get(delivery.key) is delivery

    def report_progress(self, now: int) -> None:
        """Tell the servers that we still work on these messages."""
        for delivery in self._open.values():
            if now - delivery.last_progress_at >= IN_PROGRESS_INTERVAL * SECOND:
                delivery.last_progress_at = now
                self._connection.send(delivery.reply, _ACK_IN_PROGRESS)
