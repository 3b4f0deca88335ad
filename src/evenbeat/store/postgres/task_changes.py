"""Changes of tasks, periods and settings in PostgreSQL. Each is called with a transaction open."""

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

_SHARED: Final = ("limits:", "node:", "set by hand:", "files named at up")
"""Settings that begin so concern every node: a change of theirs is news."""


_CLAIMS_END: Final = 30.0
"""Seconds in which a transaction that claims must end; the server ends one that nobody goes on with sooner."""
_LOOK_AGAIN: Final = 0.005


def labels_of(task: Task) -> str:
    """Labels as the database keeps them: an array of texts, each a JSON array of key and value."""
    return texts(label(key, value) for key, value in task.labels.items())


def label(key: str, value: str) -> str:
    """One of them."""
    return msgspec.json.encode((key, value)).decode()


def is_off(task: Task) -> bool:
    """Whether it does not run."""
    return task.paused or not task.enabled


def create(connection: Connection, tasks: Sequence[Task], owner: str, now: Instant, who: str) -> list[Entry]:
    """New tasks, all or none."""
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
        for name in ("begin_anew", "begin_anew_claimed"):
            connection.execute(query(name), (now, numbers))
        for name in ("forget_pauses", "forget_definitions"):
            connection.execute(query(name), (numbers,))
        note(connection, audit.restored(back, now, who))
    if tasks:
        notify(connection, "tasks")
    return in_task_order(tasks, created, back)


def _create(
    connection: Connection, tasks: Sequence[Task], owner: str, now: Instant, who: str, stamp: int
) -> list[Entry]:
    """Tasks that were never here."""
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
    """New definitions, all or none; with `owner`, for tasks that belong to it from now on."""
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
        connection.execute(query("step_aside"), (renamed,))
    _define(connection, changes, now, stamp, owner)
    note(connection, (audit.changed(before[number], task, now, who, owner) for number, task in changes))
    notify(connection, "tasks")
    return [redefined(before[number], task, now, owner) for number, task in changes]


def _define(
    connection: Connection, changes: Sequence[tuple[int, Task]], now: Instant, stamp: int, owner: str | None
) -> None:
    """New definitions; who was removed is there again."""
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
    """Those that are there."""
    stamp = _next_stamp(connection)
    gone = _by_number(connection, numbers)
    connection.execute(query("remove_tasks"), (now, stamp, list(gone)))
    note(connection, audit.removed((gone[number] for number in dict.fromkeys(numbers) if number in gone), now, who))
    notify(connection, "tasks")


def keep_definitions(connection: Connection, past: Sequence[PastDefinition]) -> None:
    """What was in force until now, for whoever settles it."""
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
    """Create, replace, delete."""
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
    """Set or delete some; what concerns every node is news."""
    is_news = any(key.startswith(_SHARED) for key in settings)
    if is_news:
        connection.execute(query("next_settings_stamp"))
    # In order, so that two who set the same ones do not wait for each other.
    given = sorted((key, value) for key, value in settings.items() if value is not None)
    if given:
        connection.execute(query("set_settings"), ([key for key, _ in given], [value for _, value in given]))
    connection.execute(query("delete_settings"), (sorted(key for key, value in settings.items() if value is None),))
    if is_news:
        notify(connection, "settings")


def note(connection: Connection, changes: Iterable[Change]) -> None:
    """Add to the audit."""
    rows = list(map(change_row, changes))
    if rows:
        connection.execute(query("take_time"))  # a hundred thousand runs may be forced at once
        connection.execute(query("note"), [list(column) for column in zip(*rows, strict=True)])


def notify(connection: Connection, what: str) -> None:
    """Whoever listens hears of it when this is kept."""
    connection.execute(query("notify"), (what,))


def _next_stamp(connection: Connection) -> int:
    """From now on we are the only ones who change tasks. A million of them take their time, in between as well."""
    connection.execute(query("take_time"))
    return int(_one(connection, "next_stamp"))


def _wait_for_claims(connection: Connection, names: Sequence[str]) -> None:
    """Claims that were on their way when a task of such a name was removed are kept, or refused, before we look."""
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
