"""Check state: what results make of checks. SOFT and HARD, attempts, retries, freshness; by columns."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.flapping import Changes, changes_with, is_flapping
from evenbeat.model import Instant, State

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Small = NDArray[np.uint8]


class CheckStates(NamedTuple):
    """What is known of some checks, as columns."""

    state: Small
    hard: Bools
    attempt: Small
    changes: Changes
    flapping: Bools
    result_at: Ints
    """When the run of the latest result started."""


def unchecked_states(count: int) -> CheckStates:
    """Checks that have had no result: OK until shown otherwise, and any result is newer."""
    return CheckStates(
        np.zeros(count, dtype=np.uint8),
        np.ones(count, dtype=bool),
        np.ones(count, dtype=np.uint8),
        np.zeros(count, dtype=np.uint32),
        np.zeros(count, dtype=bool),
        np.full(count, np.iinfo(np.int64).min, dtype=np.int64),
    )


class CheckUpdate(NamedTuple):
    """Checks after their results."""

    condition: CheckStates
    accepted: Bools
    """False where a newer result was known already; such a check is as it was."""
    changed: Bools
    """The state, or its hardness, is another than before."""


def exit_state(status: Ints) -> Small:
    """0, 1, 2, 3 mean OK, WARNING, CRITICAL, UNKNOWN; anything else (a signal, a timebox) is UNKNOWN."""
    known = (status >= State.OK) & (status <= State.UNKNOWN)
    return np.where(known, status, State.UNKNOWN).astype(np.uint8)


def apply_results(before: CheckStates, result: Small, started: Ints, attempts: Small) -> CheckUpdate:
    """One result for each check: the run that `started` then ended in state `result`."""
    accepted = started > before.result_at
    good = result == State.OK
    was_good = before.state == State.OK
    was_hard_problem = before.hard & ~was_good
    # A problem counts up from 1 until it is hard; one that is hard stays so while it only changes its kind.
    counted = np.where(was_good, 1, np.minimum(before.attempt + 1, attempts))
    attempt = np.where(good, 1, np.where(was_hard_problem, before.attempt, counted))
    hard = good | was_hard_problem | (attempt >= attempts)
    changes = changes_with(before.changes, result != before.state)
    flapping = is_flapping(changes, before.flapping)
    after = CheckStates(
        np.where(accepted, result, before.state).astype(np.uint8),
        np.where(accepted, hard, before.hard),
        np.where(accepted, attempt, before.attempt).astype(np.uint8),
        np.where(accepted, changes, before.changes).astype(np.uint32),
        np.where(accepted, flapping, before.flapping),
        np.where(accepted, started, before.result_at),
    )
    return CheckUpdate(after, accepted, (after.state != before.state) | (after.hard != before.hard))


def retry_due(nominal: Ints, retry: Ints, completed: Ints, next_grid: Ints) -> Ints:
    """The first `nominal + k * retry` after completion, at the latest the next grid point, which is the retry then."""
    steps = (completed - nominal) // retry + 1
    due: Ints = np.minimum(nominal + np.maximum(steps, 1) * retry, next_grid)
    return due


def retry_after_opening(phase: Ints, every: Ints, second: Ints, retry: Ints) -> Ints:
    """How long after its period opens each check is retried: within one `retry`, as evenly as the grid is spread.

    `every` is 1 for calendars: those are spread by their second.
    """
    fraction = np.where(every > 1, phase / every, second / 60)
    after: Ints = (fraction * retry).astype(np.int64)
    return after


def wants_retry(condition: CheckStates) -> Bools:
    """In a SOFT problem state; once HARD or OK only the grid remains."""
    return ~condition.hard


def expected_by(next_nominal: Ints, timebox: Ints, grace: Ints) -> Ints:
    """When a result must be there at the latest."""
    return next_nominal + timebox + grace


def is_stale(expected: Ints, now: Instant) -> Bools:
    """Which checks have missed the time by which a result must be there."""
    return expected < now
