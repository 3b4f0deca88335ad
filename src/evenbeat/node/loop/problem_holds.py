"""Holds of a live node: which open problems are told to nobody now, as records; and the runs that this asks for."""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from evenbeat.core.alerts import HOLD_OF_WORD
from evenbeat.core.asked_runs import ask_for_runs
from evenbeat.core.columns import Ints
from evenbeat.core.freshness import longest_runs
from evenbeat.core.problem_holds import Holds
from evenbeat.core.reachability import ForeignAsk
from evenbeat.core.task import Flag
from evenbeat.model import CAUSES_OF_RESULTS, Instant
from evenbeat.node.loop.passive_checks import PassiveChecks
from evenbeat.node.loop.records import task_positions_of
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.store.contract import Batch
from evenbeat.store.problem_records import OpenProblem, ProblemHold
from evenbeat.when.windows import FOREVER

_SETTLED_IN_TURNS: Final = 10_000
"""Up to so many open problems are looked at in each turn that changes one, in about a millisecond; more of them once a
second, and before alerts are decided.
"""


class ProblemHolds:
    """Compares what holds the problems of a node's tasks with what was recorded."""

    def __init__(self, tasks: TaskTable, passive: PassiveChecks) -> None:
        self._tasks = tasks
        self._passive = passive
        self._holds = Holds(tasks.columns, tasks.problems, tasks.times, tasks.reachability, self._expected_by)

    # What is heard

    def restore(self, problems: Iterable[OpenProblem], now: Instant) -> None:
        """These problems were open when the last node stopped, or gave their tasks away."""
        found = [
            (row, HOLD_OF_WORD.get(problem.hold, 0))
            for problem in problems
            if problem.cause in CAUSES_OF_RESULTS and (row := self._tasks.row(problem.task)) is not None
        ]
        if found:
            rows, holds = np.array(found, dtype=np.int64).T
            self._holds.restore(rows, holds.astype(np.uint8), now)

    def node_stood_still(self, now: Instant) -> None:
        """Nothing was done for a while: what is known of problems is from before."""
        rows = self._tasks.problems.rows()
        self._holds.restore(rows, self._tasks.columns.hold[rows], now)
        self._holds.learn_ends(self._tasks.all_rows(), now)

    def learn_ends(self, rows: Ints, now: Instant) -> None:
        """A downtime, an unreachability or a pause of these tasks has ended."""
        self._holds.learn_ends(rows, now)

    def ask_for_other_node(self, checks: Mapping[int, int], now: Instant) -> list[int]:
        """Problems of another node wait for runs of these checks, by number, that begin after these times. `settle`
        plans them. Returns the numbers of those that cannot run now.
        """
        rows = {number: self._tasks.row(number) for number in checks}
        here = {number: row for number, row in rows.items() if row is not None}
        since = np.array([checks[number] for number in here], dtype=np.int64)
        can_run = self._holds.ask_for_other_node(np.array(list(here.values()), dtype=np.int64), since, now)
        able = {number for number, can in zip(here, can_run.tolist(), strict=True) if can}
        return [number for number in checks if number not in able]

    # What follows

    def foreign_asks(self) -> dict[str, ForeignAsk]:
        """Checks of other nodes that these are to be asked for runs of, by name."""
        return self._holds.foreign_asks()

    def settle_in_turn(self, batch: Batch, now: Instant) -> None:
        """A turn has changed problems or reachability: add what holds them to its batch, if there are not too many."""
        if len(self._tasks.problems.rows()) <= _SETTLED_IN_TURNS:
            self.settle(batch, now)

    def settle(self, batch: Batch, now: Instant) -> None:
        """Add to a batch which problems are held, for another reason or no longer, and plan the runs that are needed
        to know more.
        """
        number = self._tasks.columns.number
        batch.holds += [
            ProblemHold(int(number[update.row]), update.cause.value, update.opened, update.hold.word, update.at)
            for update in self._holds.settle(now)
        ]
        wanted = self._holds.wanted_runs()
        if len(wanted):
            asked = ask_for_runs(self._tasks.lifecycle, wanted, now)
            batch.standings += task_positions_of(self._tasks, asked, now)

    def _expected_by(self, rows: Ints) -> Ints:
        """By when the next result of each row must be there; FOREVER where none is expected."""
        c, times = self._tasks.columns, self._tasks.times
        expected = c.nominal[rows]
        is_passive = c.flags[rows] & int(Flag.PASSIVE) != 0
        expected[is_passive] = self._passive.expected_by(rows[is_passive])
        runs = ~is_passive & (expected < FOREVER)
        some, nominal = rows[runs], expected[runs]
        expected[runs] += longest_runs(c.timebox[some], c.longer_than[some], times.interval(some, nominal))
        return expected
