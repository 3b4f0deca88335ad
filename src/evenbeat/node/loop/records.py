"""Makes records for the store from columns: where tasks stand, what was skipped or refused, what runs led to."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.core.gate import REASONS
from evenbeat.core.problems import ProblemUpdate
from evenbeat.core.stopped_runs import Withdrawn
from evenbeat.core.task import Flag, RefusedRuns, SkipColumns
from evenbeat.model import RESULT_LIMIT, SEVERITY, Instant, RunKind
from evenbeat.node.loop.packed_jobs import NodeColumns
from evenbeat.node.loop.pending_run import PendingRun
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.store.contract import Finish, ProgressRecord, Refusal, Returned, Skip, WholeOutput
from evenbeat.store.problem_records import ProblemChange
from evenbeat.when.windows import FOREVER, NEVER
from evenbeat.wire.worker_frames import RunResult

# Faster than `_make`: a hundred thousand are made at a time.
_task_position_of: Final[Callable[[tuple[object, ...]], ProgressRecord]] = partial(tuple.__new__, ProgressRecord)


def planned_off_grid(columns: NodeColumns, rows: Ints, now: Instant) -> tuple[Ints, NDArray[np.uint8]]:
    """When the off-grid run of each row is due, and its kind, as the store keeps it. A waiting forced run takes its
    place, so that it outlives the node; one kind stands for a forced run beside a `start_at` that lies ahead.
    """
    c = columns
    off_grid_due, kind = c.off_grid_due[rows], c.off_grid_kind[rows]
    forced = c.flags[rows] & int(Flag.FORCED) != 0
    if forced.any():
        before_start = forced & (kind == RunKind.START_AT) & (off_grid_due < FOREVER)
        kind[before_start] = RunKind.FORCED_BEFORE_START
        forced &= ~before_start
        off_grid_due[forced] = np.minimum(off_grid_due[forced], now)
        kind[forced] = RunKind.FORCED
    return off_grid_due, kind


def skip_records_of(columns: NodeColumns, skips: SkipColumns, now: Instant) -> list[Skip]:
    """Records of skips, with where their tasks stand now."""
    c, rows = columns, skips.rows
    off_grid_due, off_grid_kind = planned_off_grid(c, rows, now)
    return [
        Skip(number, first, last, times, REASONS[reason].value, now, following, accounted, planned, kind)
        for number, first, last, times, reason, following, accounted, planned, kind in zip(
            c.number[rows].tolist(),
            skips.first.tolist(),
            skips.last.tolist(),
            skips.times.tolist(),
            skips.reason.tolist(),
            c.nominal[rows].tolist(),
            c.accounted[rows].tolist(),
            off_grid_due.tolist(),
            off_grid_kind.tolist(),
            strict=True,
        )
    ]


def task_positions_of(tasks: TaskTable, rows: Ints, now: Instant) -> list[ProgressRecord]:
    """Records of where tasks stand."""
    c, pauses = tasks.columns, tasks.lifecycle.pauses
    off_grid_due, off_grid_kind = planned_off_grid(c, rows, now)
    values = zip(
        c.number[rows].tolist(),
        c.accounted[rows].tolist(),
        off_grid_due.tolist(),
        off_grid_kind.tolist(),
        c.last_start[rows].tolist(),
        c.result_at[rows].tolist(),
        [pauses[row][0] if row in pauses else NEVER for row in rows.tolist()] if pauses else repeat(NEVER),
        [pauses[row][1] if row in pauses else NEVER for row in rows.tolist()] if pauses else repeat(NEVER),
        strict=False,
    )
    return list(map(_task_position_of, values))


def condition_columns_of(
    columns: NodeColumns, rows: Ints, last_start: Ints, notable: NDArray[np.bool_], now: Instant
) -> tuple[list[Any], ...]:
    """The columns of the last fields of `Finish`: the state of each task after its run."""
    c = columns
    off_grid_due, off_grid_kind = planned_off_grid(c, rows, now)
    return (
        last_start.tolist(),
        c.state[rows].tolist(),
        c.hard[rows].tolist(),
        c.attempt[rows].tolist(),
        c.changes[rows].tolist(),
        c.flapping[rows].tolist(),
        c.result_at[rows].tolist(),
        off_grid_due.tolist(),
        off_grid_kind.tolist(),
        notable.tolist(),
    )


def refusal_records_of(columns: NodeColumns, refused: RefusedRuns, now: Instant) -> list[Refusal]:
    """Records of refused off-grid runs, with where their tasks stand now."""
    off_grid_due, off_grid_kind = planned_off_grid(columns, refused.rows, now)
    return [
        Refusal(number, due, kind, REASONS[reason].value, now, *place)
        for number, due, kind, reason, *place in zip(
            columns.number[refused.rows].tolist(),
            refused.due.tolist(),
            refused.kind.tolist(),
            refused.reason.tolist(),
            columns.accounted[refused.rows].tolist(),
            off_grid_due.tolist(),
            off_grid_kind.tolist(),
            strict=True,
        )
    ]


def withdrawn_records_of(columns: NodeColumns, withdrawn: Withdrawn, words: str, now: Instant) -> list[Refusal]:
    """Records of planned runs off the grid that a person has withdrawn."""
    rows = withdrawn.rows
    off_grid_due, off_grid_kind = planned_off_grid(columns, rows, now)
    return [
        Refusal(number, due, kind, words, now, *place)
        for number, due, kind, *place in zip(
            columns.number[rows].tolist(),
            withdrawn.due.tolist(),
            withdrawn.kind.tolist(),
            columns.accounted[rows].tolist(),
            off_grid_due.tolist(),
            off_grid_kind.tolist(),
            strict=True,
        )
    ]


def problem_changes_of(columns: NodeColumns, updates: Sequence[ProblemUpdate]) -> list[ProblemChange]:
    """Records of what became of problems."""
    return [
        ProblemChange(
            int(columns.number[u.row]),
            u.cause.value,
            u.opened,
            u.at,
            int(u.state),
            SEVERITY[u.state],
            u.is_open,
            u.reason,
        )
        for u in updates
    ]


def returned_values(ended: Iterable[tuple[PendingRun, RunResult]]) -> list[Returned]:
    """What functions returned, of runs that have ended; what is larger than hosts may report is left out."""
    return [
        Returned(run.number, run.claimed, result.ended, result.returned.decode(errors="replace"))
        for run, result in ended
        if result.returned and len(result.returned) <= RESULT_LIMIT and b"\0" not in result.returned
    ]


def whole_outputs_of(ended: Iterable[tuple[PendingRun, RunResult]], finishes: Sequence[Finish]) -> list[WholeOutput]:
    """Records of whole outputs, where the history does not have all of it anyway."""
    return [
        WholeOutput(run.number, run.claimed, result.whole)
        for (run, result), finish in zip(ended, finishes, strict=True)
        if result.whole and (result.truncated or not finish.notable)
    ]
