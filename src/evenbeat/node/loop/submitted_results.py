"""Records of submitted results, from the columns of their checks."""

import numpy as np

from evenbeat.core.submitted_results import AppliedResults, ResultColumns, apply_submitted, outcome_of
from evenbeat.model import Instant
from evenbeat.node.loop.records import planned_off_grid
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.store.contract import Finish, SubmittedResult


def learn_submitted_results(tasks: TaskTable, results: ResultColumns, now: Instant) -> list[SubmittedResult]:
    """Apply results to their checks; the records of that."""
    return _records(tasks, results, apply_submitted(tasks.lifecycle, results, now), now)


def log_records(tasks: TaskTable, results: ResultColumns, now: Instant) -> list[SubmittedResult]:
    """Records of results that are no more than lines of a log: they change nothing, and are kept as a whole."""
    nothing = np.zeros(len(results.rows), dtype=bool)
    return _records(tasks, results, AppliedResults(counts=nothing, notable=~nothing), now)


def _records(tasks: TaskTable, results: ResultColumns, applied: AppliedResults, now: Instant) -> list[SubmittedResult]:
    rows, c = results.rows, tasks.columns
    status = results.status.tolist()
    extra, extra_kind = planned_off_grid(c, rows, now)
    return [
        SubmittedResult(*fields)
        for fields in zip(
            c.number[rows].tolist(),
            results.nominal.tolist(),
            [tasks.lifecycle.generation] * len(rows),
            [int(results.kind)] * len(rows),
            [int(now)] * len(rows),
            results.started.tolist(),
            results.ended.tolist(),
            [outcome_of(s, results.outcome).value for s in status],
            status,
            results.outputs,
            [s if counts else None for s, counts in zip(status, applied.counts.tolist(), strict=True)],
            c.state[rows].tolist(),
            c.hard[rows].tolist(),
            c.attempt[rows].tolist(),
            c.changes[rows].tolist(),
            c.flapping[rows].tolist(),
            c.result_at[rows].tolist(),
            c.accounted[rows].tolist(),
            extra.tolist(),
            extra_kind.tolist(),
            applied.notable.tolist(),
            strict=True,
        )
    ]


def finish_of_submitted(result: SubmittedResult) -> Finish:
    """A submitted result in the form in which ends of runs are announced."""
    return Finish(
        result.task,
        result.started,
        result.ended,
        result.outcome,
        result.status,
        result.output,
        cursor=None,
        last_start=result.started,
        state=result.state,
        hard=result.hard,
        attempt=result.attempt,
        changes=result.changes,
        flapping=result.flapping,
        # Listeners take a result for the latest if its start is `result_at`.
        result_at=result.started if result.made is not None else max(result.result_at, result.started + 1),
        extra=result.extra,
        extra_kind=result.extra_kind,
        notable=result.notable,
    )
