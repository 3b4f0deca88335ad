"""What a token that is limited to an owner or to labels sees and does: one table of how each route treats it.

A route that is missing in the table is refused to such a token, and a test fails until it is added.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from evenbeat.admin.problem_actions import ACKNOWLEDGED, COMMENTED, UNACKNOWLEDGED
from evenbeat.admin.submitters import SUBMITTED_ACTION
from evenbeat.admin.task_cursors import CURSOR_RESET, CURSOR_SET
from evenbeat.admin.task_stops import STOPPED
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.route import Route
from evenbeat.core.scope import Scope
from evenbeat.model import Entry, Task
from evenbeat.store.contract import Change, Filter, Store

NO_TASKS: Final = Filter(names=("",))
"""No task has this name."""
_TASK_ACTIONS: Final = frozenset(
    {"created", "changed", "removed", "enabled", "disabled", "paused", "resumed", "forced"}
    | {SUBMITTED_ACTION, STOPPED, CURSOR_SET, CURSOR_RESET, "heartbeat created", "heartbeat removed"}
    | {ACKNOWLEDGED, UNACKNOWLEDGED, COMMENTED}
)
"""Actions in the audit that concern a task."""
_OTHER_NAME_PREFIXES: Final = ("token ", "limit ", "period ", "contact ", "downtime ", "task ")
"""Prefixes of audit names that stand for something other than a task, though a task may have such a name too."""
_CHANGES_READ: Final = 1_000
"""How many changes recorded under a name are searched for those of one task."""


class ScopePolicy(Enum):
    """How a route treats a limited token."""

    TASK = "the task in its path must be within the scope, otherwise it answers 404"
    FILTER = "it narrows what it returns and changes to the scope itself"
    FREE = "it reveals nothing about any task"
    REFUSED = "it reveals something about all tasks or the node: refused"


_TASK_PATH: Final = "/v1/tasks/{name}"
_HEARTBEAT_PATH: Final = "/v1/beat/{token}"
SCOPE_POLICIES: Final[Mapping[tuple[str, str], ScopePolicy]] = {
    **dict.fromkeys(
        (
            *((method, _TASK_PATH) for method in ("GET", "PUT", "PATCH", "DELETE")),
            *(("POST", f"{_TASK_PATH}/{word}") for word in ("run", "stop", "pause", "resume", "result", "beat")),
            *(
                ("GET", f"{_TASK_PATH}/{word}")
                for word in ("history", "summaries", "why", "changes", "next", "output", "output/live", "cursor")
            ),
            *((method, f"{_TASK_PATH}/cursor") for method in ("PUT", "DELETE")),
            ("DELETE", f"{_TASK_PATH}/beat"),
        ),
        ScopePolicy.TASK,
    ),
    **dict.fromkeys(
        (
            *(
                ("GET", f"/v1/{word}")
                for word in (
                    *("tasks", "history", "running", "events", "problems", "problems/{id}", "messages"),
                    "notifications",
                    *("downtimes", "downtimes/{id}"),
                )
            ),
            *(
                ("POST", f"/v1/{word}")
                for word in (
                    "tasks",
                    "actions",
                    "runs",
                    "runs/stop",
                    "problems/acknowledge",
                    "problems/comment",
                    "downtimes",
                )
            ),
            ("DELETE", "/v1/downtimes/{id}"),
        ),
        ScopePolicy.FILTER,
    ),
    **dict.fromkeys(
        (
            *((method, "/v1/session") for method in ("GET", "POST", "DELETE")),
            ("POST", "/v1/session/link"),
            *(
                (method, _HEARTBEAT_PATH + word)
                for method in ("GET", "POST")
                for word in ("", "/start", "/success", "/fail", "/log", "/{status}")
            ),
            *(("GET", path) for path in ("/healthz", "/readyz", "/docs", "/v1/openapi.json")),
            ("POST", "/v1/periods/preview"),
        ),
        ScopePolicy.FREE,
    ),
    **dict.fromkeys(
        (
            *(("GET", f"/v1/{word}") for word in ("status", "cluster", "nodes", "workers", "limits", "upcoming")),
            *(("GET", f"/v1/load{word}") for word in ("", "/tasks", "/day")),
            *(("GET", f"/v1/contacts{word}") for word in ("", "/{name}")),
            *(("GET", f"/v1/periods{word}") for word in ("", "/{name}", "/{name}/windows")),
            *((method, path) for method in ("PUT", "DELETE") for path in ("/v1/slots", "/v1/limits/{name}")),
            *((method, f"/v1/{what}/{{name}}") for what in ("periods", "contacts") for method in ("PUT", "DELETE")),
            ("POST", "/v1/contacts/{name}/test"),
            ("POST", "/v1/apply"),
            ("POST", "/v1/validate"),
            ("POST", "/v1/forecast"),
            ("GET", "/metrics"),
            ("GET", "/v1/audit"),
        ),
        ScopePolicy.REFUSED,
    ),
}


async def check_scope(context: ApiContext, route: Route, path: Mapping[str, str], scope: Scope) -> Mapping[str, str]:
    """The path variables for the handler; raise HttpError if this scope may not use the route.

    The name of a task is replaced by its id, so that the handler gets the very task that was checked.
    """
    match SCOPE_POLICIES.get((route.method, route.path), ScopePolicy.REFUSED):
        case ScopePolicy.REFUSED:
            raise HttpError(403, f"this token is limited to {scope}, and this covers more than that")
        case ScopePolicy.TASK:
            entry = await context.read_store(lambda store: _find_within(store, path["name"], scope))
            return {**path, "name": entry.id}
    return path


def _find_within(store: Store, name_or_id: str, scope: Scope) -> Entry:
    entry = store.find(name_or_id) or store.find_removed(name_or_id)
    if entry is None or not scope.contains(entry.owner, entry.task.labels):
        raise HttpError(404, f"there is no task {name_or_id[:256]!r}")
    return entry


def narrow_filter(only: Filter, scope: Scope | None) -> Filter:
    """Narrow a filter to a scope."""
    if scope is None:
        return only
    differs = any(only.labels.get(key, value) != value for key, value in scope.labels.items())
    if differs or (None not in (only.owner, scope.owner) and only.owner != scope.owner):
        return NO_TASKS
    return replace(only, owner=only.owner or scope.owner, labels={**only.labels, **scope.labels})


def require_within(scope: Scope | None, owner: str, task: Task) -> None:
    """Raise HttpError if a new or changed task would be outside the scope."""
    if scope is not None and not scope.contains(owner, task.labels):
        raise HttpError(403, f"this token is limited to {scope}, and the task would be outside it")


def task_ids_within(store: Store, names: Iterable[str], scope: Scope | None) -> tuple[str, ...]:
    """The ids of these tasks; raise HttpError if one does not exist, or is outside the scope."""
    return tuple(names) if scope is None else tuple(_find_within(store, name, scope).id for name in names)


class TaskIdentity(NamedTuple):
    """How history and events identify a task. The number decides if given, as a name can be reused."""

    name: str
    number: int | None = None


def tasks_within(store: Store, tasks: Iterable[TaskIdentity], scope: Scope) -> set[TaskIdentity]:
    """The given tasks that are within the scope; of removed tasks with one name, only the latest can be."""
    return {task for task in set(tasks) if _is_within(store, task, scope)}


def _is_within(store: Store, task: TaskIdentity, scope: Scope) -> bool:
    entry = store.find(task.name)
    if entry is None or task.number not in (None, entry.number):
        entry = store.find_removed(task.name)
    if entry is None or task.number not in (None, entry.number):
        return False
    return scope.contains(entry.owner, entry.task.labels)


def changes_within(store: Store, entry: Entry, most: int) -> list[Change]:
    """The changes of this task, newest first: not those of an earlier or later task of the same name, nor of a token,
    a limit or a file with that name.
    """
    name = entry.task.name
    if name.startswith(_OTHER_NAME_PREFIXES) or name in ("slots", "node"):
        return []
    lives: list[list[Change]] = [[]]
    for change in reversed(store.changes(name, _CHANGES_READ)):
        if change.action not in _TASK_ACTIONS:
            continue
        if change.action == "created" or any(field.key == "name" and field.new == name for field in change.fields):
            lives.append([])  # from here on the name belongs to another task, or to this one
        lives[-1].append(change)
    live = store.find(name)
    if live is None or live.number != entry.number:
        lives = [[], *(life for life in lives if life and life[0].at == entry.created)]
    return [change for change in reversed(lives[-1]) if change.at >= entry.created][:most]


async def events_within(pieces: AsyncIterator[bytes], context: ApiContext, scope: Scope) -> AsyncIterator[bytes]:
    """Filter a stream of events to tasks within the scope; of other events only the position in the stream remains."""
    known: dict[TaskIdentity, bool] = {}
    async for piece in pieces:
        frames = [frame for frame in piece.split(b"\n\n") if frame]
        kinds_and_tasks = [_event_task(frame) for frame in frames]
        if any(kind == "task" for kind, _ in kinds_and_tasks):
            known.clear()  # labels may have changed
        unknown = {task for _, task in kinds_and_tasks if task} - known.keys()
        if unknown:
            within = await context.read_store(partial(tasks_within, tasks=unknown, scope=scope))
            known |= {task: task in within for task in unknown}
        each = zip(frames, kinds_and_tasks, strict=True)
        kept = [_frame_within(frame, kind, is_seen=bool(task and known[task])) for frame, (kind, task) in each]
        if whole := b"".join(frame + b"\n\n" for frame in kept if frame):
            yield whole


def _event_task(frame: bytes) -> tuple[str, TaskIdentity | None]:
    """The kind of an event, and its task."""
    lines = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
    if b"data" not in lines:
        return "", None
    data: dict[str, Any] = msgspec.json.decode(lines[b"data"])
    kind = lines.get(b"event", b"").decode()
    if kind == "run":
        return kind, TaskIdentity(data["task"], data.get("number", 0))
    name = data.get("name") if kind == "task" else None
    return kind, None if name is None else TaskIdentity(name)


def _frame_within(frame: bytes, kind: str, *, is_seen: bool) -> bytes:
    if kind in ("", "reset") or is_seen:
        return frame
    return next((line for line in frame.split(b"\n") if line.startswith(b"id: ")), b"")
