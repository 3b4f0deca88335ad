"""The pace of messages to one channel: when a failed delivery is repeated, when it is given up, and how many an hour.

What exceeds the rate is not dropped: it waits, and leaves with the next message. A message whose delivery has failed a
few times holds up nothing: later ones pass it. No problem is in both, as an alert has one message under way at most.
"""

from collections.abc import Sequence
from typing import Final

from evenbeat.model import DAY, HOUR, MINUTE, SECOND

FIRST_RETRY: Final = 5 * SECOND
LONGEST_RETRY: Final = 10 * MINUTE
GIVEN_UP_AFTER: Final = DAY
"""From when the message left: a receiver that is down for longer gets no message about what happened a day ago."""
PASSED_AFTER: Final = 3
"""Failed deliveries after which a message no longer holds up later ones: about a quarter of a minute after it left."""
_MOST_DOUBLINGS: Final = (LONGEST_RETRY // FIRST_RETRY).bit_length()


def retry_at(attempts: int, left: int, now: int) -> int | None:
    """When to try again after so many attempts to deliver a message that left at a time; None to give it up."""
    at = now + _pause(attempts - 1)
    return at if at < left + GIVEN_UP_AFTER else None


def holds_up(failed: int) -> bool:
    """Do later messages wait for the end of one whose delivery has failed so often?"""
    return failed < PASSED_AFTER


def may_pass_at(passed: int, latest_left: int) -> int:
    """When a message may leave that passes so many, none of which holds it up; the latest of them left at a time.

    A receiver that is down would otherwise get more and more messages, one for every few attempts: the pauses double.
    """
    return latest_left + _pause(passed)


def _pause(doublings: int) -> int:
    return min(FIRST_RETRY << min(max(doublings, 0), _MOST_DOUBLINGS), LONGEST_RETRY)


def may_leave_at(left: Sequence[int], per_hour: int, now: int) -> int:
    """When the next message may leave. `left`: when earlier ones did, oldest first."""
    if len(left) < per_hour:
        return now
    # One that left in the future did so before the clock was set back.
    return max(now, min(left[-per_hour], now) + HOUR)
