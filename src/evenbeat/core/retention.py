"""Which runs stay in history, and for how long, so that its size is bounded.

Every run stays for a while. Of the older ones stay the last of tasks that run seldom, and for longer those that say
more than a plain success: changes of state, failures, forced runs. The others are only counted in summaries.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple

from evenbeat.model import DAY, HOUR, MINUTE, Outcome, RunKind
from evenbeat.past_runs import PackedRun, RunSummary

KEEP_DAYS: Final = 400 * DAY
"""How long the summaries of days are kept."""
DEFAULT_KEEP_RUNS: Final = 2 * DAY
RARE_RUNS: Final = 4
"""A task is rare in an hour with at most so many runs: its runs themselves are kept, a summary of the hour saves
nothing. A summary of an hour stays if it counts at least so many.
"""
RARE_RUNS_KEPT: Final = 100
"""The last so many runs of a rare task are kept, however old."""
RECORDS_PER_HOUR: Final = 10
"""Of a task that is not rare, at most so many runs of an hour are kept for longer."""
FREE_SHARE: Final = 16
"""One of so many bytes of the database may be free, for what comes next: more of them are given back."""
HOUR_SETTLES: Final = 5 * MINUTE
"""So long after an hour or a day its late results are awaited ..."""
DAY_SETTLES: Final = 2 * HOUR_SETTLES
"""... and the summaries of its last hour."""


class Retention(NamedTuple):
    """For how many microseconds each kind of record is kept."""

    keep_runs: int
    """Every run."""
    keep: int
    """Changes of state, failures and forced runs, and summaries of hours."""
    keep_days: int = KEEP_DAYS
    """Summaries of days."""

    @property
    def horizon(self) -> int:
        """After so long, a database of steady work has its final size."""
        return max(self)


class ThinnedRuns(NamedTuple):
    """What becomes of the runs of a task in an hour."""

    kept: Sequence[PackedRun]
    left_out: Sequence[PackedRun]


def thin_hour(runs: Iterable[PackedRun]) -> Iterator[ThinnedRuns]:
    """Of the runs that ended within an hour, those that are kept for longer; a task at a time, in their order."""
    for _, of_task in groupby(runs, attrgetter("task")):
        group = list(of_task)
        if len(group) <= RARE_RUNS:
            yield ThinnedRuns([run if run.rare else run._replace(rare=True) for run in group], ())
        else:
            chosen = _chosen(group)
            yield ThinnedRuns(
                [run for i, run in enumerate(group) if i in chosen],
                [run for i, run in enumerate(group) if i not in chosen],
            )


def is_kept_longer(run: PackedRun) -> bool:
    """Whether a run says more than a plain success of the timetable."""
    return run.notable or run.kind == RunKind.FORCED


def _chosen(runs: Sequence[PackedRun]) -> set[int]:
    """The places of the runs of a task that are kept for longer.

    If there are too many: the last of them, then the first changes and forced runs, then the first repeated failures.
    """
    longer = [i for i, run in enumerate(runs) if is_kept_longer(run)]
    if len(longer) <= RECORDS_PER_HOUR:
        return set(longer)
    first = [i for i in longer[:-1] if _says_something_new(runs, i)]
    again = [i for i in longer[:-1] if not _says_something_new(runs, i)]
    return {longer[-1], *(first + again)[: RECORDS_PER_HOUR - 1]}


def _says_something_new(runs: Sequence[PackedRun], place: int) -> bool:
    """Is this run a forced one, or another result than the one before it in that hour?"""
    run = runs[place]
    if place == 0 or run.kind == RunKind.FORCED or run.outcome == Outcome.SUCCEEDED:
        return True  # a notable success is a change
    before = runs[place - 1]
    return (run.outcome, run.state, run.hard) != (before.outcome, before.state, before.hard)


def frequent_tasks(days: Iterable[RunSummary]) -> set[int]:
    """Tasks whose last day has as many runs as are kept of a rare one."""
    return {day.task for day in days if day.runs >= RARE_RUNS_KEPT}


class OlderRuns:
    """Decides which of the runs that were kept for longer still stay; asked from the newest to the oldest."""

    def __init__(self, retention: Retention, now: int, tasks: Collection[int], frequent: Collection[int]) -> None:
        """`tasks` are those that exist, `frequent` of them are not rare any more, whatever they were in some hour."""
        self._oldest = now - retention.keep
        self._tasks = tasks
        self._frequent = frequent
        self._rare: Counter[int] = Counter()
        """How many runs of each task were kept because they are its last ones."""

    def stay(self, runs: Iterable[PackedRun]) -> Iterator[bool]:
        """For each run of a part, in its order: whether it stays."""
        for task, of_task in groupby(runs, attrgetter("task")):
            newest_first = [self._stays(task, run) for run in reversed(list(of_task))]
            yield from reversed(newest_first)

    def _stays(self, task: int, run: PackedRun) -> bool:
        if run.rare and self._rare[task] < RARE_RUNS_KEPT and task in self._tasks and task not in self._frequent:
            self._rare[task] += 1
            return True
        return is_kept_longer(run) and run.ended >= self._oldest


def has_summary_of_hour(summary: RunSummary) -> bool:
    """Whether the summary of an hour stays once that of its day is there: of rare tasks the runs themselves stay."""
    return summary.runs >= RARE_RUNS


def hour_of(run: PackedRun) -> int:
    """The beginning of the hour, in UTC, in which a run ended; also if the clock was set back while it ran."""
    ended = max(run.claimed, run.ended)
    return ended - ended % HOUR


def is_hour_over(since: int, now: int) -> bool:
    """Have the runs of the hour that began then ended, and are they recorded?"""
    return since + HOUR + HOUR_SETTLES <= now


def is_day_over(since: int, now: int) -> bool:
    """Are the hours of the day that began then over, and summarized?"""
    return since + DAY + DAY_SETTLES <= now
