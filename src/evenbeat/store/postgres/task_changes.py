"""Changes of tasks, periods and settings in PostgreSQL. Each function must be called within a transaction."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from evenbeat.model import Entry, Instant, Period, Task
from evenbeat.store.common import audit
from evenbeat.store.common.conflicts import check_names, check_versions
from evenbeat.store.common.entries import in_task_order, new_entries, new_ids, redefined
from evenbeat.store.common.rows import as_text, change_row, past_row, period
from evenbeat.store.contract import Change, DatabaseLocked, PastDefinition
from evenbeat.store.postgres.connect import Connection
from evenbeat.store.postgres.rows import entry
from evenbeat.store.postgres.statements import query
from evenbeat.store.postgres.text import from_text, texts

_CLUSTER_SETTINGS: Final = (
    *("limits:", "node:", "set by hand:", "files named at up"),
    *("contacts:", "downtimes:", "downtime:"),
)
"""Prefixes of settings that concern every node: all nodes are notified of a change."""


_CLAIMS_END: Final = 30.0
"""Seconds in which a transaction that claims must end; the server ends an idle one earlier."""
_LOOK_AGAIN: Final = 0.005


def labels_of(task: Task) -> str:
    """Labels as the database keeps them: an array of texts, each a JSON array of key and value."""
    return texts(label(key, value) for key, value in task.labels.items())


def label(key: str, value: str) -> str:
    """A label as an element of that array."""
    return msgspec.json.encode((key, value)).decode()


def is_off(task: Task) -> bool:
    """Whether a task is paused or disabled."""
    return task.paused or not task.enabled


def create(connection: Connection, tasks: Sequence[Task], owner: str, now: Instant, who: str) -> list[Entry]:
    """Create tasks, all or none."""
    stamp = _next_stamp(connection)
    names = [task.name for task in tasks]
    check_names(names, _taken(connection, names))
    _wait_for_claims(connection, names)
    running = {e.task.name: e for e in map(entry, connection.execute(query("removed_running")))}
    back = [redefined(running[task.name], task, now, owner) for task in tasks if task.name in running]
    new = [task for task in tasks if task.name not in running] if back else tasks
    created = _create(connection, new, owner, now, who, stamp) if new else []
    if back:
        _define(connection, [(e.number, e.task) for e in back], now, stamp, owner)
        numbers = [e.number for e in back]
        for name in ("restart_progress", "restart_progress_of_claim"):
            connection.execute(query(name), (now, numbers))
        for name in ("forget_pauses", "forget_definitions", "forget_chain_uses"):
            connection.execute(query(name), (numbers,))
        note(connection, audit.restored(back, now, who))
    if tasks:
        notify(connection, "tasks")
    return in_task_order(tasks, created, back)


def _create(
    connection: Connection, tasks: Sequence[Task], owner: str, now: Instant, who: str, stamp: int
) -> list[Entry]:
    """Create tasks that are not restored."""
    last = int(_one(connection, "take_numbers", (len(tasks),)))
    first = last - len(tasks) + 1
    entries = new_entries(tasks, first, new_ids(len(tasks)), owner, now)
    with connection.cursor() as cursor, cursor.copy(query("create_tasks")) as copy:
        for e in entries:
            task = e.task
            copy.write_row(
                (
                    e.number, e.id, task.name, owner, 1, now, now, stamp, task.check, is_off(task), labels_of(task),
                    task.limit, as_text(task),
                )
            )  # fmt: skip
    connection.execute(query("create_progress"), (first, last))
    if len(entries) <= audit.MAX_DETAILED_CHANGES:
        note(connection, audit.created(entries, now, who))
    else:
        connection.execute(query("note_created"), (who, first, last))
    return entries


def update(
    connection: Connection,
    changes: Sequence[tuple[int, Task]],
    now: Instant,
    who: str,
    version: int | None,
    owner: str | None,
) -> list[Entry]:
    """Give tasks new definitions, all or none; with `owner`, also a new owner."""
    stamp = _next_stamp(connection)
    numbers = [number for number, _ in changes]
    before = _by_number(connection, numbers)
    check_versions(numbers, before, version)
    names = [task.name for _, task in changes]
    own = {e.task.name for e in before.values()}
    check_names(names, _taken(connection, [name for name in names if name not in own]))
    keep_definitions(connection, [PastDefinition(number, now, before[number].task, None) for number in numbers])
    renamed = [number for number, task in changes if before[number].task.name != task.name]
    if renamed:
        connection.execute(query("release_names"), (renamed,))
    _define(connection, changes, now, stamp, owner)
    note(connection, (audit.changed(before[number], task, now, who, owner) for number, task in changes))
    notify(connection, "tasks")
    return [redefined(before[number], task, now, owner) for number, task in changes]


def _define(
    connection: Connection, changes: Sequence[tuple[int, Task]], now: Instant, stamp: int, owner: str | None
) -> None:
    """Store new definitions; tasks that were removed exist again."""
    tasks = [task for _, task in changes]
    columns = (
        [number for number, _ in changes],
        [task.name for task in tasks],
        list(map(as_text, tasks)),
        [task.check for task in tasks],
        list(map(is_off, tasks)),
        list(map(labels_of, tasks)),
        [task.limit for task in tasks],
    )
    connection.execute(query("define_tasks"), (owner, now, stamp, *columns))


def remove(connection: Connection, numbers: Sequence[int], now: Instant, who: str) -> None:
    """Remove those of the tasks that exist."""
    stamp = _next_stamp(connection)
    gone = _by_number(connection, numbers)
    connection.execute(query("remove_tasks"), (now, stamp, list(gone)))
    note(connection, audit.removed((gone[number] for number in dict.fromkeys(numbers) if number in gone), now, who))
    notify(connection, "tasks")


def keep_definitions(connection: Connection, past: Sequence[PastDefinition]) -> None:
    """Keep the definitions that were valid until now, until a node settles them."""
    if past:
        columns = zip(*map(past_row, past), strict=True)
        connection.execute(query("keep_definitions"), [list(column) for column in columns])


def set_periods(
    connection: Connection,
    periods: Mapping[str, Period | None],
    owner: str,
    now: Instant,
    who: str,
    past: Sequence[PastDefinition],
) -> None:
    """Create, replace and delete periods."""
    connection.execute(query("next_settings_stamp"))
    keep_definitions(connection, past)
    found = connection.execute(query("periods")).fetchall()
    before = {from_text(name): (from_text(whose), period(text)) for name, whose, text in found}
    for name, definition in periods.items():
        if definition is not None:
            connection.execute(query("set_period"), (name, owner, as_text(definition)))
    connection.execute(query("delete_periods"), ([name for name, new in periods.items() if new is None],))
    note(connection, audit.periods(before, periods, now, who))
    notify(connection, "settings")


def set_settings(connection: Connection, settings: Mapping[str, str | None]) -> None:
    """Set or delete settings, and notify all nodes of those that concern them."""
    is_shared = any(key.startswith(_CLUSTER_SETTINGS) for key in settings)
    if is_shared:
        connection.execute(query("next_settings_stamp"))
    # Sorted, so that two transactions that set the same settings cannot deadlock.
    given = sorted((key, value) for key, value in settings.items() if value is not None)
    if given:
        connection.execute(query("set_settings"), ([key for key, _ in given], [value for _, value in given]))
    connection.execute(query("delete_settings"), (sorted(key for key, value in settings.items() if value is None),))
    if is_shared:
        notify(connection, "settings")


def note(connection: Connection, changes: Iterable[Change]) -> None:
    """Add changes to the audit."""
    rows = list(map(change_row, changes))
    if rows:
        connection.execute(query("take_time"))  # long: a hundred thousand runs may be forced at once
        connection.execute(query("note"), [list(column) for column in zip(*rows, strict=True)])


def notify(connection: Connection, topic: str) -> None:
    """Notify listeners when the transaction is committed."""
    connection.execute(query("notify"), (topic,))


def _next_stamp(connection: Connection) -> int:
    """Lock changes of tasks until the transaction ends, and get its stamp. Changing a million tasks may take long."""
    connection.execute(query("take_time"))
    return int(_one(connection, "next_stamp"))


def _wait_for_claims(connection: Connection, names: Sequence[str]) -> None:
    """Wait until claims under way when a task of such a name was removed are either kept or refused."""
    before = {name for (name,) in connection.execute(query("claiming"))}
    if not before or connection.execute(query("any_name_removed"), (list(names),)).fetchone() is None:
        return
    deadline = time.monotonic() + _CLAIMS_END
    while before := before & {name for (name,) in connection.execute(query("claiming"))}:
        if time.monotonic() > deadline:
            raise DatabaseLocked(
                "a node has been claiming runs for too long, and a removed task may be among them: try again"
            )
        time.sleep(_LOOK_AGAIN)


def _taken(connection: Connection, names: Sequence[str]) -> list[str]:
    return [from_text(name) for (name,) in connection.execute(query("names_taken"), (list(names),))]


def _by_number(connection: Connection, numbers: Sequence[int]) -> dict[int, Entry]:
    found = connection.execute(query("tasks_by_number"), (list(numbers),))
    return {e.number: e for e in map(entry, found)}


def _one(connection: Connection, name: str, values: Sequence[object] = ()) -> Any:
    row = connection.execute(query(name), values).fetchone()
    assert row is not None
    return row[0]
