"""What a worker of a cluster has in its hands: messages, and the runs in them."""

from typing import Final

from evenbeat.model import SECOND
from evenbeat.queue.nats.connection import Link
from evenbeat.queue.nats.stream import IN_PROGRESS
from evenbeat.wire.worker_frames import Result, Run

_NOT_NOW: Final = b'-NAK {"delay": 200000000}'
_WORKING: Final = b"+WPI"
NEVER_AGAIN: Final = b"+TERM"


class Delivery:
    """A message that was fetched, until all its runs are done."""

    __slots__ = ("key", "open", "reply", "told")

    def __init__(self, key: tuple[int, str], reply: str, now: int) -> None:
        self.key = key
        self.reply = reply
        self.open: set[int] = set()
        self.told = now
        """When the servers last heard that we are at it."""


class Mine:
    """A run that came with a message."""

    __slots__ = (
        "delivery", "function", "is_cancelled", "is_fenced", "kill_at", "node", "renewed_at", "result", "run", "sends",
        "sent", "since", "task", "token",
    )  # fmt: skip

    def __init__(self, task: int, run: Run, function: str | None, node: str, delivery: Delivery, now: int) -> None:
        self.token = run.token
        self.task = task
        self.run = run
        self.function = function
        self.node = node
        """Who is asked and told first: who sent it, granted it, or renewed it last."""
        self.delivery: Delivery | None = delivery
        self.since = now
        self.renewed_at = 0
        """When what was answered for it last was sent."""
        self.kill_at = 0
        """It was told to end, and is killed then; 0 if it was not."""
        self.is_cancelled = False
        self.is_fenced = False
        """It was ended because nobody renewed it."""
        self.result: Result | None = None
        self.sent = 0
        self.sends = 0


class Deliveries:
    """The messages a worker is at."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._open: dict[tuple[int, str], Delivery] = {}

    def fetched(self, key: tuple[int, str], reply: str, now: int) -> Delivery:
        """A message has come, perhaps again."""
        delivery = self._open.get(key)
        if delivery is None:
            delivery = self._open[key] = Delivery(key, reply, now)
        delivery.reply, delivery.told = reply, now
        return delivery

    def settle(self, delivery: Delivery) -> None:
        """Confirm it, if nothing of it is left to do."""
        if not delivery.open and self._open.pop(delivery.key, None) is delivery:
            self._link.send(delivery.reply, b"")

    def done(self, mine: Mine) -> None:
        """One of its runs is."""
        if mine.delivery is not None:
            mine.delivery.open.discard(mine.token)
            self.settle(mine.delivery)

    def give_back(self, mine: Mine) -> None:
        """Let somebody else have what is left of the message that this run came with."""
        delivery, mine.delivery = mine.delivery, None
        if delivery is not None:
            delivery.open.discard(mine.token)
            if self._open.pop(delivery.key, None) is delivery:
                self._link.send(delivery.reply, _NOT_NOW)

    def is_open(self, delivery: Delivery | None) -> bool:
        return delivery is not None and self._open.get(delivery.key) is delivery

    def go_on(self, now: int) -> None:
        """Tell the servers that we are still at it."""
        for delivery in self._open.values():
            if now - delivery.told >= IN_PROGRESS * SECOND:
                delivery.told = now
                self._link.send(delivery.reply, _WORKING)
