"""The history of the store in memory: runs that ended, and the layers that they are packed into. Plain lists."""

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from evenbeat.model import SECOND, Instant, RunKind
from evenbeat.past_runs import PackedRun, RunSummary
from evenbeat.store.contract import FOREVER, Claim, RunRecord
from evenbeat.store.history_contract import (
    RUN_LAYERS,
    Layer,
    LayerSize,
    Part,
    PartGone,
    StoreSize,
    UnpackedRuns,
)
from evenbeat.store.memory_tasks import HistoryRun, TaskRecord

_RUN_SIZE: Final = 32
_SUMMARY_SIZE: Final = 100
"""Bytes, about, if they were stored."""
_BLOCK: Final = 1_000
"""Rows that readers of a part get at once."""


class MemoryPart:
    """A part, complete or not."""

    def __init__(self, layer: Layer, since: int, *, is_merged: bool) -> None:
        self.layer, self.since, self.is_merged = layer, since, is_merged
        self.is_complete = False
        self.runs: list[PackedRun] = []
        self.summaries: list[RunSummary] = []

    def size(self) -> int:
        """In bytes, about."""
        outputs = sum(len(run.output) for run in self.runs)
        return outputs + _RUN_SIZE * len(self.runs) + _SUMMARY_SIZE * len(self.summaries)

    def described(self, number: int) -> Part:
        """As the contract describes it."""
        rows = len(self.runs) + len(self.summaries)
        claimed = [run.claimed for run in self.runs] or [summary.since for summary in self.summaries] or [self.since]
        return Part(
            number, self.layer, self.since, rows, self.size(), min(claimed), max(claimed), is_merged=self.is_merged
        )


class LayeredMemory:
    """The part of the store that knows of runs; the others share its lock."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._rows: dict[int, TaskRecord] = {}
        """Removed tasks are among them: their runs may still end."""
        self._runs: list[HistoryRun] = []
        self._outputs: dict[tuple[int, int], bytes] = {}
        """Whole outputs by task and time of the claim."""
        self._last_run = 0
        """The number of the last of the runs."""
        self._parts: dict[int, MemoryPart] = {}
        self._last_part = 0

    def _add_history(self, runs: Sequence[HistoryRun]) -> None:
        for run in runs:
            self._last_run += 1
            run.number = self._last_run
        self._runs += runs

    def _packed(self) -> Iterator[PackedRun]:
        for part in self._parts.values():
            if part.is_complete and part.layer in RUN_LAYERS:
                yield from part.runs

    # Answers about runs

    def runs(
        self, task: int | None = None, before: Instant | None = None, most: int = 100, *, notable: bool = False
    ) -> list[RunRecord]:
        with self._lock:
            ended = [*(_unpacked(run) for run in self._packed() if run.task in self._rows), *self._runs]
            ended = [run for run in ended if task in (None, run.task) and (run.notable or not notable)]
            running = [] if notable else [row for n, row in self._rows.items() if row.claim and task in (None, n)]
            records = [self._rows[run.task].run_record(run) for run in ended]
            records += [row.running_record() for row in running]
        until = FOREVER if before is None else before
        found = [record for record in reversed(records) if record.claimed < until]
        return sorted(found, key=lambda r: (r.claimed, r.ended or FOREVER), reverse=True)[:most]

    def whole_output(self, task: int, claimed: int) -> bytes | None:
        with self._lock:
            return self._outputs.get((task, claimed))

    def starts(self, since: Instant, until: Instant) -> dict[int, int]:
        claimed = [run.claimed for run in self.runs(before=until, most=FOREVER) if run.claimed >= since]
        return dict(Counter(at // SECOND for at in claimed))

    # Packing

    def unpacked(self, most: int) -> UnpackedRuns:
        with self._lock:
            oldest = self._runs[:most]
            return UnpackedRuns([_packed(run) for run in oldest], oldest[-1].number if oldest else 0, 0)

    def pack(self, unpacked: UnpackedRuns, since: Sequence[tuple[int, Sequence[PackedRun]]]) -> None:
        with self._lock:
            gone = [run for run in self._runs if run.number <= unpacked.plain]
            if len(gone) != len(unpacked.runs):
                raise PartGone(f"{len(unpacked.runs) - len(gone)} of the runs are not there any more")
            for hour, runs in since:
                part = self._parts[self.begin_part(Layer.RECENT, hour)]
                part.runs, part.is_complete = list(runs), True
            del self._runs[: len(gone)]

    # Parts

    def parts(self, layer: Layer) -> list[Part]:
        with self._lock:
            found = [(n, part) for n, part in self._parts.items() if part.layer is layer and part.is_complete]
            return sorted((part.described(n) for n, part in found), key=lambda part: (part.since, part.number))

    def part_runs(self, part: int) -> Iterator[Sequence[PackedRun]]:
        runs = self._part(part).runs
        return (runs[at : at + _BLOCK] for at in range(0, len(runs), _BLOCK))

    def part_summaries(self, part: int) -> Iterator[Sequence[RunSummary]]:
        found = self._part(part).summaries
        return (found[at : at + _BLOCK] for at in range(0, len(found), _BLOCK))

    def _part(self, number: int, *, is_complete: bool = True) -> MemoryPart:
        part = self._parts.get(number)
        if part is None or part.is_complete is not is_complete:
            raise PartGone(f"part {number} is not there any more")
        return part

    def begin_part(self, layer: Layer, since: int, *, is_merged: bool = False) -> int:
        with self._lock:
            self._last_part += 1
            self._parts[self._last_part] = MemoryPart(layer, since, is_merged=is_merged)
            return self._last_part

    def add_runs(self, part: int, runs: Sequence[PackedRun]) -> None:
        with self._lock:
            self._part(part, is_complete=False).runs += runs

    def add_summaries(self, part: int, summaries: Sequence[RunSummary]) -> None:
        with self._lock:
            self._part(part, is_complete=False).summaries += summaries

    def complete(self, parts: Sequence[int], instead_of: Sequence[int], gone: Sequence[tuple[int, int]] = ()) -> None:
        with self._lock:
            completed = {number: self._part(number, is_complete=False) for number in parts}
            for number in instead_of:
                self._part(number)
            for number, part in completed.items():
                part.is_complete = True
                if not part.runs and not part.summaries:
                    del self._parts[number]
            for number in instead_of:
                del self._parts[number]
            for run in gone:
                self._outputs.pop(run, None)

    def whole_outputs_between(self, since: int, until: int) -> list[tuple[int, int]]:
        with self._lock:
            return [run for run in self._outputs if since <= run[1] <= until]

    def discard_unfinished(self) -> None:
        with self._lock:
            self._parts = {number: part for number, part in self._parts.items() if part.is_complete}

    def sweep(self, most: int) -> int:
        """Dropped parts leave nothing behind."""
        assert most > 0
        return 0

    # Answers about the layers

    def summaries(self, task: int, layer: Layer, since: Instant, until: Instant) -> list[RunSummary]:
        with self._lock:
            parts = [part for part in self._parts.values() if part.is_complete and part.layer is layer]
            found = [summary for part in parts for summary in part.summaries if summary.task == task]
        return sorted((s for s in found if since <= s.since < until), key=lambda summary: summary.since)

    def size(self) -> StoreSize:
        with self._lock:
            layers = {}
            for layer in Layer:
                found = self.parts(layer)
                layers[layer] = LayerSize(len(found), sum(p.rows for p in found), sum(p.size for p in found))
            unpacked = sum(len(run.output) + _RUN_SIZE for run in self._runs)
            return StoreSize(unpacked + sum(layer.size for layer in layers.values()), 0, len(self._runs), layers)

    def give_back(self, most: int) -> int:
        """There are no free pages."""
        assert most > 0
        return 0


def _packed(run: HistoryRun) -> PackedRun:
    claim = run.claim
    return PackedRun(
        run.task,
        claim.at,
        run.ended,
        claim.nominal,
        claim.generation,
        claim.kind,
        run.started,
        run.outcome,
        run.status,
        -1 if run.state is None else run.state,
        run.hard,
        run.attempt,
        run.output,
        run.notable,
    )


def _unpacked(run: PackedRun) -> HistoryRun:
    claim = Claim(run.task, run.nominal, run.generation, run.kind, run.claimed, 0, FOREVER, RunKind.GRID)
    return HistoryRun(
        run.task,
        claim,
        run.started,
        run.ended,
        run.outcome,
        run.status,
        None if run.state < 0 else run.state,
        run.hard,
        run.attempt,
        run.output,
        run.notable,
    )
