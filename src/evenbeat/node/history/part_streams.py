"""Reads parts of history as one stream in their order, and writes streams to new parts, a block at a time."""

import heapq
from collections.abc import Generator, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import Final

from evenbeat.store.history_contract import Layer, LayeredHistory, PackedRun, Part, RunSummary

BLOCK: Final = 2_000
"""Rows that are written at once: few enough for a slice of some milliseconds, enough to be compressed well."""
_ROWS_BETWEEN_PAUSES: Final = 500
RUN_ORDER: Final = attrgetter("task", "claimed", "ended")
SUMMARY_ORDER: Final = attrgetter("task", "since")


def runs_in_order(store: LayeredHistory, parts: Sequence[Part]) -> Generator[None, None, Iterator[PackedRun]]:
    """The runs of parts together; with pauses while the first block of each is read."""
    streams: list[Iterator[PackedRun]] = []
    for part in parts:
        blocks = iter(store.part_runs(part.number))
        streams.append(chain(next(blocks, ()), chain.from_iterable(blocks)))
        yield
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=RUN_ORDER)


class Pace:
    """Says when it is time for a pause: after so many rows."""

    def __init__(self) -> None:
        self._rows = 0

    def is_pause_due(self, rows: int) -> bool:
        """After these rows."""
        self._rows += rows
        if self._rows < _ROWS_BETWEEN_PAUSES:
            return False
        self._rows = 0
        return True


def summaries_in_order(store: LayeredHistory, parts: Sequence[Part]) -> Iterator[RunSummary]:
    """The summaries of parts together."""
    return merged_summaries(*(chain.from_iterable(store.part_summaries(part.number)) for part in parts))


def merged_summaries(*streams: Iterator[RunSummary]) -> Iterator[RunSummary]:
    """Streams of summaries as one, in their order."""
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=SUMMARY_ORDER)


class RunsWriter:
    """Writes a part of runs."""

    def __init__(self, store: LayeredHistory, layer: Layer, since: int, *, is_merged: bool = False) -> None:
        self._store = store
        self._number = store.begin_part(layer, since, is_merged=is_merged)
        self._held: list[PackedRun] = []

    def add(self, runs: Sequence[PackedRun]) -> None:
        """Add runs in their order."""
        self._held += runs
        if len(self._held) >= BLOCK:
            self._write()

    def finish(self) -> int:
        """Write what is left; return the number of the part, which is still to be completed."""
        self._write()
        return self._number

    def _write(self) -> None:
        for at in range(0, len(self._held), BLOCK):
            self._store.add_runs(self._number, self._held[at : at + BLOCK])
        self._held = []


class SummariesWriter:
    """Writes a part of summaries."""

    def __init__(self, store: LayeredHistory, layer: Layer, since: int, *, is_merged: bool = False) -> None:
        self._store = store
        self._number = store.begin_part(layer, since, is_merged=is_merged)
        self._held: list[RunSummary] = []

    def add(self, summary: RunSummary) -> None:
        """Add a summary in its order."""
        self._held.append(summary)
        if len(self._held) >= BLOCK:
            self._write()

    def finish(self) -> int:
        """Write what is left; return the number of the part, which is still to be completed."""
        self._write()
        return self._number

    def _write(self) -> None:
        if self._held:
            self._store.add_summaries(self._number, self._held)
        self._held = []
