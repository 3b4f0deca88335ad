"""What the SQL stores have in common as stores whose history has layers, see `history_contract`.

Blocks are made in the calling thread, before anything is written: commits stay short.
"""

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any, Final, Protocol, TypeVar

from evenbeat.model import Instant
from evenbeat.store.common.packed_history import (
    BlockPlace,
    DamageReports,
    PackedHistory,
    PackedParts,
    count_starts,
    pack_starts,
)
from evenbeat.store.common.rows import Row
from evenbeat.store.common.run_blocks import PackedBlock, RunBlock, pack_runs
from evenbeat.store.common.summary_blocks import PackedSummaries, SummaryBlock, pack_summaries
from evenbeat.store.history_contract import RUN_LAYERS, Layer, LayerSize, PackedRun, PartGone, RunSummary, UnpackedRuns

T = TypeVar("T")
_IN_ORDER: Final = itemgetter(0, 1, 2)
_ENDED: Final = attrgetter("ended")
GONE: Final = "the part is not there any more, or was completed by another node"


class Connection(Protocol):
    """A connection to either database, within a transaction."""

    def execute(self, statement: Any, values: Any, /) -> Any:
        """Execute a statement; return its cursor."""


class LayeredStore(ABC):
    """Keeps parts, and the blocks in them. Statements have the same names in both databases."""

    def __init__(self, database: object) -> None:
        self._damaged_blocks = DamageReports(database)
        self._begun_lock = threading.Lock()
        self._begun: dict[int, Counter[int]] = {}
        """How many runs of each part that this process has begun were claimed in each second."""

    @abstractmethod
    def _statement(self, name: str) -> str:
        """A statement by its name."""

    @abstractmethod
    def _change(self, work: Callable[[Connection], T]) -> T:
        """Do this in one commit."""

    @abstractmethod
    def _parts_now(self) -> AbstractContextManager[PackedParts]:
        """The parts as they are now; while one waits, the answers do not change."""

    @abstractmethod
    def _delete_rows(self, connection: Connection, unpacked: UnpackedRuns) -> int:
        """Delete the rows of these runs; return how many there were."""

    # Packing

    def pack(self, unpacked: UnpackedRuns, since: Sequence[tuple[int, Sequence[PackedRun]]]) -> None:
        packed = []
        for hour, runs in since:
            if runs:
                in_order = sorted(runs, key=_IN_ORDER)
                packed.append((hour, list(pack_runs(in_order)), pack_starts(count_starts(runs))))

        def work(connection: Connection) -> None:
            if self._delete_rows(connection, unpacked) != len(unpacked.runs):
                raise PartGone("some of the runs were packed or deleted meanwhile")
            for hour, blocks, starts in packed:
                part = self._begin(connection, Layer.RECENT, hour, is_merged=False)
                self._add(connection, part, blocks)
                connection.execute(self._statement("complete_part"), {"part": part, "starts": starts})

        self._change(work)

    # Parts

    def part_runs(self, part: int) -> Iterator[Sequence[PackedRun]]:
        return self._contents(part, lambda body: RunBlock(body).runs())

    def part_summaries(self, part: int) -> Iterator[Sequence[RunSummary]]:
        return self._contents(part, lambda body: SummaryBlock(body).summaries())

    def _contents(self, part: int, read: Callable[[bytes], Sequence[T]]) -> Iterator[Sequence[T]]:
        with self._parts_now() as parts:
            places = parts.blocks_of_part(part)
            if parts.blocks_of_complete(part) != len(places):
                raise PartGone(f"part {part}: {GONE}")
        return self._contents_of(places, read)

    def _contents_of(self, places: Sequence[BlockPlace], read: Callable[[bytes], Sequence[T]]) -> Iterator[Sequence[T]]:
        for place in places:
            with self._parts_now() as parts:
                body = next(parts.bodies([place.id]), None)
            if body is None:
                raise PartGone(f"part {place.part}: {GONE}")
            with self._damaged_blocks.skipped(place.part, place.id, place.rows):
                yield read(body)

    def begin_part(self, layer: Layer, since: int, *, is_merged: bool = False) -> int:
        number = self._change(lambda connection: self._begin(connection, layer, since, is_merged=is_merged))
        with self._begun_lock:
            self._begun[number] = Counter()
        return number

    def _begin(self, connection: Connection, layer: Layer, since: int, *, is_merged: bool) -> int:
        asked = {"layer": layer.value, "since": since, "is_merged": is_merged}
        ((number,),) = connection.execute(self._statement("begin_part"), asked).fetchall()
        return int(number)

    def add_runs(self, part: int, runs: Sequence[PackedRun]) -> None:
        blocks = list(pack_runs(runs))
        self._change(lambda connection: self._add(connection, part, blocks))
        with self._begun_lock:
            if part in self._begun:
                self._begun[part] += count_starts(runs)

    def add_summaries(self, part: int, summaries: Sequence[RunSummary]) -> None:
        blocks = list(pack_summaries(summaries))
        self._change(lambda connection: self._add(connection, part, blocks))

    def _add(self, connection: Connection, part: int, blocks: Sequence[PackedBlock | PackedSummaries]) -> None:
        if not blocks:
            return
        added = {
            "part": part,
            "rows": sum(block.rows for block in blocks),
            "size": sum(len(block.body) for block in blocks),
            "blocks": len(blocks),
            "first": min(block.first_claimed for block in blocks),
            "last": max(block.last_claimed for block in blocks),
        }
        if connection.execute(self._statement("extend_part"), added).rowcount != 1:
            raise PartGone(f"part {part}: {GONE}")
        for block in blocks:
            connection.execute(self._statement("add_block"), {"part": part, **block._asdict()})

    def complete(self, parts: Sequence[int], instead_of: Sequence[int], gone: Sequence[tuple[int, int]] = ()) -> None:
        starts = {part: self._starts_of_begun(part) for part in parts}

        def work(connection: Connection) -> None:
            for part in parts:
                asked = {"part": part, "starts": starts[part]}
                if connection.execute(self._statement("complete_part"), asked).rowcount != 1:
                    raise PartGone(f"part {part}: {GONE}")
            for part in instead_of:
                if connection.execute(self._statement("drop_part"), {"part": part}).rowcount != 1:
                    raise PartGone(f"part {part}: {GONE}")
            for task, claimed in gone:
                connection.execute(self._statement("forget_output"), {"task": task, "claimed": claimed})

        self._change(work)
        with self._begun_lock:
            for part in parts:
                self._begun.pop(part, None)

    def _starts_of_begun(self, part: int) -> bytes | None:
        """The starts of a part; counted again from its blocks if another process has added some of them."""
        with self._parts_now() as parts:
            about = parts.begun(part)
            if about is None:
                raise PartGone(f"part {part}: {GONE}")
            layer, rows = about
            if layer not in RUN_LAYERS or not rows:
                return None
            with self._begun_lock:
                counted = self._begun.get(part)
            if counted is None or counted.total() != rows:
                counted = PackedHistory(parts, self._damaged_blocks).all_starts(part)
            return pack_starts(counted) if counted else None

    def discard_unfinished(self) -> None:
        self._change(lambda connection: connection.execute(self._statement("drop_begun_parts"), {}))
        with self._begun_lock:
            self._begun.clear()

    def sweep(self, most: int) -> int:
        def work(connection: Connection) -> int:
            gone = connection.execute(self._statement("sweep_blocks"), {"most": most}).rowcount
            connection.execute(self._statement("sweep_parts"), {})
            return int(gone)

        return self._change(work)

    # Answers

    def summaries(self, task: int, layer: Layer, since: Instant, until: Instant) -> list[RunSummary]:
        found: list[RunSummary] = []
        with self._parts_now() as parts:
            places = parts.summary_blocks_of_task(task, layer, since, until)
            for place, body in zip(places, parts.bodies([place.id for place in places]), strict=True):
                with self._damaged_blocks.skipped(place.part, place.id, place.rows):
                    found += SummaryBlock(body).summaries_of(task, since, until)
        return sorted(found, key=lambda summary: summary.since)


def oldest_first(plain: Iterable[PackedRun], notable: Iterable[PackedRun], most: int) -> list[PackedRun]:
    """The oldest runs of both kinds, each kind in the order in which it was recorded."""
    return list(islice(merge(plain, notable, key=_ENDED), most))


def layer_sizes(rows: Iterable[Row]) -> dict[Layer, LayerSize]:
    """The sizes of all layers, from layer, parts, rows and bytes of those that have parts."""
    return dict.fromkeys(Layer, LayerSize(0, 0, 0)) | {Layer(layer): LayerSize(*sizes) for layer, *sizes in rows}
