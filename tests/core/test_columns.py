"""Columns: rows are given out, reset and given out again, and growing loses nothing."""

from mmap import PAGESIZE, mmap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from evenbeat.core import columns as module
from evenbeat.core.columns import Column, Columns, GrowingArray, SharedValueColumn, put_sparsely

DEFAULTS = {"due": 2**62, "retry": 60, "attempt": 1, "load": 0.5, "flag": False}


class Due(Columns):
    due = Column(np.int64, 2**62)


class Checks(Due):
    retry = SharedValueColumn(60)
    attempt = Column(np.uint8, 1)
    load = Column(np.float32, 0.5)
    flag = Column(np.bool_, default=False)


def row_of(columns: Checks, row: int) -> dict[str, Any]:
    return {name: getattr(columns, name)[row].item() for name in DEFAULTS}


def test_an_allocated_row_holds_the_defaults() -> None:
    columns = Checks()
    rows = columns.allocate(3)
    assert rows.tolist() == [0, 1, 2]
    assert [row_of(columns, row) for row in rows.tolist()] == [DEFAULTS] * 3
    assert columns.used.tolist() == [True] * 3


def test_a_subclass_has_the_columns_of_its_parent_too() -> None:
    columns = Checks()
    columns.allocate(2)
    assert columns.due.dtype == np.int64
    assert columns.attempt.dtype == np.uint8
    assert columns.bytes_per_row == 8 + 4 + 1 + 4 + 1 + 1


def test_values_of_which_few_differ_are_kept_once() -> None:
    columns = Checks()
    rows = columns.allocate(1_000)
    columns.retry[rows] = np.where(rows % 2, 7, 2**61)
    columns.retry[int(rows[3])] = -1
    columns.retry[rows[4:6]] = 60
    columns.allocate(100_000)
    assert columns.retry[rows[:7]].tolist() == [2**61, 7, 2**61, -1, 60, 60, 2**61]
    assert columns.retry[rows[:7]].dtype == np.int64
    assert columns.retry[int(rows[1])] == 7
    columns.retry[rows[:0]] = []
    assert columns.retry[rows[:0]].tolist() == []
    assert columns._known["retry"].values.tolist() == [60, 7, 2**61, -1]
    columns.free(rows[:2])
    assert columns.retry[columns.allocate(2)].tolist() == [60, 60]


def taken(memory: GrowingArray[Any]) -> int:
    """Bytes of the machine's memory that an array takes: of its pages, those that are present and nobody else's."""
    first, count = memory.array.ctypes.data // PAGESIZE, memory.array.nbytes // PAGESIZE
    with Path("/proc/self/pagemap").open("rb", buffering=0) as file:
        file.seek(first * 8)
        pages = np.frombuffer(file.read(count * 8), dtype=np.uint64)
    assert len(pages) == count
    return int(np.count_nonzero((pages >> np.uint64(63)) & (pages >> np.uint64(56)) & np.uint64(1))) * PAGESIZE


def test_zeros_over_zeros_take_no_memory_and_other_values_are_kept() -> None:
    memory: GrowingArray[np.uint32] = GrowingArray(np.uint32)
    memory.resize(1 << 22)
    rows = np.arange(1 << 22)
    put_sparsely(memory.array, rows, np.zeros(len(rows), dtype=np.int64))
    put_sparsely(memory.array, rows, 0)
    assert taken(memory) < 1 << 16
    put_sparsely(memory.array, rows[5:7], [3, 0])
    assert memory.array[4:8].tolist() == [0, 3, 0, 0]
    put_sparsely(memory.array, rows[:10], 0)
    assert not memory.array.any()
    put_sparsely(memory.array, rows, 1)
    assert memory.array.all()
    assert taken(memory) > memory.array.nbytes // 2


def test_the_default_among_values_of_which_few_differ_takes_no_memory() -> None:
    columns = Checks()
    rows = columns.allocate(1 << 20)
    columns.retry[rows] = columns._declared["retry"].default
    assert taken(columns._memory["retry"]) < 1 << 16
    columns.retry[rows[3:5]] = 77
    columns.retry[rows[4:6]] = columns._declared["retry"].default
    assert (columns.retry[rows] == 77).nonzero()[0].tolist() == [3]


def test_the_class_tells_what_it_declares_and_has_no_array() -> None:
    assert Checks.attempt.default == 1
    assert Checks.due is Due.due


def test_two_sets_of_columns_share_nothing() -> None:
    one, other = Due(), Due()
    one.allocate(1)
    one.due[0] = 7
    other.allocate(1)
    assert other.due.tolist() == [2**62]


def test_a_freed_row_holds_the_defaults_and_is_the_first_to_be_given_out() -> None:
    columns = Checks()
    columns.allocate(5)
    columns.due[:] = 9
    columns.attempt[3] = 3
    columns.free(np.array([3, 1]))
    assert row_of(columns, 3) == DEFAULTS
    assert columns.used.tolist() == [True, False, True, False, True]
    assert (columns.in_use, len(columns)) == (3, 5)
    assert set(columns.allocate(3).tolist()) == {1, 3, 5}
    assert columns.due.tolist() == [9, 2**62, 9, 2**62, 9, 2**62]


@pytest.mark.parametrize("rows", [[1], [0, 0]])
def test_a_row_is_not_freed_twice(rows: list[int]) -> None:
    columns = Checks()
    columns.allocate(2)
    columns.free(np.array([1]))
    with pytest.raises(ValueError, match="in use"):
        columns.free(np.array(rows))
    assert columns.in_use == 1


def test_no_rows_are_allocated_and_freed_without_effect() -> None:
    columns = Checks()
    columns.free(columns.allocate(0))
    assert len(columns) == columns.in_use == 0


def test_growing_a_thousandfold_keeps_every_value() -> None:
    columns = Checks()
    for start in range(0, 100_000, 1_000):
        rows = columns.allocate(1_000)
        columns.due[rows] = np.arange(start, start + 1_000)
    assert columns.due.tolist() == list(range(100_000))
    assert (columns.attempt == 1).all()


def test_growing_maps_the_same_memory_anew() -> None:
    array = GrowingArray(np.int64)
    memory = array._memory
    array.array[:] = 5
    before = len(array.array)
    array.reserve(1_000_000)
    assert array._memory is memory
    assert (array.array[:before] == 5).all()
    assert not array.array[before:].any()


def test_an_array_kept_over_growth_stays_readable_and_the_columns_go_on_without_it() -> None:
    columns = Checks()
    columns.allocate(10)
    columns.due[:] = 5
    kept = columns.due
    columns.allocate(100_000)
    columns.due[:10] = 6
    assert kept.tolist() == [5] * 10
    assert columns.due[:11].tolist() == [6] * 10 + [2**62]


def test_without_remapping_growth_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed(mmap):
        def resize(self, newsize: int) -> None:
            raise SystemError("mmap: resizing not available--no mremap()")

    monkeypatch.setattr(module, "mmap", Fixed)
    columns = Checks()
    columns.allocate(10)
    columns.due[:] = 5
    columns.allocate(100_000)
    assert columns.due[:11].tolist() == [5] * 10 + [2**62]


def test_an_array_that_cannot_grow_stays_as_it_is() -> None:
    array = GrowingArray(np.uint8)
    array.array[:] = 5
    with pytest.raises(OSError):
        array.resize(2**60)
    assert (array.array == 5).all()


def test_when_memory_runs_out_the_rows_there_are_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_memory(array: GrowingArray[Any], length: int) -> None:
        raise OSError("Cannot allocate memory")

    columns = Checks()
    columns.allocate(10)
    columns.due[:] = 5
    columns.free(np.array([9]))
    with monkeypatch.context() as patch, pytest.raises(OSError):
        patch.setattr(GrowingArray, "resize", no_memory)
        columns.allocate(100_000)
    assert columns.due.tolist() == [5] * 9 + [2**62]
    assert columns.allocate(2).tolist() == [9, 10]


def test_an_array_made_smaller_and_larger_again_is_zero_beyond_the_cut() -> None:
    array = GrowingArray(np.int64)
    array.reserve(10_000)
    array.array[:] = 1
    array.resize(1_024)
    array.resize(10_000)
    assert array.array[:1_024].all()
    assert not array.array[1_024:].any()


class ColumnsAgainstADict(RuleBasedStateMachine):
    """A dict from row to values behaves the same."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = Checks()
        self.model: dict[int, dict[str, Any]] = {}

    @rule(n=st.sampled_from([0, 1, 2, 5, 400]))
    def allocate(self, n: int) -> None:
        length, spare = len(self.columns), len(self.columns) - len(self.model)
        rows = self.columns.allocate(n).tolist()
        assert len(set(rows)) == n
        assert not set(rows) & set(self.model)
        assert len(self.columns) == length + max(n - spare, 0)
        self.model |= {row: dict(DEFAULTS) for row in rows}

    @precondition(lambda self: self.model)
    @rule(data=st.data(), value=st.integers(0, 255))
    def write(self, data: st.DataObject, value: int) -> None:
        row = data.draw(st.sampled_from(sorted(self.model)))
        self.columns.due[row] = self.columns.attempt[row] = self.columns.retry[row] = value
        self.model[row] |= {"due": value, "attempt": value, "retry": value}

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(st.sampled_from(sorted(self.model)), unique=True, max_size=9))
        self.columns.free(np.array(rows, dtype=np.int64))
        for row in rows:
            del self.model[row]

    @invariant()
    def same(self) -> None:
        assert self.columns.in_use == len(self.model)
        assert np.flatnonzero(self.columns.used).tolist() == sorted(self.model)
        for name in DEFAULTS:
            expected = [self.model.get(row, DEFAULTS)[name] for row in range(len(self.columns))]
            assert getattr(self.columns, name)[:].tolist() == expected


TestColumnsAgainstADict = ColumnsAgainstADict.TestCase
TestColumnsAgainstADict.settings = settings(max_examples=30, stateful_step_count=25, deadline=None)
