"""The records of problems: what a node learned of them, and what a store returns.

They belong to the contract of a store, see `evenbeat.store.contract`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import Struct

from evenbeat.model import Acknowledgement, Instant, State

MAX_PROBLEM_NOTES: Final = 200
"""Of one problem, that are returned: the latest."""


class ProblemChange(NamedTuple):
    """A problem has opened, has another state, or has closed. Task, cause and `opened` identify the problem.

    An open problem of the same task and cause that `opened` at another time is closed with the reason "superseded".
    """

    task: int
    cause: str
    opened: int
    at: int
    state: int
    """While it is open, the present state of the task; of a closed one, the most severe that it has had."""
    severity: int
    """Of `state`: SEVERITY in `evenbeat.model`."""
    is_open: bool
    reason: str = ""
    """Why it closed, if not by a result: "changed" (the task cannot have this problem any more)."""


class ProblemHold(NamedTuple):
    """An open problem is held from now on: nobody is told of it; or it is held no longer, if `hold` is empty.

    A problem that closes is held no longer. Another reason to hold it begins another time since which it is held.
    """

    task: int
    cause: str
    opened: int
    hold: str
    """Why: one of the words of `core.holds.Hold`."""
    at: int


class OpenProblem(NamedTuple):
    """An open problem, as a node needs it when it starts."""

    task: int
    cause: str
    opened: int
    state: int
    worst: int
    """The most severe state that it has had."""
    hold: str = ""
    held_since: int = 0
    """0 if it is not held."""


class ProblemNote(Struct, frozen=True):
    """What people wrote about a problem, or did with it."""

    at: Instant
    who: str
    action: str
    """commented, acknowledged, unacknowledged."""
    text: str = ""


class ProblemRecord(Struct, frozen=True):
    """A problem of a task: opened once, it keeps its id while its state changes, and closes when its cause is over."""

    id: int
    """Never given to another problem."""
    number: int
    """Of the task."""
    task: str
    """The name of the task, or its last one."""
    cause: str
    """One of `Cause` in `evenbeat.model`."""
    opened: Instant
    since: Instant
    """Since when it is in its present state, or was in the last one when it closed."""
    state: State
    """The present one; of a closed problem, the most severe that it has had."""
    worst: State
    """The most severe state that it has had."""
    closed: Instant | None = None
    reason: str = ""
    """Why it closed, if not by a result: removed, changed, superseded."""
    flapping: bool = False
    """Does the check flap now? False of a closed problem."""
    output: str = ""
    """The latest output of the task; empty of a closed problem."""
    owner: str = ""
    labels: Mapping[str, str] = {}
    """Of the task."""
    acknowledgement: Acknowledgement | None = None
    hold: str = ""
    """Why nobody is told of it now; empty if somebody may be, and of a closed problem."""
    held_since: Instant | None = None
    unreachable: bool = False
    """Of an open problem: is the task unreachable now? A store leaves this empty: `report.problems` fills it in."""
    downtime: bool = False
    """Is the task in an active downtime? A store leaves this out: `report.problems` fills it in."""
    passive: bool = False
    """Is the task a passive check without anything to run? A store leaves this out: `report.problems` fills it in."""
