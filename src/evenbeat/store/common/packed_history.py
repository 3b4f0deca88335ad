"""Answers about packed runs, for both SQL stores: finds the parts and blocks to read, and reads no others."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from evenbeat.model import SECOND, Instant, Outcome, RunKind, State
from evenbeat.store.common.int_columns import DamagedBlock, IntColumn, pack_changes, pack_values, unpack
from evenbeat.store.common.run_blocks import RunBlock, read_safely, sealed, unsealed
from evenbeat.store.common.run_log import LogBlock
from evenbeat.store.contract import FOREVER, RunRecord
from evenbeat.store.history_contract import PackedRun, Part

_AT_ONCE: Final = 8
"""Most blocks that are asked for together."""
_log: Final = logging.getLogger("evenbeat.store")


class BlockPlace(NamedTuple):
    """A block, without its content."""

    id: int
    part: int
    rows: int
    first_claimed: int
    last_claimed: int
    notable: int


class PackedParts(Protocol):
    """The parts of a store, as they are at one moment."""

    def run_parts(self, since: int, before: int) -> list[tuple[Part, bytes | None]]:
        """The complete parts with runs that were claimed from `since` to before `before`, and the starts of each."""

    def blocks_of_part(self, part: int) -> list[BlockPlace]:
        """The blocks of a part in their order."""

    def blocks_of_task(self, task: int, since: int, before: int) -> list[BlockPlace]:
        """The blocks, of all complete parts of runs, that may hold runs of a task claimed in this time."""

    def blocks_of_complete(self, part: int) -> int | None:
        """How many blocks a complete part has; None if there is no such part."""

    def begun(self, part: int) -> tuple[str, int] | None:
        """Layer and rows of a part that was begun; None if there is no such part."""

    def summary_blocks_of_task(self, task: int, layer: str, since: int, until: int) -> list[BlockPlace]:
        """The blocks of complete parts of a layer that may hold summaries of a task for this time."""

    def bodies(self, blocks: Sequence[int]) -> Iterator[bytes]:
        """What these blocks hold, in the order in which they are given, without those that are gone."""

    def tasks_of_runs(self, numbers: Sequence[int]) -> dict[int, tuple[str, bool]]:
        """Name of each of these tasks that the store knows, and whether it is a check."""


class LoggedRuns(Protocol):
    """The log of runs that are not packed, as it is at one moment."""

    def records(self, since: int, before: int) -> list[BlockPlace]:
        """The records with runs that were claimed from `since` to before `before`; they are in no part."""

    def bodies(self, records: Sequence[int]) -> Iterator[bytes]:
        """What these records hold, in the order in which they are given."""


class DamageReports:
    """Reports each damaged block once: whatever else is in the history is still answered."""

    def __init__(self, database: object) -> None:
        self._database = database
        self._reported: set[tuple[int, int]] = set()

    @contextmanager
    def skipped(self, part: int, block: int, rows: int) -> Iterator[None]:
        """Leave out a block that is damaged."""
        try:
            yield
        except DamagedBlock as e:
            if (part, block) not in self._reported:
                self._reported.add((part, block))
                what = f"block {block} of part {part}" if part else f"block {block} of the log of runs"
                _log.error(
                    "%s: %s is damaged (%s): the %d records in it are left out of all answers. "
                    "The rest is not harmed. A backup of before still has them; check the disk",
                    *(self._database, what, e, rows),
                    extra={"action": "history_block_damaged", "part": part, "block": block},
                )


class PackedHistory:
    """Reads packed runs, and those in the log, if a store has one."""

    def __init__(self, parts: PackedParts, damage: DamageReports, log: LoggedRuns | None = None) -> None:
        self._parts = parts
        self._log = log
        self._damage = damage
        self._tasks: dict[int, tuple[str, bool] | None] = {}

    def newest(
        self, found: list[RunRecord], task: int | None, before: int, most: int, *, notable: bool
    ) -> list[RunRecord]:
        """The newest runs, no more than `most`, of those found elsewhere and of logged and packed ones, in no order."""
        newest = _Newest(found, most)
        if task is not None and not self._knows(task):
            return newest.runs
        if self._log is not None:
            records = self._log.records(newest.floor(), before)
            records.sort(key=_last_claimed, reverse=True)
            self._add(newest, _Found(records, self._log.bodies, LogBlock), task, before, notable=notable)
        if task is None:
            parts = [part for part, _ in self._parts.run_parts(newest.floor(), before)]
            for part in sorted(parts, key=_last_claimed, reverse=True):
                if part.last_claimed < newest.floor():
                    break
                blocks = _Found(self._parts.blocks_of_part(part.number), self._parts.bodies, RunBlock)
                self._add(newest, blocks, None, before, notable=notable)
        else:
            places = self._parts.blocks_of_task(task, newest.floor(), before)
            places.sort(key=_last_claimed, reverse=True)
            self._add(newest, _Found(places, self._parts.bodies, RunBlock), task, before, notable=notable)
        return newest.runs

    def _add(self, newest: "_Newest", found: "_Found", task: int | None, before: int, *, notable: bool) -> None:
        for some in _batched(found.places):
            floor = newest.floor()
            wanted = [
                place
                for place in some
                if place.last_claimed >= floor and place.first_claimed < before and (place.notable or not notable)
            ]
            for place, body in zip(wanted, found.bodies([place.id for place in wanted]), strict=True):
                with self._damage.skipped(place.part, place.id, place.rows):
                    block = found.opened(body)
                    runs = (
                        block.runs_between(floor, before, notable=notable)
                        if task is None
                        else block.runs_of(task, before, notable=notable)
                    )
                    newest.runs += self._records(runs)

    def _records(self, runs: Sequence[PackedRun]) -> Iterator[RunRecord]:
        """The runs, except those of tasks that were forgotten."""
        unknown = {run.task for run in runs} - self._tasks.keys()
        if unknown:
            found = self._parts.tasks_of_runs(list(unknown))
            self._tasks |= {number: found.get(number) for number in unknown}
        for run in runs:
            its = self._tasks[run.task]
            if its is not None:
                yield _record(run, *its)

    def _knows(self, task: int) -> bool:
        self._tasks |= self._parts.tasks_of_runs([task])
        return task in self._tasks

    def starts(self, since: int, until: int) -> Counter[int]:
        """How many runs were claimed in each second, from `since` to before `until`."""
        counted: Counter[int] = Counter()
        for part, body in self._parts.run_parts(since, until):
            counted += self._starts_of(part, body, since, until)
        if self._log is not None:
            records = self._log.records(since, until)
            for place, body in zip(records, self._log.bodies([record.id for record in records]), strict=True):
                with self._damage.skipped(place.part, place.id, place.rows):
                    counted.update(at // SECOND for at in LogBlock(body).claimed() if since <= at < until)
        return counted

    def _starts_of(self, part: Part, body: bytes | None, since: int, until: int) -> Counter[int]:
        try:
            known = unpack_starts(body or b"")
        except DamagedBlock:
            return self._counted(part, since, until)
        if since <= part.first_claimed and part.last_claimed < until:
            return known
        whole = range(-(-since // SECOND), until // SECOND)
        counted = Counter({second: n for second, n in known.items() if second in whole})
        for second in ({since // SECOND, until // SECOND} & known.keys()) - set(whole):
            # Of a second that is not asked for as a whole, only the blocks know enough.
            begin, end = max(since, second * SECOND), min(until, (second + 1) * SECOND)
            counted += self._counted(part, begin, end)
        return counted

    def _counted(self, part: Part, since: int, until: int) -> Counter[int]:
        counted: Counter[int] = Counter()
        for place, body in self._part_bodies(part.number):
            if place.first_claimed < until and since <= place.last_claimed:
                with self._damage.skipped(place.part, place.id, place.rows):
                    counted += Counter(at // SECOND for at in RunBlock(body).claimed() if since <= at < until)
        return counted

    def all_starts(self, part: int) -> Counter[int]:
        """How many runs of a part were claimed in each second, from its blocks."""
        counted: Counter[int] = Counter()
        for place, body in self._part_bodies(part):
            with self._damage.skipped(place.part, place.id, place.rows):
                counted += Counter(at // SECOND for at in RunBlock(body).claimed())
        return counted

    def _part_bodies(self, part: int) -> Iterator[tuple[BlockPlace, bytes]]:
        for some in _batched(self._parts.blocks_of_part(part)):
            yield from zip(some, self._parts.bodies([place.id for place in some]), strict=True)


class _Found(NamedTuple):
    """Blocks or records that may hold runs that are asked for."""

    places: Sequence[BlockPlace]
    bodies: Callable[[Sequence[int]], Iterator[bytes]]
    opened: Callable[[bytes], RunBlock | LogBlock]


class _Newest:
    """Collects runs, and knows how old the oldest of the newest ones is."""

    def __init__(self, runs: list[RunRecord], most: int) -> None:
        self.runs = runs
        self._most = most
        self._floor: int | None = None

    def floor(self) -> int:
        """Runs that were claimed before this are not among the newest ones."""
        if len(self.runs) < self._most:
            return -FOREVER
        if self._floor is None or len(self.runs) > self._most:
            self.runs.sort(key=newest_first)
            del self.runs[self._most :]
            self._floor = self.runs[-1].claimed if self.runs else FOREVER
        return self._floor


def newest_first(run: RunRecord) -> tuple[int, int, int]:
    """The order of runs in answers."""
    return -run.claimed, -(run.ended or FOREVER), -run.number


def _last_claimed(of: Part | BlockPlace) -> int:
    return of.last_claimed


def _batched(places: Sequence[BlockPlace]) -> Iterator[Sequence[BlockPlace]]:
    """First a single block: what is found in it tells which runs of the others are too old."""
    begin, size = 0, 1
    while begin < len(places):
        yield places[begin : begin + size]
        begin, size = begin + size, min(2 * size, _AT_ONCE)


def _record(run: PackedRun, name: str, is_check: bool) -> RunRecord:  # noqa: FBT001 - a column of its task
    return RunRecord(
        name,
        Instant(run.nominal),
        run.generation,
        RunKind(run.kind),
        Instant(run.claimed),
        Instant(run.started),
        Instant(run.ended),
        Outcome(run.outcome),
        run.status,
        State(run.state) if is_check and run.state >= 0 else None,
        run.hard,
        run.attempt,
        run.output,
        run.task,
    )


# Starts


class _Starts(Struct, array_like=True):
    seconds: int
    second: IntColumn
    runs: IntColumn


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Starts).decode


def count_starts(runs: Iterable[PackedRun]) -> Counter[int]:
    """How many runs were claimed in each second."""
    return Counter(run.claimed // SECOND for run in runs)


def pack_starts(counted: Counter[int]) -> bytes:
    """How many runs were claimed in each second, as a part keeps it."""
    second, runs = zip(*sorted(counted.items()), strict=True)
    return sealed(_encode(_Starts(len(second), pack_changes(second), pack_values(runs))))


def unpack_starts(body: bytes) -> Counter[int]:
    """How many runs were claimed in each second; raise DamagedBlock if that cannot be read."""

    def read() -> Counter[int]:
        starts = _decode(unsealed(body))
        seconds, runs = unpack(starts.second, starts.seconds), unpack(starts.runs, starts.seconds)
        return Counter(dict(zip(seconds, runs, strict=True)))

    return read_safely(read)
