"""Packs ended runs, in the order of their tasks, into blocks of columns, and reads them again."""

import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
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


def sealed(data: bytes) -> bytes:
    """The body of a block: its columns with version and checksum."""
    return bytes((_VERSION,)) + zlib.crc32(data).to_bytes(4, "little") + data


def unsealed(body: bytes) -> bytes:
    """The columns of a block; raise DamagedBlock if they are not what was written."""
    if body[:1] != bytes((_VERSION,)):
        raise DamagedBlock(f"its version is {body[:1].hex() or 'missing'}, and this program reads {_VERSION}")
    data = body[_HEADER:]
    if zlib.crc32(data) != int.from_bytes(body[1:_HEADER], "little"):
        raise DamagedBlock("its checksum is wrong")
    return data


def read_safely(read: Callable[[], T]) -> T:
    """Read from a block; whatever goes wrong means that it is damaged."""
    try:
        return read()
    except (ArithmeticError, LookupError, TypeError, ValueError, msgspec.MsgspecError) as e:
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
            begin, end = bisect_left(self._tasks, task), bisect_right(self._tasks, task)
            end = bisect_left(self._claimed, before, begin, end)
            return self._some([i for i in range(begin, end) if not notable or self._is_notable[i]])

        return read_safely(read)

    def runs_between(self, since: int, before: int, *, notable: bool = False) -> list[PackedRun]:
        """The runs of all tasks that were claimed at or after `since` and before `before`, in their order."""

        def read() -> list[PackedRun]:
            found = [i for i, at in enumerate(self._claimed) if since <= at < before]
            return self._some([i for i in found if self._is_notable[i]] if notable else found)

        return read_safely(read)

    def claimed(self) -> list[int]:
        """When each run was claimed."""
        return read_safely(lambda: self._claimed)

    @cached_property
    def _tasks(self) -> list[int]:
        return unpack(self._columns.task, self._columns.rows)

    @cached_property
    def _nominal(self) -> list[int]:
        return unpack(self._columns.nominal, self._columns.rows)

    @cached_property
    def _claimed(self) -> list[int]:
        return unpack(self._columns.claimed, self._columns.rows, self._nominal)

    @cached_property
    def _ending(self) -> list[int]:
        return unpack(self._columns.ending, self._columns.rows)

    @cached_property
    def _is_notable(self) -> list[bool]:
        notable = [ending[5] for ending in self._columns.endings]
        return [notable[ending] for ending in self._ending]

    @cached_property
    def _outputs(self) -> OutputReader:
        assert self._columns.outputs is not None
        return OutputReader(self._columns.outputs, self._columns.rows)

    def _some(self, chosen: Sequence[int]) -> list[PackedRun]:
        """The runs at these places."""
        if not chosen:
            return []
        started = unpack(self._columns.started, self._columns.rows, self._claimed)
        numbers = [
            self._tasks,
            self._claimed,
            unpack(self._columns.ended, self._columns.rows, started),
            self._nominal,
            unpack(self._columns.generation, self._columns.rows),
            started,
            unpack(self._columns.attempt, self._columns.rows),
            self._ending,
        ]
        if len(chosen) < self._columns.rows:
            numbers = [[column[i] for i in chosen] for column in numbers]
        task, claimed, ended, nominal, generation, started, attempt, ending = numbers
        endings = [self._columns.endings[i] for i in ending]
        outcome, status, state, hard, kind, notable, rare = zip(*endings, strict=True)
        output: Sequence[str] = [""] * len(chosen)
        if self._columns.outputs is not None:
            output = self._outputs.texts(chosen)
        rows = zip(
            task, claimed, ended, nominal, generation, kind, started, outcome, status, state, hard, attempt, output,
            notable, rare, strict=True,
        )  # fmt: skip
        return list(map(PackedRun._make, rows))
