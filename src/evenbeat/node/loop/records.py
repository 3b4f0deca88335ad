"""From columns to records: where tasks stand and what was skipped, in the plain numbers that a store keeps."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Ints
from evenbeat.core.gate import REASONS
from evenbeat.core.task import Flag, Refused, Skips
from evenbeat.model import Instant, Kind
from evenbeat.node.loop.packed_jobs import NodeColumns
from evenbeat.node.loop.task_table import Roster
from evenbeat.store.contract import Refusal, Skip, Standing
from evenbeat.when.windows import FOREVER, NEVER

# As `_make` does, without its detour: they are made by the hundred thousand.
_standing_of: Final[Callable[[tuple[object, ...]], Standing]] = partial(tuple.__new__, Standing)


def planned_of(columns: NodeColumns, rows: Ints, now: Instant) -> tuple[Ints, NDArray[np.uint8]]:
    """The off-grid run of each, and its kind. A forced run that waits is kept, so that it outlives the node, and a
    `start_at` that is still to come beside it.
    """
    c = columns
    extra, kind = c.extra[rows], c.extra_kind[rows]
    forced = c.flags[rows] & int(Flag.FORCED) != 0
    if forced.any():
        before_start = forced & (kind == Kind.START_AT) & (extra < FOREVER)
        kind[before_start] = Kind.FORCED_BEFORE_START
        forced &= ~before_start
        extra[forced] = np.minimum(extra[forced], now)
        kind[forced] = Kind.FORCED
    return extra, kind


def skips_of(columns: NodeColumns, skips: Skips, now: Instant, numbers: Ints | None = None) -> list[Skip]:
    """Skips as the store keeps them; `numbers` are those of tasks that have been removed since."""
    c, rows = columns, skips.rows
    extra, extra_kind = planned_of(c, rows, now)
    return [
        Skip(number, first, last, times, REASONS[reason].value, now, following, accounted, planned, kind)
        for number, first, last, times, reason, following, accounted, planned, kind in zip(
            (c.number[rows] if numbers is None else numbers).tolist(),
            skips.first.tolist(),
            skips.last.tolist(),
            skips.times.tolist(),
            skips.reason.tolist(),
            c.nominal[rows].tolist(),
            c.accounted[rows].tolist(),
            extra.tolist(),
            extra_kind.tolist(),
            strict=True,
        )
    ]


def standings_of(roster: Roster, rows: Ints, now: Instant) -> list[Standing]:
    """Where tasks stand, as the store keeps it."""
    c, pauses = roster.columns, roster.lifecycle.pauses
    extra, extra_kind = planned_of(c, rows, now)
    values = zip(
        c.number[rows].tolist(),
        c.accounted[rows].tolist(),
        extra.tolist(),
        extra_kind.tolist(),
        c.last_start[rows].tolist(),
        c.result_at[rows].tolist(),
        [pauses[row][0] if row in pauses else NEVER for row in rows.tolist()] if pauses else repeat(NEVER),
        [pauses[row][1] if row in pauses else NEVER for row in rows.tolist()] if pauses else repeat(NEVER),
        strict=False,
    )
    return list(map(_standing_of, values))


def condition_of(
    columns: NodeColumns, rows: Ints, last_start: Ints, notable: NDArray[np.bool_], now: Instant
) -> Iterator[tuple[object, ...]]:
    """The rest of a `Finish`: what its run made of each task."""
    c = columns
    extra, extra_kind = planned_of(c, rows, now)
    return zip(
        last_start.tolist(),
        c.state[rows].tolist(),
        c.hard[rows].tolist(),
        c.attempt[rows].tolist(),
        c.changes[rows].tolist(),
        c.flapping[rows].tolist(),
        c.result_at[rows].tolist(),
        extra.tolist(),
        extra_kind.tolist(),
        notable.tolist(),
        strict=True,
    )


def refusals_of(columns: NodeColumns, refused: Refused, now: Instant) -> list[Refusal]:
    """Refused off-grid runs as the store keeps them, and where their tasks stand without them."""
    extra, extra_kind = planned_of(columns, refused.rows, now)
    return [
        Refusal(number, due, kind, REASONS[reason].value, now, *place)
        for number, due, kind, reason, *place in zip(
            columns.number[refused.rows].tolist(),
            refused.due.tolist(),
            refused.kind.tolist(),
            refused.reason.tolist(),
            columns.accounted[refused.rows].tolist(),
            extra.tolist(),
            extra_kind.tolist(),
            strict=True,
        )
    ]
