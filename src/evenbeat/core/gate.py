"""The gate: VERIFY. May the tasks that have arrived run now, must they wait, or are they skipped - and why?

One vectorised decision over the whole agenda. It reads nothing but its arguments and changes nothing.
"""

from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.model import SECOND

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Small = NDArray[np.uint8]

PRIORITY_STEP: Final = 10 * SECOND
"""What one step of priority is worth at saturation: so much longer waiting. Hence no task starves."""


class Action(IntEnum):
    """What becomes of a task that has arrived."""

    EXECUTE = 0
    WAIT = 1
    SKIP = 2


class Reason(StrEnum):
    """Why a nominal time had no run, or why a run waits. Users read these words."""

    NONE = "none"
    NOT_MINE = "another node has authority"
    DISABLED = "disabled"
    PERIOD_CLOSED = "period closed"
    UNREACHABLE = "unreachable"
    COALESCED = "coalesced"
    TOO_SOON = "dropped: too soon after the last start"
    MISSED = "missed while stopped"
    POSTPONED = "postponed by start_at"
    RUNNING = "waits for its running instance"
    NO_SLOT = "waits for a slot"
    LIMIT = "waits for its limit"


REASONS: Final = tuple(Reason)
"""Their numbers, as the columns hold them."""


class Arrivals(NamedTuple):
    """What VERIFY looks at: one entry for each task that has arrived."""

    forced: Bools
    on_grid: Bools
    enabled: Bools
    period_open: Bools
    mine: Bools
    reachable: Bools
    running: Bools
    too_soon: Bools
    nominal: Ints
    priority: NDArray[np.int8]
    limit: NDArray[np.int16]
    """The number of its limit key, 0 for none."""


class Verdicts(NamedTuple):
    """One verdict for each arrival, as numbers of Action and REASONS."""

    action: Small
    reason: Small


def _number(reason: Reason) -> int:
    return REASONS.index(reason)


_SKIPS: Final = (
    # In this order: the first that holds is the reason.
    Reason.NOT_MINE,
    Reason.DISABLED,
    Reason.PERIOD_CLOSED,
    Reason.UNREACHABLE,
    Reason.COALESCED,
)


def verify(arrivals: Arrivals, free_slots: int, free_by_limit: Ints) -> Verdicts:
    """Decide for every arrival. Free slots, all and by limit, are negative while a lowered limit drains."""
    a = arrivals
    # Forced runs ignore enabled, period, reachability and guard; never authority, a running instance, slots or limits.
    # A nominal time that finds its task running merges into that run; an off-grid run waits for its end.
    skips = (
        ~a.mine,
        ~a.forced & ~a.enabled,
        ~a.forced & ~a.period_open,
        ~a.forced & ~a.reachable,
        ~a.forced & a.on_grid & a.running,
    )
    reason = np.select(skips, [_number(r) for r in _SKIPS], _number(Reason.NONE)).astype(np.uint8)
    action = np.where(reason == _number(Reason.NONE), Action.EXECUTE, Action.SKIP).astype(np.uint8)
    _wait(action, reason, (action == Action.EXECUTE) & a.running, Reason.RUNNING)
    _take_slots(a, action, reason, free_slots, free_by_limit)
    return Verdicts(action, reason)


def _wait(action: Small, reason: Small, which: Bools | Ints, why: Reason) -> None:
    action[which] = Action.WAIT
    reason[which] = _number(why)


def _take_slots(a: Arrivals, action: Small, reason: Small, free_slots: int, free_by_limit: Ints) -> None:
    """Of those that may run, in order, let through as many as limits and slots allow; the others wait.

    Whoever comes too soon is dropped when it is its turn, not before: by then it may not be too soon any more.
    """
    ready = np.flatnonzero(action == Action.EXECUTE)
    if not len(ready):
        return
    head_start = a.priority[ready].astype(np.int64) * PRIORITY_STEP
    ready = ready[np.argsort(a.nominal[ready] - head_start, kind="stable")]
    limit = a.limit[ready]
    takes = ~(~a.forced & a.on_grid & a.too_soon)[ready]
    within = (limit == 0) | (_takers_before(takes, limit) < free_by_limit[limit])
    _wait(action, reason, ready[~within], Reason.LIMIT)
    # A task held back by its limit takes no slot, so it never blocks one of another key.
    ready, takes = ready[within], takes[within]
    has_turn = np.cumsum(takes) - takes < free_slots
    _wait(action, reason, ready[~has_turn], Reason.NO_SLOT)
    dropped = ready[has_turn & ~takes]
    action[dropped] = Action.SKIP
    reason[dropped] = _number(Reason.TOO_SOON)


def _takers_before(takes: Bools, key: NDArray[np.int16]) -> Ints:
    """How many of the same key that take a slot come before each."""
    order = np.argsort(key, kind="stable")
    sorted_key, sorted_takes = key[order], takes[order]
    starts = np.flatnonzero(np.r_[True, sorted_key[1:] != sorted_key[:-1]])
    lengths = np.diff(np.r_[starts, len(key)])
    before: Ints = np.cumsum(sorted_takes) - sorted_takes
    found = np.empty(len(key), dtype=np.int64)
    found[order] = before - np.repeat(before[starts], lengths)
    return found
