"""Check state: what results make of checks. SOFT and HARD, attempts, retries, freshness, flapping; by columns."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.model import Instant, State

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Small = NDArray[np.uint8]

FLAP_WINDOW: Final = 20
FLAPPING_STOPS_BELOW: Final = 25.0
FLAPPING_STARTS_ABOVE: Final = 30.0
"""Percent of weighted state changes in the window; two thresholds, so that flapping itself does not flap."""
_FLAP_WEIGHTS: Final = np.linspace(1.2, 0.8, FLAP_WINDOW)
"""Newest first: recent changes count half as much again as old ones; they average to 1."""
_FLAP_MASK: Final = (1 << FLAP_WINDOW) - 1


class CheckStates(NamedTuple):
    """What is known of some checks, as columns."""

    state: Small
    hard: Bools
    attempt: Small
    changes: NDArray[np.uint32]
    """One bit per result: did it change the state? Newest in bit 0."""
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
    differs = result != before.state
    changes = ((before.changes << 1) | differs) & _FLAP_MASK
    flapping = _is_flapping(changes, before.flapping)
    after = CheckStates(
        np.where(accepted, result, before.state).astype(np.uint8),
        np.where(accepted, hard, before.hard),
        np.where(accepted, attempt, before.attempt).astype(np.uint8),
        np.where(accepted, changes, before.changes).astype(np.uint32),
        np.where(accepted, flapping, before.flapping),
        np.where(accepted, started, before.result_at),
    )
    return CheckUpdate(after, accepted, (after.state != before.state) | (after.hard != before.hard))


def flap_percent(changes: NDArray[np.uint32]) -> NDArray[np.float64]:
    """How much of the window is changes, the recent ones weighing more."""
    bits = (changes[:, None] >> np.arange(FLAP_WINDOW, dtype=np.uint32)) & 1
    percent: NDArray[np.float64] = bits @ _FLAP_WEIGHTS * (100.0 / FLAP_WINDOW)
    return percent


def _is_flapping(changes: NDArray[np.uint32], was: Bools) -> Bools:
    percent = flap_percent(changes)
    return np.where(was, percent >= FLAPPING_STOPS_BELOW, percent > FLAPPING_STARTS_ABOVE)


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
