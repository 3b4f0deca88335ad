"""One row per task, in columns that grow without being copied: a million tasks are a few arrays, not objects."""

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, mmap
from typing import Any, Generic, Self, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

T = TypeVar("T", bound=np.generic)
Ints = NDArray[np.int64]


class GrowingArray(Generic[T]):
    """An array in private memory of its own, which grows by being mapped anew: no byte is copied, new ones are zero.

    Memory that was never written to is not taken from the machine, so growing by doubling wastes none.
    """

    __slots__ = ("_dtype", "_memory", "array")

    array: NDArray[T]

    def __init__(self, dtype: type[T]) -> None:
        self._dtype = dtype
        self._memory = _private_memory(PAGESIZE)
        self.array = np.frombuffer(self._memory, dtype)

    def reserve(self, length: int) -> None:
        """Make room for at least `length` elements."""
        if length > len(self.array):
            self.resize(max(length, 2 * len(self.array)))

    def resize(self, length: int) -> None:
        """Make room for exactly `length` elements: what lies beyond is gone, what is new is zero."""
        size = max(length * self.array.itemsize, PAGESIZE)
        # Memory that an array looks at cannot be moved.
        del self.array
        try:
            self._memory.resize(size)
        except (BufferError, SystemError, AttributeError):
            # A view of it still exists, or this system cannot remap: the view keeps the old memory, this one copies.
            kept = min(size, len(self._memory))
            moved = _private_memory(size)
            moved[:kept] = self._memory[:kept]
            self._memory = moved
        finally:
            self.array = np.frombuffer(self._memory, self._dtype)


def put_sparsely(column: NDArray[Any], rows: int | Ints | slice, values: ArrayLike) -> None:
    """`column[rows] = values`, without writing zeros over zeros: pages that never had anything else take no memory.

    For columns that are zero for nearly all tasks.
    """
    if np.any(values) or np.any(column[rows]):
        column[rows] = values


def _private_memory(size: int) -> mmap:
    return mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)


class Column(Generic[T]):
    """Declares a column of a `Columns` class: its type, and the value of a row that has not been set."""

    def __init__(self, dtype: type[T], default: int | float) -> None:
        self.dtype = dtype
        self.default = default
        self.fill = default
        """What the memory of such a row holds."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: "Columns", owner: type) -> NDArray[T]: ...
    def __get__(self, instance: "Columns | None", owner: type) -> Self | NDArray[T]:
        # Only for the class and the type checker: the live array, in the instance itself, comes first.
        if instance is None:
            return self
        raise AttributeError(self._name)

    def view_of(self, memory: NDArray[T], _: "dict[str, SharedValues]") -> "NDArray[T] | SharedValueRows":
        """What an instance has under the name of the column."""
        return memory


class SharedValueColumn(Column[np.uint32]):
    """Declares a column of int64 values with few different ones, such as durations that people choose: 4 bytes a row.

    Each row holds the number of its value, so `columns.retry[rows]` can be read and set, and nothing else.
    """

    def __init__(self, default: int) -> None:
        super().__init__(np.uint32, default)
        self.fill = 0

    @overload  # type: ignore[override]
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: "Columns", owner: type) -> "SharedValueRows": ...
    def __get__(self, instance: "Columns | None", owner: type) -> "Self | SharedValueRows":
        if instance is None:
            return self
        raise AttributeError(self._name)

    def view_of(self, memory: NDArray[np.uint32], known: "dict[str, SharedValues]") -> "SharedValueRows":
        return SharedValueRows(memory, known.setdefault(self._name, SharedValues(int(self.default))))


class SharedValues:
    """The values that there are, or were, in a `SharedValueColumn`, by their numbers; the default is number 0."""

    def __init__(self, default: int) -> None:
        self.values: Ints = np.array([default], dtype=np.int64)
        self._numbers = {default: 0}

    def numbers(self, values: ArrayLike) -> NDArray[np.uint32]:
        """Of these values; new ones get new numbers."""
        found, places = np.unique(np.asarray(values, dtype=np.int64), return_inverse=True)
        new = [value for value in found.tolist() if value not in self._numbers]
        if new:
            self._numbers |= {value: len(self.values) + i for i, value in enumerate(new)}
            self.values = np.concatenate([self.values, np.array(new, dtype=np.int64)])
        numbers = np.array([self._numbers[value] for value in found.tolist()], dtype=np.uint32)
        return numbers[places.reshape(np.shape(values))]


class SharedValueRows:
    """The rows of a `SharedValueColumn`."""

    __slots__ = ("_known", "_numbers")

    def __init__(self, numbers: NDArray[np.uint32], known: SharedValues) -> None:
        self._numbers = numbers
        self._known = known

    @overload
    def __getitem__(self, rows: int) -> Any: ...
    @overload
    def __getitem__(self, rows: Ints | slice) -> Ints: ...
    def __getitem__(self, rows: int | Ints | slice) -> Any:
        return self._known.values[self._numbers[rows]]

    def __setitem__(self, rows: int | Ints | slice, values: ArrayLike) -> None:
        put_sparsely(self._numbers, rows, self._known.numbers(values))


class Columns:
    """Rows of columns. A subclass declares them, and a subclass of it can declare more:

        class DueColumns(Columns):
            due = Column(np.int64, FOREVER)

    `columns.due` is then the live array of all rows, those not in use included: these hold the defaults.
    `allocate` may move the arrays, so fetch them anew after it; one kept from before no longer shows the rows.
    """

    used = Column(np.bool_, default=False)

    def __init__(self) -> None:
        declared = {name: c for room in reversed(type(self).__mro__) for name, c in vars(room).items()}
        self._declared: dict[str, Column[Any]] = {n: c for n, c in declared.items() if isinstance(c, Column)}
        self._memory: dict[str, GrowingArray[Any]] = {n: GrowingArray(c.dtype) for n, c in self._declared.items()}
        self._known: dict[str, SharedValues] = {}
        self._length = 0
        self._freed = GrowingArray(np.int64)
        self._freed_count = 0
        self._show()

    def __len__(self) -> int:
        """How many rows the arrays have, in use or not."""
        return self._length

    @property
    def in_use(self) -> int:
        return self._length - self._freed_count

    @property
    def bytes_per_row(self) -> int:
        return sum(np.dtype(column.dtype).itemsize for column in self._declared.values())

    def allocate(self, n: int) -> Ints:
        """Take n rows into use, freed ones first, and return their numbers. Every column has its default there."""
        recycled = min(n, self._freed_count)
        rows = np.empty(n, dtype=np.int64)
        start = self._length
        if n > recycled:
            self._extend(n - recycled)
            rows[recycled:] = np.arange(start, self._length)
        rest = self._freed_count - recycled
        rows[:recycled] = self._freed.array[rest : self._freed_count]
        self._freed_count = rest
        self.used[rows] = True
        return rows

    def free(self, rows: Ints) -> None:
        """Give rows back: they hold the defaults again, and are the first to be allocated next."""
        if not len(rows):
            return
        # A row freed twice would be given to two tasks.
        if not self.used[rows].all() or (len(rows) > 1 and len(np.unique(rows)) != len(rows)):
            raise ValueError("only rows in use can be freed, each of them once")
        for name, column in self._declared.items():
            self._memory[name].array[rows] = column.fill
        count = self._freed_count + len(rows)
        self._freed.reserve(count)
        self._freed.array[self._freed_count : count] = rows
        self._freed_count = count

    def _extend(self, n: int) -> None:
        length = self._length + n
        for name in self._declared:
            del vars(self)[name]
        try:
            for memory in self._memory.values():
                memory.reserve(length)
            for name, column in self._declared.items():
                # New memory is zero already; not writing to it leaves it unused until it is needed.
                if column.fill != 0:
                    self._memory[name].array[self._length : length] = column.fill
            self._length = length
        finally:
            self._show()

    def _show(self) -> None:
        for name, memory in self._memory.items():
            vars(self)[name] = self._declared[name].view_of(memory.array[: self._length], self._known)
