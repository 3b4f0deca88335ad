"""The part of the PostgreSQL store that keeps history in layers, see `history_contract`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from evenbeat.store.common.layered_store import Connection, LayeredStore, layer_sizes, oldest_first
from evenbeat.store.common.packed_history import BlockPlace, PackedHistory
from evenbeat.store.common.rows import Row
from evenbeat.store.history_contract import Layer, PackedRun, Part, StoreSize, UnpackedRuns
from evenbeat.store.postgres.cluster import PostgresClusterStore
from evenbeat.store.postgres.read_connections import Moment
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.text import from_text

_BODIES_AT_ONCE: Final = 8

T = TypeVar("T")


class PostgresLayers(PostgresClusterStore, LayeredStore):
    """Keeps history in layers. Of two nodes that make the same step, the second waits for the first and is refused."""

    def __init__(self, dsn: str, *, read_only: bool = False) -> None:
        PostgresClusterStore.__init__(self, dsn, read_only=read_only)
        LayeredStore.__init__(self, self._address)

    def _statement(self, name: str) -> str:
        return query(name)

    def _change(self, work: Callable[[Connection], T]) -> T:
        return self._writers.transaction(work)

    @contextmanager
    def _parts_now(self) -> Iterator["PostgresParts"]:
        with self._readers.one_moment() as moment:
            yield PostgresParts(moment)

    def _packed_history(self, moment: Moment) -> PackedHistory:
        return PackedHistory(PostgresParts(moment), self._damaged_blocks)

    # Packing

    def unpacked(self, most: int) -> UnpackedRuns:
        asked = {"most": most}
        kinds = [(query("oldest_plain"), asked), (query("oldest_notable"), asked)]
        with self._readers.one_moment(*kinds) as moment:
            plain, notable = moment.answers
        runs = oldest_first(
            (_packed_run(row, notable=False) for row in plain),
            (_packed_run(row, notable=True) for row in notable),
            most,
        )
        notables = sum(run.notable for run in runs)
        ids = [row[-1] for row in plain[: len(runs) - notables]], [row[-1] for row in notable[:notables]]
        return UnpackedRuns(runs, max(ids[0], default=0), max(ids[1], default=0), ids)

    def _delete_rows(self, connection: Connection, unpacked: UnpackedRuns) -> int:
        gone = 0
        for name, ids, notable in zip(("delete_plain", "delete_notable"), unpacked.ids, (False, True), strict=True):
            claimed = [run.claimed for run in unpacked.runs if run.notable == notable]
            if ids:
                asked = {"ids": list(ids), "first": min(claimed), "last": max(claimed)}
                gone += connection.execute(query(name), asked).rowcount
        return gone

    # Answers

    def parts(self, layer: Layer) -> list[Part]:
        return [_part(row) for row in self._readers.all(query("parts"), {"layer": layer.value})]

    def whole_outputs_between(self, since: int, until: int) -> list[tuple[int, int]]:
        found = self._readers.all(query("outputs_between"), {"since": since, "until": until})
        return [(task, claimed) for task, claimed in found]

    def size(self) -> StoreSize:
        asked = [(query(name), ()) for name in ("database_size", "unpacked_runs", "layer_sizes")]
        ((size,),), ((unpacked,),), layers = self._readers.pipelined(*asked)
        return StoreSize(size, 0, unpacked, layer_sizes(layers))

    def give_back(self, most: int) -> int:
        """Nothing: PostgreSQL uses free pages again, and vacuums by itself."""
        assert most > 0
        return 0


class PostgresParts:
    """Parts and blocks as they were at one moment."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    def run_parts(self, since: int, before: int) -> list[tuple[Part, bytes | None]]:
        found = self._moment.all(query("run_parts"), {"since": since, "before": before})
        return [(_part(row[:-1]), row[-1]) for row in found]

    def blocks_of_part(self, part: int) -> list[BlockPlace]:
        return [BlockPlace._make(row) for row in self._moment.all(query("blocks_of_part"), {"part": part})]

    def blocks_of_complete(self, part: int) -> int | None:
        return next((blocks for (blocks,) in self._moment.all(query("part_blocks"), {"part": part})), None)

    def begun(self, part: int) -> tuple[str, int] | None:
        return next(((layer, rows) for layer, rows in self._moment.all(query("begun_part"), {"part": part})), None)

    def blocks_of_task(self, task: int, since: int, before: int) -> list[BlockPlace]:
        found = self._moment.all(query("blocks_of_task"), {"task": task, "since": since, "before": before})
        return [BlockPlace._make(row) for row in found]

    def summary_blocks_of_task(self, task: int, layer: str, since: int, until: int) -> list[BlockPlace]:
        asked = {"task": task, "layer": str(layer), "since": since, "until": until}
        return [BlockPlace._make(row) for row in self._moment.all(query("summary_blocks_of_task"), asked)]

    def bodies(self, blocks: Sequence[int]) -> Iterator[bytes]:
        for i in range(0, len(blocks), _BODIES_AT_ONCE):
            some = list(blocks[i : i + _BODIES_AT_ONCE])
            found: dict[int, bytes] = dict(self._moment.all(query("block_bodies"), {"ids": some}))
            yield from (found[block] for block in some if block in found)

    def tasks_of_runs(self, numbers: Sequence[int]) -> dict[int, tuple[str, bool]]:
        found = self._moment.all(query("tasks_of_runs"), {"numbers": list(numbers)})
        return {number: (from_text(name), is_check) for number, name, is_check in found}


def _packed_run(row: Row, *, notable: bool) -> PackedRun:
    return PackedRun._make((*row[:12], from_text(row[12]), notable, False))


def _part(row: Row) -> Part:
    number, layer, *rest = row
    return Part._make((number, Layer(layer), *rest))
