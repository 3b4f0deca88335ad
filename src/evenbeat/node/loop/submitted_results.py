"""Results without a run of ours, and what they make of their checks: from columns to records."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.model import Instant, Outcome, RunKind, State
from evenbeat.node.loop.records import planned_off_grid
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.store.contract import Finish, SubmittedResult


class ResultColumns(NamedTuple):
    """Results of some checks, none of them twice."""

    rows: Ints
    nominal: Ints
    known: Ints
    """As of when each was so: one that is older than what is known changes nothing."""
    started: Ints
    ended: Ints
    status: Ints
    outputs: Sequence[str]
    kind: RunKind
    outcome: Outcome | None = None
    """None for what the status says."""


def learn_submitted_results(roster: TaskTable, results: ResultColumns, now: Instant) -> list[SubmittedResult]:
    """The new states of these checks, and the records of it."""
    rows, life, c = results.rows, roster.lifecycle, roster.columns
    newer = results.known > c.result_at[rows]
    as_of = Instant(max(now, int(results.known.max(initial=now))))
    changed = life.apply_results(rows, results.status.astype(np.uint8), results.known, results.nominal, as_of)
    notable = changed | (results.status != State.OK)
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
            [(results.outcome or (Outcome.FAILED if s else Outcome.SUCCEEDED)).value for s in status],
            status,
            results.outputs,
            [s if is_newer else None for s, is_newer in zip(status, newer.tolist(), strict=True)],
            c.state[rows].tolist(),
            c.hard[rows].tolist(),
            c.attempt[rows].tolist(),
            c.changes[rows].tolist(),
            c.flapping[rows].tolist(),
            c.result_at[rows].tolist(),
            c.accounted[rows].tolist(),
            extra.tolist(),
            extra_kind.tolist(),
            notable.tolist(),
            strict=True,
        )
    ]


def finish_of_submitted(told: SubmittedResult) -> Finish:
    """For those who listen to how runs end."""
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
        # Of a run its start says whether it is the latest; of a submitted result the time at which it was so.
        result_at=told.started if told.made is not None else max(told.result_at, told.started + 1),
        extra=told.extra,
        extra_kind=told.extra_kind,
        notable=told.notable,
    )
