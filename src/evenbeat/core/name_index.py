"""From the name of a task to its row and back, without a Python object per task.

Names lie one after the other in an arena. Their hashes (other ones in each process), sorted, lead to the rows; names
added lately wait in a dict until there are enough of them to be sorted in at once.
"""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.columns import GrowingArray, Ints
from evenbeat.model import NAME_LIMIT, Invalid
from evenbeat.name_patterns import pattern_regex

_UNSORTED_LIMIT: Final = 4_096
_UNSORTED_SHARE: Final = 64
"""Sorting in waits for this many changes, or this share of all names, so that a change costs the same at any size."""


class NameIndex:
    """Name to row and row to name; every name once, every row at most one name."""

    def __init__(self) -> None:
        self._arena = GrowingArray(np.uint8)
        self._end = 0
        self._waste = 0
        # By row; a length of 0 is a row without a name.
        self._offset = GrowingArray(np.int64)
        self._length = GrowingArray(np.uint16)
        self._is_sorted = GrowingArray(np.bool_)
        """Is the row's present name among the sorted ones? What they say of other rows is outdated."""
        self._rows_seen = 0
        self._count = 0
        self._hashes: Ints = np.empty(0, dtype=np.int64)
        self._rows = np.empty(0, dtype=np.int32)
        self._outdated = 0
        self._recent: dict[bytes, int] = {}

    def __len__(self) -> int:
        return self._count

    @property
    def name_bytes(self) -> int:
        """Size of the names themselves."""
        return self._end - self._waste

    @property
    def nbytes(self) -> int:
        """Size of everything, the recent names apart: they are few."""
        by_row = sum(column.array.itemsize for column in (self._offset, self._length, self._is_sorted))
        return self._end + self._hashes.nbytes + self._rows.nbytes + by_row * self._rows_seen

    def add(self, name: str, row: int) -> None:
        """Name a row."""
        text = _encoded(name)
        if self._find(text) is not None:
            raise _name_taken_error(name)
        if row < 0 or (row < self._rows_seen and self._length.array[row]):
            raise _row_named_error()
        self._make_room(row)
        self._offset.array[row] = self._write(text)
        self._length.array[row] = len(text)
        self._count += 1
        self._recent[text] = row
        self._sort_in_when_many()

    def add_many(self, names: Sequence[str], rows: Ints) -> None:
        """Name many rows; if one of the names is refused, none is added."""
        self.add_texts(_all_encoded(names), rows)

    def add_texts(self, texts: list[bytes], rows: Ints) -> None:
        """`add_many` for names in UTF-8, each of a length that names have."""
        hashes = _hashes(texts)
        self._must_be_new(texts, hashes)
        if len(texts) != len(rows) or not _are_different(rows):
            raise ValueError(f"{len(texts)} names need as many different rows")
        if rows.min(initial=0) < 0 or self._length.array[rows[rows < self._rows_seen]].any():
            raise _row_named_error()
        self._make_room(int(rows.max(initial=-1)))
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        self._offset.array[rows] = self._write(b"".join(texts)) + np.cumsum(lengths) - lengths
        self._length.array[rows] = lengths
        self._count += len(rows)
        if len(texts) > self._many:
            self._sort_in(hashes, rows)
        else:
            self._recent.update(zip(texts, rows.tolist(), strict=True))
            self._sort_in_when_many()

    def find(self, name: str) -> int | None:
        """The row of a name, or None."""
        return self._find(name.encode("utf-8", "surrogatepass"))

    def name(self, row: int) -> str:
        """The name of a row."""
        return self._text(row).decode("utf-8", "surrogatepass")

    def names(self, rows: Ints) -> list[str]:
        """The names of many rows, all of which have one."""
        memory = memoryview(self._arena.array)  # type: ignore[arg-type]
        starts = self._offset.array[rows]
        ends = (starts + self._length.array[rows]).tolist()
        return [str(memory[i:j], "utf-8", "surrogatepass") for i, j in zip(starts.tolist(), ends, strict=True)]

    def texts(self, rows: Ints) -> tuple[bytes, NDArray[np.int32]]:
        """The names of many rows, all of which have one, one after the other in UTF-8; and how long each is."""
        starts, lengths = self._offset.array[rows], self._length.array[rows].astype(np.int32)
        return joined_texts(self._arena.array, starts, lengths), lengths

    def matching(self, pattern: str, rows: Ints) -> Ints:
        """Of these rows, all of which have a name: those whose name matches, with * for any text and ? for any
        character. Without Python for each of them if the pattern is text around stars at one place.
        """
        first, *rest = pattern.split("*")
        last = rest[-1] if rest else ""
        before, after = _encoded_part(first.partition("?")[0]), _encoded_part(last.rpartition("?")[2])
        rows = rows[self._length.array[rows] >= len(before) + len(after)]
        # What stands next to a star differs most from name to name: it goes first.
        for place, byte in reversed(list(enumerate(before))):
            rows = rows[self._arena.array[self._offset.array[rows] + place] == byte]
        for place, byte in reversed(list(enumerate(reversed(after), 1))):
            rows = rows[self._arena.array[self._offset.array[rows] + self._length.array[rows] - place] == byte]
        if rest and "?" not in pattern and not any(rest[:-1]):
            return rows
        fits = pattern_regex(pattern).match
        return rows[[fits(name) is not None for name in self.names(rows)]]

    def remove(self, row: int) -> None:
        """Forget the name of a row, which may then be given another."""
        text = self._text(row)
        if self._is_sorted.array[row]:
            self._is_sorted.array[row] = False
            self._outdated += 1
        else:
            del self._recent[text]
        self._length.array[row] = 0
        self._waste += len(text)
        self._count -= 1
        self._sort_in_when_many()
        if 2 * self._waste > self._end:
            self._reclaim()

    def rename(self, row: int, name: str) -> None:
        """Give a named row another name."""
        found = self._find(_encoded(name))
        if found is not None and found != row:
            raise _name_taken_error(name)
        self.remove(row)
        self.add(name, row)

    # Looking up

    def _find(self, text: bytes) -> int | None:
        row = self._recent.get(text)
        return self._find_sorted(text, hash(text)) if row is None else row

    def _find_sorted(self, text: bytes, hash_: int) -> int | None:
        at = int(self._hashes.searchsorted(np.int64(hash_)))
        while at < len(self._hashes) and self._hashes[at] == hash_:
            row = int(self._rows[at])
            if self._is_sorted.array[row] and self._text(row) == text:
                return row
            at += 1
        return None

    def _text(self, row: int) -> bytes:
        length = int(self._length.array[row]) if 0 <= row < self._rows_seen else 0
        if not length:
            raise KeyError(row)
        offset = int(self._offset.array[row])
        return self._arena.array[offset : offset + length].tobytes()

    # Refusing

    def _must_be_new(self, texts: list[bytes], hashes: Ints) -> None:
        seen = set(self._recent)
        if len(texts) + len(seen) != len(seen.union(texts)):
            for text in texts:
                if text in seen:
                    raise _name_taken_error(text.decode("utf-8", "surrogatepass"))
                seen.add(text)
        at = self._hashes.searchsorted(hashes)
        at[at == len(self._hashes)] = 0
        suspects = np.flatnonzero(self._hashes[at] == hashes) if len(self._hashes) else at[:0]
        for i in suspects.tolist():
            if self._find_sorted(texts[i], int(hashes[i])) is not None:
                raise _name_taken_error(texts[i].decode("utf-8", "surrogatepass"))

    # Keeping

    def _make_room(self, row: int) -> None:
        if row >= self._rows_seen:
            self._rows_seen = row + 1
            for column in (self._offset, self._length, self._is_sorted):
                column.reserve(self._rows_seen)

    def _write(self, text: bytes) -> int:
        """Put text at the end of the arena, and return where it begins."""
        offset = self._end
        self._end += len(text)
        self._arena.reserve(self._end)
        self._arena.array[offset : self._end] = np.frombuffer(text, np.uint8)
        return offset

    def _reclaim(self) -> None:
        """Close the gaps that removed names have left."""
        rows = np.flatnonzero(self._length.array[: self._rows_seen])
        rows = rows[np.argsort(self._offset.array[rows])]
        offsets, lengths = self._offset.array[rows], self._length.array[rows].astype(np.int64)
        # +1 where a name begins and -1 where one ends add up to 1 on every byte of a name, 0 in the gaps.
        edges = np.zeros(self._end + 1, dtype=np.int8)
        edges[offsets] += 1
        edges[offsets + lengths] -= 1
        kept = self._arena.array[: self._end][np.cumsum(edges[:-1], dtype=np.int8).view(np.bool_)]
        self._arena.resize(len(kept))
        self._arena.array[: len(kept)] = kept
        self._offset.array[rows] = np.cumsum(lengths) - lengths
        self._end = len(kept)
        self._waste = 0

    # Sorting in

    @property
    def _many(self) -> int:
        return max(_UNSORTED_LIMIT, len(self._hashes) // _UNSORTED_SHARE)

    def _sort_in_when_many(self) -> None:
        if len(self._recent) + self._outdated > self._many:
            rows = np.fromiter(self._recent.values(), np.int64, len(self._recent))
            self._sort_in(_hashes(self._recent), rows)
            self._recent.clear()

    def _sort_in(self, hashes: Ints, rows: Ints) -> None:
        """Add names to the sorted ones, and drop from these what is outdated."""
        valid = self._is_sorted.array[self._rows]
        old_hashes, old_rows = self._hashes[valid], self._rows[valid]
        order = np.argsort(hashes)
        at = old_hashes.searchsorted(hashes[order])
        self._hashes = np.insert(old_hashes, at, hashes[order])
        self._rows = np.insert(old_rows, at, rows[order])
        self._is_sorted.array[rows] = True
        self._outdated = 0


def _are_different(rows: Ints) -> bool:
    """Is no row in it twice? New rows are in order, which is seen without sorting them."""
    return bool((rows[1:] > rows[:-1]).all()) or len(np.unique(rows)) == len(rows)


def joined_texts(memory: bytearray | NDArray[np.uint8], starts: Ints, lengths: NDArray[np.int32]) -> bytes:
    """Texts from a piece of memory, one after the other."""
    ends = starts + lengths
    with memoryview(memory) as seen:  # type: ignore[arg-type]
        if len(starts) and (starts[1:] == ends[:-1]).all():  # as they are after a start
            return bytes(seen[int(starts[0]) : int(ends[-1])])
        return b"".join([seen[i:j] for i, j in zip(starts.tolist(), ends.tolist(), strict=True)])


def _hashes(texts: Collection[bytes]) -> Ints:
    return np.fromiter(map(hash, texts), np.int64, len(texts))


def _encoded_part(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _encoded(name: str) -> bytes:
    if not 1 <= len(name) <= NAME_LIMIT:
        raise Invalid(f"a name of {len(name)} characters, accepted: 1 to {NAME_LIMIT}", place="name")
    return name.encode("utf-8", "surrogatepass")


def _all_encoded(names: Sequence[str]) -> list[bytes]:
    lengths = [*map(len, names)]
    if lengths and not 1 <= min(lengths) <= max(lengths) <= NAME_LIMIT:
        return [_encoded(name) for name in names]  # which raises an error
    return [name.encode("utf-8", "surrogatepass") for name in names]


def _name_taken_error(name: str) -> Invalid:
    return Invalid(f"the name {name!r} is taken, accepted: one that no other task has", place="name")


def _row_named_error() -> ValueError:
    return ValueError("a row has one name; rename it, or remove the name first")
