"""Tasks over HTTP: create, read, change, delete, list, run, pause, resume."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from starlette.responses import JSONResponse, Response

from evenbeat.admin.stored_references import check_not_depended_on, shared_names, task_errors
from evenbeat.api.auth.scopes import narrow_filter, require_within
from evenbeat.api.auth.while_authorized import while_authorized
from evenbeat.api.http.errors import FieldError, HttpError, invalid_request, json_pointer
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes import definitions
from evenbeat.api.routes.task_answers import (
    check_if_match,
    errors_at,
    file_owner_notice,
    parse_key_values,
    parse_request_time,
    task_in_path,
    task_response,
)
from evenbeat.load.one_off import require_future_at, resolve_relative_at
from evenbeat.load.safe_text import text_error
from evenbeat.model import TEXT_LIMIT, Entry, Instant, Invalid, Name, Task
from evenbeat.report.documents import iso_time, task_document
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import Conflict, Filter, Store, StoreError
from evenbeat.wire.documents import FilterState, Forced, NewTask, TaskDocument, TaskPage, TaskPatch, TimeText, WholeTask
from evenbeat.wire.replies import EndedRun
from evenbeat.wire.requests import AddTasks, ForceTasks, PauseTasks, RemoveTasks, SetTask

_TAG: Final = "Tasks"
_Label = Annotated[str, Meta(pattern="^.{1,256}=", max_length=520)]


class ListQuery(Struct):
    """Selects tasks, and a page of them."""

    name: Annotated[tuple[Name, ...], Meta(max_length=100, description="Names, ids, or patterns with * and ?.")] = ()
    contains: Annotated[str, Meta(max_length=256, description="A part of the name, in whatever case.")] = ""
    owner: Annotated[str, Meta(max_length=4_096, description="Whoever created them.")] | None = None
    label: Annotated[tuple[_Label, ...], Meta(max_length=100, description="key=value; all must fit.")] = ()
    state: FilterState | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Tasks on a page.")] = 100
    after: Annotated[str, Meta(max_length=256, description="The last name of the page before.")] = ""


class CreateQuery(Struct):
    """The owner of a new task."""

    owner: Annotated[str, Meta(max_length=4_096, description="The owner; by default the caller.")] = ""


class RunQuery(Struct):
    """Whether to wait for the end."""

    wait: Annotated[bool, Meta(description="Answer when the run has ended.")] = False


async def list_tasks(call: Call) -> dict[str, Any]:
    q: ListQuery = call.query
    asked = Filter(
        names=q.name,
        contains=q.contains or None,
        owner=q.owner,
        labels=parse_key_values(q.label, "/query/label"),
        state=q.state,
        after=q.after,
        most=q.limit + 1,
    )
    only = narrow_filter(asked, call.scope)

    def read(store: Store) -> dict[str, Any]:
        found = list(ConditionReader(store, call.context.now()).conditions(only))
        page = found[: q.limit]
        return {
            "live": call.context.has_node(),
            "tasks": [task_document(condition, secrets=call.role >= Role.ADMIN) for condition in page],
            "next": page[-1].entry.task.name if len(found) > len(page) else None,
            "total": call.context.task_counts.of(store, only, call.context.now()),
        }

    return await call.context.read_store(read)


async def create_task(call: Call) -> Response:
    task = await call.context.run_in_thread(definitions.parse_task, _resolved(call))
    if problem := text_error(call.query.owner):
        raise invalid_request(FieldError("/query/owner", problem))
    await _check_against_store(call, task)
    owner = call.query.owner or (call.scope and call.scope.owner) or call.who
    require_within(call.scope, owner, task)
    changed = (await call.context.node.ask(AddTasks((task,), owner, call.who, call.scope))).changed
    assert changed is not None
    return await task_response(call, changed.created[0].id, 201)


async def read_task(call: Call) -> Response:
    return await task_response(call, call.path_variables["name"])


async def replace_task(call: Call) -> Response:
    entry = await task_in_path(call)
    version = check_if_match(call, entry)
    task = await call.context.run_in_thread(definitions.parse_task, _resolved(call), entry.task.name)
    return await _save_task(call, entry, task, version)


async def patch_task(call: Call) -> Response:
    entry = await task_in_path(call)
    check_if_match(call, entry)
    # Made from what it was: if it is another by now, the patch is not what was meant.
    task = await call.context.run_in_thread(definitions.patch_task, entry.task, _resolved(call))
    return await _save_task(call, entry, task, entry.version)


def _resolved(call: Call) -> dict[str, Any]:
    with errors_at("/at"):
        return resolve_relative_at(call.body, call.context.now())


async def _check_against_store(call: Call, task: Task, before: Task | None = None) -> None:
    """Refuse, with pointers, what the node would refuse."""
    with errors_at("/at"):
        require_future_at(task, call.context.now(), before)

    def read(store: Store) -> list[FieldError]:
        found = task_errors(task, before, shared_names(store), store, call.scope)
        return [FieldError(json_pointer(path), message) for path, message in found]

    if errors := await call.context.read_store(read):
        raise invalid_request(*errors)


async def _save_task(call: Call, entry: Entry, task: Task, version: int | None) -> Response:
    require_within(call.scope, entry.owner, task)
    await _check_against_store(call, task, entry.task)
    if call.scope is not None:
        await call.context.read_store(lambda store: check_not_depended_on(store, [entry], [task], call.scope))
    try:
        await call.context.node.ask(SetTask(entry.id, task, call.who, version))
    except Conflict:
        check_if_match(call, await task_in_path(call))
        raise
    return await task_response(call, entry.id)


async def delete_task(call: Call) -> Response:
    entry = await task_in_path(call)
    check_if_match(call, entry)
    if call.scope is not None:
        await call.context.read_store(lambda store: check_not_depended_on(store, [entry], scope=call.scope))
    await call.context.node.ask(RemoveTasks(Filter(names=(entry.id,)), call.who))
    return Response(None, 204, file_owner_notice(entry))


async def run_task(call: Call) -> Response | Mapping[str, Any]:
    if call.query.wait:
        return await _run_and_wait(call)
    try:
        reply = await call.context.node.ask(ForceTasks((call.path_variables["name"],), call.who))
    except (Invalid, StoreError):
        await task_in_path(call)  # 404 if that is why
        raise
    assert reply.touched is not None
    (name,) = reply.touched.names
    waiting = (reply.waiting or {}).get(name)
    return {"task": name} if waiting is None else {"task": name, "waiting": waiting}


async def _run_and_wait(call: Call) -> Response:
    entry = await task_in_path(call)
    reply = await while_authorized(call, call.context.node.ask(ForceTasks((entry.id,), call.who, wait=True)))
    if not reply.ended:
        raise HttpError(409, "the task was removed before it ran")
    return JSONResponse(ended_document(reply.ended[0]))


class PauseQuery(Struct):
    """Until when, and why."""

    until: Annotated[TimeText | None, Meta(description="It is resumed then; without it, when somebody does.")] = None
    reason: Annotated[str, Meta(max_length=TEXT_LIMIT, description="Why it is paused.")] = ""


async def pause_task(call: Call) -> Response:
    q: PauseQuery = call.query
    until = parse_request_time(q.until, "/query/until")
    entry = await task_in_path(call)
    only = Filter(names=(entry.id,))
    await call.context.node.ask(PauseTasks(only, True, call.who, until=until, reason=q.reason))  # noqa: FBT003
    return await task_response(call, entry.id)


async def resume_task(call: Call) -> Response:
    entry = await task_in_path(call)
    await call.context.node.ask(PauseTasks(Filter(names=(entry.id,)), False, call.who))  # noqa: FBT003
    return await task_response(call, entry.id)


def ended_document(run: EndedRun) -> dict[str, Any]:
    """A forced run that was waited for."""
    return {
        "task": run.task,
        "started": iso_time(Instant(run.started)),
        "ended": iso_time(Instant(run.ended)),
        "outcome": run.outcome,
        "status": run.status,
        "output": run.output,
    }


_TASK_PATH: Final = "/v1/tasks/{name}"
ROUTES: Final = (
    Route(
        "GET", "/v1/tasks", Role.READ, list_tasks, "List tasks by name, a page at a time.", TaskPage, _TAG, ListQuery
    ),
    Route(
        *("POST", "/v1/tasks", Role.ADMIN, create_task, "Create a task.", TaskDocument, _TAG),
        query=CreateQuery,
        body=dict[str, Any],
        documented_body_type=NewTask,
        status=201,
        error_statuses=(409,),
        headers=("ETag", "Location"),
    ),
    Route("GET", _TASK_PATH, Role.READ, read_task, "A task and how it is.", TaskDocument, _TAG, headers=("ETag",)),
    Route(
        *(
            "PUT",
            _TASK_PATH,
            Role.ADMIN,
            replace_task,
            "Give a task a new definition, or another name.",
            TaskDocument,
            _TAG,
        ),
        body=dict[str, Any],
        documented_body_type=WholeTask,
        error_statuses=(409,),
        conditional=True,
        headers=("ETag", "Location"),
    ),
    Route(
        *("PATCH", _TASK_PATH, Role.ADMIN, patch_task, "Change some keys of a task.", TaskDocument, _TAG),
        body=dict[str, Any],
        documented_body_type=TaskPatch,
        error_statuses=(409,),
        conditional=True,
        headers=("ETag", "Location"),
    ),
    Route(
        *(
            "DELETE",
            _TASK_PATH,
            Role.ADMIN,
            delete_task,
            "Delete a task; a run under way still finishes.",
            None,
            _TAG,
        ),
        status=204,
        error_statuses=(409,),
        conditional=True,
    ),
    Route(
        *(
            "POST",
            f"{_TASK_PATH}/run",
            Role.OPERATE,
            run_task,
            "Run a task now, regardless of its schedule.",
            Forced,
            _TAG,
        ),
        query=RunQuery,
        status=202,
        other_statuses=(200,),
        error_statuses=(409,),
    ),
    Route(
        *(
            "POST",
            f"{_TASK_PATH}/pause",
            Role.OPERATE,
            pause_task,
            "Pause a task.",
            TaskDocument,
            _TAG,
        ),
        query=PauseQuery,
        headers=("ETag",),
    ),
    Route(
        *(
            "POST",
            f"{_TASK_PATH}/resume",
            Role.OPERATE,
            resume_task,
            "Resume a paused task.",
            TaskDocument,
            _TAG,
        ),
        headers=("ETag",),
    ),
)
