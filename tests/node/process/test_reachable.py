"""The files by which others find a node are deleted: it makes them anew, and no second node comes in."""

from pathlib import Path

import pytest
from live_node import LiveNode
from waiting import eventually

from evenbeat.client.node_or_database import connect_to_live_node
from evenbeat.node.process import run_node
from evenbeat.store.sqlite.ownership import DatabaseInUse, is_node_running, socket_path
from evenbeat.wire.requests import GetStatus


def answers(database: Path) -> bool:
    client = connect_to_live_node(database)
    if client is None:
        return False
    try:
        return client.ask(GetStatus()).status is not None
    finally:
        client.close()


def test_a_deleted_socket_is_made_anew_and_whoever_was_connected_stays_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run_node, "_REACHABLE_CHECK_INTERVAL", 0.02)
    database = tmp_path / "x.db"
    with LiveNode(database):
        before = connect_to_live_node(database)
        assert before is not None
        socket_path(database).unlink()
        eventually(lambda: answers(database))
        assert before.ask(GetStatus()).status is not None
        before.close()
        socket_path(database).unlink()
        socket_path(database).write_text("something else")
        eventually(lambda: answers(database))
    assert not socket_path(database).exists()
    assert "x.db.sock was deleted, and was made anew" in caplog.text


def test_a_deleted_lock_lets_no_second_node_in_and_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "x.db"
    monkeypatch.setattr(run_node, "_REACHABLE_CHECK_INTERVAL", 3600.0)
    with LiveNode(database):
        (tmp_path / "x.db.lock").unlink()
        with pytest.raises(DatabaseInUse, match="was deleted"), LiveNode(database):
            pass
        assert is_node_running(database) is False
    monkeypatch.setattr(run_node, "_REACHABLE_CHECK_INTERVAL", 0.02)
    with LiveNode(database):
        (tmp_path / "x.db.lock").unlink()
        eventually(lambda: is_node_running(database))
        with pytest.raises(DatabaseInUse, match="process"), LiveNode(database):
            pass
