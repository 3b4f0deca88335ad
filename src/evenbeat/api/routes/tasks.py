"""Tasks over HTTP: create, read, change, delete, list, run, pause, resume."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from msgspec import Meta, Struct
from starlette.responses import JSONResponse, Response

from evenbeat.admin.cross_check import said_limits
from evenbeat.api.auth.admitted import while_admitted
from evenbeat.api.auth.scopes import must_be_within, narrowed
from evenbeat.api.http.errors import FieldError, Problem, invalid, pointer
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes import definitions
from evenbeat.api.routes.documents import FilterState, Forced, NewTask, TaskDocument, TaskPage, TaskPatch, WholeTask
from evenbeat.api.routes.task_answers import entry_of, notice, pairs, pointed, precondition, task_answer
from evenbeat.load.cross_check import misfits
from evenbeat.load.one_off import must_be_to_come, with_resolved_at
from evenbeat.load.safe_text import text_problem
from evenbeat.model import Entry, Instant, Name, Task
from evenbeat.report.documents import instant, task_document
from evenbeat.report.task_status import Upcoming
from evenbeat.store.contract import Conflict, Filter, Store
from evenbeat.wire.requests import Add, Ended, Force, Pause, Remove, Set

_TAG: Final = "Tasks"
_Label = Annotated[str, Meta(pattern="^.{1,256}=", max_length=520)]


class ListQuery(Struct):
    """Which tasks, and which page of them."""

    name: Annotated[tuple[Name, ...], Meta(max_length=100, description="Names, ids, or patterns with * and ?.")] = ()
    contains: Annotated[str, Meta(max_length=256, description="A part of the name, in whatever case.")] = ""
    owner: Annotated[str, Meta(max_length=4_096, description="Whoever created them.")] | None = None
    label: Annotated[tuple[_Label, ...], Meta(max_length=100, description="key=value; all must fit.")] = ()
    state: FilterState | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000, description="Tasks on a page.")] = 100
    after: Annotated[str, Meta(max_length=256, description="The last name of the page before.")] = ""


class CreateQuery(Struct):
    """Whose it is."""

    owner: Annotated[str, Meta(max_length=4_096, description="Who it belongs to; else whoever asks.")] = ""


class RunQuery(Struct):
    """Whether to wait."""

    wait: Annotated[bool, Meta(description="Answer when the run has ended.")] = False


async def list_tasks(call: Call) -> dict[str, Any]:
    q: ListQuery = call.query
    asked = Filter(
        names=q.name,
        contains=q.contains or None,
        owner=q.owner,
        labels=pairs(q.label, "/query/label"),
        state=q.state,
        after=q.after,
        most=q.limit + 1,
    )
    only = narrowed(asked, call.scope)

    def read(store: Store) -> dict[str, Any]:
        found = list(Upcoming(store, call.house.now()).conditions(only))
        page = found[: q.limit]
        return {
            "live": call.house.has_node(),
            "tasks": [task_document(condition, secrets=call.role >= Role.ADMIN) for condition in page],
            "next": page[-1].entry.task.name if len(found) > len(page) else None,
            "total": call.house.totals.of(store, only, call.house.now()),
        }

    return await call.house.read(read)


async def create(call: Call) -> Response:
    task = await call.house.work(definitions.whole, _resolved(call))
    if problem := text_problem(call.query.owner):
        raise invalid(FieldError("/query/owner", problem))
    await _must_fit(call, task)
    owner = call.query.owner or (call.scope and call.scope.owner) or call.who
    must_be_within(call.scope, owner, task)
    changed = (await call.house.ask(Add((task,), owner, call.who, call.scope))).changed
    assert changed is not None
    return await task_answer(call, changed.created[0].id, 201)


async def read(call: Call) -> Response:
    return await task_answer(call, call.path["name"])


async def replace(call: Call) -> Response:
    entry = await entry_of(call)
    version = precondition(call, entry)
    task = await call.house.work(definitions.whole, _resolved(call), entry.task.name)
    return await _set(call, entry, task, version)


async def patch(call: Call) -> Response:
    entry = await entry_of(call)
    precondition(call, entry)
    # Made from what it was: if it is another by now, the patch is not what was meant.
    task = await call.house.work(definitions.patched, entry.task, _resolved(call))
    return await _set(call, entry, task, entry.version)


def _resolved(call: Call) -> dict[str, Any]:
    with pointed("/at"):
        return with_resolved_at(call.body, call.house.now())


async def _must_fit(call: Call, task: Task, before: Task | None = None) -> None:
    """What the node would refuse is refused here, with pointers."""
    with pointed("/at"):
        must_be_to_come(task, call.house.now(), before)

    def read(store: Store) -> list[FieldError]:
        periods = {name: period for name, (_, period) in store.periods().items()}
        limits = {name: most for some in said_limits(store).values() for name, most in some.items()}
        return [FieldError(pointer(path), message) for path, message in misfits(task, periods, limits)]

    if errors := await call.house.read(read):
        raise invalid(*errors)


async def _set(call: Call, entry: Entry, task: Task, version: int | None) -> Response:
    must_be_within(call.scope, entry.owner, task)
    await _must_fit(call, task, entry.task)
    try:
        await call.house.ask(Set(entry.id, task, call.who, version))
    except Conflict:
        precondition(call, await entry_of(call))
        raise
    return await task_answer(call, entry.id)


async def delete(call: Call) -> Response:
    entry = await entry_of(call)
    precondition(call, entry)
    await call.house.ask(Remove(Filter(names=(entry.id,)), call.who))
    return Response(None, 204, notice(entry))


async def run(call: Call) -> Response | Mapping[str, Any]:
    entry = await entry_of(call)
    reply = await while_admitted(call, call.house.ask(Force((entry.id,), call.who, call.query.wait)))
    if not call.query.wait:
        waiting = next(iter((reply.waiting or {}).values()), None)
        return {"task": entry.task.name} if waiting is None else {"task": entry.task.name, "waiting": waiting}
    if not reply.ended:
        raise Problem(409, "the task was removed before it ran")
    return JSONResponse(ended_document(reply.ended[0]))


async def pause(call: Call) -> Response:
    return await _pause(call, paused=True)


async def resume(call: Call) -> Response:
    return await _pause(call, paused=False)


async def _pause(call: Call, *, paused: bool) -> Response:
    entry = await entry_of(call)
    await call.house.ask(Pause(Filter(names=(entry.id,)), paused, call.who))
    return await task_answer(call, entry.id)


def ended_document(run: Ended) -> dict[str, Any]:
    """A forced run that was waited for."""
    return {
        "task": run.task,
        "started": instant(Instant(run.started)),
        "ended": instant(Instant(run.ended)),
        "outcome": run.outcome,
        "status": run.status,
        "output": run.output,
    }


_ONE: Final = "/v1/tasks/{name}"
ROUTES: Final = (
    Route(
        "GET", "/v1/tasks", Role.READ, list_tasks, "List tasks by name, a page at a time.", TaskPage, _TAG, ListQuery
    ),
    Route(
        *("POST", "/v1/tasks", Role.ADMIN, create, "Create a task.", TaskDocument, _TAG),
        query=CreateQuery,
        body=dict[str, Any],
        described=NewTask,
        status=201,
        problems=(409,),
        headers=("ETag", "Location"),
    ),
    Route("GET", _ONE, Role.READ, read, "A task and how it is.", TaskDocument, _TAG, headers=("ETag",)),
    Route(
        *("PUT", _ONE, Role.ADMIN, replace, "Give a task a new definition, or another name.", TaskDocument, _TAG),
        body=dict[str, Any],
        described=WholeTask,
        problems=(409,),
        conditional=True,
        headers=("ETag", "Location"),
    ),
    Route(
        *("PATCH", _ONE, Role.ADMIN, patch, "Change some keys of a task.", TaskDocument, _TAG),
        body=dict[str, Any],
        described=TaskPatch,
        problems=(409,),
        conditional=True,
        headers=("ETag", "Location"),
    ),
    Route(
        *("DELETE", _ONE, Role.ADMIN, delete, "Delete a task; a run that is under way ends first.", None, _TAG),
        status=204,
        conditional=True,
    ),
    Route(
        *("POST", f"{_ONE}/run", Role.OPERATE, run, "Run a task now, whatever its schedule says.", Forced, _TAG),
        query=RunQuery,
        status=202,
        also=(200,),
        problems=(409,),
    ),
    Route(
        *("POST", f"{_ONE}/pause", Role.OPERATE, pause, "Let a task not run until it is resumed.", TaskDocument, _TAG),
        headers=("ETag",),
    ),
    Route(
        *("POST", f"{_ONE}/resume", Role.OPERATE, resume, "Let a paused task run again.", TaskDocument, _TAG),
        headers=("ETag",),
    ),
)
