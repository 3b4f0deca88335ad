"""Actions on many tasks at once, selected by a filter; an empty filter selects everything only on request."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct
from starlette.responses import JSONResponse, Response

from evenbeat.admin.stored_references import check_not_depended_on
from evenbeat.admin.tasks_of_files import owning_files
from evenbeat.api.auth.scopes import narrow_filter, task_ids_within
from evenbeat.api.auth.while_authorized import while_authorized
from evenbeat.api.http.errors import FieldError, HttpError, invalid_request
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.task_answers import parse_request_time
from evenbeat.api.routes.tasks import ended_document
from evenbeat.model import TEXT_LIMIT, ArgumentItem, CommandWord, Instant, Name
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import Filter, Store
from evenbeat.wire.documents import Done, FilterState, ForcedRuns, TimeText
from evenbeat.wire.requests import MAX_NAMES_IN_REPLY, ForceTasks, PauseTasks, RemoveTasks, Request, RunArguments


class FilterBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Selects the tasks that match all given criteria."""

    names: Annotated[tuple[Name, ...], Meta(max_length=10_000)] = ()
    """Exact names, ids, or patterns with * and ?."""
    contains: Annotated[str, Meta(max_length=256)] = ""
    owner: Annotated[str, Meta(max_length=4_096)] | None = None
    labels: Annotated[dict[Name, Name], Meta(max_length=100)] = {}
    state: FilterState | None = None


class Action(Struct, forbid_unknown_fields=True):
    """An action, and the tasks it applies to."""

    action: Literal["pause", "resume", "run", "delete"]
    filter: FilterBody = FilterBody()
    all: bool = False
    """An empty filter selects every task."""
    dry_run: bool = False
    """Only report what would be done."""
    named: Annotated[int, Meta(ge=0, le=1_000_000)] = MAX_NAMES_IN_REPLY
    """The number of task names in the answer."""
    until: TimeText | None = None
    """The pause ends then; without it, when somebody resumes the tasks."""
    reason: Annotated[str, Meta(max_length=TEXT_LIMIT)] = ""
    """Why they are paused."""


class Runs(Struct, forbid_unknown_fields=True):
    """The tasks to run now."""

    tasks: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=1_000)]
    """Names or ids; if one of them cannot run, none does."""
    wait: bool = False
    """Wait until all runs have ended."""
    args: tuple[ArgumentItem, ...] = ()
    """Of the run of one task, with the role admin: arguments of its function, or further words of its command."""
    kwargs: dict[str, ArgumentItem] = {}
    """Further named arguments of its function."""
    env: dict[str, CommandWord] = {}
    """Further variables."""


async def apply_action(call: Call) -> dict[str, Any]:
    action: Action = call.body
    if action.filter == FilterBody() and not action.all:
        raise invalid_request(
            FieldError("/filter", 'an empty filter means every task; if that is meant, say "all": true')
        )
    if action.action == "delete" and call.role < Role.ADMIN:
        raise HttpError(403, "to delete takes the role admin")
    given = action.filter
    asked = Filter(given.names, given.owner, given.labels, given.state, contains=given.contains or None)
    only = narrow_filter(asked, call.scope)
    if action.dry_run:
        return await call.context.read_store(lambda store: _dry_run(store, action, only, call))
    until = parse_request_time(action.until, "/until")
    if action.action != "pause" and (until is not None or action.reason):
        raise invalid_request(FieldError("/action", "`until` and `reason` belong to the action pause"))
    if action.action == "delete" and call.scope is not None:
        await call.context.read_store(lambda store: _check_deletion(store, only, call))
    touched = (await call.context.node.ask(_request(action, only, call.who, until))).touched
    assert touched is not None
    return {"action": action.action, **msgspec.structs.asdict(touched)}


def _request(action: Action, only: Filter, who: str, until: Instant | None) -> Request:
    match action.action:
        case "run":
            return ForceTasks((), who, only=only, named=action.named)
        case "delete":
            return RemoveTasks(only, who, briefly=True, named=action.named)
        case word:
            is_pause = word == "pause"
            return PauseTasks(only, is_pause, who, True, action.named, until, action.reason)  # noqa: FBT003


def _check_deletion(store: Store, only: Filter, call: Call) -> None:
    """Refuse what the node would refuse, and name no task that the caller may not know."""
    entries = list(ConditionReader(store, call.context.now()).entries(only))
    check_not_depended_on(store, entries, scope=call.scope)


def _dry_run(store: Store, action: Action, only: Filter, call: Call) -> dict[str, Any]:
    """Tasks that are already in the wanted state are left alone."""
    count, unchanged, names, files = 0, 0, [], set[str]()
    if action.action == "delete":
        _check_deletion(store, only, call)
    for entry in ConditionReader(store, call.context.now()).entries(only):
        if action.action in ("run", "delete") or entry.task.paused is not (action.action == "pause"):
            count += 1
            files.update(owning_files([entry]))
            if count <= action.named:
                names.append(entry.task.name)
        else:
            unchanged += 1
    return {"action": action.action, "count": count, "names": names, "unchanged": unchanged, "files": sorted(files)}


async def run_tasks(call: Call) -> Response:
    asked: Runs = call.body
    tasks = asked.tasks
    if call.scope is not None:
        tasks = await call.context.read_store(lambda store: task_ids_within(store, asked.tasks, call.scope))
    arguments = None
    if asked.args or asked.kwargs or asked.env:
        if call.role < Role.ADMIN:
            raise HttpError(403, "to run a task with arguments of its own takes the role admin")
        arguments = RunArguments(asked.args, asked.kwargs, asked.env)
    request = ForceTasks(tasks, call.who, asked.wait, arguments=arguments)
    reply = await while_authorized(call, call.context.node.ask(request))
    runs = [ended_document(run) for run in reply.ended or []]
    return JSONResponse({"runs": runs, "waiting": reply.waiting or {}}, 200 if asked.wait else 202)


ROUTES: Final = (
    Route(
        *("POST", "/v1/actions", Role.OPERATE, apply_action, "Pause, resume, run or delete many tasks.", Done, "Tasks"),
        body=Action,
        error_statuses=(409,),
    ),
    Route(
        *("POST", "/v1/runs", Role.OPERATE, run_tasks, "Run some tasks now, all of them or none.", ForcedRuns, "Tasks"),
        body=Runs,
        status=202,
        other_statuses=(200,),
        error_statuses=(409,),
    ),
)
