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


class GateAction(IntEnum):
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
    CLOCK_SET_BACK = "the clock was set back"
    REMOVED = "removed"
    NOT_FROM_A_FILE = "not from a file"
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
    permitted: Bools
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


_REASON_NUMBERS: Final = {reason: number for number, reason in enumerate(REASONS)}
# Plain numbers for the hot path: enums are slow to ask.
_EXECUTE: Final = int(GateAction.EXECUTE)
_WAIT: Final = int(GateAction.WAIT)
_SKIP: Final = int(GateAction.SKIP)


def verify(arrivals: Arrivals, free_slots: int, free_by_limit: Ints) -> Verdicts:
    """Decide for every arrival. Free slots, all and by limit, are negative while a lowered limit drains."""
    a = arrivals
    action = np.full(len(a.nominal), _EXECUTE, dtype=np.uint8)
    reason = np.full(len(a.nominal), _REASON_NUMBERS[Reason.NONE], dtype=np.uint8)
    # Forced runs ignore enabled, period, reachability and guard; never authority, who may say what is executed, a
    # running instance, slots or limits.
    # A nominal time that finds its task running merges into that run; an off-grid run waits for its end.
    # The last that holds is the reason.
    _decide(action, reason, a.running, _WAIT, Reason.RUNNING)
    _decide(action, reason, ~a.forced & a.on_grid & a.running, _SKIP, Reason.COALESCED)
    _decide(action, reason, ~a.forced & ~a.reachable, _SKIP, Reason.UNREACHABLE)
    _decide(action, reason, ~a.forced & ~a.period_open, _SKIP, Reason.PERIOD_CLOSED)
    _decide(action, reason, ~a.forced & ~a.enabled, _SKIP, Reason.DISABLED)
    _decide(action, reason, ~a.permitted, _SKIP, Reason.NOT_FROM_A_FILE)
    _decide(action, reason, ~a.mine, _SKIP, Reason.NOT_MINE)
    _take_slots(a, action, reason, free_slots, free_by_limit)
    return Verdicts(action, reason)


def _decide(action: Small, reason: Small, which: Bools | Ints, verdict: int, why: Reason) -> None:
    action[which] = verdict
    reason[which] = _REASON_NUMBERS[why]


def _take_slots(a: Arrivals, action: Small, reason: Small, free_slots: int, free_by_limit: Ints) -> None:
    """Of those that may run, in order, let through as many as limits and slots allow; the others wait.

    Whoever comes too soon is dropped when it is its turn, not before: by then it may not be too soon any more.
    """
    ready = np.flatnonzero(action == _EXECUTE)
    takes = ~(~a.forced & a.on_grid & a.too_soon)[ready]
    limit = a.limit[ready]
    # Where there is room for all, nobody's turn is before another's.
    if len(ready) > free_slots or limit.any():
        head_start = a.priority[ready].astype(np.int64) * PRIORITY_STEP
        order = np.argsort(a.nominal[ready] - head_start, kind="stable")
        ready, takes, limit = ready[order], takes[order], limit[order]
        within = (limit == 0) | (_takers_before(takes, limit) < free_by_limit[limit])
        _decide(action, reason, ready[~within], _WAIT, Reason.LIMIT)
        # A task held back by its limit takes no slot, so it never blocks one of another key.
        ready, takes = ready[within], takes[within]
        has_turn = np.cumsum(takes) - takes < free_slots
        _decide(action, reason, ready[~has_turn], _WAIT, Reason.NO_SLOT)
        ready, takes = ready[has_turn], takes[has_turn]
    _decide(action, reason, ready[~takes], _SKIP, Reason.TOO_SOON)


def _takers_before(takes: Bools, key: NDArray[np.int16]) -> Ints:
    """How many of the same key that take a slot come before each."""
    order = np.argsort(key, kind="stable")
    sorted_key, sorted_takes = key[order], takes[order]
    before: Ints = np.cumsum(sorted_takes) - sorted_takes
    found = np.empty(len(key), dtype=np.int64)
    found[order] = before - before[sorted_key.searchsorted(sorted_key)]
    return found
