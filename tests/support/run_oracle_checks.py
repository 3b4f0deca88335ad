"""The oracle of checks: from the results that the store has of a check, what must be said of it after each.

It shares no rule with evenbeat: states, SOFT and HARD, and attempts are counted anew, one result after the other.
"""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple

from packed_runs import state_of

from evenbeat.past_runs import PackedRun

_OK, _UNKNOWN = 0, 3
_BY_STATUS: Final = {0: _OK, 1: 1, 2: 2, 3: _UNKNOWN}
_WITH_RESULT: Final = ("succeeded", "failed", "killed", "timeboxed", "broken")
_FORCED: Final = 6
COLUMNS: Final = "nominal, kind, claimed, started, ended, outcome, status, state, hard, attempt"
"""Of both tables of runs, in both stores."""


class Result(NamedTuple):
    """A run of a check that ended, and what the store says it made of the check."""

    nominal: int
    kind: int
    claimed: int
    started: int
    ended: int
    outcome: str
    status: int | None
    state: int | None
    hard: bool
    attempt: int


def result_of(run: PackedRun) -> Result:
    """The same of a run that is packed."""
    end = run.outcome, run.status, state_of(run), run.hard, run.attempt
    return Result(run.nominal, run.kind, run.claimed, run.started, run.ended, *end)


class Standing(NamedTuple):
    """What is true of a check after a result."""

    state: int
    hard: bool
    attempt: int


def after(before: Standing, state: int, attempts: int) -> Standing:
    """One more result."""
    if state == _OK:
        return Standing(_OK, True, 1)
    if before.state == _OK:
        return Standing(state, attempts <= 1, 1)
    if before.hard:
        return Standing(state, True, before.attempt)
    return Standing(state, before.attempt + 1 >= attempts, before.attempt + 1)


def miscounted(definition: dict[str, Any], results: Iterable[Result]) -> list[str]:
    """Attempts that were skipped or counted twice, and states that do not follow from what came before."""
    found = []
    known = Standing(_OK, True, 1)
    for run in sorted(results, key=lambda run: run.started):
        if run.outcome not in _WITH_RESULT:
            if run.state is not None:
                found.append(f"the run of {run.nominal} is {run.outcome}, and made {run.state} of the check")
            continue
        is_ended = run.outcome in ("succeeded", "failed")
        known = after(known, _BY_STATUS.get(run.status or 0, _UNKNOWN) if is_ended else _UNKNOWN, _attempts(definition))
        if run.state is not None and (run.state, bool(run.hard), run.attempt) != known:
            made = run.state, bool(run.hard), run.attempt
            found.append(f"the run of {run.nominal} made {made} of the check, and not {tuple(known)}")
        elif run.state is None:
            found.append(f"the run of {run.nominal} is {run.outcome}, and made nothing of the check")
    return found


def unretried(definition: dict[str, Any], results: Iterable[Result], disturbed: Iterable[int]) -> list[str]:
    """SOFT problems without another run at the next grid time or before. `disturbed`: instants after which one is not
    held against a node.
    """
    every, phase = definition["schedule"]["every"], definition["schedule"]["phase"]
    own = sorted((run for run in results if run.kind != _FORCED), key=lambda run: run.claimed)
    found = []
    for run, following in pairwise(own):
        is_soft = run.state not in (None, _OK) and not run.hard
        if not is_soft or any(run.claimed <= at <= following.claimed for at in disturbed):
            continue
        grid = run.ended + every - (run.ended - phase) % every
        if following.nominal > grid:
            found.append(f"after {run.nominal} the check is SOFT, and runs again at {following.nominal}, not by {grid}")
    return found


def misjudged(
    definition: dict[str, Any], results: Iterable[Result], causes: Iterable[str], *, flaps: bool
) -> list[str]:
    """Problems that are open and should not be, or the other way round. `causes` are those of the open ones."""
    is_check = bool(definition.get("check"))
    expected = _is_bad(results, flaps=flaps) if is_check else _has_failed(definition, results)
    causes = list(causes)
    allowed = {"state" if is_check else "failed"}
    if not allowed.issuperset(causes) or len(causes) > 1:
        return [f"the open problems are {causes}"]
    if expected is not None and expected is not bool(causes):
        return [f"a problem is {'open' if causes else 'not open'}, against what its runs say"]
    return []


def _is_bad(results: Iterable[Result], *, flaps: bool) -> bool | None:
    known = [run for run in sorted(results, key=lambda run: run.started) if run.state is not None]
    if not known or known[-1].state == _OK:
        return None if flaps else False
    return True if known[-1].hard else None


def _has_failed(definition: dict[str, Any], results: Iterable[Result]) -> bool | None:
    """None: a lost run may have been the last of several that killed their workers, which is not repeated."""
    failed: bool | None = False
    for run in sorted(results, key=lambda run: run.claimed):
        if run.outcome in _WITH_RESULT:
            failed = run.outcome != "succeeded"
            # Whether a retry is to come is not said by its runs.
            failed = None if failed and run.attempt <= (definition.get("retries") or 0) else failed
        elif run.outcome == "lost" and not failed:
            failed = True if definition.get("missed") == "skip" else None
    return failed


def _attempts(definition: dict[str, Any]) -> int:
    return int(definition.get("attempts") or 3)
