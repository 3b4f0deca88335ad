"""Commit, then tell: an end or a change that was announced is in the store, whatever happens next."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hand_driven_node import T0, HandDrivenNode
from waiting import eventually

from evenbeat.client.socket import SocketBackend
from evenbeat.clock.node_clock import Clock
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import MINUTE, Instant, Outcome
from evenbeat.node.process.control_socket import ControlServer
from evenbeat.node.process.event_publisher import EventBroadcaster
from evenbeat.node.process.run_end_log import RunEndLogger
from evenbeat.store.contract import Batch, Filter, StoreError
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.events import Event, EventMessage, RunEvent, TaskEvent
from evenbeat.wire.requests import ForceTasks, SubmitResult

if TYPE_CHECKING:
    from asyncio import Task as Pending

    from evenbeat.wire.replies import Reply


class AnnouncingNode:
    """A node driven by hand, and all that announce what happens in it."""

    def __init__(self, socket: Path) -> None:
        self.driven = HandDrivenNode()
        self._events: list[Event] = []
        self.control = ControlServer(self.driven.node, socket)
        self.driven.loop.run_until_complete(self.control.open())
        self.hub = EventBroadcaster(self.driven.node, self.driven.loop)
        self.hub.watch(self._hear)
        self.log = RunEndLogger(self.driven.node)
        self.log.attach()

    def _hear(self, line: bytes) -> bool:
        self._events += msgspec.json.decode(line, type=EventMessage).events
        return True

    def wait(self) -> None:
        self.driven.loop.wait(0.2)

    def heard(self) -> list[Event]:
        self.wait()
        events, self._events = self._events, []
        return events

    def ask(self, request: ForceTasks | SubmitResult) -> "Pending[Reply | None]":
        asked: Pending[Reply | None] = self.driven.loop.create_task(self.control.reply_to(request))
        self.wait_for(lambda: asked.done() or self.driven.store.is_slow or self.is_forced())
        return asked

    def wait_for(self, question: Callable[[], object]) -> None:
        """Threads read the store: that takes real time."""

        def looked() -> object:
            self.driven.loop.wait(0.01)
            return question()

        eventually(looked)

    def is_forced(self) -> bool:
        return bool(self.control._waiters._waiting)

    def commit(self) -> None:
        self.driven.store.commit()
        self.driven.loop.wait(0)
        self.driven.loop.wait(0)

    def close(self) -> None:
        self.driven.loop.run_until_complete(self.control.close())


@pytest.fixture
def announcing(tmp_path: Path) -> Iterator[AnnouncingNode]:
    announcing = AnnouncingNode(tmp_path / "socket")
    yield announcing
    announcing.close()


def fail(announcing: AnnouncingNode) -> None:
    """A run fails: the turn has learned of it, and its batch is on its way."""
    announcing.driven.turn(MINUTE)
    announcing.driven.end("t", Outcome.FAILED, 1)


class TestAnEnd:
    """Nobody hears of it before it is in the store."""

    def test_is_in_no_event_no_log_line_and_no_number_before_it_is_committed(
        self, announcing: AnnouncingNode, caplog: pytest.LogCaptureFixture
    ) -> None:
        driven = announcing.driven
        driven.add("t")
        fail(announcing)
        announcing.heard()
        driven.store.is_slow = True
        with caplog.at_level(logging.INFO, "evenbeat.runs"):
            driven.turn()
            assert announcing.heard() == []
            assert caplog.text == ""
            assert driven.node.status().outcomes == {}
            announcing.commit()
            (event,) = announcing.heard()
        assert isinstance(event, RunEvent)
        assert event.outcome is Outcome.FAILED
        assert "t failed" in caplog.text
        assert driven.node.status().outcomes == {"failed": 1}

    def test_is_told_once_when_a_store_that_failed_has_taken_it(self, announcing: AnnouncingNode) -> None:
        driven = announcing.driven
        driven.add("t")
        fail(announcing)
        announcing.heard()
        driven.store.is_failing = True
        driven.turn()
        driven.loop.wait(5)
        assert announcing.heard() == []
        driven.store.is_failing = False
        driven.loop.wait(1.5)
        (event,) = announcing.heard()
        assert isinstance(event, RunEvent)
        assert driven.store.runs()[0].outcome is Outcome.FAILED

    def test_is_never_told_if_another_node_decides_about_it(self, announcing: AnnouncingNode) -> None:
        driven = announcing.driven
        driven.add("t")
        fail(announcing)
        announcing.heard()
        driven.store.is_slow = True
        driven.turn()
        driven.node.outbox.discard_all(StoreError("the lease is lost"))
        announcing.commit()
        assert announcing.heard() == []
        assert driven.node.status().outcomes == {}

    def test_skips_are_counted_when_they_are_committed(self, announcing: AnnouncingNode) -> None:
        driven = announcing.driven
        driven.add("t")
        driven.turn(MINUTE)
        driven.end("t", lasted=3 * MINUTE)
        driven.store.is_slow = True
        driven.turn()
        assert driven.node.status().skipped == {}
        announcing.commit()
        assert driven.node.status().skipped == {"coalesced": 2}


class TestAForcedRun:
    """Who waits for it is answered with its end, when that is committed."""

    def forced(self, announcing: AnnouncingNode) -> "Pending[Reply | None]":
        return announcing.ask(ForceTasks(("t",), "ana", wait=True))

    def outcome(self, asked: "Pending[Reply | None]") -> str:
        reply = asked.result()
        assert reply is not None
        assert reply.ended is not None
        return reply.ended[0].outcome

    def test_is_answered_after_the_commit(self, announcing: AnnouncingNode) -> None:
        driven = announcing.driven
        driven.add("t")
        asked = self.forced(announcing)
        driven.turn()
        driven.end("t", Outcome.FAILED, 1)
        driven.store.is_slow = True
        driven.turn()
        announcing.wait()
        assert not asked.done()
        announcing.commit()
        announcing.wait()
        assert self.outcome(asked) == "failed"

    def test_is_not_taken_for_the_run_before_it_also_if_it_is_claimed_when_that_one_is_told(
        self, announcing: AnnouncingNode
    ) -> None:
        driven = announcing.driven
        driven.add("t")
        driven.turn(MINUTE)
        asked = self.forced(announcing)
        driven.end("t", Outcome.FAILED, 1)
        driven.store.is_slow = True
        driven.turn()
        announcing.commit()
        announcing.wait()
        assert not asked.done()
        driven.under_way |= {run.name: run for run in driven.dispatched[-1:]}
        driven.end("t")
        driven.turn()
        announcing.wait()
        assert self.outcome(asked) == "succeeded"

    def test_each_hears_of_its_own(self, announcing: AnnouncingNode) -> None:
        driven = announcing.driven
        driven.add("t")
        first = self.forced(announcing)
        driven.turn()
        second = announcing.ask(ForceTasks(("t",), "bob", wait=True))
        announcing.wait_for(
            lambda: len(announcing.control._waiters._waiting[driven.admin.find_or_raise("t").number]) == 2
        )
        driven.end("t", Outcome.FAILED, 1)
        driven.turn()
        announcing.wait()
        assert self.outcome(first) == "failed"
        assert not second.done()
        driven.end("t")
        driven.turn()
        announcing.wait()
        assert self.outcome(second) == "succeeded"

    @pytest.mark.parametrize("another_runs", [False, True])
    def test_of_a_task_that_is_removed_before_it_began_has_no_end(
        self, announcing: AnnouncingNode, another_runs: bool
    ) -> None:
        driven = announcing.driven
        driven.add("t")
        if another_runs:
            driven.turn(MINUTE)
        asked = self.forced(announcing)
        driven.remove("t")
        announcing.wait()
        reply = asked.result()
        assert reply is not None
        assert reply.problem == "the task was removed before it ran"

    @pytest.mark.parametrize("heard_of_it", [False, True])
    def test_of_a_task_that_is_removed_before_its_claim_is_committed(
        self, announcing: AnnouncingNode, heard_of_it: bool
    ) -> None:
        driven = announcing.driven
        driven.add("t")
        asked = self.forced(announcing)
        driven.store.is_slow = True
        driven.turn()
        driven.admin.remove(Filter(names=("t",)), "ana")
        if heard_of_it:
            driven.node.apply_changes()
        announcing.commit()
        announcing.wait()
        reply = asked.result()
        assert reply is not None
        assert reply.problem == "the task was removed before it ran"
        assert driven.dispatched == []

    def test_of_a_task_removed_while_its_end_is_on_its_way_is_answered_with_that_end(
        self, announcing: AnnouncingNode
    ) -> None:
        driven = announcing.driven
        driven.add("t")
        asked = self.forced(announcing)
        driven.turn()
        driven.end("t", Outcome.FAILED, 1)
        driven.store.is_slow = True
        driven.turn()
        driven.remove("t")
        announcing.commit()
        announcing.wait()
        assert self.outcome(asked) == "failed"

    def test_of_a_task_that_goes_to_another_node_is_not_waited_for_in_vain(self, announcing: AnnouncingNode) -> None:
        driven = announcing.driven
        driven.add("t")
        asked = self.forced(announcing)
        driven.turn()
        driven.turns.release_tasks(driven.tasks.all_rows())
        announcing.wait()
        reply = asked.result()
        assert reply is not None
        assert "moved to another node" in reply.problem


class TestAResultFromOutside:
    def test_is_told_and_answered_when_it_is_committed(self, announcing: AnnouncingNode) -> None:
        driven = announcing.driven
        driven.add("t", check=True, passive=True, every="1h")
        announcing.heard()
        driven.store.is_slow = True
        asked = announcing.ask(SubmitResult("t", 2, "ana", "it burns"))
        assert announcing.heard() == []
        assert not asked.done()
        assert driven.turns.passive.submitted_count == 0
        announcing.commit()
        (event,) = announcing.heard()
        assert isinstance(event, RunEvent)
        assert asked.done()
        assert driven.turns.passive.submitted_count == 1


class TestAChange:
    def test_is_told_when_what_it_decided_is_committed(self, announcing: AnnouncingNode) -> None:
        driven = announcing.driven
        driven.store.is_slow = True
        driven.add("t")
        assert announcing.heard() == []
        announcing.commit()
        assert announcing.heard() == [TaskEvent("t", "created", next=Instant(T0 + MINUTE))]

    def test_of_its_name_tells_both(self, announcing: AnnouncingNode) -> None:
        driven = announcing.driven
        driven.add("t")
        announcing.heard()
        driven.set("t", new_name="u", every="1m", phase="0s", command=["true"])
        assert announcing.heard() == [
            TaskEvent("t", "removed"),
            TaskEvent("u", "created", next=Instant(T0 + MINUTE)),
        ]


def test_a_listener_that_fails_is_a_failure_of_the_node_and_costs_nobody_else_the_news(
    announcing: AnnouncingNode,
) -> None:
    driven = announcing.driven
    driven.add("t")
    fail(announcing)
    announcing.heard()

    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    driven.turns.on_finished.insert(0, broken)
    driven.store.is_slow = True
    driven.turn()
    committed: list[str] = []
    driven.node.outbox.put(Batch(), lambda: committed.append("next"))
    announcing.commit()
    announcing.wait()
    assert committed == ["next"]
    assert driven.node.reason == "it failed"


SLOW = """
import sys, threading
from concurrent.futures import Future
from evenbeat.store.sqlite.sqlite_store import SqliteStore
commit = SqliteStore.record
def slowly(store, *batches):
    done = Future()
    def kept(future):
        done.set_result(None)
    threading.Timer(0.1, lambda: commit(store, *batches).add_done_callback(kept)).start()
    return done
SqliteStore.record = slowly
from evenbeat.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("request_", [ForceTasks(("t",), "ana", wait=True), SubmitResult("c", 2, "ana", "it burns")])
def test_what_a_node_has_answered_is_in_the_history_if_it_is_killed_at_that_moment(
    tmp_path: Path, request_: ForceTasks | SubmitResult
) -> None:
    database = tmp_path / "a.db"
    store = SqliteStore(database)
    tasks = [
        task_from_table("t", {"every": "1d", "phase": "0s", "command": ["echo", "done"]}, check=False),
        task_from_table("c", {"every": "1d", "phase": "0s", "passive": True}, check=True),
    ]
    store.create(tasks, "ana", Clock().now())
    store.close()
    node = subprocess.Popen([sys.executable, "-c", SLOW, "up", "--db", str(database)])
    try:
        client = eventually(lambda: _connected(database))
        assert client is not None
        client.ask(request_)
        os.kill(node.pid, signal.SIGKILL)
        client.close()
    finally:
        node.kill()
        node.wait()
    store = SqliteStore(database, read_only=True)
    (run,) = store.runs()
    store.close()
    assert run.ended is not None
    assert run.output.strip() == ("done" if isinstance(request_, ForceTasks) else "it burns")


def _connected(database: Path) -> SocketBackend | None:
    try:
        return SocketBackend(database)
    except StoreError:
        return None


def test_a_task_that_was_created_at_the_same_moment_is_forced_too(announcing: AnnouncingNode) -> None:
    driven = announcing.driven
    driven.admin.on_changed = driven.node.pending_changes.append  # the loop has not heard of it yet
    task = task_from_table("new", {"every": "1h", "phase": "30m", "command": ["true"]}, check=False)
    driven.admin.add([task], "ana", "ana")
    asked = announcing.ask(ForceTasks(("new",), "ana"))
    assert asked.result() is not None
    assert [run.name for run in driven.turn()] == ["new"]
