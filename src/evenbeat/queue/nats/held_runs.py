"""What a worker of a cluster has in its hands: messages, and the runs in them."""

from typing import Final

from evenbeat.model import SECOND
from evenbeat.queue.nats.connection import NatsConnection
from evenbeat.queue.nats.stream import IN_PROGRESS_INTERVAL
from evenbeat.wire.worker_frames import RunResult, RunSpec

_NAK_WITH_DELAY: Final = b'-NAK {"delay": 200000000}'
_ACK_IN_PROGRESS: Final = b"+WPI"
ACK_TERMINATE: Final = b"+TERM"


class FetchedMessage:
    """A message that was fetched, until all its runs are done."""

    __slots__ = ("key", "last_progress_at", "open", "reply")

    def __init__(self, key: tuple[int, str], reply: str, now: int) -> None:
        self.key = key
        self.reply = reply
        self.open: set[int] = set()
        self.last_progress_at = now
        """When the servers last heard that we are at it."""


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
        """Who is asked and told first: who sent it, granted it, or renewed it last."""
        self.delivery: FetchedMessage | None = delivery
        self.fetched_at = now
        self.renewed_at = 0
        """When what was answered for it last was sent."""
        self.kill_at = 0
        """It was told to end, and is killed then; 0 if it was not."""
        self.is_cancelled = False
        self.is_fenced = False
        """It was ended because nobody renewed it."""
        self.result: RunResult | None = None
        self.sent = 0
        self.sends = 0


class FetchedMessages:
    """The messages a worker is at."""

    def __init__(self, link: NatsConnection) -> None:
        self._link = link
        self._open: dict[tuple[int, str], FetchedMessage] = {}

    def fetched(self, key: tuple[int, str], reply: str, now: int) -> FetchedMessage:
        """A message has come, perhaps again."""
        delivery = self._open.get(key)
        if delivery is None:
            delivery = self._open[key] = FetchedMessage(key, reply, now)
        delivery.reply, delivery.last_progress_at = reply, now
        return delivery

    def settle(self, delivery: FetchedMessage) -> None:
        """Confirm it, if nothing of it is left to do."""
        if not delivery.open and self._open.pop(delivery.key, None) is delivery:
            self._link.send(delivery.reply, b"")

    def done(self, mine: HeldRun) -> None:
        """One of its runs is."""
        if mine.delivery is not None:
            mine.delivery.open.discard(mine.token)
            self.settle(mine.delivery)

    def give_back(self, mine: HeldRun) -> None:
        """Let somebody else have what is left of the message that this run came with."""
        delivery, mine.delivery = mine.delivery, None
        if delivery is not None:
            delivery.open.discard(mine.token)
            if self._open.pop(delivery.key, None) is delivery:
                self._link.send(delivery.reply, _NAK_WITH_DELAY)

    def is_open(self, delivery: FetchedMessage | None) -> bool:
        return delivery is not None and self._open.get(delivery.key) is delivery

    def report_progress(self, now: int) -> None:
        """Tell the servers that we are still at it."""
        for delivery in self._open.values():
            if now - delivery.last_progress_at >= IN_PROGRESS_INTERVAL * SECOND:
                delivery.last_progress_at = now
                self._link.send(delivery.reply, _ACK_IN_PROGRESS)
