"""Changes of tasks and periods in SQLite. Each function must be called within a transaction."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from evenbeat.model import Entry, Instant, Period, Task
from evenbeat.store.common import audit
from evenbeat.store.common.conflicts import check_names, check_versions
from evenbeat.store.common.entries import in_task_order, new_entries, new_ids, redefined
from evenbeat.store.common.rows import as_text, change_row, entry, past_row, period
from evenbeat.store.contract import Change, PastDefinition
from evenbeat.store.sqlite.statements import as_list, query, query_of_rows

_AT_ONCE: Final = 100
"""Tasks that one statement creates: half the cost of one by one, and few different statements to keep prepared."""
_PART: Final = 20_000
"""Tasks whose progress and audit are created together: so many that their pages are still in the cache."""


def create(connection: sqlite3.Connection, tasks: Sequence[Task], owner: str, now: Instant, who: str) -> list[Entry]:
    """Create tasks, all or none."""
    names = [task.name for task in tasks]
    (last,) = connection.execute(query("last_number"), ("tasks",)).fetchone()
    check_names(names, _taken(connection, names) if last else [])
    running = {e.task.name: e for e in map(entry, connection.execute(query("removed_running")))}
    if not running:
        return _create(connection, tasks, owner, now, who, last)
    back = [redefined(running[task.name], task, now, owner) for task in tasks if task.name in running]
    new = _create(connection, [task for task in tasks if task.name not in running], owner, now, who, last)
    connection.executemany(query("restore_task"), ((owner, as_text(e.task), now, e.number) for e in back))
    for name in ("restart_progress", "restart_progress_of_claim"):
        connection.executemany(query(name), ((now, e.number) for e in back))
    for name in ("forget_pause", "forget_definitions", "forget_chain_use"):
        connection.executemany(query(name), ((e.number,) for e in back))
    note(connection, audit.restored(back, now, who))
    return in_task_order(tasks, new, back)


def _create(
    connection: sqlite3.Connection, tasks: Sequence[Task], owner: str, now: Instant, who: str, last: int
) -> list[Entry]:
    """Create tasks that are not restored; `last` is the largest number that any task has had."""
    entries = new_entries(tasks, last + 1, new_ids(len(tasks)), owner, now)
    rows = ((e.number, e.id, e.task.name, owner, now, as_text(e.task)) for e in entries)
    is_detailed = len(entries) <= audit.MAX_DETAILED_CHANGES
    for part in range(last, last + len(entries), _PART):
        of_part = islice(rows, _PART)
        while some := list(islice(of_part, _AT_ONCE)):
            connection.execute(query_of_rows("create_task", len(some)), list(chain.from_iterable(some)))
        connection.execute(query("create_progress"), (part,))
        if not is_detailed:
            connection.execute(query("note_created"), {"now": now, "who": who, "last": part})
    if is_detailed:
        note(connection, audit.created(entries, now, who))
    return entries


def update(
    connection: sqlite3.Connection,
    changes: Sequence[tuple[int, Task]],
    now: Instant,
    who: str,
    version: int | None,
    owner: str | None,
) -> list[Entry]:
    """Give tasks new definitions, all or none; with `owner`, also a new owner."""
    numbers = [number for number, _ in changes]
    before = _by_number(connection, numbers)
    check_versions(numbers, before, version)
    names = [task.name for _, task in changes]
    own = {e.task.name for e in before.values()}
    check_names(names, _taken(connection, [name for name in names if name not in own]))
    renamed = [(number, task.name) for number, task in changes if before[number].task.name != task.name]
    keep_definitions(connection, [PastDefinition(number, now, before[number].task, None) for number in numbers])
    connection.executemany(query("release_names"), ((number,) for number, _ in renamed))
    connection.executemany(query("define_task"), ((as_text(task), now, number) for number, task in changes))
    connection.executemany(query("rename_task"), ((name, number) for number, name in renamed))
    if owner is not None:
        connection.executemany(query("give_task"), ((owner, number) for number in numbers))
    note(connection, (audit.changed(before[number], task, now, who, owner) for number, task in changes))
    return [redefined(before[number], task, now, owner) for number, task in changes]


def remove(connection: sqlite3.Connection, numbers: Sequence[int], now: Instant, who: str) -> None:
    """Remove those of the tasks that exist."""
    gone = _by_number(connection, numbers)
    connection.executemany(query("remove_task"), ((now, number) for number in gone))
    note(connection, audit.removed((gone[number] for number in dict.fromkeys(numbers) if number in gone), now, who))


def keep_definitions(connection: sqlite3.Connection, past: Sequence[PastDefinition]) -> None:
    """Keep the definitions that were valid until now, until a node settles them."""
    connection.executemany(query("keep_definition"), map(past_row, past))


def set_periods(
    connection: sqlite3.Connection,
    periods: Mapping[str, Period | None],
    owner: str,
    now: Instant,
    who: str,
    past: Sequence[PastDefinition],
) -> None:
    """Create, replace and delete periods."""
    keep_definitions(connection, past)
    before = {name: (whose, period(text)) for name, whose, text in connection.execute(query("periods"))}
    given = [(name, owner, as_text(definition)) for name, definition in periods.items() if definition is not None]
    connection.executemany(query("set_period"), given)
    connection.executemany(query("delete_period"), [(name,) for name, new in periods.items() if new is None])
    note(connection, audit.periods(before, periods, now, who))


def note(connection: sqlite3.Connection, changes: Iterable[Change]) -> None:
    """Add changes to the audit."""
    connection.executemany(query("note"), map(change_row, changes))


def _taken(connection: sqlite3.Connection, names: Sequence[str]) -> list[str]:
    return [name for (name,) in connection.execute(query("names_taken"), (as_list(names),))]


def _by_number(connection: sqlite3.Connection, numbers: Sequence[int]) -> dict[int, Entry]:
    found = connection.execute(query("tasks_by_number"), (as_list(numbers),))
    return {e.number: e for e in map(entry, found)}
