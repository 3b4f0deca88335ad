"""What a token that is limited to an owner or to labels sees and does: how each route treats it, all in one table.

A route that is not in the table is refused to such a token, and a test fails until it is.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from evenbeat.admin.submitters import SUBMITTED
from evenbeat.api.http.context import House
from evenbeat.api.http.errors import Problem
from evenbeat.api.http.route import Route
from evenbeat.core.scope import Scope
from evenbeat.model import Entry, Task
from evenbeat.store.contract import Change, Filter, Store

NOTHING: Final = Filter(names=("",))
"""No task has this name."""
_OF_TASKS: Final = frozenset(
    {"created", "changed", "removed", "enabled", "disabled", "paused", "resumed", "forced"}
    | {SUBMITTED, "heartbeat created", "heartbeat removed"}
)
"""Actions in the audit that are done to tasks."""
_NOT_OF_TASKS: Final = ("token ", "limit ", "period ", "task ")
"""How names in the audit begin that stand for something else: a task may be called so too."""
_LOOKED_THROUGH: Final = 1_000
"""Changes of a name that are looked through for those of one task."""


class Scoped(Enum):
    """How a route treats a token that is limited."""

    TASK = "the task in its path must be within the scope; else it is as if it were not there"
    FILTER = "it narrows what it gives and does to the scope itself"
    FREE = "it tells of no task"
    REFUSED = "it tells of all tasks, or of the node: refused"


_TASKS: Final = "/v1/tasks/{name}"
_BEAT: Final = "/v1/beat/{token}"
SCOPED: Final[Mapping[tuple[str, str], Scoped]] = {
    **dict.fromkeys(
        (
            *((method, _TASKS) for method in ("GET", "PUT", "PATCH", "DELETE")),
            *(("POST", f"{_TASKS}/{word}") for word in ("run", "pause", "resume", "result", "beat")),
            *(("GET", f"{_TASKS}/{word}") for word in ("history", "why", "changes", "next")),
            ("DELETE", f"{_TASKS}/beat"),
        ),
        Scoped.TASK,
    ),
    **dict.fromkeys(
        (
            *(("GET", f"/v1/{word}") for word in ("tasks", "history", "running", "events")),
            *(("POST", f"/v1/{word}") for word in ("tasks", "actions", "runs")),
        ),
        Scoped.FILTER,
    ),
    **dict.fromkeys(
        (
            *((method, "/v1/session") for method in ("GET", "POST", "DELETE")),
            ("POST", "/v1/session/link"),
            *((method, _BEAT + word) for method in ("GET", "POST") for word in ("", "/start", "/success", "/fail")),
            *(("GET", path) for path in ("/healthz", "/readyz", "/docs", "/v1/openapi.json")),
            ("POST", "/v1/periods/preview"),
        ),
        Scoped.FREE,
    ),
    **dict.fromkeys(
        (
            *(("GET", f"/v1/{word}") for word in ("status", "cluster", "nodes", "workers", "limits", "upcoming")),
            *(("GET", f"/v1/load{word}") for word in ("", "/tasks", "/day")),
            *(("GET", f"/v1/periods{word}") for word in ("", "/{name}", "/{name}/windows")),
            *((method, path) for method in ("PUT", "DELETE") for path in ("/v1/slots", "/v1/limits/{name}")),
            *((method, "/v1/periods/{name}") for method in ("PUT", "DELETE")),
            ("POST", "/v1/apply"),
            ("POST", "/v1/validate"),
            ("POST", "/v1/forecast"),
            ("GET", "/metrics"),
            ("GET", "/v1/audit"),
        ),
        Scoped.REFUSED,
    ),
}


async def admitted(house: House, route: Route, path: Mapping[str, str], scope: Scope) -> Mapping[str, str]:
    """What the path says, as the handler may look at it; raise Problem if the route is not for this scope.

    A task is handed on by its id, so that it is the one that was looked at.
    """
    match SCOPED.get((route.method, route.path), Scoped.REFUSED):
        case Scoped.REFUSED:
            raise Problem(403, f"this token is limited to {scope}, and this tells of more than that")
        case Scoped.TASK:
            entry = await house.read(lambda store: _within(store, path["name"], scope))
            return {**path, "name": entry.id}
    return path


def _within(store: Store, name_or_id: str, scope: Scope) -> Entry:
    entry = store.find(name_or_id) or store.find_removed(name_or_id)
    if entry is None or not scope.contains(entry.owner, entry.task.labels):
        raise Problem(404, f"there is no task {name_or_id[:256]!r}")
    return entry


def narrowed(only: Filter, scope: Scope | None) -> Filter:
    """The same, within the scope."""
    if scope is None:
        return only
    differs = any(only.labels.get(key, value) != value for key, value in scope.labels.items())
    if differs or (None not in (only.owner, scope.owner) and only.owner != scope.owner):
        return NOTHING
    return replace(only, owner=only.owner or scope.owner, labels={**only.labels, **scope.labels})


def must_be_within(scope: Scope | None, owner: str, task: Task) -> None:
    """Raise Problem if a task that somebody makes would be outside."""
    if scope is not None and not scope.contains(owner, task.labels):
        raise Problem(403, f"this token is limited to {scope}, and the task would not be within that")


def all_within(store: Store, names: Iterable[str], scope: Scope | None) -> tuple[str, ...]:
    """These tasks, by their ids; raise Problem if one is not there, or not within the scope."""
    return tuple(names) if scope is None else tuple(_within(store, name, scope).id for name in names)


class Known(NamedTuple):
    """What history and events know a task by: if the number is said, it decides, as names are given anew."""

    name: str
    number: int | None = None


def known_within(store: Store, tasks: Iterable[Known], scope: Scope) -> set[Known]:
    """Those of some tasks that are within the scope; of removed ones with the same name the latest may be."""
    return {task for task in set(tasks) if _is_within(store, task, scope)}


def _is_within(store: Store, task: Known, scope: Scope) -> bool:
    entry = store.find(task.name)
    if entry is None or task.number not in (None, entry.number):
        entry = store.find_removed(task.name)
    if entry is None or task.number not in (None, entry.number):
        return False
    return scope.contains(entry.owner, entry.task.labels)


def changes_within(store: Store, entry: Entry, most: int) -> list[Change]:
    """The changes of this task, newest first: not those of another that had its name before or has it since, nor of a
    token, a limit or a file that is called the same.
    """
    name = entry.task.name
    if name.startswith(_NOT_OF_TASKS) or name in ("slots", "node"):
        return []
    lives: list[list[Change]] = [[]]
    for change in reversed(store.changes(name, _LOOKED_THROUGH)):
        if change.action not in _OF_TASKS:
            continue
        if change.action == "created" or any(field.key == "name" and field.new == name for field in change.fields):
            lives.append([])  # from here on another task has the name, or this one
        lives[-1].append(change)
    live = store.find(name)
    if live is None or live.number != entry.number:
        lives = [[], *(life for life in lives if life and life[0].at == entry.created)]
    return [change for change in reversed(lives[-1]) if change.at >= entry.created][:most]


async def events_within(pieces: AsyncIterator[bytes], house: House, scope: Scope) -> AsyncIterator[bytes]:
    """Of a stream of events, those of tasks within the scope; of others only the place in the stream remains."""
    known: dict[Known, bool] = {}
    async for piece in pieces:
        frames = [frame for frame in piece.split(b"\n\n") if frame]
        told = [_told(frame) for frame in frames]
        if any(kind == "task" for kind, _ in told):
            known.clear()  # labels may have changed
        asked = {task for _, task in told if task} - known.keys()
        if asked:
            seen = await house.read(partial(known_within, tasks=asked, scope=scope))
            known |= {task: task in seen for task in asked}
        each = zip(frames, told, strict=True)
        kept = [_kept(frame, kind, is_seen=bool(task and known[task])) for frame, (kind, task) in each]
        if whole := b"".join(frame + b"\n\n" for frame in kept if frame):
            yield whole


def _told(frame: bytes) -> tuple[str, Known | None]:
    """Which kind of event, and of which task."""
    lines = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
    if b"data" not in lines:
        return "", None
    data: dict[str, Any] = msgspec.json.decode(lines[b"data"])
    kind = lines.get(b"event", b"").decode()
    if kind == "run":
        return kind, Known(data["task"], data.get("number", 0))
    name = data.get("name") if kind == "task" else None
    return kind, None if name is None else Known(name)


def _kept(frame: bytes, kind: str, *, is_seen: bool) -> bytes:
    if kind in ("", "reset") or is_seen:
        return frame
    return next((line for line in frame.split(b"\n") if line.startswith(b"id: ")), b"")
