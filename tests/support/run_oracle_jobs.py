"""The oracle of jobs: retries, tasks that run after others, and runs that a person has stopped.

It shares no code with evenbeat: what should have happened follows from the runs of the history alone.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, Final, NamedTuple

from run_oracle_checks import Result

CHAIN: Final = 12
_GRID, _CATCH_UP, _RETRY = 0, 2, 3
_FAILED: Final = ("failed", "killed", "timeboxed", "broken")
_STOPPED: Final = "cancelled"
_PASSED_BY: Final = "missed while stopped"


class Span(NamedTuple):
    """Nominal times that were skipped: of the grid, or of a parent."""

    first: int
    last: int
    reason: str


def retries_of(definition: Mapping[str, Any]) -> int:
    return int(definition.get("retries") or 0)


def parents_of(definition: Mapping[str, Any]) -> list[str]:
    """After which tasks it runs."""
    schedule = definition["schedule"]
    return list(schedule.get("after") or schedule.get("after_failure") or ())


def wrongly_retried(
    definition: Mapping[str, Any], results: Iterable[Result], merged: Sequence[Span] = ()
) -> Iterator[str]:
    """A retry follows a failure with its nominal time, at most as often as the task says, and before the grid.

    `merged`: nominal times that came while the node did not know yet that the run before them had ended.
    """
    most = retries_of(definition)
    if not most:
        return
    every, phase = definition["schedule"]["every"], definition["schedule"]["phase"]
    for nominal, attempts in _by_nominal(results):
        for before, run in pairwise(attempts):
            following = before.ended + every - (before.ended - phase) % every
            if run.kind != _RETRY or before.outcome not in _FAILED:
                yield f"after the run of {nominal}, which is {before.outcome}, came another of kind {run.kind}"
            elif run.claimed >= following and not any(span.first <= following <= span.last for span in merged):
                yield f"the retry of {nominal} was claimed at {run.claimed}, and the grid is at {following}"
        if len(attempts) > 1 + most:
            yield f"the run of {nominal} was made {len(attempts)} times, with {most} retries"
        if attempts[0].kind == _RETRY:
            yield f"a retry of {nominal}, of which no run is known"


def wrongly_chained(
    definition: Mapping[str, Any],
    made: Iterable[tuple[int, int]],
    skips: Sequence[Span],
    parents: Mapping[str, Sequence[Result]],
    until: int = 1 << 62,
    unheard: int = 0,
) -> Iterator[str]:
    """A chain runs once for an end of its first parent, and misses none, of those up to `until`. `made` are nominal
    times and kinds of its runs, `skips` those of kind chain. In a cluster the node of the follower may not hear of an
    end if a newer one comes within `unheard`, which it then uses.
    """
    names = parents_of(definition)
    if not names:
        return
    runs = Counter(nominal for nominal, kind in made if kind == CHAIN)
    ends_of = _failures if definition["schedule"].get("after_failure") else _successes
    ends = [run.nominal for run in ends_of(parents[names[0]])]
    for nominal, times in runs.items():
        accounts = times + sum(skip.first <= nominal <= skip.last for skip in skips)
        if accounts > 1:
            yield f"the end of {nominal} of {names[0]!r} is accounted for {accounts} times"
        if nominal not in ends and nominal not in _nominals(parents, names):
            yield f"it ran for {nominal}, at which {names[0]!r} had no such end"
    if len(names) > 1:
        return
    # The latest end may still be owed.
    known = [run for run in ends_of(parents[names[0]]) if run.ended <= until]
    used = {
        run.nominal
        for run in known
        if runs[run.nominal] or any(skip.first <= run.nominal <= skip.last for skip in skips)
    }
    for run in known[:-1]:
        newer = [one for one in known if run.ended < one.ended <= run.ended + unheard and one.nominal in used]
        if run.nominal not in used and not newer:
            yield f"the end of {run.nominal} of {names[0]!r} was missed"


def wrongly_stopped(results: Iterable[Result], grid_skips: Sequence[Span], promised: Iterable[int]) -> Iterator[str]:
    """A run that a person has stopped is recorded once, and nothing repeats it. `promised`: when nodes said so."""
    runs = sorted(results, key=lambda run: run.claimed)
    for at in promised:
        under_way = [run for run in runs if run.claimed <= at < run.ended + 1]
        if under_way and under_way[-1].outcome not in (_STOPPED, "succeeded"):
            yield f"the run of {under_way[-1].nominal} was stopped at {at}, and is recorded {under_way[-1].outcome}"
    for run, following in pairwise(runs):
        if run.outcome != _STOPPED:
            continue
        # A second stop of the node extends the range that the first one has made.
        passed_by = [skip for skip in grid_skips if skip.reason == _PASSED_BY]
        was_down = any(skip.first <= following.claimed and run.nominal < skip.last for skip in passed_by)
        if following.kind == _RETRY or (following.kind == _CATCH_UP and not was_down):
            yield f"the run of {run.nominal} was stopped, and repeated by one of kind {following.kind}"


def _by_nominal(results: Iterable[Result]) -> Iterator[tuple[int, list[Result]]]:
    for nominal, attempts in groupby(sorted(results, key=lambda run: (run.nominal, run.claimed)), lambda r: r.nominal):
        yield nominal, list(attempts)


def _successes(results: Iterable[Result]) -> list[Result]:
    """In the order of their ends."""
    return [run for run in sorted(results, key=lambda run: run.ended) if run.outcome == "succeeded"]


def _failures(results: Iterable[Result]) -> list[Result]:
    """Runs that failed and were not tried again, in the order of their ends."""
    final = [attempts[-1] for _, attempts in _by_nominal(results) if attempts[-1].outcome in _FAILED]
    return sorted(final, key=lambda run: run.ended)


def _nominals(parents: Mapping[str, Sequence[Result]], names: Sequence[str]) -> set[int]:
    """Of ends of further parents: of a task after several failures the first one that failed gives the time."""
    return {run.nominal for name in names[1:] for run in parents[name]}
