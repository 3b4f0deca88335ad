"""Records of submitted results, from the columns of their checks."""

from evenbeat.core.submitted_results import ResultColumns, apply_submitted, outcome_of
from evenbeat.model import Instant
from evenbeat.node.loop.records import planned_off_grid
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.store.contract import Finish, SubmittedResult


def learn_submitted_results(roster: TaskTable, results: ResultColumns, now: Instant) -> list[SubmittedResult]:
    """Apply results to their checks; the records of that."""
    rows, life, c = results.rows, roster.lifecycle, roster.columns
    applied = apply_submitted(life, results, now)
    status = results.status.tolist()
    extra, extra_kind = planned_off_grid(c, rows, now)
    return [
        SubmittedResult(*fields)
        for fields in zip(
            c.number[rows].tolist(),
            results.nominal.tolist(),
            [life.generation] * len(rows),
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


def finish_of_submitted(told: SubmittedResult) -> Finish:
    """A submitted result in the form in which ends of runs are announced."""
    return Finish(
        told.task,
        told.started,
        told.ended,
        told.outcome,
        told.status,
        told.output,
        cursor=None,
        last_start=told.started,
        state=told.state,
        hard=told.hard,
        attempt=told.attempt,
        changes=told.changes,
        flapping=told.flapping,
        # Listeners take a result for the latest if its start is `result_at`.
        result_at=told.started if told.made is not None else max(told.result_at, told.started + 1),
        extra=told.extra,
        extra_kind=told.extra_kind,
        notable=told.notable,
    )
