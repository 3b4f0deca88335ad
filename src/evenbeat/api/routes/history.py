"""History and present: runs and skips, changes, why, running runs, and the status of the node."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from evenbeat.api.auth.scopes import TaskIdentity, changes_within, tasks_within
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.health import status_of
from evenbeat.api.routes.task_answers import errors_at, parse_request_time, task_in_path, task_in_path_or_removed
from evenbeat.core.scope import Scope
from evenbeat.model import SECOND, Instant
from evenbeat.report.documents import change_document, iso_time, run_document, skip_document
from evenbeat.report.history import HistoryRecord, RecordQuery, history_records, record_time
from evenbeat.report.summaries import read_summaries
from evenbeat.report.why import explain
from evenbeat.report.why_facts import Answer, typed_time_span
from evenbeat.store.contract import Change, RunRecord, SkipRecord, Store, StoreError
from evenbeat.wire.documents import Changes, History, RunningNow, TimeText
from evenbeat.wire.live_runs import LiveTaskState, RunningRun
from evenbeat.wire.requests import GetLiveTaskState, GetRunningRuns
from evenbeat.wire.status import Status
from evenbeat.wire.summaries import Summaries, SummaryLength

_TAG: Final = "History"
_NOW_TAG: Final = "Now"
_PAGE_SIZE: Final = 1_000
_MAX_PAGES: Final = 20
"""For a limited token, history is searched for the records of its tasks: records per page, and pages at most."""
_MAX_RUNNING: Final = 10_000
PageLimit = Annotated[int, Meta(ge=1, le=1_000)]


FailedOnly = Annotated[bool, Meta(description="Only runs that did not succeed.")]
SkipsOnly = Annotated[bool, Meta(description="Only what was skipped; with `failed`, both.")]
RunsOnly = Annotated[bool, Meta(description="Only runs, however they ended.")]
BeforeTime = Annotated[TimeText, Meta(description="Only what was before this time.")]


class TaskHistoryQuery(Struct):
    """Selects a part of a task's past."""

    limit: PageLimit = 50
    before: BeforeTime | None = None
    failed: FailedOnly = False
    skips: SkipsOnly = False
    runs: RunsOnly = False


class SummariesQuery(Struct):
    """Selects summaries of a task's past."""

    by: Annotated[SummaryLength, Meta(description="The length of time that a summary is about.")] = "hour"
    since: Annotated[TimeText, Meta(description="Only hours or days that begin at this time or later.")] | None = None
    until: Annotated[TimeText, Meta(description="Only hours or days that begin before this time.")] | None = None


class HistoryQuery(Struct):
    """Selects a part of the past."""

    limit: PageLimit = 100
    before: BeforeTime | None = None
    failed: FailedOnly = False
    skips: SkipsOnly = False
    runs: RunsOnly = False


class LimitQuery(Struct):
    """The number of entries."""

    limit: PageLimit = 100


class WhyQuery(Struct):
    """The time in question."""

    at: Annotated[TimeText, Meta(description="A time, in the task's zone; else now.")] | None = None


class Live(Status):
    """The status of a node, as in `evenbeat status --json`."""

    live: bool = True


async def read_task_history(call: Call) -> dict[str, Any]:
    return await _history_page(call, (await task_in_path_or_removed(call)).number)


async def read_task_summaries(call: Call) -> Summaries:
    q: SummariesQuery = call.query
    entry = await task_in_path_or_removed(call)
    since, until = parse_request_time(q.since, "/query/since"), parse_request_time(q.until, "/query/until")
    now = call.context.now()
    return await call.context.read_store(lambda store: read_summaries(store, entry, q.by, since, until, now))


async def read_history(call: Call) -> dict[str, Any]:
    return await _history_page(call, None)


async def _history_page(call: Call, task: int | None) -> dict[str, Any]:
    q: HistoryQuery = call.query
    question = RecordQuery(task, parse_request_time(q.before, "/query/before"), q.limit, q.failed, q.skips, q.runs)

    def read(store: Store) -> dict[str, Any]:
        if task is None and call.scope is not None:
            return _history_page_within(store, question, call.scope)
        found = history_records(store, question)
        return {
            "runs": [run_document(record) for record in found if isinstance(record, RunRecord)],
            "skips": [skip_document(record) for record in found if isinstance(record, SkipRecord)],
            "next": iso_time(record_time(found[-1])) if len(found) == q.limit else None,
        }

    return await call.context.read_store(read)


def _history_page_within(store: Store, question: RecordQuery, scope: Scope) -> dict[str, Any]:
    """Records of tasks within a scope; a page may be shorter than requested and still be followed by another."""
    kept: list[HistoryRecord] = []
    before = question.before
    for _ in range(_MAX_PAGES):
        some = history_records(store, question._replace(before=before, most=_PAGE_SIZE))
        within = tasks_within(store, (TaskIdentity(record.task, record.number) for record in some), scope)
        kept += (record for record in some if TaskIdentity(record.task, record.number) in within)
        before = record_time(some[-1]) if len(some) == _PAGE_SIZE else None
        if before is None or len(kept) >= question.most:
            break
    if len(kept) > question.most:
        kept = kept[: question.most]
        before = record_time(kept[-1])
    return {
        "runs": [run_document(record) for record in kept if isinstance(record, RunRecord)],
        "skips": [skip_document(record) for record in kept if isinstance(record, SkipRecord)],
        "next": iso_time(before),
    }


async def read_task_changes(call: Call) -> dict[str, Any]:
    entry = await task_in_path_or_removed(call)
    limit: int = call.query.limit

    def read(store: Store) -> list[Change]:
        if call.scope is not None:
            return changes_within(store, entry, limit)
        return store.changes(entry.task.name, limit)

    return {"changes": [change_document(change) for change in await call.context.read_store(read)]}


async def explain_why(call: Call) -> Answer:
    entry, now, at = await task_in_path(call), call.context.now(), call.query.at
    if at is not None:
        with errors_at("/query/at"):
            typed_time_span(at, entry)
    live: LiveTaskState | None = None
    try:
        live = (await call.context.node.ask(GetLiveTaskState(entry.number))).moment
        is_live = True
    except StoreError:
        is_live = await call.context.run_in_thread(call.context.has_node)
    is_limited = call.scope is not None
    return await call.context.read_store(
        lambda store: explain(store, entry.id, at, now, lambda _: (is_live, live), is_limited=is_limited)
    )


async def list_running(call: Call) -> dict[str, Any]:
    if call.scope is not None:
        return await _list_running_within(call, call.scope)
    found, now = (await call.context.node.ask(GetRunningRuns(call.query.limit))).running, call.context.now()
    assert found is not None
    return {"running": [_running_document(run, now) for run in found.runs], "total": found.total}


async def _list_running_within(call: Call, scope: Scope) -> dict[str, Any]:
    found, now = (await call.context.node.ask(GetRunningRuns(_MAX_RUNNING))).running, call.context.now()
    assert found is not None
    tasks = [TaskIdentity(run.task, run.number) for run in found.runs]
    within = await call.context.read_store(lambda store: tasks_within(store, tasks, scope))
    runs = [_running_document(run, now) for run in found.runs if TaskIdentity(run.task, run.number) in within]
    return {"running": runs[: call.query.limit], "total": len(runs)}


def _running_document(run: RunningRun, now: Instant) -> dict[str, Any]:
    return {
        "task": run.task,
        "nominal": iso_time(run.nominal),
        "kind": run.kind.word,
        "started": iso_time(run.started),
        "elapsed": 0.0 if run.started is None else max(now - run.started, 0) / SECOND,
        "timebox": None if run.timebox is None else run.timebox / SECOND,
        "stopping": run.stopping,
    }


async def read_status(call: Call) -> dict[str, Any]:
    return {"live": True, **msgspec.to_builtins(await status_of(call.context))}


_TASK_PATH: Final = "/v1/tasks/{name}"
ROUTES: Final = (
    Route(
        *(
            "GET",
            f"{_TASK_PATH}/history",
            Role.READ,
            read_task_history,
            "Runs and skips of a task, newest first.",
            History,
            _TAG,
        ),
        query=TaskHistoryQuery,
    ),
    Route(
        *(
            "GET",
            f"{_TASK_PATH}/summaries",
            Role.READ,
            read_task_summaries,
            "Summaries of a task's runs by hour or day, oldest first.",
            Summaries,
            _TAG,
        ),
        query=SummariesQuery,
    ),
    Route(
        *(
            "GET",
            f"{_TASK_PATH}/why",
            Role.READ,
            explain_why,
            "Why does a task run, or not, and when next?",
            Answer,
            _TAG,
        ),
        query=WhyQuery,
    ),
    Route(
        *(
            "GET",
            f"{_TASK_PATH}/changes",
            Role.READ,
            read_task_changes,
            "Who changed a task, newest first.",
            Changes,
            _TAG,
        ),
        query=LimitQuery,
    ),
    Route("GET", "/v1/history", Role.READ, read_history, "Runs and skips of all tasks.", History, _TAG, HistoryQuery),
    Route("GET", "/v1/running", Role.READ, list_running, "The runs of this moment.", RunningNow, _NOW_TAG, LimitQuery),
    Route("GET", "/v1/status", Role.READ, read_status, "How the node is, or all of a cluster.", Live, _NOW_TAG),
)
