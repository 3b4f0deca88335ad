"""A node starts while another program writes to its database: it waits, says so, and gives up after a while."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from live_node import LiveNode
from waiting import eventually

from evenbeat.node.process import run_node
from evenbeat.store.contract import DatabaseLocked
from evenbeat.store.sqlite.sqlite_store import SqliteStore


@pytest.fixture
def other(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Another program that is within a change."""
    SqliteStore(tmp_path / "x.db").close()
    connection = sqlite3.connect(tmp_path / "x.db", isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    yield connection
    connection.close()


def test_a_node_waits_for_another_program_and_says_so(
    tmp_path: Path, other: sqlite3.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    def let_go() -> None:
        eventually(lambda: "waiting for it, 29 s more at most" in caplog.text)
        other.execute("ROLLBACK")

    thread = Thread(target=let_go)
    thread.start()
    with LiveNode(tmp_path / "x.db") as node:
        assert node.node.status().store == "ok"
    thread.join()


def test_a_node_that_has_waited_long_enough_ends_with_a_refusal(
    tmp_path: Path, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_node, "_LOCK_WAIT", 1)
    with pytest.raises(
        DatabaseLocked, match=r"has locked the file for 1 s: close that program, and start the node again"
    ):
        LiveNode(tmp_path / "x.db").__enter__()
    other.execute("ROLLBACK")
    with LiveNode(tmp_path / "x.db"):
        pass
