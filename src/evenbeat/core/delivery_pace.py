"""The pace of messages to one channel: when a failed delivery is repeated, when it is given up, and how many an hour.

What exceeds the rate is not dropped: it waits, and leaves with the next message.
"""

from collections.abc import Sequence
from typing import Final

from evenbeat.model import DAY, HOUR, MINUTE, SECOND

FIRST_RETRY: Final = 5 * SECOND
LONGEST_RETRY: Final = 10 * MINUTE
GIVEN_UP_AFTER: Final = DAY
"""From when the message left: a receiver that is down for longer gets no message about what happened a day ago."""
_MOST_DOUBLINGS: Final = (LONGEST_RETRY // FIRST_RETRY).bit_length()


def retry_at(attempts: int, left: int, now: int) -> int | None:
    """When to try again after so many attempts to deliver a message that left at a time; None to give it up."""
    at = now + min(FIRST_RETRY << min(max(attempts - 1, 0), _MOST_DOUBLINGS), LONGEST_RETRY)
    return at if at < left + GIVEN_UP_AFTER else None


def may_leave_at(left: Sequence[int], per_hour: int, now: int) -> int:
    """When the next message may leave. `left`: when earlier ones did, oldest first."""
    if len(left) < per_hour:
        return now
    # One that left in the future did so before the clock was set back.
    return max(now, min(left[-per_hour], now) + HOUR)
