"""Looks now and then for tasks whose results are missing and for runs that last unusually long, and records both."""

from typing import Final

import numpy as np

from evenbeat.core.alerts import Hold
from evenbeat.core.freshness import usual_lengths
from evenbeat.core.missing_and_long import (
    STATE_OF,
    TimedUpdate,
    expecting_results,
    rows_without_result,
)
from evenbeat.core.problem_holds import holds_by_flags
from evenbeat.core.task import Flag
from evenbeat.model import SECOND, SEVERITY, Cause, Instant
from evenbeat.node.loop.turn import TurnLoop
from evenbeat.store.contract import Batch
from evenbeat.store.problem_records import ProblemChange, ProblemHold
from evenbeat.when.windows import FOREVER

LOOK_INTERVAL: Final = 5 * SECOND
_STANDSTILL: Final = 3 * LOOK_INTERVAL
"""After a longer time without a look, what was due meanwhile is not missing yet: the machine slept."""


class TimedProblemsWatch:
    """Called every `LOOK_INTERVAL`."""

    def __init__(self, turns: TurnLoop, now: Instant) -> None:
        self._turns = turns
        self._since = now
        """Since when this node has been able to make what is due."""
        self._looked_at = now

    def look(self, now: Instant) -> None:
        """Compare what is with what was recorded, and record what is different."""
        if not 0 <= now - self._looked_at <= _STANDSTILL:
            self._since = now
            self._turns.tasks.timed_problems.timetable_begins_anew()
        self._looked_at = now
        tasks = self._turns.tasks
        updates = [
            *tasks.timed_problems.compare(Cause.STALE, self._without_result(now), self._is_here, now),
            *tasks.timed_problems.compare(Cause.LONG, self._long_runs(now), self._is_here, now),
        ]
        numbers = [number for number in tasks.timed_problems.tasks() if self._is_here(number)]
        held = holds_by_flags(tasks.columns, tasks.times, tasks.rows(numbers), now).tolist()
        holds = tasks.timed_problems.hold(dict(zip(numbers, map(Hold, held), strict=True)), now)
        if updates or holds:
            self._turns.record(
                Batch(
                    problems=[_change_of(update) for update in updates],
                    holds=[ProblemHold(h.number, h.cause.value, h.opened, h.hold.word, h.at) for h in holds],
                )
            )

    def _is_here(self, number: int) -> bool:
        tasks = self._turns.tasks
        row = tasks.row(number)
        return row is not None and not int(tasks.columns.flags[row]) & int(Flag.REMOVED)

    def _without_result(self, now: Instant) -> set[int]:
        """A run that has begun is not missing, but its result is not there yet: such a problem stays open. So does one
        from before a stop, until there is a result.
        """
        tasks, c = self._turns.tasks, self._turns.tasks.columns
        rows = rows_without_result(c, tasks.times, c.timebox, now, self._since)
        still = tasks.rows([n for n in tasks.timed_problems.without_result if self._is_here(n)])
        running = still[c.flags[still] & int(Flag.RUNNING) != 0]
        before = tasks.rows([n for n in tasks.timed_problems.missing_from_before() if self._is_here(n)])
        before = expecting_results(c, before)
        before = before[np.minimum(c.nominal[before], c.off_grid_due[before]) < FOREVER]
        return set(c.number[np.concatenate((rows, running, before))].tolist())

    def _long_runs(self, now: Instant) -> set[int]:
        tasks, c, pending = self._turns.tasks, self._turns.tasks.columns, self._turns.pending_runs
        started = [(pending[token].row, began) for token, began in self._turns.started_runs.items() if token in pending]
        rows, begun = np.array(started, dtype=np.int64).reshape(-1, 2).T
        # Without the interval first: to look it up takes time.
        some = now - begun > usual_lengths(c.longer_than[rows], np.zeros(len(rows), dtype=np.int64))
        rows, begun = rows[some], begun[some]
        interval = np.where(c.nominal[rows] < FOREVER, tasks.times.interval(rows, c.nominal[rows]), 0)
        long = rows[now - begun > usual_lengths(c.longer_than[rows], interval)]
        return {number for number in c.number[long].tolist() if self._is_here(number)}


def _change_of(update: TimedUpdate) -> ProblemChange:
    state = STATE_OF[update.cause]
    return ProblemChange(
        update.number, update.cause.value, update.opened, update.at, state, SEVERITY[state], update.is_open
    )
