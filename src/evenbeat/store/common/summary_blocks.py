"""Packs summaries of hours and days, in the order of their tasks, into blocks of columns, and reads them again."""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, repeat
from math import copysign, isfinite
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from evenbeat.store.common.int_columns import (
    IntColumn,
    PlaneWriter,
    pack_changes,
    pack_differences,
    pack_values,
    read_planes,
    unpack,
)
from evenbeat.store.common.run_blocks import read_safely, sealed, unsealed
from evenbeat.store.history_contract import PerfSummary, RunSummary, Spread

SUMMARIES: Final = 1_000
"""Most summaries of a block."""
_SERIES: Final = 4_000
"""Most series of performance data in a block, of more than one summary."""
_DECIMALS: Final = (0, 2, 3, 6)
"""Numbers that have at most so many decimals are packed as whole numbers."""
_MOST_WHOLE: Final = 1 << 53

N = TypeVar("N")


class _Floats(Struct, array_like=True, frozen=True):
    """Numbers with a fraction: whole numbers of this many decimals, or else the eight bytes of each, as planes."""

    decimals: int
    whole: IntColumn | None
    data: bytes


class _Spreads(Struct, array_like=True, frozen=True):
    """Of each, the median, and how much more the others are."""

    p50: IntColumn
    p99: IntColumn
    most: IntColumn


class _Columns(Struct, array_like=True):
    rows: int
    task: IntColumn
    since: IntColumn
    runs: IntColumn
    counts: IntColumn
    """Of each summary, the place of its outcomes and states in `kinds`."""
    kinds: list[tuple[dict[str, int], dict[int, int]]]
    duration: _Spreads
    lateness: _Spreads
    series: IntColumn
    """How many series each summary has."""
    names: list[tuple[str, str]]
    """Labels and units."""
    name: IntColumn
    count: IntColumn
    low: _Floats
    mean: _Floats
    high: _Floats


class PackedSummaries(NamedTuple):
    """A block of summaries, and what a store must know of it to find it."""

    first_task: int
    last_task: int
    rows: int
    first_claimed: int
    last_claimed: int
    """Of summaries, the same as `since`."""
    body: bytes
    notable: int = 0


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Columns).decode


def pack_summaries(summaries: Sequence[RunSummary]) -> Iterator[PackedSummaries]:
    """The blocks of summaries that are in the order of their tasks."""
    parts = -(-len(summaries) // SUMMARIES)
    for i in range(parts):
        part = summaries[i * len(summaries) // parts : (i + 1) * len(summaries) // parts]
        begin = series = 0
        for j, summary in enumerate(part):
            series += len(summary.series)
            if series > _SERIES and j > begin:
                yield _packed(part[begin:j])
                begin, series = j, len(summary.series)
        yield _packed(part[begin:])


def _packed(summaries: Sequence[RunSummary]) -> PackedSummaries:
    task, since, runs, outcomes, states, duration, lateness, series = zip(*summaries, strict=True)
    kinds: dict[bytes, tuple[int, tuple[dict[str, int], dict[int, int]]]] = {}
    counts = [kinds.setdefault(_encode(kind), (len(kinds), kind))[0] for kind in zip(outcomes, states, strict=True)]
    names: dict[tuple[str, str], int] = {}
    every = list(chain.from_iterable(series))
    name = [names.setdefault((one.label, one.unit), len(names)) for one in every]
    columns = _Columns(
        len(summaries),
        pack_changes(task),
        pack_changes(since),
        pack_values(runs),
        pack_values(counts),
        [kind for _, kind in kinds.values()],
        _packed_spreads(duration),
        _packed_spreads(lateness),
        pack_values([len(some) for some in series]),
        list(names),
        pack_values(name),
        pack_values([one.count for one in every]),
        _packed_floats([one.min for one in every]),
        _packed_floats([one.mean for one in every]),
        _packed_floats([one.max for one in every]),
    )
    body = sealed(_encode(columns))
    return PackedSummaries(task[0], task[-1], len(summaries), min(since), max(since), body)


def _packed_spreads(spreads: Sequence[Spread]) -> _Spreads:
    p50, p99, most = zip(*spreads, strict=True)
    return _Spreads(pack_values(p50), pack_differences(p99, p50), pack_differences(most, p99))


def _packed_floats(numbers: Sequence[float]) -> _Floats:
    if all(isfinite(number) and abs(number) < _MOST_WHOLE for number in numbers):
        for decimals in _DECIMALS:
            whole = [round(number * 10**decimals) for number in numbers]
            if all(map(_is_exactly, numbers, whole, repeat(10**decimals))):
                return _Floats(decimals, pack_values(whole), b"")
    data = struct.pack(f"<{len(numbers)}d", *numbers)
    writer = PlaneWriter()
    for i in range(8):
        writer.add(data[i::8])
    return _Floats(0, None, writer.finish())


def _is_exactly(number: float, whole: int, unit: int) -> bool:
    # -0.0 equals 0.0, and is not the same.
    return whole / unit == number and (whole != 0 or copysign(1, number) > 0)


class SummaryBlock:
    """A block of summaries; every method raises DamagedBlock."""

    def __init__(self, body: bytes) -> None:
        self._columns: _Columns = read_safely(lambda: _decode(unsealed(body)))

    def summaries(self) -> list[RunSummary]:
        """All summaries in their order."""
        return read_safely(lambda: self._some(range(self._columns.rows)))

    def summaries_of(self, task: int, since: int, until: int) -> list[RunSummary]:
        """Those of a task that begin from `since` to before `until`, in their order."""

        def read() -> list[RunSummary]:
            places = range(bisect_left(self._tasks, task), bisect_right(self._tasks, task))
            return self._some([i for i in places if since <= self._since[i] < until])

        return read_safely(read)

    @cached_property
    def _tasks(self) -> list[int]:
        return unpack(self._columns.task, self._columns.rows)

    @cached_property
    def _since(self) -> list[int]:
        return unpack(self._columns.since, self._columns.rows)

    def _some(self, chosen: Sequence[int]) -> list[RunSummary]:
        """The summaries at these places."""
        if not chosen:
            return []
        c = self._columns
        runs = _chosen(unpack(c.runs, c.rows), chosen)
        kinds = [c.kinds[i] for i in _chosen(unpack(c.counts, c.rows), chosen)]
        rows = zip(
            _chosen(self._tasks, chosen),
            _chosen(self._since, chosen),
            runs,
            [dict(outcomes) for outcomes, _ in kinds],
            [dict(states) for _, states in kinds],
            self._spreads(c.duration, chosen),
            self._spreads(c.lateness, chosen),
            self._series(chosen),
            strict=True,
        )
        return list(map(RunSummary._make, rows))

    def _spreads(self, spreads: _Spreads, chosen: Sequence[int]) -> list[Spread]:
        p50 = unpack(spreads.p50, self._columns.rows)
        p99 = unpack(spreads.p99, self._columns.rows, p50)
        most = unpack(spreads.most, self._columns.rows, p99)
        return [Spread(p50[i], p99[i], most[i]) for i in chosen]

    def _series(self, chosen: Sequence[int]) -> list[tuple[PerfSummary, ...]]:
        c = self._columns
        numbers = unpack(c.series, c.rows)
        ends = list(accumulate(numbers))
        total = ends[-1]
        if not total:
            return [()] * len(chosen)
        places = [range(ends[i] - numbers[i], ends[i]) for i in chosen]
        flat = list(chain.from_iterable(places))
        names = [c.names[i] for i in _chosen(unpack(c.name, total), flat)]
        counts = _chosen(unpack(c.count, total), flat)
        floats = [_chosen(_unpacked_floats(some, total), flat) for some in (c.low, c.mean, c.high)]
        every = iter([PerfSummary(*name, *rest) for name, *rest in zip(names, counts, *floats, strict=True)])
        return [tuple(next(every) for _ in some) for some in places]


def _unpacked_floats(floats: _Floats, count: int) -> list[float]:
    if floats.whole is not None:
        return [n / 10**floats.decimals for n in unpack(floats.whole, count)]
    planes = read_planes(floats.data, 8 * count)
    data = bytearray(8 * count)
    for i in range(8):
        data[i::8] = planes[i * count : (i + 1) * count]
    return list(struct.unpack(f"<{count}d", data))


def _chosen(column: Sequence[N], places: Iterable[int]) -> list[N]:
    return [column[i] for i in places]
