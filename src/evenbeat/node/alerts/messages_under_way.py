"""Deliveries: messages that have left and not ended. Each channel gets one at a time, oldest first; those whose
delivery has failed a few times are passed by later ones.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final

from msgspec import Struct

from evenbeat.core.delivery_pace import LONGEST_RETRY, holds_up, may_leave_at, may_pass_at
from evenbeat.model import HOUR
from evenbeat.store.alert_records import MessageRecord
from evenbeat.when.windows import FOREVER

REMEMBERED: Final = HOUR
"""For how long messages that have left count for the rate of their channel."""


class Delivery(Struct):
    """A message on its way."""

    message: int
    channel: str
    contact: str
    left: int
    """When it was committed."""
    attempts: int
    next_attempt: int
    may_have_arrived: bool
    """An earlier delivery was started, and may have succeeded: the next one is a possible repetition."""
    document: bytes | None
    """None: it is still to be read from the store."""
    is_ordered: bool = False
    """The sender is delivering it."""
    is_complete: bool = True
    """False: a node ended before it had recorded all parts. It is delivered with those that there are."""

    @property
    def failed(self) -> int:
        """How many deliveries of it have failed."""
        return self.attempts - self.is_ordered


class Deliveries:
    """All messages on their way, and how many each channel got lately."""

    def __init__(self) -> None:
        self._queues: dict[str, deque[Delivery]] = {}
        self._left: dict[str, deque[int]] = {}
        self._failing: dict[str, str] = {}
        """The contacts of channels whose latest delivery failed."""

    def __iter__(self) -> Iterator[Delivery]:
        return (delivery for queue in self._queues.values() for delivery in queue)

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def restore(self, unfinished: Iterable[MessageRecord], lately: Iterable[MessageRecord], now: int) -> None:
        """The store has these messages: unfinished ones, and those that left within the last hour; oldest first. What
        the sender is delivering goes on.
        """
        ordered = {delivery.message: delivery for delivery in self if delivery.is_ordered}
        self._queues, self._left, self._failing = {}, {}, {}
        for record in lately:
            self._left.setdefault(record.channel, deque()).append(min(record.created, now))
        for record in unfinished:
            self._put(ordered.get(record.id) or _delivery_of(record, now))
            self.note_delivery(record.channel, record.contact, is_failing=bool(record.error))

    def restore_late(self, records: Iterable[MessageRecord], now: int) -> None:
        """These messages were started by another node."""
        for record in records:
            self._put(_delivery_of(record, now))

    def clock_was_set(self, by: int) -> None:
        """Messages do not get older or younger by that, and retries come as soon as planned."""
        for delivery in self:
            delivery.left += by
            delivery.next_attempt += by
        for left in self._left.values():
            for place, at in enumerate(left):
                left[place] = at + by

    def add(self, record: MessageRecord) -> None:
        """A new message leaves."""
        self._left.setdefault(record.channel, deque()).append(record.created)
        self._put(_delivery_of(record, record.created))

    def _put(self, delivery: Delivery) -> None:
        self._queues.setdefault(delivery.channel, deque()).append(delivery)

    def find(self, message: int, channel: str) -> Delivery | None:
        """The delivery of a message, if it has not ended."""
        return next((one for one in self._queues.get(channel, ()) if one.message == message), None)

    def remove(self, delivery: Delivery) -> None:
        """It has ended."""
        queue = self._queues[delivery.channel]
        queue.remove(delivery)
        if not queue:
            del self._queues[delivery.channel]

    def note_delivery(self, channel: str, contact: str, *, is_failing: bool) -> None:
        """The latest delivery through this channel failed, or did not."""
        if is_failing:
            self._failing[channel] = contact
        else:
            self._failing.pop(channel, None)

    def failing_contacts(self, is_there: Callable[[str], bool]) -> list[str]:
        """The contacts with a channel, which is still there, whose latest delivery failed."""
        return sorted({contact for channel, contact in self._failing.items() if is_there(channel)})

    def waiting_since(self) -> int | None:
        """Since when the oldest message has been on its way; None if there is none."""
        return min((delivery.left for delivery in self), default=None)

    def due(self, now: int) -> list[Delivery]:
        """What is to be delivered now."""
        return [delivery for delivery in self._next_ones() if delivery.next_attempt <= now]

    def next_due(self) -> int:
        """When the next of them is due; FOREVER if none is."""
        return min((delivery.next_attempt for delivery in self._next_ones()), default=FOREVER)

    def may_leave_at(self, channel: str, per_hour: int, now: int) -> int:
        """When another message may leave for a channel; FOREVER while one is on its way that holds it up."""
        queue = self._queues.get(channel, ())
        if any(holds_up(delivery.failed) for delivery in queue):
            return FOREVER
        at = self.rate_allows_at(channel, per_hour, now)
        return max(at, may_pass_at(len(queue), max(delivery.left for delivery in queue))) if queue else at

    def rate_allows_at(self, channel: str, per_hour: int, now: int) -> int:
        """When the rate of a channel allows another message."""
        left = self._left.get(channel)
        while left and left[0] <= now - REMEMBERED:
            left.popleft()
        return may_leave_at(left or (), per_hour, now)

    def count_uncommitted(self, channel: str, now: int) -> None:
        """A message that no store has was delivered to a channel: it counts for its rate, until a restart."""
        self._left.setdefault(channel, deque()).append(now)

    def _next_ones(self) -> Iterator[Delivery]:
        """Of each channel to which nothing is being delivered: the delivery whose turn it is."""
        for queue in self._queues.values():
            if any(delivery.is_ordered for delivery in queue):
                continue
            until = next((place for place, one in enumerate(queue) if holds_up(one.failed)), len(queue))
            yield min(islice(queue, until + 1), key=lambda delivery: delivery.next_attempt)


def _delivery_of(record: MessageRecord, now: int) -> Delivery:
    """A message that left, or is to be tried, in the future: the clock was set back while nobody looked."""
    return Delivery(
        message=record.id,
        channel=record.channel,
        contact=record.contact,
        left=min(record.created, now),
        attempts=record.attempts,
        next_attempt=min(record.next_attempt or record.created, now + LONGEST_RETRY),
        may_have_arrived=record.possible_repetition or record.started_attempt is not None,
        document=record.document or None,
        is_complete=record.is_complete,
    )
