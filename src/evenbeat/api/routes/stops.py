"""Stop runs: of one task, or of all tasks that a filter selects."""

from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from evenbeat.api.auth.scopes import narrow_filter
from evenbeat.api.auth.while_authorized import while_authorized
from evenbeat.api.http.errors import FieldError, HttpError, invalid_request
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.actions import FilterBody
from evenbeat.api.routes.tasks import ended_document
from evenbeat.model import TEXT_LIMIT, Entry
from evenbeat.store.contract import Filter, Store
from evenbeat.wire.documents import StoppedRunDocument, StoppedRuns
from evenbeat.wire.replies import StoppedRun
from evenbeat.wire.requests import StopRuns


class StopQuery(Struct):
    """Why, and whether to wait."""

    reason: Annotated[str, Meta(max_length=TEXT_LIMIT, description="Why it is stopped, in one line.")] = ""
    wait: Annotated[bool, Meta(description="Answer when the run has ended.")] = False


class Stop(Struct, forbid_unknown_fields=True):
    """The tasks whose runs are stopped."""

    filter: FilterBody = FilterBody()
    all: bool = False
    """An empty filter selects every task."""
    reason: Annotated[str, Meta(max_length=TEXT_LIMIT)] = ""
    """Why they are stopped, in one line."""
    wait: bool = False
    """Answer when all runs have ended."""


async def stop_task(call: Call) -> dict[str, Any]:
    q: StopQuery = call.query
    name = call.path_variables["name"]
    entry = await call.context.read_store(lambda store: store.find(name) or _removed_running(store, name))
    stopped = []
    if entry is not None:
        stopped = await _stop(call, StopRuns(Filter(names=(entry.id,)), call.who, q.reason, q.wait))
    if not stopped:
        raise HttpError(404, f"there is no task {name[:256]!r}")
    return stopped[0]


def _removed_running(store: Store, name: str) -> Entry | None:
    """The removed task with this name or id whose run has not ended."""
    return next((entry for entry in store.removed_running() if name in (entry.task.name, entry.id)), None)


async def stop_runs(call: Call) -> dict[str, Any]:
    asked: Stop = call.body
    given = asked.filter
    if given == FilterBody() and not asked.all:
        raise invalid_request(
            FieldError("/filter", 'an empty filter means every task; if that is meant, say "all": true')
        )
    found = Filter(given.names, given.owner, given.labels, given.state, contains=given.contains or None)
    only = narrow_filter(found, call.scope)
    return {"stopped": await _stop(call, StopRuns(only, call.who, asked.reason, asked.wait))}


async def _stop(call: Call, request: StopRuns) -> list[dict[str, Any]]:
    asked = call.context.node.ask(request)
    reply = await (while_authorized(call, asked) if request.wait else asked)
    return [_document(run) for run in reply.stopped or []]


def _document(run: StoppedRun) -> dict[str, Any]:
    return {"task": run.task, "found": run.found, "run": None if run.run is None else ended_document(run.run)}


ROUTES: Final = (
    Route(
        *("POST", "/v1/tasks/{name}/stop", Role.OPERATE, stop_task),
        *("Stop the run of a task; a forced run that waits is withdrawn.", StoppedRunDocument, "Tasks"),
        query=StopQuery,
    ),
    Route(
        *("POST", "/v1/runs/stop", Role.OPERATE, stop_runs, "Stop the runs of some tasks.", StoppedRuns, "Tasks"),
        body=Stop,
    ),
)
