"""The output of a run that is stored: which run is meant, and its output from a position on."""

from typing import Final

from evenbeat.core.output_excerpt import MARK_ROOM, part_after, size_of, whole_characters
from evenbeat.core.whole_output import decompress
from evenbeat.model import MAX_OUTPUT_KEEP, SECOND, Instant, RunKind
from evenbeat.store.contract import RunRecord, Store
from evenbeat.wire.live_runs import OutputPart
from evenbeat.wire.replies import NotFound
from evenbeat.wire.requests import ReadOutput

_RUNS_AT_ONCE: Final = 10
"""Runs of one task that are claimed at the same time, or shortly after one another."""
_LONGEST: Final = MAX_OUTPUT_KEEP + MARK_ROOM
_PART: Final = 1 << 20
"""Bytes of an output in one answer."""
_SEARCHED: Final = 1_000
"""Runs among which one is looked for that was under way at a time."""


def stored_run(store: Store, question: ReadOutput) -> RunRecord | None:
    """The run that a question is about, ended or under way; None if there is none yet."""
    if question.run is not None:
        found = store.runs(question.number, before=Instant(question.run + 1), most=_RUNS_AT_ONCE)
        return next((run for run in found if run.claimed == question.run), None)
    if question.since is None:
        return next(iter(store.runs(question.number, most=1)), None)
    found = [run for run in store.runs(question.number, most=_RUNS_AT_ONCE) if run.claimed >= question.since]
    return next((run for run in reversed(found) if run.kind is RunKind.FORCED or not question.forced), None)


def stored_part(store: Store, question: ReadOutput, now: Instant) -> OutputPart:
    """The answer to a question while no node runs."""
    run = stored_run(store, question)
    return OutputPart(now, None) if run is None else ended_part(store, run, question.position, now)


def run_at(store: Store, number: int, at: Instant) -> RunRecord:
    """The run that was claimed, started or due then, or within a second from then on, else the one under way then.

    NotFound if there is none.
    """
    found = store.runs(number, before=Instant(at + SECOND), most=_SEARCHED)
    exact = next((run for run in found if at in (run.claimed, run.started, run.nominal)), None)
    close = next((run for run in found if _has_begun_within_second(run, at)), None)
    around = next((run for run in found if run.claimed <= at and (run.ended is None or at <= run.ended)), None)
    run = exact or close or around
    if run is None:
        raise NotFound("no run was claimed, started or under way then; `evenbeat history` lists the runs")
    return run


def _has_begun_within_second(run: RunRecord, at: Instant) -> bool:
    return any(t is not None and at <= t < at + SECOND for t in (run.started, run.claimed, run.nominal))


def ended_part(store: Store, run: RunRecord, position: int, now: Instant, written: bytes | None = None) -> OutputPart:
    """What is left to say of a run that has ended. `written`: its output as the run wrote it, if that is known."""
    data = run.output.encode() if written is None else written
    if whole := store.whole_output(run.number, run.claimed):
        data = decompress(whole, _LONGEST)
    # A shorter one is not what the run has written: it says why that is not known, as its worker has died.
    start, rest = part_after(data, position) if size_of(data) >= position else (position, data)
    part = rest if len(rest) <= _PART else whole_characters(rest[:_PART])
    text = part.decode("utf-8", "replace")
    about = run.claimed, run.nominal, run.kind, run.started, start + len(part), start - position, text
    if len(part) < len(rest):
        return OutputPart(now, *about)
    return OutputPart(now, *about, run.ended, run.outcome, run.status)
