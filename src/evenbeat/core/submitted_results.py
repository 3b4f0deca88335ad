"""Results that no run of this scheduler had: which of them count, and what they make of their checks."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Bools
from evenbeat.core.telling_lines import summary_line
from evenbeat.model import OUTPUT_LIMIT, SECOND, Instant, Invalid, Outcome, RunKind, State

CLOCK_TOLERANCE: Final = 5 * SECOND
"""The clocks of other machines may be ahead by this much: a result from then is one from now."""
_CLOCK_TICK: Final = 1_000
"""Microseconds: some clocks give the same time to several results that come one after the other."""


class ResultColumns(NamedTuple):
    """Results of some checks, at most one of each."""

    rows: Ints
    nominal: Ints
    known: Ints
    """The time that each result speaks of: one that is older than the latest result of its check changes nothing."""
    started: Ints
    ended: Ints
    status: Ints
    outputs: Sequence[str]
    kind: RunKind
    outcome: Outcome | None = None
    """None for the outcome that goes with the status."""


class AppliedResults(NamedTuple):
    """What results made of their checks."""

    counts: Bools
    """False where a newer result was known already: such a check is as it was."""
    notable: Bools
    """The result is not OK, or the state is another than before: history keeps it for longer."""


def time_of_result(said: Instant | None, now: Instant) -> Instant:
    """The time that a submitted result speaks of; raises Invalid for a time in the future."""
    at = now if said is None else said
    if at > now + CLOCK_TOLERANCE:
        raise Invalid(f"a result of {(at - now) / SECOND:.0f} s from now, accepted: of now or before", place="at")
    return Instant(min(at, now))


def known_as_of(at: Instant, last: int, now: Instant) -> int:
    """The time of a result for comparison with the `last` one of its check: of some that come within one tick of the
    clock, the later counts.
    """
    return last + 1 if at == now <= last < now + _CLOCK_TICK else at


def outcome_of(status: int, said: Outcome | None) -> Outcome:
    """How a run with this status would have ended, unless it is known how it did."""
    return said or (Outcome.FAILED if status else Outcome.SUCCEEDED)


def apply_submitted(life: Lifecycle, results: ResultColumns, now: Instant) -> AppliedResults:
    """Apply results to their checks. `now` may be behind the time of a result by a few ticks."""
    counts: Bools = results.known > life.columns.result_at[results.rows]
    as_of = Instant(max(now, int(results.known.max(initial=now))))
    changed = life.apply_results(results.rows, results.status.astype(np.uint8), results.known, results.nominal, as_of)
    return AppliedResults(counts, changed | (results.status != State.OK))


def exit_status_output(status: int, output: str) -> str:
    """The output of a program that failed with an exit status: that, and the line that says most, come first."""
    said = summary_line(output, is_check=False, has_failed=True)
    first = f"exit status {status}{f': {said}' if said else ''}"
    return (first if said == output.strip() else f"{first}\n{output}")[:OUTPUT_LIMIT]


def join_perfdata(output: str, perfdata: str) -> str:
    """Output as a plugin would have written it: performance data behind the first line."""
    if perfdata.strip():
        first, newline, rest = output.partition("\n")
        output = f"{first} | {' '.join(perfdata.split())}{newline}{rest}"
    return output[:OUTPUT_LIMIT]
