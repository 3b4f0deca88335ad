"""Shared by routes about tasks: finding a task, its version, and parsing texts with pointers for errors."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

import msgspec
from starlette.responses import Response

from evenbeat.admin.tasks_of_files import OVERWRITTEN_NOTICE, file_of_owner
from evenbeat.api.http.errors import FieldError, HttpError, invalid_request
from evenbeat.api.http.route import JSON, Call, Role
from evenbeat.model import Entry, Instant, Invalid
from evenbeat.report.documents import task_document
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import Condition, Filter, Store
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone

_ETAG: Final = '(W/)?"[^"]*"'
IF_MATCH: Final = rf"^(\*|{_ETAG}( *, *{_ETAG})*)$"
"""Accepted values of the header."""


def find_task(store: Store, name_or_id: str) -> Entry:
    """A task by name or id; raise 404 if it does not exist."""
    entry = store.find(name_or_id)
    if entry is None:
        raise HttpError(404, f"there is no task {name_or_id[:256]!r}")
    return entry


def find_condition(store: Store, name_or_id: str) -> Condition:
    """A task by name or id, with its condition."""
    entry = find_task(store, name_or_id)
    for condition in store.conditions(Filter(names=(entry.id,))):
        if condition.entry.id == entry.id:
            return condition
    raise HttpError(404, f"the task {name_or_id[:256]!r} has just been removed")


async def task_in_path(call: Call) -> Entry:
    """The task in the path."""
    return await call.context.read_store(lambda store: find_task(store, call.path_variables["name"]))


async def task_in_path_or_removed(call: Call) -> Entry:
    """The task in the path, even a removed one while its history is kept."""

    def read(store: Store) -> Entry:
        name = call.path_variables["name"]
        removed = None if store.find(name) is not None else store.find_removed(name)
        return removed or find_task(store, name)

    return await call.context.read_store(read)


async def task_response(call: Call, name_or_id: str, status: int = 200) -> Response:
    """A task as a document, with its version and its address."""

    def read(store: Store) -> tuple[Entry, bytes]:
        condition = ConditionReader(store, call.context.now()).of(find_condition(store, name_or_id))
        return condition.entry, msgspec.json.encode(task_document(condition, secrets=call.role >= Role.ADMIN))

    entry, content = await call.context.read_store(read)
    headers = {"ETag": f'"{entry.version}"'}
    if call.request.method not in ("GET", "HEAD"):
        headers["Location"] = _task_url(entry)
        headers |= file_owner_notice(entry) if call.request.method in ("PUT", "PATCH") else {}
    return Response(content, status, headers, JSON)


def _task_url(entry: Entry) -> str:
    """The path of a task. The names . and .. have a meaning in every URL, even encoded: their tasks go by id."""
    name = entry.task.name
    return f"/v1/tasks/{entry.id if name in ('.', '..') else quote(name, safe='')}"


def file_owner_notice(entry: Entry) -> dict[str, str]:
    """The header that says that a file will undo this change."""
    file = file_of_owner(entry.owner)
    return {} if file is None else {"Evenbeat-Notice": f"the task comes from {quote(file)}: {OVERWRITTEN_NOTICE}"}


def check_if_match(call: Call, entry: Entry) -> int | None:
    """The version that If-Match asks for, if it does; raise 412 if the task has another."""
    header = call.request.headers.get("if-match")
    if header is None or header == "*":
        return None
    if not re.match(IF_MATCH, header):
        raise invalid_request(
            FieldError("/header/If-Match", f"found {header[:64]!r}, accepted: versions from an ETag, or *")
        )
    if f'"{entry.version}"' not in [tag.strip() for tag in header.split(",")]:
        raise HttpError(412, f'the version is "{entry.version}", If-Match has {header[:64]}')
    return entry.version


@contextmanager
def errors_at(pointer: str) -> Iterator[None]:
    """Add the pointer of a text to its error."""
    try:
        yield
    except Invalid as e:
        raise invalid_request(FieldError(pointer, e.problem, e.column)) from None


def parse_request_time(text: str | None, pointer: str) -> Instant | None:
    """Parse a time in a request; without an offset it is in UTC."""
    if text is None:
        return None
    with errors_at(pointer):
        return parse_instant(text, zone("UTC"))


def parse_key_values(texts: Sequence[str], pointer: str) -> dict[str, str]:
    """key=value texts."""
    wrong = [text for text in texts if text.find("=") < 1]
    if wrong:
        raise invalid_request(*(FieldError(pointer, f"{text[:64]!r} is not key=value") for text in wrong))
    return {key: value for key, _, value in (text.partition("=") for text in texts)}
