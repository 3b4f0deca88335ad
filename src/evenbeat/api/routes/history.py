"""What has been and what is: runs and skips, who changed what, why, what runs now, how the node is."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from evenbeat.api.auth.scopes import Known, changes_within, known_within
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.documents import Changes, History, RunningNow, TimeText
from evenbeat.api.routes.health import status_of
from evenbeat.api.routes.task_answers import entry_also_removed, entry_of, moment, pointed
from evenbeat.core.scope import Scope
from evenbeat.model import SECOND, Instant
from evenbeat.report.documents import change_document, instant, run_document, skip_document
from evenbeat.report.history import Question, Record, records, when
from evenbeat.report.status import Status
from evenbeat.report.task_now import Moment, RunningRun
from evenbeat.report.why import Answer, why
from evenbeat.report.why_facts import facts_of, span_of
from evenbeat.report.why_past import why_then
from evenbeat.store.contract import Change, RunRecord, SkipRecord, Store, StoreError
from evenbeat.wire.requests import AskMoment, AskRunning

_TAG: Final = "History"
_NOW: Final = "Now"
_PAGE: Final = 1_000
_MOST_PAGES: Final = 20
"""Records that are looked through for those of a scope: so many pages of so many."""
_MOST_RUNNING: Final = 10_000
Limit = Annotated[int, Meta(ge=1, le=1_000)]


Failed = Annotated[bool, Meta(description="Only runs that did not succeed.")]
Skips = Annotated[bool, Meta(description="Only what was skipped; with `failed`, both.")]
Runs = Annotated[bool, Meta(description="Only runs, however they ended.")]
Before = Annotated[TimeText, Meta(description="Only what was before this time.")]


class TaskHistoryQuery(Struct):
    """Which part of a task's past."""

    limit: Limit = 50
    before: Before | None = None
    failed: Failed = False
    skips: Skips = False
    runs: Runs = False


class HistoryQuery(Struct):
    """Which part of the past."""

    limit: Limit = 100
    before: Before | None = None
    failed: Failed = False
    skips: Skips = False
    runs: Runs = False


class LimitQuery(Struct):
    """How many."""

    limit: Limit = 100


class WhyQuery(Struct):
    """Which time is asked about."""

    at: Annotated[TimeText, Meta(description="A time, in the task's zone; else now.")] | None = None


class Live(Status):
    """A node at a glance, as `evenbeat status --json` has it."""

    live: bool = True


async def task_history(call: Call) -> dict[str, Any]:
    return await _history(call, (await entry_also_removed(call)).number)


async def history(call: Call) -> dict[str, Any]:
    return await _history(call, None)


async def _history(call: Call, task: int | None) -> dict[str, Any]:
    q: HistoryQuery = call.query
    question = Question(task, moment(q.before, "/query/before"), q.limit, q.failed, q.skips, q.runs)

    def read(store: Store) -> dict[str, Any]:
        if task is None and call.scope is not None:
            return _history_within(store, question, call.scope)
        found = records(store, question)
        return {
            "runs": [run_document(record) for record in found if isinstance(record, RunRecord)],
            "skips": [skip_document(record) for record in found if isinstance(record, SkipRecord)],
            "next": instant(when(found[-1])) if len(found) == q.limit else None,
        }

    return await call.house.read(read)


def _history_within(store: Store, question: Question, scope: Scope) -> dict[str, Any]:
    """The same, of tasks within a scope; a page may have less than was asked for, and still be followed by another."""
    kept: list[Record] = []
    before = question.before
    for _ in range(_MOST_PAGES):
        some = records(store, question._replace(before=before, most=_PAGE))
        within = known_within(store, (Known(record.task, record.number) for record in some), scope)
        kept += (record for record in some if Known(record.task, record.number) in within)
        before = when(some[-1]) if len(some) == _PAGE else None
        if before is None or len(kept) >= question.most:
            break
    if len(kept) > question.most:
        kept = kept[: question.most]
        before = when(kept[-1])
    return {
        "runs": [run_document(record) for record in kept if isinstance(record, RunRecord)],
        "skips": [skip_document(record) for record in kept if isinstance(record, SkipRecord)],
        "next": instant(before),
    }


async def changes(call: Call) -> dict[str, Any]:
    entry = await entry_also_removed(call)
    limit: int = call.query.limit

    def read(store: Store) -> list[Change]:
        if call.scope is not None:
            return changes_within(store, entry, limit)
        return store.changes(entry.task.name, limit)

    return {"changes": [change_document(change) for change in await call.house.read(read)]}


async def answer_why(call: Call) -> Answer:
    entry, now, text = await entry_of(call), call.house.now(), call.query.at
    span = None
    if text is not None:
        with pointed("/query/at"):
            span = span_of(text, entry)
    seen: Moment | None = None
    try:
        seen = (await call.house.ask(AskMoment(entry.number))).moment
        is_live = True
    except StoreError:
        is_live = await call.house.work(call.house.has_node)

    def read(store: Store) -> Answer:
        facts = facts_of(store, entry, now, span, is_live=is_live, moment=seen)
        return why(facts) if span is None else why_then(facts, *span)

    return await call.house.read(read)


async def running(call: Call) -> dict[str, Any]:
    if call.scope is not None:
        return await _running_within(call, call.scope)
    found, now = (await call.house.ask(AskRunning(call.query.limit))).running, call.house.now()
    assert found is not None
    return {"running": [_running(run, now) for run in found.runs], "total": found.total}


async def _running_within(call: Call, scope: Scope) -> dict[str, Any]:
    found, now = (await call.house.ask(AskRunning(_MOST_RUNNING))).running, call.house.now()
    assert found is not None
    tasks = [Known(run.task, run.number) for run in found.runs]
    within = await call.house.read(lambda store: known_within(store, tasks, scope))
    runs = [_running(run, now) for run in found.runs if Known(run.task, run.number) in within]
    return {"running": runs[: call.query.limit], "total": len(runs)}


def _running(run: RunningRun, now: Instant) -> dict[str, Any]:
    return {
        "task": run.task,
        "nominal": instant(run.nominal),
        "kind": run.kind.word,
        "started": instant(run.started),
        "elapsed": 0.0 if run.started is None else max(now - run.started, 0) / SECOND,
        "timebox": run.timebox / SECOND,
    }


async def status(call: Call) -> dict[str, Any]:
    return {"live": True, **msgspec.to_builtins(await status_of(call.house))}


_ONE: Final = "/v1/tasks/{name}"
ROUTES: Final = (
    Route(
        *("GET", f"{_ONE}/history", Role.READ, task_history, "Runs and skips of a task, newest first.", History, _TAG),
        query=TaskHistoryQuery,
    ),
    Route(
        *("GET", f"{_ONE}/why", Role.READ, answer_why, "Why does a task run, or not, and when next?", Answer, _TAG),
        query=WhyQuery,
    ),
    Route(
        *("GET", f"{_ONE}/changes", Role.READ, changes, "Who changed a task, newest first.", Changes, _TAG),
        query=LimitQuery,
    ),
    Route("GET", "/v1/history", Role.READ, history, "Runs and skips of all tasks.", History, _TAG, HistoryQuery),
    Route("GET", "/v1/running", Role.READ, running, "The runs of this moment.", RunningNow, _NOW, LimitQuery),
    Route("GET", "/v1/status", Role.READ, status, "How the node is, or all of a cluster.", Live, _NOW),
)
