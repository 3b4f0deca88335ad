"""History: runs and skips together, newest first, all of them or only some."""

from typing import Final, NamedTuple

from evenbeat.model import Entry, Instant, Outcome
from evenbeat.store.contract import RunRecord, SkipRecord, Store
from evenbeat.wire.replies import NotFound

HistoryRecord = RunRecord | SkipRecord
_MIN_READ: Final = 100
"""Notable runs that are read at once."""


class RecordQuery(NamedTuple):
    """Which part of history."""

    task: int | None = None
    """None for all."""
    before: Instant | None = None
    most: int = 100
    failed: bool = False
    skips: bool = False
    runs: bool = False
    """With one of these three: only failed runs, only skips, or only runs."""


def history_records(store: Store, question: RecordQuery) -> list[HistoryRecord]:
    """Runs and skips together, newest first."""
    task, before, most, failed, only_skips, only_runs = question
    runs: list[RunRecord] = []
    skips: list[SkipRecord] = []
    if failed:
        runs = _failed_runs(store, question)
    elif not only_skips:
        runs = store.runs(task, before, most)
    if only_skips or not (failed or only_runs):
        skips = store.skips(task, before, most)
    merged: list[HistoryRecord] = [*runs, *skips]
    return sorted(merged, key=record_time, reverse=True)[:most]


def find_task_or_removed(store: Store, name_or_id: str) -> Entry:
    """A task, or a removed task whose history is kept; NotFound if there is neither."""
    entry = store.find(name_or_id) or store.find_removed(name_or_id)
    if entry is None:
        raise NotFound(f"there is no task {name_or_id!r}")
    return entry


def record_time(record: HistoryRecord) -> Instant:
    """The time by which history is sorted."""
    return record.claimed if isinstance(record, RunRecord) else record.at


def _failed_runs(store: Store, question: RecordQuery) -> list[RunRecord]:
    """Runs that did not succeed. Notable runs include changes of state, so more than `most` may have to be read."""
    found: list[RunRecord] = []
    before, at_once = question.before, max(question.most, _MIN_READ)
    while len(found) < question.most:
        some = store.runs(question.task, before=before, most=at_once, notable=True)
        found += [run for run in some if run.outcome not in (None, Outcome.SUCCEEDED)]
        if len(some) < at_once:
            break
        before = some[-1].claimed
    return found[: question.most]
