"""Cursors that people set: where the next run of a task goes on, instead of where its latest run has left off."""

from typing import Final

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.core.permission import has_runnable_job
from evenbeat.model import ArgumentValue, Entry, Invalid, Task
from evenbeat.store.contract import Batch, Change, Conflict, CursorChange, FieldChange
from evenbeat.wire.cursor_values import packed_cursor, unpacked_cursor
from evenbeat.wire.replies import ChangedCursor, NotFound, Reply
from evenbeat.wire.requests import SetCursor

CURSOR_SET: Final = "cursor set"
CURSOR_RESET: Final = "cursor reset"
"""In the audit."""


def cursor_in_use(name: str) -> Conflict:
    """The refusal while a run of the task is under way."""
    return Conflict(f"{name!r} runs now, and its run may set the cursor: wait for its end, or stop it")


def cursor_to_set(admin: TaskAdmin, request: SetCursor) -> tuple[Entry, bytes | None]:
    """The task, and its new cursor as it is saved; raise NotFound or Invalid if it cannot have it."""
    entry = admin.store.find(request.name)
    if entry is None:
        raise NotFound(f"there is no task {request.name!r}")
    _check_suits(entry.task, request.cursor)
    return entry, packed_cursor(request.cursor)


def _check_suits(task: Task, cursor: ArgumentValue) -> None:
    """A cursor must be of use to the next run. To reset one is always possible."""
    if cursor is None:
        return
    if not has_runnable_job(task):
        raise Invalid(f"{task.name!r} is a passive check: it has nothing to run", place="cursor")
    if task.job.function is None and isinstance(cursor, str):
        if not cursor:
            raise Invalid("empty, which to a command is no cursor: reset it", place="cursor")
        if "\0" in cursor:
            raise Invalid("has a null byte, which no command can get", place="cursor")


def note_cursor(admin: TaskAdmin, entry: Entry, who: str, before: bytes | None, cursor: bytes | None) -> ChangedCursor:
    """Write to the audit from what to what the cursor was set."""
    changed = ChangedCursor(entry.task.name, unpacked_cursor(before), unpacked_cursor(cursor))
    action = CURSOR_RESET if cursor is None else CURSOR_SET
    field = FieldChange("cursor", changed.before, changed.cursor)
    admin.store.note([Change(admin.now(), who, action, changed.task, fields=(field,))])
    return changed


def set_stored_cursor(admin: TaskAdmin, request: SetCursor) -> Reply:
    """Set the cursor in a store on which no node runs: what was under way there will not be heard of again."""
    entry, cursor = cursor_to_set(admin, request)
    before = admin.store.cursors([entry.number]).get(entry.number)
    admin.store.record(Batch(cursors=[CursorChange(entry.number, cursor)])).result()
    return Reply(cursor=note_cursor(admin, entry, request.who, before, cursor))
