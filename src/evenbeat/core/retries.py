"""Retries of tasks that are no checks: does a failed run try again, when, and for which nominal time?

A retry is an off-grid run that carries the nominal time of the run that failed. It never waits past the next nominal
time of its task: what is due then is made instead, and the failure is final.
"""

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.run_plan import GIVES_RESULT, SUCCESS, attempts_of_tasks
from evenbeat.core.task import Bools, Flag, Flags, Small, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import DEFAULT_BACKOFF, DEFAULT_BACKOFF_MAX, Instant, Outcome, RunKind, Task
from evenbeat.when.hashing import RETRY_NUMBER, stable_number
from evenbeat.when.windows import FOREVER

_JITTER: Final = 4
"""A delay is shortened by up to a fourth, so that tasks that failed together do not all try again together."""
_HASH_RANGE: Final = 1 << 64
_CHECK_OR_REMOVED: Final = int(Flag.CHECK | Flag.REMOVED)
_RUNNABLE: Final = int(Flag.ENABLED | Flag.PERMITTED)
_RETRY: Final = np.uint8(RunKind.RETRY)


class RetryPolicy(NamedTuple):
    """What a task says of its retries."""

    retries: int
    backoff: int
    backoff_max: int
    retry_on: tuple[int | str, ...] = ()
    """Exit codes and names of exceptions; empty for every failure."""


def retry_policy_of(task: Task) -> RetryPolicy | None:
    """None for a task whose failed runs do not try again."""
    if task.check or not task.retries:
        return None
    backoff = DEFAULT_BACKOFF if task.backoff is None else task.backoff
    backoff_max = max(DEFAULT_BACKOFF_MAX, backoff) if task.backoff_max is None else task.backoff_max
    return RetryPolicy(task.retries, backoff, backoff_max, task.retry_on)


def retry_delay(policy: RetryPolicy, name: str, attempt: int) -> int:
    """How long after the end of its failed attempt a task tries again: twice as long each time, up to a maximum."""
    longest = min(policy.backoff << min(attempt - 1, 62), policy.backoff_max)
    return longest - longest * stable_number(name, RETRY_NUMBER, attempt) // (_JITTER * _HASH_RANGE)


def is_retried(policy: RetryPolicy, outcome: str, status: int | None, raised: Sequence[str]) -> bool:
    """Does the policy cover this failure? `raised` are the names of the exception that ended a function."""
    if not policy.retry_on:
        return True
    return outcome == Outcome.FAILED and any(
        on == status if isinstance(on, int) else on in raised for on in policy.retry_on
    )


class EndedRun(NamedTuple):
    """A run of a task, and how it ended."""

    name: str
    nominal: int
    ended: int
    outcome: str
    status: int | None
    raised: Sequence[str] = ()


class Retries:
    """The retries that wait. Their times are in the columns, as off-grid runs are; this has what only retries have."""

    def __init__(self, columns: TaskColumns) -> None:
        self._columns = columns
        self._policies: list[RetryPolicy | None] = [None]
        self._policy_numbers: dict[RetryPolicy | None, int] = {None: 0}
        self.nominals: dict[int, int] = {}
        """By the rows of tasks with a retry that waits: the nominal time that it carries."""
        self._given_up: dict[int, int] = {}
        """By rows: the nominal times of failed runs that do not try again after all."""
        self.begun_count = 0
        """How many retries were claimed since the node was started."""

    def policy_number(self, task: Task) -> int:
        """The number of what a task says of its retries, for `TaskColumns.retry_policy`."""
        policy = retry_policy_of(task)
        if policy not in self._policy_numbers:
            self._policy_numbers[policy] = len(self._policies)
            self._policies.append(policy)
        return self._policy_numbers[policy]

    def policy(self, row: int) -> RetryPolicy | None:
        """What the task of this row says."""
        return self._policies[int(self._columns.retry_policy[row])]

    # A run ends

    def count_attempts(self, rows: Ints, flags: Flags, kind: Ints) -> None:
        """Runs have ended: a retry was one more attempt than the run before it, any other run of a task the first."""
        c = self._columns
        before = c.attempt[rows]
        c.attempt[rows] = np.where(flags & int(Flag.CHECK) != 0, before, attempts_of_tasks(before, kind))

    def plan(
        self,
        times: ScheduleTimes,
        rows: Ints,
        flags: Flags,
        meaning: Small,
        run_of: Callable[[int], EndedRun],
        now: Instant,
    ) -> Bools:
        """Which of the runs that have just ended try again? A retry comes before the next nominal time and before the
        period closes, or not at all; and not where another run is planned or the task is paused.

        `run_of` says more of the run at one of these places; few of them fail.
        """
        c = self._columns
        failed = (meaning & (GIVES_RESULT | SUCCESS) == GIVES_RESULT) & (flags & _CHECK_OR_REMOVED == 0)
        planned = np.zeros(len(rows), dtype=bool)
        which = np.flatnonzero(failed & (c.retry_policy[rows] > 0) & (flags & _RUNNABLE == _RUNNABLE))
        forced = flags[which] & int(Flag.FORCED) != 0
        which = which[forced | (c.off_grid_due[rows[which]] == FOREVER)]
        if not len(which):
            return planned
        runs = list(map(run_of, which.tolist()))
        due = np.array(list(map(self._retry_due, rows[which].tolist(), runs, repeat(now))), dtype=np.int64)
        some = rows[which]
        fits = (due < c.nominal[some]) & (due < times.closes_at(some, now))
        planned[which[fits]] = True
        # A forced run that waits takes the place of the retry.
        fits &= flags[which] & int(Flag.FORCED) == 0
        some = some[fits]
        c.off_grid_due[some], c.off_grid_kind[some] = due[fits], _RETRY
        # The nominal time of a run from before the clock was set back may lie ahead.
        self.nominals |= {
            row: min(run.nominal, now) for row, run, fit in zip(rows[which].tolist(), runs, fits, strict=True) if fit
        }
        return planned

    def _retry_due(self, row: int, run: EndedRun, now: Instant) -> int:
        """FOREVER if the run does not try again."""
        policy, attempt = self.policy(row), int(self._columns.attempt[row])
        if policy is None or attempt > policy.retries or not is_retried(policy, run.outcome, run.status, run.raised):
            return FOREVER
        return max(min(run.ended, now) + retry_delay(policy, run.name, attempt), now)

    # A run begins

    def begin(self, rows: Ints, nominal: Ints, kind: Small, off_grid_due: Ints) -> None:
        """Runs are claimed. Those that are retries get the nominal times that they carry; a forced run takes the place
        of a retry that waits; any other run leaves no time for it.

        `off_grid_due` is the column of these rows, which the caller goes on with.
        """
        for i in [i for i, row in enumerate(rows.tolist()) if row in self.nominals]:
            if kind[i] == RunKind.RETRY:
                nominal[i] = self.nominals.pop(int(rows[i]))
                self.begun_count += 1
            elif kind[i] == RunKind.FORCED:
                self.drop(rows[i : i + 1])
                off_grid_due[i] = FOREVER
            else:
                self.give_up(rows[i : i + 1])
                off_grid_due[i] = FOREVER

    # A retry is not made

    def give_up(self, rows: Ints) -> None:
        """The retries of these rows that wait are not made, so their failures are final."""
        self._given_up |= {row: self.nominals[row] for row in rows.tolist() if row in self.nominals}
        self.drop(rows)

    def drop(self, rows: Ints) -> list[int]:
        """Forget the retries of these rows that wait; returns the rows that had one."""
        if not self.nominals:
            return []
        found = [row for row in rows.tolist() if self.nominals.pop(row, None) is not None]
        self._columns.off_grid_due[found] = FOREVER
        return found

    def give_up_unfit(self, rows: Ints) -> list[int]:
        """Definitions of tasks have changed: give up retries that they do not allow any more; returns whose."""
        c, found = self._columns, []
        for row in [row for row in rows.tolist() if row in self.nominals]:
            policy = self.policy(row)
            if policy is None or c.attempt[row] > policy.retries or c.off_grid_due[row] >= c.nominal[row]:
                found.append(row)
        self.give_up(np.array(found, dtype=np.int64))
        return found

    def take_given_up(self) -> dict[int, int]:
        """The rows whose retries were given up since this was last called, with the nominal times that these carried:
        their tasks have failed.
        """
        given_up, self._given_up = self._given_up, {}
        return given_up

    def forget(self, rows: Ints) -> None:
        """These rows are another node's, or nobody's."""
        if self.nominals or self._given_up:
            for row in rows.tolist():
                self.nominals.pop(row, None)
                self._given_up.pop(row, None)

    # Time and restarts

    def restore(self, rows: Ints, known: Callable[[int], int | None]) -> None:
        """Of these rows, some wait for a retry. `known` says which nominal time the retry of a row carries; if that is
        not known any more, it carries the time at which it is due.
        """
        c = self._columns
        waits = (c.off_grid_kind[rows] == RunKind.RETRY) & (c.off_grid_due[rows] < FOREVER)
        for row in rows[waits & (c.flags[rows] & int(Flag.CHECK) == 0)].tolist():
            nominal = known(row)
            self.nominals[row] = int(c.off_grid_due[row]) if nominal is None else nominal

    def move_back(self, by: int) -> None:
        """The clock was set back: retries that wait, and what they carry, move with it."""
        self.nominals = {row: nominal - by for row, nominal in self.nominals.items()}
