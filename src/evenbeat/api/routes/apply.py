"""Applies files that were read elsewhere, over HTTP: creates, changes and removes tasks to match, all or nothing."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from evenbeat.admin.kept_names import keep_names_of_tasks
from evenbeat.admin.stored_references import known_of_other_owners
from evenbeat.api.http.errors import FieldError, HttpError, invalid_request, json_pointer
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes import definitions
from evenbeat.api.routes.task_answers import errors_at
from evenbeat.load.config import NODE_DURATIONS, Config, Durability, NodeSettings, parse_node_duration
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.config_validation import MAX_FINDINGS_SHOWN, validate_configs
from evenbeat.load.contacts import contact_of_table, parse_notify
from evenbeat.load.downtimes import MAX_DOWNTIMES_OF_OWNER, DowntimeKeys, downtime_from_table
from evenbeat.model import NOTIFY_LIMIT, Contact, Downtime, Name, Period, ShortText, Task
from evenbeat.store.contract import Filter, Store
from evenbeat.wire.documents import ContactKeys, Duration, NotifyTarget, TaskKeys
from evenbeat.wire.replies import Names
from evenbeat.wire.requests import ApplyConfigs

_BODY_LIMIT: Final = 32 << 20
"""Bytes of a body: about 100,000 tasks. It is passed to the node as one request, which is slightly longer."""
_MAX_NAMES: Final = 16
"""That one entry of a crontab could have."""
_Owner = Annotated[str, Meta(min_length=1, max_length=4_096)]
_LimitSize = Annotated[int, Meta(ge=1, le=1_000_000)]


class NodeKeys(Struct, forbid_unknown_fields=True):
    """The settings of the node in a file."""

    max_concurrent: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    keep: Duration | None = None
    keep_runs: Duration | None = None
    durability: Durability | None = None
    start_window: Duration | None = None
    start_rate: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    notify: Annotated[tuple[NotifyTarget | Name, ...], Meta(max_length=NOTIFY_LIMIT)] | None = None
    page: ShortText | None = None
    ping: ShortText | None = None
    stop_grace: Duration | None = None


class OwnerBody(Struct, forbid_unknown_fields=True):
    """The content of one owner."""

    checks: dict[Name, dict[str, Any]] = {}
    tasks: dict[Name, dict[str, Any]] = {}
    periods: dict[Name, Period] = {}
    limits: dict[Name, _LimitSize] = {}
    node: NodeKeys | None = None
    contacts: dict[Name, dict[str, Any]] = {}
    downtimes: Annotated[list[dict[str, Any]], Meta(max_length=MAX_DOWNTIMES_OF_OWNER)] = []
    names_from_commands: dict[Name, Annotated[tuple[Name, ...], Meta(max_length=_MAX_NAMES)]] = {}


class ApplyBody(Struct, forbid_unknown_fields=True):
    """The complete content of each owner; tasks that it no longer mentions are removed."""

    owners: Annotated[dict[_Owner, OwnerBody], Meta(min_length=1, max_length=1_000)]


class FileDocument(Struct, forbid_unknown_fields=True):
    """The content of a file, without templates and defaults: tasks by name, with their keys."""

    checks: dict[Name, TaskKeys] = {}
    tasks: dict[Name, TaskKeys] = {}
    periods: dict[Name, Period] = {}
    limits: dict[Name, _LimitSize] = {}
    node: NodeKeys | None = None
    contacts: dict[Name, ContactKeys] = {}
    downtimes: list[DowntimeKeys] = []
    names_from_commands: dict[Name, Annotated[tuple[Name, ...], Meta(max_length=_MAX_NAMES)]] = {}
    """Of a crontab: names that come from commands, each with all that it could be. Existing tasks keep theirs."""


class Files(Struct, forbid_unknown_fields=True):
    """The complete content of each owner; tasks that it no longer mentions are removed."""

    owners: Annotated[dict[_Owner, FileDocument], Meta(min_length=1, max_length=1_000)]


async def apply_definitions(call: Call) -> Names:
    configs = await call.context.run_in_thread(_configs_by_owner, call.body)
    await call.context.read_store(lambda store: _check_against_store(store, configs))
    names = (await call.context.node.ask(ApplyConfigs(configs, call.who))).names
    assert names is not None
    return names


def _configs_by_owner(body: ApplyBody) -> dict[str, Config]:
    """The configs of all owners; raise 422 with all errors of their tasks."""
    errors: list[FieldError] = []
    configs = {}
    for owner, content in body.owners.items():
        path = ("owners", owner)
        tasks = [
            *_tasks(content.checks, (*path, "checks"), errors, check=True),
            *_tasks(content.tasks, (*path, "tasks"), errors, check=False),
        ]
        node = _node_settings(content.node, path)
        contacts = _contacts(content.contacts, (*path, "contacts"), errors)
        downtimes = _downtimes(content.downtimes, (*path, "downtimes"), errors)
        shared = (content.periods, content.limits, node, contacts, downtimes, content.names_from_commands)
        configs[owner] = Config(tuple(tasks), *shared)
    if errors:
        raise invalid_request(*errors)
    return configs


def _check_against_store(store: Store, configs: Mapping[str, Config]) -> None:
    """Refuse, with pointers, what the node would refuse."""
    names, configs = keep_names_of_tasks(store, configs)
    own = {entry.task.name for owner in configs for entry in store.entries(Filter(owner=owner))}
    new = {task.name for config in configs.values() for task in config.tasks} - own
    found = validate_configs(configs, known_of_other_owners(store, configs, new))
    if not found:
        return
    sent = {(owner, kept): name for owner, of in names.items() for name, kept in of.items()}
    errors = []
    for finding in found[:MAX_FINDINGS_SHOWN]:
        path = [*finding.path]
        if len(path) > 1 and path[0] == "tasks":
            path[1] = sent.get((finding.owner, str(path[1])), path[1])  # as the caller knows it
        errors.append(FieldError(json_pointer(("owners", finding.owner, *path)), finding.message))
    if all(finding.is_conflict for finding in found):
        raise HttpError(409, "; ".join(error.detail for error in errors), errors)
    raise invalid_request(*errors)


def _tasks(
    tables: Mapping[str, dict[str, Any]], path: tuple[str, ...], errors: list[FieldError], *, check: bool
) -> list[Task]:
    found = []
    for name, table in tables.items():
        own = [key for key in ("name", "check") if key in table]
        errors += [FieldError(json_pointer((*path, name, key)), f"{key!r} is not a key here") for key in own]
        try:
            found.append(definitions.parse_task({**table, "name": name, "check": check}))
        except HttpError as e:
            prefix = json_pointer((*path, name))
            errors += [FieldError(prefix + error.pointer, error.detail, error.column) for error in e.errors]
    return found


def _contacts(
    tables: Mapping[str, dict[str, Any]], path: tuple[str, ...], errors: list[FieldError]
) -> dict[str, Contact]:
    found, refused = {}, DocumentErrors()
    for name, table in tables.items():
        contact = contact_of_table(refused, (*path, name), table)
        if contact is not None:
            found[name] = contact
    errors += [FieldError(json_pointer(where), error.problem, error.column) for where, error in refused.errors]
    return found


def _downtimes(
    tables: Sequence[dict[str, Any]], path: tuple[str, ...], errors: list[FieldError]
) -> tuple[Downtime, ...]:
    refused = DocumentErrors()
    found = [downtime_from_table(refused, (*path, i), table) for i, table in enumerate(tables)]
    errors += [FieldError(json_pointer(where), error.problem, error.column) for where, error in refused.errors]
    return tuple(downtime for downtime in found if downtime is not None)


def _node_settings(keys: NodeKeys | None, path: tuple[str, ...]) -> NodeSettings | None:
    if keys is None:
        return None
    durations = {}
    for key in NODE_DURATIONS:
        value = getattr(keys, key)
        with errors_at(json_pointer((*path, "node", key))):
            durations[key] = None if value is None else parse_node_duration(key, value)
    with errors_at(json_pointer((*path, "node", "notify"))):
        notify = None if keys.notify is None else parse_notify(msgspec.to_builtins(keys.notify))
    settings = NodeSettings(
        keys.max_concurrent,
        durability=keys.durability,
        start_rate=keys.start_rate,
        notify=notify,
        page=keys.page,
        ping=keys.ping,
    )
    return replace(settings, **durations)


ROUTES: Final = (
    Route(
        *(
            "POST",
            "/v1/apply",
            Role.ADMIN,
            apply_definitions,
            "Create, change and remove tasks of owners to match.",
            Names,
            "Tasks",
        ),
        body=ApplyBody,
        documented_body_type=Files,
        error_statuses=(409,),
        limit=_BODY_LIMIT,
    ),
)
