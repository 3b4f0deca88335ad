"""A real node, its sender process and a real receiver: a problem and its recovery arrive, whatever dies in between."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from live_node import LiveNode
from message_receivers import HttpReceiver

from evenbeat.store.sqlite.sqlite_store import SqliteStore


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        yield receiver


class Watched:
    """A check that fails as long as a file is there, and whoever it notifies."""

    def __init__(self, folder: Path, url: str) -> None:
        self.broken = folder / "broken"
        self.file = folder / "evenbeat.toml"
        self.file.write_text(
            f"""
[contacts.ops]
webhook = "{url}"

[checks.web]
every = "1s"
attempts = 1
command = ["sh", "-c", "test ! -e {self.broken} || {{ echo no answer; exit 2; }}"]
notify = ["ops"]
gather = "0s"
"""
        )
        self.database = folder / "evenbeat.db"

    def node(self) -> LiveNode:
        return LiveNode(self.database, files=(self.file,))


def kinds(receiver: HttpReceiver) -> list[str]:
    return [item["kind"] for request in receiver.requests for item in request.document["items"]]


def test_a_problem_and_its_recovery_arrive(tmp_path: Path, receiver: HttpReceiver) -> None:
    watched = Watched(tmp_path, receiver.url())
    with watched.node():
        watched.broken.touch()
        (problem,) = receiver.wait_for(1)
        watched.broken.unlink()
        _, recovery = receiver.wait_for(2)
    (item,) = problem.document["items"]
    assert (item["kind"], item["task"], item["state"], item["output"]) == ("problem", "web", "critical", "no answer")
    assert [item["kind"] for item in recovery.document["items"]] == ["recovery"]


def test_the_sender_is_killed_while_it_delivers(tmp_path: Path, receiver: HttpReceiver) -> None:
    watched = Watched(tmp_path, receiver.url("hang"))
    with watched.node() as node:
        watched.broken.touch()
        receiver.wait_for(1)
        pid = node.node.alerts.sender.pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        first, again = receiver.wait_for(2)
        assert [first.document["possible_repetition"], again.document["possible_repetition"]] == [False, True]
        assert first.document["message"] == again.document["message"]


def test_a_node_that_stops_lets_a_delivery_end_and_does_not_repeat_it(tmp_path: Path, receiver: HttpReceiver) -> None:
    watched = Watched(tmp_path, receiver.url("slow"))
    with watched.node():
        watched.broken.touch()
        receiver.wait_for(1)
    store = SqliteStore(watched.database, read_only=True)
    try:
        assert [record.state for record in store.messages()] == ["delivered"]
    finally:
        store.close()
    with watched.node():
        watched.broken.unlink()
        receiver.wait_for(2)
    assert kinds(receiver) == ["problem", "recovery"]
