"""What the core knows of a task, as flags and columns, and what it says of runs: claims, skips, refusals."""

from enum import IntFlag
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Column, Ints, SharedValueColumn
from evenbeat.core.times import ScheduleColumns
from evenbeat.model import RunKind, State
from evenbeat.when.windows import FOREVER, NEVER

Bools = NDArray[np.bool_]
Small = NDArray[np.uint8]
Flags = NDArray[np.uint32]


class Flag(IntFlag):
    """What can be said of a task in a bit."""

    ENABLED = 1
    MINE = 2
    REACHABLE = 4
    CHECK = 8
    EACH = 16
    """backlog = "each": nominal times that pass while a run waits or runs are queued, and the guard arbitrates."""
    FORCED = 32
    """A forced run waits for its slot."""
    RUNNING = 64
    """Claimed or running: pending."""
    WAITING = 128
    """Arrived and verified, held back by slots, a limit or its running instance."""
    REMOVED = 256
    """Deleted while pending: its run finishes, then the row goes."""
    MISSED_SKIP = 512
    """missed = "skip": what passed while the node was stopped is recorded, not made up for."""
    MISSED_ALL = 1024
    """missed = "all": it is made up for, one run for each nominal time; without either flag, one run for them all."""
    CATCHING_UP = 2048
    """Makes up for nominal times one after the other: `nominal` is the first of them, `off_grid_due` its turn."""
    PASSIVE = 4096
    """Its nominal times are when results are expected from outside: none of them brings a run. See `passive`."""
    LEAVING = 8192
    """Another node will have it in a moment: it is not due here any more."""
    NOTHING_TO_RUN = 16384
    """A passive check without a command or function: it never arrives."""
    POSTPONED = 32768
    """`start_at` lies ahead: `off_grid_due` is that start, and no nominal time before it has a run."""
    PERMITTED = 65536
    """Its command or function may be executed: see `core.permission`."""
    SKIPS_UNREACHABLE = 131072
    """when_unreachable = "skip": without REACHABLE it is not run."""
    NOTIFIES = 524288
    """Contacts are told of its problems."""
    CHAINED = 1048576
    """Due by what becomes of other tasks, never by time: see `core.chains`."""
    DOWNTIME = 262144
    """It is in an active downtime: see `core.downtimes`."""


ALL_FLAGS: Final = 0xFFFF_FFFF
"""All bits of the column, of which some are taken away."""


class TaskColumns(ScheduleColumns):
    """Everything the core knows of a task: about 120 bytes."""

    flags = Column(np.uint32, Flag.ENABLED | Flag.MINE | Flag.REACHABLE | Flag.PERMITTED)
    accounted = Column(np.int64, NEVER)
    """Every nominal time up to this instant is accounted for. A store keeps this."""
    nominal = Column(np.int64, FOREVER)
    """The first nominal time after that, by the current schedule and period."""
    off_grid_due = Column(np.int64, FOREVER)
    """When an off-grid run is to be made."""
    off_grid_kind = Column(np.uint8, RunKind.FIRST)
    last_start = Column(np.int64, NEVER)
    """The start of the last on-grid run, for the guard."""
    tolerance = SharedValueColumn(-1)
    """How much closer than their interval two on-grid starts may be; -1 for the default, see `tolerance_of`."""
    limit = Column(np.int16, 0)
    """The number of its limit key, 0 for none."""
    priority = Column(np.int8, 0)
    retry = SharedValueColumn(0)
    attempts = Column(np.uint8, 3)
    longer_than = SharedValueColumn(0)
    """A run that lasts longer is unusually long; 0 for the default, see `freshness.usual_lengths`."""
    retry_policy = Column(np.uint32, 0)
    """Of a task that is no check: the number of what it says of its retries, see `core.retries`; 0 for none."""
    state = Column(np.uint8, State.OK)
    hard = Column(np.bool_, default=True)
    attempt = Column(np.uint8, 1)
    """Of a check: how many problems in a row, until it is HARD. Of another task: which attempt its latest run was."""
    changes = Column(np.uint32, 0)
    flapping = Column(np.bool_, default=False)
    result_at = Column(np.int64, NEVER)
    problem = Column(np.uint8, 0)
    """The open problem, packed by `core.problems`; 0 for none."""
    problem_opened = Column(np.int64, 0)
    """When it opened; if it has closed, when the last one did."""
    hold = Column(np.uint8, 0)
    """Why its open problem is told to nobody now: an `alerts.Hold`, kept by `core.problem_holds`."""
    point = Column(np.int32, -1)
    """Of a task with dependencies, or that is one: its point in the graph of `core.reachability`."""
    owner = Column(np.int32, 0)
    """The number of its owner, as the node counts them."""
    downtime = Column(np.uint8, 0)
    """Whether active downtimes select it, packed by `core.downtimes`; `Flag.DOWNTIME` also knows its parents'."""


def tolerance_of(columns: TaskColumns, rows: Ints, flags: Flags, interval: Ints) -> Ints:
    """How much closer than `interval` two on-grid starts may be: as the task or `drop_guard.default_tolerance` says."""
    said = columns.tolerance[rows]
    # Whole where each nominal time has its run, else half.
    tolerance: Ints = np.where(said < 0, interval >> (flags & int(Flag.EACH) == 0), said)
    return tolerance


class ClaimColumns(NamedTuple):
    """Runs to be made now: the identity of a run is its task and nominal time (off the grid, the time it was due).

    Runs that catch up on `missed = "all"` have the nominal time that each of them makes up for.
    """

    rows: Ints
    nominal: Ints
    kind: Small


class SkipColumns(NamedTuple):
    """Nominal times without a run of their own: first, last, how many, and the reason (a number of REASONS)."""

    rows: Ints
    first: Ints
    last: Ints
    times: Ints
    reason: Small


class RefusedRuns(NamedTuple):
    """Off-grid runs that the gate did not let through, so they are not made: what they were, when due, and why."""

    rows: Ints
    due: Ints
    kind: Small
    reason: Small


class ReleaseResult(NamedTuple):
    """What became of the tasks that arrived or waited."""

    claims: ClaimColumns
    skips: list[SkipColumns]
    refused: RefusedRuns
    moved: Ints
    """Rows whose off-grid run was dropped for one on the grid, or is made later; no other column says so."""
