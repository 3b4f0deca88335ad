"""All that must be read to say why a task runs, or not."""

import re
from typing import Final

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Entry, Instant
from evenbeat.node.scheduler import DEFAULT_KEEP
from evenbeat.report.task_status import ConditionReader
from evenbeat.report.why import TaskFacts
from evenbeat.report.words import nominals_of, zone_of
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import RunRecord, Store
from evenbeat.when.instant import parse_instant
from evenbeat.wire.live_runs import LiveTaskState

_MAX_RECORDS: Final = 5_000
"""Records that are looked through for the time that was asked about."""
_RECENT_RECORDS: Final = 10


def typed_time_span(text: str, entry: Entry) -> tuple[Instant, Instant]:
    """The second, the minute, the hour or the day that somebody means who types a time, in the task's zone."""
    start = parse_instant(text, zone_of(entry.task, nominals_of(entry.task)))
    clock = re.search(r"[T ]\d\d(?P<minutes>:?\d\d)?(?P<seconds>:?\d\d)?", text)
    length = DAY if clock is None else SECOND if clock["seconds"] else MINUTE if clock["minutes"] else HOUR
    return start, Instant(start + length)


def task_facts_of(
    store: Store,
    entry: Entry,
    now: Instant,
    span: tuple[Instant, Instant] | None,
    *,
    is_live: bool,
    moment: LiveTaskState | None,
) -> TaskFacts:
    """All that `why` (and, with a span, `why_then`) must know of a task."""
    number = entry.number
    return TaskFacts(
        condition=ConditionReader(store, now).condition(entry),
        runs=store.runs(number, most=_RECENT_RECORDS) if span is None else _runs_around(store, number, *span),
        skips=store.skips(number, most=_RECENT_RECORDS if span is None else _MAX_RECORDS),
        periods={name: period for name, (_, period) in store.periods().items()},
        now=now,
        keep=TaskAdmin(store, lambda: now).settings().keep or DEFAULT_KEEP,
        is_live=is_live,
        moment=moment,
        is_shared=isinstance(store, ClusterStore),
    )


def _runs_around(store: Store, number: int, start: Instant, end: Instant) -> list[RunRecord]:
    """The runs of a span, and as far beyond it as can be read: what was due within it may have started later."""
    found = store.runs(number, before=end, most=_MAX_RECORDS)
    for beyond in (MINUTE, HOUR, DAY):
        more = store.runs(number, before=Instant(end + beyond), most=_MAX_RECORDS)
        if len(more) == _MAX_RECORDS and more[-1].claimed > start:
            break
        found = more
    return found
