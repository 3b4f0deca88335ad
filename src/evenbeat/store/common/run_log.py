"""Records of the log of ended runs: the runs of one commit, as columns, or as rows if they are few.

It is written with every commit, so it is made to be cheap: a microsecond per run, where `run_blocks` takes ten to save
another half. Runs stay here for a minute or so, until they are packed into blocks.
"""

import zlib
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from operator import add, sub
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from evenbeat.store.common.int_columns import DamagedBlock, numbers_of, planes_of, width_of
from evenbeat.store.common.run_blocks import read_safely, sealed, unsealed
from evenbeat.store.history_contract import PackedRun

RUNS: Final = 1_000
"""Most runs of a record: one that is damaged costs no more."""
_ROWS, _COLUMNS, _COMPRESSED_ROWS = 10, 11, 12
"""The first byte of a record."""
_FEWEST_OF_COLUMNS: Final = 16
_FEWEST_COMPRESSED: Final = 8
"""Runs: to make columns of fewer, or to compress them, takes longer than it is worth."""
_LEVEL: Final = 1
"""Of zlib. Level 6 takes a fifth longer and gains a fiftieth."""
_WINDOW, _MEMORY = 12, 5
"""Of zlib: 4 KiB of text to look back to. The usual 32 KiB take 40 us to prepare, more than a record to compress."""
_END: Final = "\x1e"
"""Ends an output when digits are separated from words."""
_MASKED: Final = bytes(b"0"[0] if c in b"0123456789" else c for c in range(256))
_NO_DIGITS: Final = bytes(c for c in range(256) if c not in b"0123456789\x1e")
_FEWEST_ALIKE: Final = 2
"""Outputs per mask, in the mean, for masks to be used."""

Ending = tuple[str, int | None, int, bool, int, bool, int, int]
"""Outcome, status, state, hard, kind, notable, generation and attempt: few combinations in a record."""
_Row = tuple[int, int, int, int, int, int, int, str, int | None, int, bool, int, str, bool]
"""Task, nominal, and by how much later the run was claimed, started and ended; then as in `PackedRun`."""
_TASK, _NOMINAL, _CLAIMED, _STARTED, _ENDED, _ENDING, _WHICH = range(7)
"""The columns of numbers."""


class EndedRuns(NamedTuple):
    """Runs that ended, by columns, as `PackedRun` has them."""

    task: Sequence[int]
    claimed: Sequence[int]
    ended: Sequence[int]
    nominal: Sequence[int]
    generation: Sequence[int]
    kind: Sequence[int]
    started: Sequence[int]
    outcome: Sequence[str]
    status: Sequence[int | None]
    state: Sequence[int]
    hard: Sequence[bool]
    attempt: Sequence[int]
    output: Sequence[str]
    notable: Sequence[bool]


class LogRecord(NamedTuple):
    """A record, and what a store must know of it to find it."""

    runs: int
    notable: int
    """How many of its runs are notable."""
    first_claimed: int
    last_claimed: int
    body: bytes


class _Columns(Struct, array_like=True):
    runs: int
    first_task: int
    numbers: list[tuple[int, int]]
    """Of each column of numbers the least one, and the width of what is added to it."""
    endings: list[Ending]
    masks: list[bytes]
    """Outputs with each digit replaced by 0; none if outputs are empty or in `texts`."""
    texts: list[str]
    planes: bytes
    """The bytes of the columns of numbers, the lowest ones of each column first; then the digits of each mask, the
    first ones of all its outputs first."""


_encode: Final = msgspec.msgpack.Encoder().encode
_decode_columns: Final = msgspec.msgpack.Decoder(_Columns).decode
_decode_rows: Final = msgspec.msgpack.Decoder(list[_Row]).decode


def log_records(ended: EndedRuns) -> Iterator[LogRecord]:
    """The records of runs that ended together."""
    if len(ended.task) <= RUNS:
        yield _record(ended)
        return
    for at in range(0, len(ended.task), RUNS):
        yield _record(EndedRuns._make(column[at : at + RUNS] for column in ended))


def _record(ended: EndedRuns) -> LogRecord:
    runs = len(ended.task)
    body = _packed(ended) if runs >= _FEWEST_OF_COLUMNS else None
    if body is None:
        rows = _encode(_rows(ended))
        compresses = runs >= _FEWEST_COMPRESSED
        body = sealed(_compressed(rows), _COMPRESSED_ROWS) if compresses else sealed(rows, _ROWS)
    return LogRecord(runs, sum(ended.notable), min(ended.claimed), max(ended.claimed), body)


def _rows(e: EndedRuns) -> list[_Row]:
    """The runs as rows. Times of a run are near to each other."""
    columns = zip(
        e.task, e.nominal, map(sub, e.claimed, e.nominal), map(sub, e.started, e.claimed), map(sub, e.ended, e.started),
        e.generation, e.kind, e.outcome, e.status, e.state, e.hard, e.attempt, e.output, e.notable, strict=True,
    )  # fmt: skip
    return list(columns)


def _run(row: _Row) -> PackedRun:
    task, nominal, claimed, started, ended, generation, kind = row[:7]
    claimed += nominal
    started += claimed
    return PackedRun(task, claimed, started + ended, nominal, generation, kind, started, *row[7:])


def _packed(e: EndedRuns) -> bytes | None:
    """The runs as columns; None if their times are too far apart."""
    endings: dict[Ending, int] = {}
    combined = zip(e.outcome, e.status, e.state, e.hard, e.kind, e.notable, e.generation, e.attempt, strict=True)
    ending = [endings.setdefault(one, len(endings)) for one in combined]
    masks, texts, which, digits = _separated(e.output)
    columns: list[Sequence[int]] = [
        list(map(sub, e.task[1:], e.task)),
        e.nominal,
        list(map(sub, e.claimed, e.nominal)),
        list(map(sub, e.started, e.claimed)),
        list(map(sub, e.ended, e.started)),
        ending,
        which,
    ]
    numbers, planes = [], []
    try:
        for values in columns:
            low = min(values, default=0)
            width = width_of(max(values, default=0) - low)
            numbers.append((low, width))
            if width:
                planes += planes_of(map(sub, values, repeat(low)), width)
        made = _Columns(
            len(e.task), e.task[0], numbers, list(endings), masks, texts, b"".join(planes) + b"".join(digits)
        )
        return sealed(_compressed(_encode(made)), _COLUMNS)
    except OverflowError:
        return None


def _compressed(data: bytes) -> bytes:
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY)
    return stream.compress(data) + stream.flush()


def _separated(outputs: Sequence[str]) -> tuple[list[bytes], list[str], list[int], list[bytes]]:
    """Masks, texts without masks, the mask of each output, and the digits of each mask: plugins repeat their words."""
    if not any(outputs):
        return [], [], [], []
    joined = _END.join(outputs).encode()
    masked = joined.translate(_MASKED).split(_END.encode())
    masks: dict[bytes, int] = {}
    which = [masks.setdefault(mask, len(masks)) for mask in masked]
    if len(which) != len(outputs) or len(masks) * _FEWEST_ALIKE > len(outputs):
        return [], list(outputs), [], []
    of_masks: list[list[bytes]] = [[] for _ in masks]
    for mask, digits in zip(which, joined.translate(None, _NO_DIGITS).split(_END.encode()), strict=True):
        of_masks[mask].append(digits)
    return list(masks), [], which, [_turned(b"".join(some), len(some[0])) for some in of_masks]


def _turned(digits: bytes, length: int) -> bytes:
    """First the first digits of all texts, then the second ones: they are more alike."""
    return b"".join([digits[i::length] for i in range(length)])


class LogBlock:
    """A record of the log. Every method raises DamagedBlock."""

    def __init__(self, body: bytes) -> None:
        self._rows: list[PackedRun] | None = None
        self._columns: _Columns | None = None

        def read() -> None:
            data = unsealed(body, (_ROWS, _COLUMNS, _COMPRESSED_ROWS))
            if body[0] != _ROWS:
                data = zlib.decompress(data)
            if body[0] == _COLUMNS:
                self._columns = _decode_columns(data)
            else:
                self._rows = list(map(_run, _decode_rows(data)))

        read_safely(read)

    def runs(self) -> list[PackedRun]:
        """All runs in their order."""
        if self._rows is None:
            self._rows = read_safely(self._unpacked_runs)
        return self._rows

    def runs_of(self, task: int, before: int, *, notable: bool = False) -> list[PackedRun]:
        """The runs of one task that were claimed before some time, in their order."""
        if self._rows is None and task not in read_safely(self._tasks):
            return []
        return [run for run in self.runs_between(None, before, notable=notable) if run.task == task]

    def runs_between(self, since: int | None, before: int, *, notable: bool = False) -> list[PackedRun]:
        """The runs of all tasks that were claimed at or after `since` and before `before`, in their order."""
        return [
            run
            for run in self.runs()
            if run.claimed < before and (since is None or run.claimed >= since) and (run.notable or not notable)
        ]

    def claimed(self) -> list[int]:
        """When each run was claimed."""
        if self._rows is None:
            return read_safely(self._claimed)
        return [run.claimed for run in self._rows]

    # Columns

    def _tasks(self) -> list[int]:
        return list(accumulate(self._numbers(_TASK), initial=self._its.first_task))

    def _claimed(self) -> list[int]:
        return list(map(add, self._numbers(_CLAIMED), self._numbers(_NOMINAL)))

    def _unpacked_runs(self) -> list[PackedRun]:
        task, nominal = self._tasks(), self._numbers(_NOMINAL)
        claimed = list(map(add, self._numbers(_CLAIMED), nominal))
        started = list(map(add, self._numbers(_STARTED), claimed))
        ended = list(map(add, self._numbers(_ENDED), started))
        endings = [self._its.endings[ending] for ending in self._numbers(_ENDING)]
        outcome, status, state, hard, kind, notable, generation, attempt = zip(*endings, strict=True)
        rows = zip(
            task, claimed, ended, nominal, generation, kind, started, outcome, status, state, hard, attempt,
            self._outputs(), notable, strict=True,
        )  # fmt: skip
        return [PackedRun(*row) for row in rows]

    @property
    def _its(self) -> _Columns:
        assert self._columns is not None
        return self._columns

    def _count(self, column: int) -> int:
        return self._its.runs - 1 if column == _TASK else self._its.runs

    def _begin(self, column: int) -> int:
        """Where the planes of a column begin."""
        return sum(self._count(i) * width for i, (_, width) in enumerate(self._its.numbers[:column]))

    def _numbers(self, column: int) -> list[int]:
        low, width = self._its.numbers[column]
        count = self._count(column)
        if width == 0:
            return [low] * count
        begin = self._begin(column)
        if begin + count * width > len(self._its.planes):
            raise DamagedBlock("a column is too short")
        return list(map(add, numbers_of(self._its.planes, count, width, range(count), begin), repeat(low)))

    def _outputs(self) -> Sequence[str]:
        if not self._its.masks:
            return self._its.texts or [""] * self._its.runs
        which = self._numbers(_WHICH)
        digits, at = [], self._begin(len(self._its.numbers))
        for i, mask in enumerate(self._its.masks):
            count, length = which.count(i), mask.count(b"0")
            turned = self._its.planes[at : at + count * length]
            at += count * length
            digits.append([turned[j::count] for j in range(count)])
        made = [mask.replace(b"%", b"%%").replace(b"0", b"%c") for mask in self._its.masks]
        of_masks = list(map(iter, digits))
        return [(made[i] % tuple(next(of_masks[i]))).decode() for i in which]
