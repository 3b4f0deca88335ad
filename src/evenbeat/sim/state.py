"""The model of a small world: its shape, its states and events, and what one step did.

All time is one instant. A nominal time is only its place in the order of arrival, so a world has finitely many states
and none of them is there because a number went up.
"""

from functools import cache
from struct import Struct
from typing import Final, NamedTuple

from evenbeat.core.gate import Reason
from evenbeat.core.lifecycle import MOST_LIMITS
from evenbeat.core.task import Flag
from evenbeat.model import RunKind

NONE: Final = -1
AT_ONCE: Final = -2
BY_NOW: Final = -3
ALL: Final = 99
"""The subject of an event that happens to all tasks at once, of those to which it can happen."""


class WorldShape(NamedTuple):
    """How large a world is and what can happen in it."""

    name: str
    tasks: int
    slots: tuple[int, ...]
    """The values max_concurrent can be set to; it starts with the first."""
    switches: tuple[str, ...] = ("enabled", "open")
    """What can be switched on and off, for each task."""
    limits: tuple[int, ...] = ()
    """The values of the limit that the first two tasks share; none for no limit."""
    each: int = 0
    """How many of the tasks, the first ones, queue their backlog."""
    occasions: bool = False
    """Whether off-grid runs come up too."""
    behind: bool = False
    """Whether a second nominal time can pass while the first is not accounted for."""
    urgent: bool = False
    """Whether the last task has a higher priority than the others."""

    def key_of(self, i: int) -> int:
        """The limit key of a task."""
        return int(bool(self.limits) and i < 2)

    @property
    def keys(self) -> int:
        return 2 if self.limits else 1


class WorldEvent(NamedTuple):
    """Something that happens in a world."""

    name: str
    subject: int = -1

    def __str__(self) -> str:
        subject = "" if self.subject < 0 else " all" if self.subject == ALL else f" {self.subject}"
        return f"{self.name}{subject}"


RELEASE: Final = WorldEvent("release")


class TaskState(NamedTuple):
    """What matters of one task. Times are places in the order of arrival, or NONE."""

    used: bool
    flags: int
    nominal: int
    """The first nominal time that is not accounted for."""
    behind: int
    """The second nominal time that is not accounted for."""
    extra: bool
    """An off-grid run has come up."""
    due: int
    """What it is in the timetable for: NONE for not, AT_ONCE for a forced run, BY_NOW for an off-grid one."""
    open: bool
    soon: bool
    """By the guard it is too soon after its last start."""
    # What follows from the fields above: predicates read it a million times.
    enabled: bool
    mine: bool
    reachable: bool
    skips_unreachable: bool
    permitted: bool
    each: bool
    forced: bool
    running: bool
    waiting: bool
    removed: bool
    outstanding: int
    """How many nominal times have come and are not accounted for."""
    latest: int
    """The last of them."""
    packed: bytes
    """The content in bytes."""

    def moved(self, places: dict[int, int]) -> "TaskState":
        """The task with times in other places."""
        nominal, behind, due = (places.get(t, t) for t in (self.nominal, self.behind, self.due))
        return task_state(self.used, self.flags, nominal, behind, self.extra, due, self.open, self.soon)

    def __str__(self) -> str:
        if not self.used:
            return "-"
        words = [name for name in ("forced", "running", "waiting", "removed", "extra", "soon") if getattr(self, name)]
        words += ["skips unreachable"] * self.skips_unreachable
        words += [
            f"not {name}" for name in ("enabled", "mine", "reachable", "permitted", "open") if not getattr(self, name)
        ]
        words += ["due"] * (self.nominal != NONE) + ["due twice"] * (self.behind != NONE)
        return " ".join(words) or "idle"


_FLAGS: Final = (
    Flag.ENABLED, Flag.MINE, Flag.REACHABLE, Flag.SKIPS_UNREACHABLE, Flag.PERMITTED, Flag.EACH, Flag.FORCED,
    Flag.RUNNING, Flag.WAITING, Flag.REMOVED,
)  # fmt: skip
_KNOWN: Final = sum(map(int, _FLAGS))
_TASK: Final = Struct("<?Ibb?b??")


@cache
def task_state(
    used: bool,  # noqa: FBT001
    flags: int,
    nominal: int,
    behind: int,
    extra: bool,  # noqa: FBT001
    due: int,
    open_: bool,  # noqa: FBT001
    soon: bool,  # noqa: FBT001
) -> TaskState:
    """The one TaskState with this content."""
    if flags & ~_KNOWN:
        raise ValueError(f"a state cannot tell the flags {Flag(flags & ~_KNOWN)!r}")
    named = (bool(flags & int(flag)) for flag in _FLAGS)
    content = (used, flags, nominal, behind, extra, due, open_, soon)
    outstanding = (nominal != NONE) + (behind != NONE)
    return TaskState._make((*content, *named, outstanding, max(nominal, behind), _TASK.pack(*content)))


@cache
def _unpacked_task(packed: bytes) -> TaskState:
    return task_state(*_TASK.unpack(packed))


@cache
def _counts(limits: int, waiting: int) -> Struct:
    return Struct(f"<bbb{2 * limits}h{waiting}b")


class WorldState(NamedTuple):
    """A world at rest."""

    tasks: tuple[TaskState, ...]
    waiting: tuple[int, ...]
    idle: int
    pending: int
    pending_by_limit: tuple[int, ...]
    slots: int
    limits: tuple[int, ...]

    def packed(self) -> bytes:
        """The state in a few bytes, which are equal for equal states."""
        counts = (self.idle, self.pending, self.slots, *self.pending_by_limit, *self.limits, *self.waiting)
        rest = _counts(len(self.limits), len(self.waiting)).pack(*counts)
        return b"".join([*[task.packed for task in self.tasks], rest])

    @staticmethod
    def unpacked(packed: bytes, shape: WorldShape) -> "WorldState":
        """The state from its bytes."""
        end, n = shape.tasks * _TASK.size, shape.keys
        tasks = tuple(_unpacked_task(packed[i : i + _TASK.size]) for i in range(0, end, _TASK.size))
        waiting = len(packed) - end - _counts(n, 0).size
        idle, pending, slots, *rest = _counts(n, waiting).unpack(packed[end:])
        return WorldState(tasks, tuple(rest[2 * n :]), idle, pending, tuple(rest[:n]), slots, tuple(rest[n : 2 * n]))

    def __str__(self) -> str:
        tasks = "; ".join(f"task {i}: {task}" for i, task in enumerate(self.tasks))
        limits = "".join(f", limit {n}" for n in self.limits if n != MOST_LIMITS)
        return f"{self.slots} slots{limits}, {self.idle} idle, {self.pending} pending; {tasks}"


class WorldStep(NamedTuple):
    """What an event did."""

    shape: WorldShape
    before: WorldState
    event: WorldEvent
    after: WorldState
    begun: tuple[int, ...]
    """The tasks whose execution it begins, as listed."""
    claimed: dict[int, RunKind]
    """These tasks, with the kinds of their runs."""
    skips: tuple[tuple[int, int], ...]
    """The tasks of which it skips nominal times, and how many."""
    refused: tuple[int, ...]
    """The tasks of which it refuses an off-grid run."""

    touched: list[tuple[int, TaskState, TaskState]]
    """The tasks that it concerns, before and after: all others are as they were."""
    waits_for: dict[int, Reason]
    """What the tasks that wait after a release wait for, as it is recorded."""

    def skipped(self, i: int) -> int:
        """How many nominal times of a task it skips."""
        return sum(times for row, times in self.skips if row == i) if self.skips else 0
