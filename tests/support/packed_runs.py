"""Runs that a node has packed into parts: a minute after their end no table of runs has them. Oracles judge them too.

Of evenbeat's own code only what reads a block is used.
"""

from collections.abc import Iterator
from typing import Any, Final

from evenbeat.past_runs import PackedRun
from evenbeat.store.common.run_blocks import RunBlock

_BODIES: Final = (
    "SELECT body FROM blocks JOIN parts ON parts.number = blocks.part "
    "WHERE parts.state = 'complete' AND parts.layer IN ('recent', 'runs', 'kept')"
)


def packed_runs(connection: Any) -> Iterator[PackedRun]:
    """`connection`: to either store."""
    for (body,) in connection.execute(_BODIES).fetchall():
        yield from RunBlock(bytes(body)).runs()


def state_of(run: PackedRun) -> int | None:
    """As the tables of runs have it."""
    return None if run.state < 0 else run.state
