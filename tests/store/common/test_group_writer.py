"""The writer of the SQL stores: what waits is committed together, and a change that fails harms no other."""

import threading
from collections.abc import Callable, Iterator

import pytest

from evenbeat.store.common.group_writer import GroupRefused, GroupWriter
from evenbeat.store.contract import StoreError


class Database:
    """Takes notes of the groups that it is asked to commit; the first one waits until the test lets it go on."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.is_busy = threading.Event()
        self.may_go_on = threading.Event()
        self.rests = 0

    def commit(self, works: list[str]) -> list[str]:
        if not self.is_busy.is_set():
            self.is_busy.set()
            self.may_go_on.wait()
        self.groups.append(works)
        if "down" in works:
            raise GroupRefused(StoreError("the server is down"))
        if "bad" in works:
            raise ValueError("this cannot be kept")
        return [work.upper() for work in works]

    def rest(self) -> None:
        self.rests += 1


Open = Callable[..., GroupWriter[str, str]]


@pytest.fixture
def database() -> Database:
    return Database()


@pytest.fixture
def busy(database: Database) -> Iterator[Open]:
    """Opens a writer that has begun to commit its first change, so that all others wait."""
    opened: list[GroupWriter[str, str]] = []

    def open_writer(group_key: Callable[[str], object] = len) -> GroupWriter[str, str]:
        writer = GroupWriter("x.db", database.commit, after_commit=database.rest, group_key=group_key)
        opened.append(writer)
        writer.submit("first")
        database.is_busy.wait()
        return writer

    yield open_writer
    database.may_go_on.set()
    for writer in opened:
        writer.close()


def any_group(_: str) -> None:
    return None


def test_changes_that_wait_are_one_group_in_their_order(database: Database, busy: Open) -> None:
    writer = busy(any_group)
    futures = [writer.submit(work) for work in ("a", "b", "c")]
    database.may_go_on.set()
    assert [future.result() for future in futures] == ["A", "B", "C"]
    writer.close()
    assert database.groups == [["first"], ["a", "b", "c"]]
    assert (writer.commits, database.rests) == (2, 2)


def test_a_group_has_a_limit(database: Database, busy: Open) -> None:
    writer = busy(any_group)
    for i in range(100):
        writer.submit(str(i))
    database.may_go_on.set()
    writer.close()
    assert [len(group) for group in database.groups] == [1, 64, 36]


def test_changes_with_different_keys_are_never_in_one_group(database: Database, busy: Open) -> None:
    writer = busy(len)
    for work in ("a", "b", "cc", "d"):
        writer.submit(work)
    database.may_go_on.set()
    writer.close()
    assert database.groups == [["first"], ["a", "b"], ["cc"], ["d"]]


def test_a_change_that_fails_harms_no_other(database: Database, busy: Open) -> None:
    writer = busy(any_group)
    a, bad, b = (writer.submit(work) for work in ("a", "bad", "b"))
    database.may_go_on.set()
    assert (a.result(), b.result()) == ("A", "B")
    with pytest.raises(ValueError, match="cannot be kept"):
        bad.result()
    assert database.groups == [["first"], ["a", "bad", "b"], ["a"], ["bad"], ["b"]]


def test_a_refused_group_is_not_tried_one_by_one(database: Database, busy: Open) -> None:
    writer = busy(any_group)
    futures = [writer.submit(work) for work in ("a", "down")]
    database.may_go_on.set()
    for future in futures:
        with pytest.raises(StoreError, match="server is down"):
            future.result()
    assert database.groups == [["first"], ["a", "down"]]


def test_a_cancelled_change_is_not_made(database: Database, busy: Open) -> None:
    writer = busy(any_group)
    a, b = writer.submit("a"), writer.submit("b")
    assert a.cancel()
    database.may_go_on.set()
    assert b.result() == "B"
    assert database.groups == [["first"], ["b"]]


def test_close_commits_what_waits_and_refuses_what_comes_later(database: Database, busy: Open) -> None:
    writer = busy(any_group)
    last = writer.submit("last")
    database.may_go_on.set()
    writer.close()
    assert last.result(timeout=0) == "LAST"
    with pytest.raises(StoreError, match=r"x\.db: the store is closed"):
        writer.submit("late")
    writer.close()
