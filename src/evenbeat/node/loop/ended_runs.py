"""Runs that have ended since the last turn: their results as they come in, and the columns that a turn works on."""

from collections.abc import MutableMapping, Sequence
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.model import Outcome
from evenbeat.node.loop.pending_run import PendingRun
from evenbeat.store.contract import Finish
from evenbeat.store.problem_records import ProblemChange
from evenbeat.wire.plain_results import PlainResults, Results, full_results
from evenbeat.wire.worker_frames import RunResult


class NewResults:
    """Results that wait for the next turn."""

    def __init__(self) -> None:
        self._plain = PlainResults([], [], [])
        self._others: list[RunResult] = []

    def __len__(self) -> int:
        return len(self._plain.tokens) + len(self._others)

    def add(self, results: Results) -> None:
        if isinstance(results, PlainResults):
            for column, more in zip(self._plain, results, strict=True):
                column.extend(more)
        else:
            self._others += results

    @property
    def tokens(self) -> list[int]:
        return self._plain.tokens + [result.token for result in self._others]

    def take(self, pending_runs: MutableMapping[int, PendingRun], *, in_full: bool) -> "EndedRuns":
        """Take all of them, with their runs out of `pending_runs`; those of other runs are dropped.

        With `in_full` each has a RunResult: somebody has asked about some of these runs.
        """
        plain, others = self._plain, self._others
        self._plain, self._others = PlainResults([], [], []), []
        if in_full:
            plain, others = PlainResults([], [], []), full_results(plain) + others
        runs = list(map(pending_runs.pop, plain.tokens, repeat(None)))
        if None in runs:
            known = [i for i, run in enumerate(runs) if run is not None]
            runs, plain = [runs[i] for i in known], PlainResults(*([of[i] for i in known] for of in plain))
        of_others = [(pending_runs.pop(r.token), r) for r in others if r.token in pending_runs]
        runs += [run for run, _ in of_others]
        return EndedRuns(runs, plain, [result for _, result in of_others])  # type: ignore[arg-type] # None is filtered


class EndedRuns(NamedTuple):
    """Runs that have ended: first those with a plain result, then all others."""

    runs: list[PendingRun]
    plain: PlainResults
    others: list[RunResult]

    @property
    def first_other(self) -> int:
        """The place of the first run whose result is not plain."""
        return len(self.plain.tokens)

    @property
    def with_more(self) -> "zip[tuple[PendingRun, RunResult]]":
        """The runs whose results are not plain."""
        return zip(self.runs[self.first_other :], self.others, strict=True)

    def result(self, place: int) -> RunResult | None:
        """The result of the run at this place, None if it is plain."""
        return self.others[place - self.first_other] if place >= self.first_other else None

    @property
    def tokens(self) -> list[int]:
        return self.plain.tokens + [result.token for result in self.others]

    @property
    def started(self) -> Ints:
        return np.array(self.plain.started + [result.started for result in self.others], dtype=np.int64)

    @property
    def ended(self) -> Ints:
        return np.array(self.plain.ended + [result.ended for result in self.others], dtype=np.int64)

    @property
    def outcomes(self) -> list[str]:
        return [Outcome.SUCCEEDED.value] * self.first_other + [result.outcome for result in self.others]

    @property
    def statuses(self) -> list[int | None]:
        return [0] * self.first_other + [result.status for result in self.others]

    @property
    def outputs(self) -> list[bytes]:
        return [b""] * self.first_other + [result.output for result in self.others]

    @property
    def texts(self) -> list[str]:
        """What the runs have written."""
        return [""] * self.first_other + [_decoded(result.output) for result in self.others]

    @property
    def cursors(self) -> list[bytes | None]:
        return [None] * self.first_other + [result.cursor for result in self.others]


class LearnedEnds(NamedTuple):
    """Runs that have ended, to be announced once that is committed."""

    runs: Sequence[PendingRun]
    finishes: list[Finish]
    outcomes: Sequence[str]
    problems: list[ProblemChange]
    seconds: NDArray[np.float64]
    """How long runs lasted, of those that had really started."""


def _decoded(output: bytes) -> str:
    return output.decode("utf-8", "replace") if output else ""
