"""The records of the store in memory: a task with its progress, its history, and how a batch changes them."""

from collections.abc import Mapping
from typing import cast

from msgspec import Struct, structs

from evenbeat.model import Entry, Instant, Outcome, RunKind, State
from evenbeat.store.chain_records import ChainEnd
from evenbeat.store.contract import (
    FOREVER,
    NEVER,
    PLAIN_OUTPUT_LENGTH,
    Batch,
    Claim,
    Condition,
    ContradictoryBatch,
    Finish,
    PastDefinition,
    RunRecord,
    Skip,
    SubmittedResult,
    TaskProgress,
)


class HistoryRun(Struct):
    """A run in the history, which has ended."""

    task: int
    claim: Claim
    started: int
    ended: int
    outcome: str
    status: int | None
    state: int | None
    hard: bool
    attempt: int
    output: str
    notable: bool
    number: int = 0
    """In the order in which runs ended: 1, 2, 3 ..."""


class HistorySkip(Struct):
    """A range of skipped nominal times, or a refused off-grid run, in the history."""

    task: int
    first: int
    last: int
    times: int
    reason: str
    at: int
    next_nominal: int | None
    """The nominal time that follows `last`; None for an off-grid run, which no range extends."""
    kind: int


def with_past(known: tuple[PastDefinition, ...], past: PastDefinition) -> tuple[PastDefinition, ...]:
    """Add a past definition. Of two changes at one instant, the definition before the first was valid until then."""
    if known and known[-1].until == past.until:
        return (*known[:-1], known[-1]._replace(periods=known[-1].periods or past.periods))
    return (*known, past)


class TaskRecord(Struct):
    """A task, its progress, its open claim and its latest result."""

    entry: Entry
    removed: int | None = None
    accounted: int | None = None
    extra: int = FOREVER
    extra_kind: int = 0
    pause_from: int = NEVER
    pause_until: int = NEVER
    past: tuple[PastDefinition, ...] = ()
    last_start: int = NEVER
    state: int = 0
    hard: bool = True
    attempt: int = 1
    changes: int = 0
    flapping: bool = False
    result_at: int = NEVER
    claim: Claim | None = None
    claim_started: int | None = None
    claim_stop: str = ""
    started: int | None = None
    ended: int | None = None
    outcome: Outcome | None = None
    output: str = ""
    cursor: bytes | None = None
    success: ChainEnd | None = None
    failure: ChainEnd | None = None
    used: bytes = b""
    """Of its parents, if it follows others."""

    def check_state(self) -> State | None:
        """The state of a check that has a result, else None."""
        return State(self.state) if self.entry.task.check and self.result_at > NEVER else None

    def is_forgotten(self, cutoff: int) -> bool:
        """Whether the task was removed and has no history left."""
        return self.removed is not None and self.removed < cutoff and (self.ended or NEVER) < cutoff

    def progress(self) -> TaskProgress:
        claim = self.claim
        assert self.accounted is not None
        has_started = claim is not None and claim.kind == RunKind.GRID and self.claim_started is not None
        return TaskProgress(
            self.entry.number,
            self.accounted,
            self.extra,
            self.extra_kind,
            cast("int", self.claim_started) if has_started else self.last_start,
            self.state,
            self.hard,
            self.attempt,
            self.changes,
            self.flapping,
            self.result_at,
            claim.nominal if claim else None,
            claim.kind if claim else 0,
            claim.at if claim else 0,
            claim.generation if claim else 0,
            pause_from=self.pause_from,
            pause_until=self.pause_until,
            claimed_stop=self.claim_stop,
        )

    def condition(self) -> Condition:
        since = self.claim and (self.claim.at if self.claim_started is None else self.claim_started)
        return Condition(
            self.entry,
            _instant(None if self.accounted is None else max([self.accounted, *(p.until for p in self.past)])),
            _instant(self.extra),
            RunKind(self.extra_kind),
            self.pause_from,
            self.pause_until,
            _instant(since),
            _instant(self.started),
            _instant(self.ended),
            self.outcome,
            self.check_state(),
            self.hard,
            self.attempt,
            self.flapping,
            self.output,
        )

    def run_record(self, run: HistoryRun) -> RunRecord:
        claim = run.claim
        return RunRecord(
            self.entry.task.name,
            Instant(claim.nominal),
            claim.generation,
            RunKind(claim.kind),
            Instant(claim.at),
            Instant(run.started),
            Instant(run.ended),
            Outcome(run.outcome),
            run.status,
            State(run.state) if run.state is not None and self.entry.task.check else None,
            run.hard,
            run.attempt,
            run.output,
            self.entry.number,
        )

    def running_record(self) -> RunRecord:
        claim = self.claim
        assert claim is not None
        return RunRecord(
            self.entry.task.name,
            Instant(claim.nominal),
            claim.generation,
            RunKind(claim.kind),
            Instant(claim.at),
            _instant(self.claim_started),
            None,
            None,
            None,
            None,
            hard=False,
            attempt=0,
            output="",
            number=self.entry.number,
        )


def _instant(value: int | None) -> Instant | None:
    return None if value is None or value == FOREVER else Instant(value)


class BatchDraft:
    """The changes that batches make to tasks. They take effect only if all of the batches can be applied."""

    def __init__(
        self,
        rows: Mapping[int, TaskRecord],
        skips: Mapping[int, HistorySkip],
        newest_skip: Mapping[int, int],
        last_skip: int,
    ) -> None:
        self._all_rows = rows
        self._all_skips = skips
        self._all_newest = newest_skip
        self.rows: dict[int, TaskRecord] = {}
        self.runs: list[HistoryRun] = []
        self.skips: dict[int, HistorySkip] = {}
        self.newest_skip: dict[int, int] = {}
        self.last_skip = last_skip
        self.withdrawn: set[int] = set()
        """Tasks that were removed before their claims were recorded."""

    def apply(self, batch: Batch) -> None:
        """Apply a batch in the order of the contract; raise ContradictoryBatch if it contradicts the store."""
        for start in batch.starts:
            known = self._all_rows.get(start.task)
            if known is not None and known.claim is not None:
                self._row(start.task).claim_started = start.started
        for finish in batch.finishes:
            self._finish(self._row(finish.task), finish)
        for task, cursor in batch.cursors:
            if task in self._all_rows:
                self._row(task).cursor = cursor
        for submitted in batch.told:
            self._submit(self._row(submitted.task), submitted)
        for record in batch.standings:
            row = self._row(record.task)
            _, row.accounted, row.extra, row.extra_kind, row.last_start, row.result_at, *pause = record
            row.pause_from, row.pause_until = pause
        for skip in batch.skips:
            self._skip(self._row(skip.task), skip)
        for refusal in batch.refusals:
            row = self._row(refusal.task)
            task, due, kind, reason, at, *progress = refusal
            self._add(HistorySkip(task, due, due, 1, reason, at, None, kind))
            row.accounted, row.extra, row.extra_kind = progress
        for claim in batch.claims:
            row = self._row(claim.task)
            if row.removed is not None:
                self.withdrawn.add(claim.task)
                continue
            if row.claim is not None:
                raise ContradictoryBatch(f"task {claim.task} has an open claim: it must end before the next")
            row.claim, row.claim_started, row.claim_stop = claim, None, ""
            row.accounted, row.extra, row.extra_kind = claim.accounted, claim.extra, claim.extra_kind
        self._settle_and_stop(batch)

    def _settle_and_stop(self, batch: Batch) -> None:
        for settled in batch.settled:
            if settled.task in self._all_rows:
                row = self._row(settled.task)
                row.past = tuple(past for past in row.past if past.until > settled.until)
        for stop in batch.stops:
            if stop.task in self._all_rows and self._row(stop.task).claim is not None:
                self._row(stop.task).claim_stop = stop.by

    def apply_chains(self, batch: Batch) -> None:
        """Keep what a batch says of tasks that follow others, and of these."""
        for end in batch.chain_ends:
            if end.task in self._all_rows:
                row = self._row(end.task)
                row.success, row.failure = (end, row.failure) if end.succeeded else (row.success, end)
        for use in batch.chain_uses:
            if use.task in self._all_rows:
                self._row(use.task).used = use.used

    def _row(self, task: int) -> TaskRecord:
        if task not in self.rows:
            if task not in self._all_rows:
                raise ContradictoryBatch(f"there is no task {task}")
            self.rows[task] = structs.replace(self._all_rows[task])
        return self.rows[task]

    def _finish(self, row: TaskRecord, finish: Finish) -> None:
        if row.claim is None:
            raise ContradictoryBatch(f"a run of task {finish.task} ended that has no open claim")
        self.runs.append(
            HistoryRun(
                finish.task,
                row.claim,
                finish.started,
                finish.ended,
                finish.outcome,
                finish.status,
                finish.state if finish.result_at == finish.started else None,
                finish.hard,
                finish.attempt,
                finish.output if finish.notable else finish.output[:PLAIN_OUTPUT_LENGTH],
                finish.notable,
            )
        )
        row.claim, row.claim_started, row.claim_stop = None, None, ""
        if finish.is_latest:
            row.started, row.ended, row.outcome = finish.started, finish.ended, Outcome(finish.outcome)
            row.output = finish.output
        row.last_start, row.result_at = finish.last_start, finish.result_at
        row.state, row.hard, row.attempt = finish.state, finish.hard, finish.attempt
        row.changes, row.flapping = finish.changes, finish.flapping
        row.extra, row.extra_kind = finish.extra, finish.extra_kind
        if finish.cursor is not None:
            row.cursor = finish.cursor

    def _submit(self, row: TaskRecord, t: SubmittedResult) -> None:
        claim = Claim(t.task, t.nominal, t.generation, t.kind, t.at, t.accounted, t.extra, t.extra_kind)
        output = t.output if t.notable else t.output[:PLAIN_OUTPUT_LENGTH]
        self.runs.append(
            HistoryRun(
                t.task, claim, t.started, t.ended, t.outcome, t.status, t.made, t.hard, t.attempt, output, t.notable
            )
        )
        if t.made is not None:
            row.started, row.ended, row.outcome, row.output = t.started, t.ended, Outcome(t.outcome), t.output
        row.state, row.hard, row.attempt, row.changes = t.state, t.hard, t.attempt, t.changes
        row.flapping, row.result_at = t.flapping, t.result_at
        row.accounted, row.extra, row.extra_kind = t.accounted, t.extra, t.extra_kind

    def _skip(self, row: TaskRecord, skip: Skip) -> None:
        row.accounted, row.extra, row.extra_kind = skip.accounted, skip.extra, skip.extra_kind
        key = self.newest_skip.get(skip.task, self._all_newest.get(skip.task, 0))
        newest = self.skips.get(key) or self._all_skips.get(key)
        if newest is not None and (newest.next_nominal, newest.reason) == (skip.first, skip.reason):
            times = newest.times + skip.times
            self.skips[key] = structs.replace(
                newest, last=skip.last, times=times, at=skip.at, next_nominal=skip.next_nominal
            )
        else:
            task, first, last, times, reason, at, next_nominal, *_ = skip
            self._add(HistorySkip(task, first, last, times, reason, at, next_nominal, RunKind.GRID))

    def _add(self, skipped: HistorySkip) -> None:
        self.last_skip += 1
        self.skips[self.last_skip] = skipped
        self.newest_skip[skipped.task] = self.last_skip
