"""Packed jobs by row, one after the other in one piece of memory: a million of them are not Python objects."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import Column, Ints, SharedValueColumn
from evenbeat.core.name_index import joined_texts
from evenbeat.core.task import TaskColumns

_WASTE_ALLOWED: Final = 1 << 20
"""Bytes of waste below which nothing is tidied."""


class NodeColumns(TaskColumns):
    """The columns of a live node: those of the core, and what workers and the store need."""

    number = Column(np.int64, -1)
    """The number of the task in the store."""
    timebox = SharedValueColumn(0)
    """0 for cron tasks by default: until the next nominal time."""
    function = SharedValueColumn(-1)
    """The number of its function in the task table; -1 for a command."""
    pool = Column(np.int16, 0)
    """The number of its pool in the task table; 0 for the default one."""
    job_at = Column(np.int64, 0)
    job_length = Column(np.int32, 0)


class PackedJobs:
    """Keeps the packed job of each row."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._data = bytearray()
        self._looked_at = 0
        """Size when the waste was last measured."""

    @property
    def nbytes(self) -> int:
        return len(self._data)

    def put(self, rows: Ints, packed: Sequence[bytes]) -> None:
        """Set the jobs of rows. Their previous jobs are waste, and tidied away when half of the memory is."""
        self.put_packed(rows, np.fromiter(map(len, packed), np.int32, len(packed)), b"".join(packed))

    def put_packed(self, rows: Ints, lengths: NDArray[np.int32], packed: bytes) -> None:
        """`put` for jobs that lie one after the other."""
        c = self._columns
        c.job_at[rows], c.job_length[rows] = len(self._data) + np.cumsum(lengths, dtype=np.int64) - lengths, lengths
        self._data += packed
        if len(self._data) > 2 * self._looked_at + _WASTE_ALLOWED:
            self._tidy()

    def packed(self, rows: Ints) -> tuple[bytes, NDArray[np.int32]]:
        """The jobs of many rows, one after the other, and how long each is."""
        lengths = self._columns.job_length[rows]
        return joined_texts(self._data, self._columns.job_at[rows], lengths), lengths

    def get(self, row: int) -> bytes:
        start = int(self._columns.job_at[row])
        return bytes(self._data[start : start + int(self._columns.job_length[row])])

    def get_many(self, rows: Ints) -> list[bytes]:
        """The jobs of many rows."""
        starts = self._columns.job_at[rows]
        ends = (starts + self._columns.job_length[rows]).tolist()
        with memoryview(self._data) as memory:
            return [bytes(memory[i:j]) for i, j in zip(starts.tolist(), ends, strict=True)]

    def _tidy(self) -> None:
        c = self._columns
        rows = np.flatnonzero(c.job_length)
        lengths = c.job_length[rows].astype(np.int64)
        if int(lengths.sum()) < len(self._data) // 2:
            self._data = bytearray(b"".join(self.get(row) for row in rows.tolist()))
            c.job_at[rows] = np.cumsum(lengths) - lengths
        self._looked_at = len(self._data)
