"""Acknowledgements of problems: how long they count. Apart from the problems themselves, as it needs no numpy."""

from evenbeat.model import Acknowledgement, Instant


def is_acknowledged(ack: Acknowledgement | None, now: Instant) -> bool:
    """Does the acknowledgement of an open problem still count?"""
    if ack is None or (ack.until is not None and now >= ack.until):
        return False
    return ack.sticky or ack.worst_since <= ack.severity
