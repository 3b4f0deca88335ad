"""Problems: what is wrong with tasks. They open, change and close with the results of runs; people acknowledge them.

A problem of a check (`Cause.STATE`) is open while the check is HARD and not OK, and stays open while the check flaps.
A problem of another task (`Cause.FAILED`) opens when a run fails and closes with the next success. A run that a person
or the node cancelled, or that the guard dropped, says nothing; a lost run says nothing if it is repeated.
"""

from typing import NamedTuple

from evenbeat.model import Acknowledgement, Cause, Instant, State


class ProblemUpdate(NamedTuple):
    """A problem has opened, has another state, or has closed."""

    number: int
    """Of the task."""
    cause: Cause
    opened: int
    at: int
    state: State
    is_open: bool
    reason: str = ""


def is_acknowledged(ack: Acknowledgement | None, now: Instant) -> bool:
    """Does the acknowledgement of an open problem still count?"""
    if ack is None or (ack.until is not None and now >= ack.until):
        return False
    return ack.sticky or ack.worst_since <= ack.severity
