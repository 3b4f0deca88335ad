"""Problems: what is wrong with tasks. They open, change and close with the results of runs; people acknowledge them.

A problem of a check (`Cause.STATE`) is open while the check is HARD and not OK, and stays open while the check flaps.
A problem of another task (`Cause.FAILED`) opens when a run fails and does not try again, and closes with the next
success. A run that a person or the node cancelled, or that the guard dropped, says nothing; a lost run says nothing if
it is repeated.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.run_plan import GIVES_RESULT, SUCCESS
from evenbeat.core.task import Bools, Flag, Flags, Small, TaskColumns
from evenbeat.model import SEVERITY, Cause, Instant, State

CHANGED: Final = "changed"
"""Why a problem closes that its task cannot have any more."""
_OPEN: Final = 1
_IS_FAILED: Final = 2
_CAUSE: Final = _OPEN | _IS_FAILED
_STATE_AT: Final = 2
_WORST_AT: Final = 4
_STATE_BITS: Final = 3
"""Of `TaskColumns.problem`: whether it is open, whether its cause is FAILED, its state, and the worst that it had."""
_FAILURE: Final = _OPEN | _IS_FAILED | (State.CRITICAL << _STATE_AT) | (State.CRITICAL << _WORST_AT)
_SEVERITY: Final[Small] = np.array([SEVERITY[state] for state in State], dtype=np.uint8)
_CHECK: Final = int(Flag.CHECK)
_CHECK_OR_REMOVED: Final = int(Flag.CHECK | Flag.REMOVED)


class ProblemUpdate(NamedTuple):
    """A problem has opened, has another state, or has closed."""

    row: int
    """Of the task."""
    cause: Cause
    opened: int
    at: int
    state: State
    """The present one; of a problem that closes, the worst that it has had."""
    is_open: bool
    reason: str = ""


class KnownProblem(NamedTuple):
    """An open problem, as a store knows it."""

    row: int
    cause: Cause
    opened: int
    state: State
    worst: State


class Problems:
    """The open problems of a node's tasks, in its columns: at most one of each task, by what it is.

    What runs and results say is asked by columns; only what changes becomes an object.
    """

    def __init__(self, columns: TaskColumns) -> None:
        self._columns = columns

    # What results and runs say

    def learn_results(self, rows: Ints, now: Instant) -> list[ProblemUpdate]:
        """Checks had results, and their states are known: what that makes of their problems. Other rows are left."""
        return self._follow(rows, now, None)

    def learn_runs(
        self, rows: Ints, flags: Flags, meaning: Small, lost_for_good: Bools, now: Instant, retried: Bools | None = None
    ) -> list[ProblemUpdate]:
        """Runs have ended: the `meaning` of each outcome, whether the run was lost and is not repeated, and whether it
        tries again. Of tasks that are no checks, failure opens a problem, success closes it.

        `flags` are those of the tasks at the end of their runs: rows of removed tasks may be others' already.
        """
        problem = self._columns.problem[rows]
        others = flags & _CHECK_OR_REMOVED == 0
        succeeded = meaning & SUCCESS != 0
        failed = lost_for_good | ((meaning & GIVES_RESULT != 0) & ~succeeded)
        if retried is not None:
            failed &= ~retried
        opens = others & failed & (problem & _OPEN == 0)
        closes = others & succeeded & (problem & _CAUSE == _CAUSE)
        if not (opens | closes).any():
            return []
        return self._close(rows[closes], now) + self._open(rows[opens], np.uint8(_FAILURE), now)

    def learn_given_up(self, rows: Ints, now: Instant) -> list[ProblemUpdate]:
        """Runs of these tasks failed, and were to try again: that will not be made."""
        c = self._columns
        failed = (c.flags[rows] & _CHECK_OR_REMOVED == 0) & (c.problem[rows] & _OPEN == 0)
        return self._open(rows[failed], np.uint8(_FAILURE), now)

    # Tasks that come and change

    def restore(self, known: Iterable[KnownProblem]) -> None:
        """These problems of tasks are open already."""
        c = self._columns
        for row, cause, opened, state, worst in known:
            failed = _IS_FAILED if cause is Cause.FAILED else 0
            c.problem[row] = _OPEN | failed | state << _STATE_AT | worst << _WORST_AT
            c.problem_opened[row] = opened

    def reconcile(self, rows: Ints, now: Instant, *, are_new: bool = False) -> list[ProblemUpdate]:
        """Tasks came in or changed: close the problems that they cannot have any more, and make those of checks agree
        with their states. With `are_new` a problem that nobody has recorded is as old as the latest result.
        """
        c = self._columns
        rows = rows[c.flags[rows] & int(Flag.REMOVED) == 0]
        is_check = c.flags[rows] & _CHECK != 0
        problem = c.problem[rows]
        other_kind = (problem & _OPEN != 0) & ((problem & _IS_FAILED != 0) == is_check)
        opened = None
        if are_new:
            result_at = c.result_at[rows]
            opened = np.where((result_at > 0) & (result_at < now), result_at, now)
        return self._close(rows[other_kind], now, CHANGED) + self._follow(rows, now, opened)

    def reconcile_restored(self, rows: Ints, now: Instant) -> list[ProblemUpdate]:
        """Removed tasks are here again, whose problems the store has opened again. It ignored what became of them after
        the removal, so the latest problem of each is reported anew.
        """
        known = rows[self._columns.problem_opened[rows] != 0]
        return [self._update(row, now) for row in known.tolist()] + self.reconcile(rows, now)

    def rows(self) -> Ints:
        """The rows of tasks with an open problem. One that was removed while it runs is kept, should it come back."""
        c = self._columns
        return np.flatnonzero((c.problem & _OPEN != 0) & (c.flags & int(Flag.REMOVED) == 0))

    def count_by_state(self) -> dict[State, int]:
        """How many problems are open, by their state."""
        states = (self._columns.problem[self.rows()] >> _STATE_AT) & _STATE_BITS
        return dict(zip(State, np.bincount(states, minlength=len(State)).tolist(), strict=True))

    # The rule for checks

    def _follow(self, rows: Ints, now: Instant, opened: Ints | None) -> list[ProblemUpdate]:
        c = self._columns
        problem, state = c.problem[rows], c.state[rows]
        if not (state | problem & _OPEN).any():
            return []  # as nearly always: all are OK, and were
        is_check = c.flags[rows] & _CHECK != 0
        is_open = problem & _CAUSE == _OPEN
        is_good = state == State.OK
        opens = is_check & ~is_open & c.hard[rows] & ~is_good
        closes = is_check & is_open & is_good & ~c.flapping[rows]
        moves = is_check & is_open & ~closes & (state != (problem >> _STATE_AT) & _STATE_BITS)
        if not (opens | closes | moves).any():
            return []
        first = state[opens]
        packed = _OPEN | first << _STATE_AT | first << _WORST_AT
        began = None if opened is None else opened[opens]
        return (
            self._close(rows[closes], now)
            + self._move(rows[moves], state[moves], now)
            + self._open(rows[opens], packed, now, began)
        )

    # Changes, and how they are reported

    def _open(
        self, rows: Ints, packed: Small | np.uint8, now: Instant, opened: Ints | None = None
    ) -> list[ProblemUpdate]:
        c = self._columns
        c.problem[rows] = packed
        began = np.full(len(rows), now, dtype=np.int64) if opened is None else opened
        # Two problems of a task are told apart by when they opened, also if they come within a microsecond.
        c.problem_opened[rows] = began + (began == c.problem_opened[rows])
        # It is in its state since it opened, also if that was before now: `_update` says nothing earlier.
        return [self._update(row, Instant(0)) for row in rows.tolist()]

    def _move(self, rows: Ints, state: Small, now: Instant) -> list[ProblemUpdate]:
        c = self._columns
        problem = c.problem[rows]
        worst = (problem >> _WORST_AT) & _STATE_BITS
        worst = np.where(_SEVERITY[state] > _SEVERITY[worst], state, worst)
        c.problem[rows] = _OPEN | state << _STATE_AT | worst << _WORST_AT
        return [self._update(row, now) for row in rows.tolist()]

    def _close(self, rows: Ints, now: Instant, reason: str = "") -> list[ProblemUpdate]:
        c = self._columns
        # The cause and the worst state stay, for `reconcile_restored`.
        c.problem[rows] &= 0xFF ^ _OPEN
        return [self._update(row, now, reason) for row in rows.tolist()]

    def _update(self, row: int, now: Instant, reason: str = "") -> ProblemUpdate:
        packed, opened = int(self._columns.problem[row]), int(self._columns.problem_opened[row])
        is_open = packed & _OPEN != 0
        cause = Cause.FAILED if packed & _IS_FAILED else Cause.STATE
        state = State(packed >> (_STATE_AT if is_open else _WORST_AT) & _STATE_BITS)
        # The clock may have been set back since it opened.
        return ProblemUpdate(row, cause, opened, max(now, opened), state, is_open, reason)
