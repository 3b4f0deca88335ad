"""When is the next turn? Often enough that nothing starts late, seldom enough that turns are not what the node does.

Times are seconds on a clock of the caller's. Nothing here reads a clock or sets a timer.
"""

from typing import Final, NamedTuple


class PacingLimits(NamedTuple):
    """The pauses between the end of a turn and the start of the next, in seconds."""

    shortest: float = 0.001
    """At least this long after any turn: what becomes due within it is released together."""
    for_free_slots: float = 0.008
    """At most this long while many slots have become free: a run that waits for a slot should have it soon."""
    usual: float = 0.02
    """At most this long while slots are free: runs are claimed further ahead than that, so they start in time."""
    full: float = 0.05
    """At most this long while all slots are taken: nothing can start before something has ended."""
    saturated: float = 0.15
    """Exactly this long while workers also have more runs than they can begin: a free slot is of no use then."""
    longest_sleep: float = 1.0
    """A turn at least this often, even if nothing is due: its time is what health checks look at."""
    most_freed_slots: int = 256
    """A third of all slots, or half of them but at most so many, becoming free is worth a turn."""


class TurnPacing:
    """The pause after a turn: a multiple of the time that the turn took, so that turns do not keep the node busy.

    A node is `saturated` while all slots are taken (`is_full`) and its workers have more runs than they can begin.
    """

    def __init__(self, limits: PacingLimits = PacingLimits()) -> None:  # noqa: B008 - immutable
        self.limits: Final = limits
        self.is_full = False
        """Were all slots taken when the last turn ended?"""
        self._ended = 0.0
        self._pause = self._pause_for_free_slots = limits.shortest

    def end_turn(self, began: float, ended: float, *, is_full: bool) -> None:
        """A turn has ended. With a pause 8 times as long as the turn, turns take at most a ninth of a processor."""
        limits, took = self.limits, ended - began
        self._ended, self.is_full = ended, is_full
        self._pause_for_free_slots = min(max(limits.shortest, 4 * took), limits.for_free_slots)
        if is_full:
            self._pause = min(max(limits.shortest, 24 * took), limits.full)
        else:
            self._pause = min(max(limits.shortest, 8 * took), limits.usual)

    def add_results(self, waiting: int, slots: int, unstarted: int) -> None:
        """So many results wait for the next turn, each of which frees a slot. `unstarted` runs are claimed but are not
        known to have started: while all slots are taken only those count, as only they may end soon.
        """
        soon = unstarted if self.is_full else slots
        if waiting >= max(soon // 3, min(soon // 2, self.limits.most_freed_slots)):
            self._pause = min(self._pause, self._pause_for_free_slots)

    def earliest(self, *, saturated: bool) -> float:
        """The time before which no turn should begin."""
        return self._ended + (self.limits.saturated if saturated else self._pause)

    def is_too_early(self, now: float, *, saturated: bool) -> bool:
        """Should a turn that was planned for now wait, because the workers have become busy since?"""
        return saturated and now < self._ended + self.limits.saturated

    def next_turn(self, sleep: float, *, saturated: bool) -> float:
        """The time of the next turn, if the next run is due in `sleep` seconds."""
        pause = self.earliest(saturated=saturated) - self._ended
        return self._ended + min(max(sleep, pause), self.limits.longest_sleep)
