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
"""At saturation, one step of priority counts as this much longer waiting, so that no task starves."""


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
"""The reasons by their numbers, which columns hold."""


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
    """One verdict for each arrival, as numbers of GateAction and REASONS."""

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
    # Forced runs ignore enabled, period, reachability and guard; never authority, the permission to execute, a running
    # instance, slots or limits.
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
    """Let as many of the arrivals that may run through, in order, as limits and slots allow; the others wait.

    A run that is too soon is dropped at its turn, not before: by then it may not be too soon any more.
    """
    ready = np.flatnonzero(action == _EXECUTE)
    takes = ~(~a.forced & a.on_grid & a.too_soon)[ready]
    limit = a.limit[ready]
    # Where there is room for all, their order does not matter.
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
    """For each arrival: how many before it have the same key and take a slot."""
    order = np.argsort(key, kind="stable")
    sorted_key, sorted_takes = key[order], takes[order]
    before: Ints = np.cumsum(sorted_takes) - sorted_takes
    found = np.empty(len(key), dtype=np.int64)
    found[order] = before - before[sorted_key.searchsorted(sorted_key)]
    return found


def split_front(key: Ints, size: int) -> tuple[Ints, Ints]:
    """Split a queue of more than `size` tasks by the key of their order: the places of the front, and all others.

    Of equal keys the first places are in front: rows that are neighbours start together, and the store writes them on
    the same pages.
    """
    last = np.partition(key, size)[size]
    in_front = key < last
    equal = np.flatnonzero(key == last)
    in_front[equal[: size - np.count_nonzero(in_front)]] = True
    return np.flatnonzero(in_front), np.flatnonzero(~in_front)
