"""A run that a node has claimed and whose end it does not know yet, and who hears of its end."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from evenbeat.model import RunKind
from evenbeat.store.contract import Finish


class PendingRun(NamedTuple):
    """A run that is claimed or running."""

    number: int
    row: int
    nominal: int
    kind: int
    claimed: int
    name: str
    """The name of the task when it was claimed."""
    timebox: int
    token: int
    """Names the run between node and worker; 0 for a submitted result."""

    @property
    def due(self) -> int:
        """When it was to start: after its parents, whose nominal time it has, it is due as soon as it is claimed."""
        return self.claimed if self.kind == RunKind.CHAIN else self.nominal


RunEndListener = Callable[[Sequence[PendingRun], Sequence[Finish]], None]
"""Called with runs that have ended, and how each ended, once that is committed."""
