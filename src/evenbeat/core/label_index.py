"""Which rows have a label: by columns, without a Python object per task.

The hash of each label (another one in each process) lies in an arena, beside its row.
"""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import GrowingArray, Ints
from evenbeat.core.task import Bools

WASTE_ALLOWED: Final = 4_096
"""Slots without a label below which nothing is tidied."""
_NO_LABEL: Final = 0
_NO_LABEL_HASH: Final = 1
"""Of a label whose hash would be that of no label."""


class LabelIndex:
    """The labels of tasks by row. A row has those that it was given last, also when its task is gone."""

    def __init__(self) -> None:
        self._hashes = GrowingArray(np.int64)
        self._row_of = GrowingArray(np.int32)
        self._end = 0
        self._waste = 0
        # By row: its slots lie one after the other.
        self._first = GrowingArray(np.int32)
        self._count = GrowingArray(np.int32)

    def put(self, rows: Ints, labels: Sequence[Mapping[str, str]]) -> None:
        """Rows have these labels, and no others."""
        counts = np.fromiter(map(len, labels), np.int32, len(rows))
        self.put_hashes(rows, counts, label_hashes([*chain.from_iterable(some.items() for some in labels if some)]))

    def put_hashes(self, rows: Ints, counts: NDArray[np.int32], hashes: Ints) -> None:
        """`put` by the number of labels of each row, and the hashes of all labels."""
        known = min(len(self._count.array), int(rows.max(initial=-1)) + 1)
        its = rows[rows < known]
        its = its[self._count.array[its] > 0]
        if len(its):
            slots = self._slots(its)
            self._hashes.array[slots] = _NO_LABEL
            self._count.array[its] = 0
            self._waste += len(slots)
        its, counts = rows[counts > 0], counts[counts > 0]
        if not len(its):
            return
        for by_row in (self._first, self._count):
            by_row.reserve(int(its.max()) + 1)
        begin, self._end = self._end, self._end + len(hashes)
        for arena in (self._hashes, self._row_of):
            arena.reserve(self._end)
        self._hashes.array[begin : self._end] = hashes
        self._row_of.array[begin : self._end] = np.repeat(its, counts)
        self._first.array[its] = begin + np.cumsum(counts, dtype=np.int64) - counts
        self._count.array[its] = counts
        if self._waste > WASTE_ALLOWED and 2 * self._waste > self._end:
            self._tidy()

    @property
    def slots(self) -> int:
        """How many there are, with and without a label."""
        return self._end

    def have(self, rows: Ints, key: str, value: str) -> Bools:
        """Which of these rows have this label?"""
        known = rows < len(self._count.array)
        has = np.zeros(len(rows), dtype=bool)
        its = np.flatnonzero(known)
        counts = self._count.array[rows[its]]
        its, counts = its[counts > 0], counts[counts > 0]
        hits = self._hashes.array[self._slots(rows[its])] == label_hash(key, value)
        has[np.repeat(its, counts)[hits]] = True
        return has

    def _slots(self, rows: Ints) -> Ints:
        """The slots of rows that have labels, in their order."""
        counts = self._count.array[rows].astype(np.int64)
        ends = np.cumsum(counts)
        slots: Ints = np.arange(int(counts.sum())) + np.repeat(self._first.array[rows] - (ends - counts), counts)
        return slots

    def _tidy(self) -> None:
        """Close the gaps that earlier labels have left."""
        kept = np.flatnonzero(self._hashes.array[: self._end] != _NO_LABEL)
        rows = self._row_of.array[kept]
        self._hashes.array[: len(kept)], self._row_of.array[: len(kept)] = self._hashes.array[kept], rows
        starts = np.flatnonzero(np.diff(rows, prepend=-1))
        self._first.array[rows[starts]] = starts
        self._end, self._waste = len(kept), 0


def label_hashes(labels: Sequence[tuple[str, str]]) -> Ints:
    """`label_hash` of many."""
    hashes = np.fromiter(map(hash, labels), np.int64, len(labels))
    hashes[hashes == _NO_LABEL] = _NO_LABEL_HASH
    return hashes


def label_hash(key: str, value: str) -> int:
    """Different for different labels, and never that of a slot without one."""
    return hash((key, value)) or _NO_LABEL_HASH
