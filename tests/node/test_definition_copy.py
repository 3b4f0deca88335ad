"""A start with the copy of definitions makes the same timetable as one that reads all of them from the store, whatever
was changed between; and a copy that is not what this program has written is not used.
"""

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from budget import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.core.columns import SharedValueRows
from evenbeat.load.toml import parse_toml
from evenbeat.model import Instant
from evenbeat.node import definition_copy
from evenbeat.node.definition_copy import DefinitionCopy, definition_copy_path
from evenbeat.node.loop.plain_definitions import DefinitionCollector
from evenbeat.node.loop.restart import _add_all, _add_all_from
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.node.loop.unsettled_changes import UnsettledEdits
from evenbeat.store.contract import Filter
from evenbeat.store.sqlite.sqlite_store import SqliteStore

NOW = Instant(1_800_000_000_000_000)
HEADER = """
[limits]
few = 2
[periods.day]
ranges = ["08:00-18:00"]
[checks.parent]
every = "1m"
command = ["noop"]
"""
KINDS = (
    'every = "1m"\ncommand = ["noop", "{n}"]',
    'every = "5m"\ncommand = ["noop", "{n}"]\nattempts = 2\nlabels = {{ team = "a", host = "h{n}" }}',
    'every = "5m"\ncommand = ["noop"]\nlabels = {{ team = "b" }}\nlimit = "few"\nperiod = "day"',
    'every = "10m"\nfunction = "math:floor"\nargs = [{n}]\npool = "site"\ntimebox = "5s"',
    'every = "7m"\ncommand = ["noop"]\nphase = "3s"\nretry = "20s"',
    'every = "1h"\ncommand = ["noop"]\nspread = "icinga"\nlimit = "few"',
    'every = "1h"\ncommand = ["noop"]\nspread = "hash"\nmissed = "all"',
    'cron = "H * * * *"\ncommand = ["noop", "{n}"]',
    'every = "2m"\npassive = true',
    'every = "3m"\ncommand = ["noop"]\nstart_at = "2027-03-01T00:00"',
    'every = "3m"\ncommand = ["noop"]\nenabled = false\nlonger_than = "1h"',
    'every = "3m"\ncommand = ["noop"]\ndepends = ["parent"]',
    'every = "3m"\ncommand = ["noop"]\ndepends = ["parent"]\nwhen_unreachable = "skip"',
)
files = st.dictionaries(st.integers(0, 12), st.integers(0, len(KINDS) - 1), min_size=1)


class Database:
    """A store, and the nodes that start on it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SqliteStore(path)
        self.now = int(NOW)
        self.admin = TaskAdmin(self.store, lambda: Instant(self.now))

    def apply(self, tasks: dict[int, int], header: str = HEADER) -> None:
        self.now += 1_000_000
        text = "".join(f'[checks."c{n}ü"]\n{KINDS[kind].format(n=n)}\n' for n, kind in tasks.items())
        self.admin.apply_config("file:a", parse_toml(header + text, "a"), "test")

    def table(self) -> TaskTable:
        tasks = TaskTable(10, 0)
        tasks.set_periods({name: period for name, (_, period) in self.store.periods().items()}, Instant(self.now))
        tasks.set_limits(self.admin.limits())
        return tasks

    def start(self, copy: DefinitionCopy) -> TaskTable:
        tasks = self.table()
        edits = UnsettledEdits(tasks, self.store.past_definitions())
        _add_all_from(copy, tasks, edits, self.store, ())
        if copy.writing is not None:
            copy.writing.join()
        return tasks

    def start_without(self) -> TaskTable:
        tasks = self.table()
        _add_all(tasks, UnsettledEdits(tasks, self.store.past_definitions()), self.store.entries())
        return tasks

    def settle(self) -> None:
        """As if a node had settled all changes."""
        self.store._do(lambda connection: connection.execute("DELETE FROM past_definitions"))

    def copy(self, least: int = 1) -> "CountedCopy":
        return CountedCopy(definition_copy_path(self.path), self.store, least)


class CountedCopy(DefinitionCopy):
    """A copy that counts what it gives."""

    def plain(self, without: Any) -> Any:
        self.used = 0
        for some in super().plain(without):
            self.used += len(some.numbers)
            yield some


def content(tasks: TaskTable) -> dict[str, dict[str, object]]:
    """All that a table knows of its tasks, by name: rows and numbers of periods and kinds may differ."""
    rows = tasks.all_rows()
    found: dict[str, dict[str, object]] = {}
    limits = {number: name for name, number in tasks.limit_numbers.items()}
    periods = {number: name for name, number in tasks.period_numbers.items()}
    policies = tasks.lifecycle.retries
    for row, name in zip(rows.tolist(), tasks.names.names(rows), strict=True):
        c = tasks.columns
        values: dict[str, object] = {}
        for column in c._declared:
            array = getattr(c, column)
            value = array[np.array([row])][0] if isinstance(array, SharedValueRows) else array[row]
            values[column] = value.item()
        assert tasks.row(int(c.number[row])) == row
        assert tasks.names.find(name) == row
        for column in ("job_at", "owner", "point", "function", "pool", "limit", "period", "calendar", "retry_policy"):
            values.pop(column)
        values["job"] = tasks.jobs.get(row)
        values["owner"] = tasks._owners[int(c.owner[row])]
        values["function"] = tasks.functions_of(np.array([row]))
        values["pool"] = tasks.pools[int(c.pool[row])]
        values["limit"] = limits.get(int(c.limit[row]))
        values["period"] = periods.get(int(c.period[row]))
        values["policy"] = policies._policies[int(c.retry_policy[row])] if int(c.retry_policy[row]) else None
        values["has calendar"] = int(c.calendar[row]) >= 0
        labels = [("team", "a"), ("team", "b"), ("host", name.replace("c", "h").removesuffix("ü"))]
        values["labels"] = [bool(tasks.labels.have(np.array([row]), *label)[0]) for label in labels]
        extras = (tasks.catch_up, tasks._starts, tasks._pause_ends, tasks.expectations)
        values["extras"] = [of.get(row) for of in extras]
        values["is parent"] = row in tasks.reachability.parent_rows().tolist()
        found[name] = values
    return found


@given(st.lists(files, min_size=1, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_start_with_the_copy_is_like_one_without(
    tmp_path: Path, versions: list[dict[int, int]], settled: list[bool]
) -> None:
    """Tasks are added, changed, removed and paused, periods and limits too, between starts."""
    database = Database(tmp_path / f"{len(list(tmp_path.iterdir()))}.db")
    with closing(database.store):
        for i, (tasks, is_settled) in enumerate(zip(versions, settled, strict=False)):
            header = HEADER if i % 2 else HEADER.replace("few = 2", "some = 1\nfew = 3").replace("18:00", "19:00")
            database.apply(tasks, header)
            database.admin.pause(Filter(names=("c1ü",)), "test", paused=is_settled, reason="a" * (is_settled and i % 2))
            if is_settled:
                database.settle()
            assert content(database.start(database.copy())) == content(database.start_without())
            assert content(database.start(database.copy())) == content(database.start_without())


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Database]:
    database = Database(tmp_path / "a.db")
    with closing(database.store):
        yield database


@pytest.fixture
def database(empty: Database) -> Database:
    """One that has a copy."""
    empty.apply({n: n % 3 for n in range(12)})
    empty.start(empty.copy())
    return empty


def test_what_was_changed_is_read_from_the_store(database: Database) -> None:
    database.apply({0: 1, **{n: n % 3 for n in range(2, 13)}})  # one changed, one removed, one new
    database.settle()
    copy = database.copy()
    assert content(database.start(copy)) == content(database.start_without())
    assert copy.used == 11
    again = database.copy()
    database.start(again)
    assert again.used == 13


def test_changes_that_are_not_settled_are_read_from_the_store(database: Database) -> None:
    """They come in with the definition before the change."""
    database.apply({0: 1, **{n: n % 3 for n in range(1, 12)}})
    copy = database.copy()
    assert content(database.start(copy)) == content(database.start_without())
    assert copy.used == 12


def test_the_database_of_another_day_does_not_take_the_copy_of_this_one(database: Database, tmp_path: Path) -> None:
    """Numbers and versions are those of the copy, as after a backup was put in the place of the database."""
    other = Database(tmp_path / "other.db")
    with closing(other.store):
        other.now += 1
        other.apply({n: (n + 1) % 3 for n in range(12)})
        definition_copy_path(database.path).rename(definition_copy_path(other.path))
        copy = other.copy()
        assert content(other.start(copy)) == content(other.start_without())
        assert copy.used == 0


def test_a_copy_that_is_up_to_date_is_not_written_again(database: Database) -> None:
    copy = database.copy()
    database.start(copy)
    assert (copy.used, copy.writing) == (13, None)


def test_a_small_database_has_no_copy(empty: Database) -> None:
    empty.apply(dict.fromkeys(range(12), 0))
    empty.start(empty.copy(least=14))
    assert not definition_copy_path(empty.path).exists()
    empty.start(empty.copy(least=13))
    assert definition_copy_path(empty.path).stat().st_mode & 0o777 == 0o600


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def _piped(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _linked(path: Path) -> None:
    path.symlink_to(path.rename(f"{path}.x"))


BROKEN: dict[str, Callable[[Path], object]] = {
    "it is damaged": _flipped,
    "damaged": lambda path: path.write_bytes(path.read_bytes()[:-40]),
    "is damaged": lambda path: path.write_bytes(b""),
    "other users may have written it": lambda path: path.chmod(0o620),
    "it is no regular file": _piped,
    "Too many levels of symbolic links": _linked,
}


@pytest.mark.parametrize("why", BROKEN)
def test_a_broken_copy_is_not_used(why: str, database: Database, caplog: pytest.LogCaptureFixture) -> None:
    BROKEN[why](definition_copy_path(database.path))
    caplog.set_level(logging.INFO)
    copy = database.copy()
    assert content(database.start(copy)) == content(database.start_without())
    assert copy.used == 0
    assert why in caplog.text
    assert "the definitions are read from the database" in caplog.text
    again = database.copy()
    database.start(again)
    assert again.used == 13, "a new one was written in its place"


def test_a_copy_of_another_version_is_not_used(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(definition_copy, "version", lambda _: "0.0.1")
    caplog.set_level(logging.INFO)
    copy = database.copy()
    assert content(database.start(copy)) == content(database.start_without())
    assert copy.used == 0
    assert "another version of evenbeat has written it" in caplog.text


def test_columns_that_do_not_fit_together_are_refused(database: Database) -> None:
    """However they came about: a row must never get the name or the job of another one."""
    tasks = database.table()
    tasks.collector = DefinitionCollector()
    tasks.add(database.store.entries())
    whole = tasks.collected()
    assert whole is not None
    assert whole.is_consistent
    n = len(whole.numbers)
    assert not whole._replace(names=whole.names[1:]).is_consistent
    assert not whole._replace(jobs=whole.jobs + b"x").is_consistent
    assert not whole._replace(kinds=whole.kinds[1:]).is_consistent
    assert not whole._replace(owners=np.ones(n, np.int32)).is_consistent
    assert not whole._replace(labels=whole.labels[1:]).is_consistent


def test_a_copy_that_cannot_be_written_keeps_nothing_from_starting(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    path = definition_copy_path(database.path)
    path.unlink()
    path.mkdir()
    caplog.set_level(logging.INFO)
    assert content(database.start(database.copy())) == content(database.start_without())
    assert "no copy of the definitions was written" in caplog.text
    assert [entry.name for entry in path.parent.iterdir() if entry.name.endswith(".part")] == []
