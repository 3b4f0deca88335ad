"""The cursor of a task: where its next run goes on, read, set and reset."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.task_answers import task_in_path
from evenbeat.model import ArgumentValue
from evenbeat.wire.cursor_values import unpacked_cursor
from evenbeat.wire.documents import ChangedCursorDocument, CursorDocument
from evenbeat.wire.requests import SetCursor

_PATH: Final = "/v1/tasks/{name}/cursor"


class NewCursor(Struct, forbid_unknown_fields=True):
    """A cursor that the next run gets."""

    cursor: str | int | float | bool
    """At most 4 KiB. To a command it is a text."""


async def read_cursor(call: Call) -> dict[str, Any]:
    entry = await task_in_path(call)
    saved = await call.context.read_store(lambda store: store.cursors([entry.number]).get(entry.number))
    return {"task": entry.task.name, "cursor": unpacked_cursor(saved)}


async def set_cursor(call: Call) -> dict[str, Any]:
    new: NewCursor = call.body
    return await _change(call, new.cursor)


async def reset_cursor(call: Call) -> dict[str, Any]:
    return await _change(call, None)


async def _change(call: Call, cursor: ArgumentValue) -> dict[str, Any]:
    entry = await task_in_path(call)
    changed = (await call.context.node.ask(SetCursor(entry.id, call.who, cursor))).cursor
    assert changed is not None
    return msgspec.structs.asdict(changed)


ROUTES: Final = (
    Route(
        *("GET", _PATH, Role.READ, read_cursor, "Where the next run of a task goes on."),
        *(CursorDocument, "Tasks"),
    ),
    Route(
        *("PUT", _PATH, Role.ADMIN, set_cursor, "Set where the next run of a task goes on."),
        *(ChangedCursorDocument, "Tasks"),
        body=NewCursor,
        error_statuses=(409,),
    ),
    Route(
        *("DELETE", _PATH, Role.ADMIN, reset_cursor, "Reset the cursor of a task: its next run has none."),
        *(ChangedCursorDocument, "Tasks"),
        error_statuses=(409,),
    ),
)
