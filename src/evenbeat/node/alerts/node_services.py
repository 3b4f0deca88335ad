"""What notifications need of their node."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from evenbeat.model import Instant
from evenbeat.when.period import CompiledPeriod


class NodeServices(NamedTuple):
    """Asked and called on the loop of the node."""

    now: Callable[[], Instant]
    find_period: Callable[[str], CompiledPeriod | None]
    link: Callable[[], str]
    """The URL of the page with all problems; "" if there is none."""
    has_turned: Callable[[], bool]
    """Has the node made its first turn?"""
    settle_holds: Callable[[], Awaitable[None]]
    """Records what holds problems, before they are read."""
    held_partitions: Callable[[], frozenset[int]]
    """Of the cluster: this node tells the contacts that fall into these; a single node has all."""
