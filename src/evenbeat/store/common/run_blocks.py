"""Packs ended runs, in the order of their tasks, into blocks of columns, and reads them again."""

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from evenbeat.store.common.int_columns import (
    DamagedBlock,
    IntColumn,
    pack_changes,
    pack_differences,
    pack_values,
    unpack,
)
from evenbeat.store.common.output_columns import OutputColumn, OutputReader, pack_outputs
from evenbeat.store.history_contract import PackedRun

RUNS: Final = 2_000
"""Most runs of a block. Larger ones hardly become smaller per run, and a task's runs take longer to be found."""
_CHARACTERS: Final = 500_000
"""Most characters of output in a block, of more than one run."""
_VERSION: Final = 1
_HEADER: Final = 5
"""Bytes before the columns: the version, and a checksum of the rest."""

T = TypeVar("T")
_NOTABLE: Final = 5
Ending = tuple[str, int | None, int, bool, int, bool, bool]
"""Outcome, status, state, hard, kind, notable and rare: few combinations in a block."""


class _Columns(Struct, array_like=True):
    rows: int
    task: IntColumn
    nominal: IntColumn
    claimed: IntColumn
    started: IntColumn
    ended: IntColumn
    generation: IntColumn
    attempt: IntColumn
    ending: IntColumn
    endings: list[Ending]
    outputs: OutputColumn | None


class PackedBlock(NamedTuple):
    """A block, and what a store must know of it to find it."""

    first_task: int
    last_task: int
    rows: int
    first_claimed: int
    last_claimed: int
    notable: int
    """How many of its runs are notable."""
    body: bytes


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Columns).decode


def sealed(data: bytes, version: int = _VERSION) -> bytes:
    """The body of a block: its columns with version and checksum."""
    return bytes((version,)) + zlib.crc32(data).to_bytes(4, "little") + data


def unsealed(body: bytes, versions: Sequence[int] = (_VERSION,)) -> bytes:
    """The columns of a block; raise DamagedBlock if they are not what was written."""
    if not body or body[0] not in versions:
        known = " and ".join(map(str, versions))
        raise DamagedBlock(f"its version is {body[:1].hex() or 'missing'}, and this program reads {known}")
    data = body[_HEADER:]
    if zlib.crc32(data) != int.from_bytes(body[1:_HEADER], "little"):
        raise DamagedBlock("its checksum is wrong")
    return data


def read_safely(read: Callable[[], T]) -> T:
    """Read from a block; whatever goes wrong means that it is damaged."""
    try:
        return read()
    except (ArithmeticError, LookupError, TypeError, ValueError, msgspec.MsgspecError, zlib.error) as e:
        raise DamagedBlock(f"{type(e).__name__}: {e}") from e


def pack_runs(runs: Sequence[PackedRun]) -> Iterator[PackedBlock]:
    """The blocks of runs that are in the order of their tasks."""
    for part in _cut(runs):
        yield _packed(part)


def _cut(runs: Sequence[PackedRun]) -> Iterator[Sequence[PackedRun]]:
    """Cut runs into parts of about equal length, and those with long outputs into shorter ones."""
    parts = -(-len(runs) // RUNS)
    for i in range(parts):
        part = runs[i * len(runs) // parts : (i + 1) * len(runs) // parts]
        if sum(len(run.output) for run in part) <= _CHARACTERS:
            yield part
            continue
        begin = length = 0
        for j, run in enumerate(part):
            length += len(run.output)
            if length > _CHARACTERS and j > begin:
                yield part[begin:j]
                begin, length = j, len(run.output)
        yield part[begin:]


def _packed(runs: Sequence[PackedRun]) -> PackedBlock:
    (
        task, claimed, ended, nominal, generation, kind, started, outcome, status, state, hard, attempt, output,
        notable, rare,
    ) = zip(*runs, strict=True)  # fmt: skip
    endings: dict[Ending, int] = {}
    ending = [
        endings.setdefault(one, len(endings))
        for one in zip(outcome, status, state, hard, kind, notable, rare, strict=True)
    ]
    columns = _Columns(
        len(runs),
        pack_changes(task),
        pack_changes(nominal),
        pack_differences(claimed, nominal),
        pack_differences(started, claimed),
        pack_differences(ended, started),
        pack_values(generation),
        pack_values(attempt),
        pack_values(ending),
        list(endings),
        pack_outputs(output),
    )
    body = sealed(_encode(columns))
    return PackedBlock(task[0], task[-1], len(runs), min(claimed), max(claimed), sum(notable), body)


class RunBlock:
    """A block of runs. Each column is read when it is asked for; every method raises DamagedBlock."""

    def __init__(self, body: bytes) -> None:
        self._columns: _Columns = read_safely(lambda: _decode(unsealed(body)))

    def runs(self) -> list[PackedRun]:
        """All runs in their order."""
        return read_safely(lambda: self._some(range(self._columns.rows)))

    def runs_of(self, task: int, before: int, *, notable: bool = False) -> list[PackedRun]:
        """The runs of one task that were claimed before some time, in their order."""

        def read() -> list[PackedRun]:
            tasks = unpack(self._columns.task, self._columns.rows)
            begin = bisect_left(tasks, task)
            claimed = self._claimed(begin, bisect_right(tasks, task))
            return self._some(range(begin, begin + bisect_left(claimed, before)), notable=notable)

        return read_safely(read)

    def runs_between(self, since: int, before: int, *, notable: bool = False) -> list[PackedRun]:
        """The runs of all tasks that were claimed at or after `since` and before `before`, in their order."""

        def read() -> list[PackedRun]:
            claimed = self._claimed(0, self._columns.rows)
            return self._some([i for i, at in enumerate(claimed) if since <= at < before], notable=notable)

        return read_safely(read)

    def claimed(self) -> list[int]:
        """When each run was claimed."""
        return read_safely(lambda: self._claimed(0, self._columns.rows))

    def _claimed(self, begin: int, end: int) -> list[int]:
        nominal = self._unpacked(self._columns.nominal, range(begin, end))
        return self._unpacked(self._columns.claimed, range(begin, end), nominal)

    def _unpacked(self, column: IntColumn, some: range, expected: Sequence[int] = ()) -> list[int]:
        return unpack(column, self._columns.rows, expected, some.start, some.stop)

    def _some(self, chosen: Sequence[int], *, notable: bool = False) -> list[PackedRun]:
        """The runs at these places, or the notable ones among them."""
        if not chosen:
            return []
        c, near = self._columns, range(chosen[0], chosen[-1] + 1)
        ending = self._unpacked(c.ending, near)
        if notable:
            return self._some([i for i in chosen if c.endings[ending[i - near.start]][_NOTABLE]])
        nominal = self._unpacked(c.nominal, near)
        claimed = self._unpacked(c.claimed, near, nominal)
        started = self._unpacked(c.started, near, claimed)
        numbers = [
            self._unpacked(c.task, near),
            claimed,
            self._unpacked(c.ended, near, started),
            nominal,
            self._unpacked(c.generation, near),
            started,
            self._unpacked(c.attempt, near),
            ending,
        ]
        if len(chosen) < len(near):
            numbers = [[column[i - near.start] for i in chosen] for column in numbers]
        task, claimed, ended, nominal, generation, started, attempt, ending = numbers
        outcome, status, state, hard, kind, is_notable, rare = zip(*[c.endings[i] for i in ending], strict=True)
        output = [""] * len(chosen) if c.outputs is None else OutputReader(c.outputs, c.rows).texts(chosen)
        rows = zip(
            task, claimed, ended, nominal, generation, kind, started, outcome, status, state, hard, attempt, output,
            is_notable, rare, strict=True,
        )  # fmt: skip
        return list(map(PackedRun._make, rows))
