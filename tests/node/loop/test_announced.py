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
from hand_driven_node import T0, Hand
from waiting import eventually

from evenbeat.cli.output.run_messages import RunEndLogger
from evenbeat.client.socket import SocketBackend
from evenbeat.clock.node_clock import Clock
from evenbeat.load.task_keys import task_from_table
from evenbeat.model import MINUTE, Instant, Outcome
from evenbeat.node.process.control_socket import ControlServer
from evenbeat.node.process.event_publisher import EventBroadcaster
from evenbeat.store.contract import Batch, Filter, StoreError
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.events import Event, EventMessage, RunEvent, TaskEvent
from evenbeat.wire.requests import ForceTasks, SubmitResult

if TYPE_CHECKING:
    from asyncio import Task as Pending

    from evenbeat.wire.replies import Reply


class House:
    """A node in the hands of the test, and everybody who hears what happens in it."""

    def __init__(self, socket: Path) -> None:
        self.hand = Hand()
        self._events: list[Event] = []
        self.control = ControlServer(self.hand.node, socket)
        self.hand.loop.run_until_complete(self.control.open())
        self.hub = EventBroadcaster(self.hand.node, self.hand.loop)
        self.hub.watch(self._hear)
        self.log = RunEndLogger(self.hand.node)
        self.log.attach()

    def _hear(self, line: bytes) -> bool:
        self._events += msgspec.json.decode(line, type=EventMessage).events
        return True

    def wait(self) -> None:
        self.hand.loop.wait(0.2)

    def heard(self) -> list[Event]:
        self.wait()
        events, self._events = self._events, []
        return events

    def ask(self, request: ForceTasks | SubmitResult) -> "Pending[Reply | None]":
        asked: Pending[Reply | None] = self.hand.loop.create_task(self.control.reply_to(request))
        self.wait_for(lambda: asked.done() or self.hand.store.is_slow or self.is_forced())
        return asked

    def wait_for(self, question: Callable[[], object]) -> None:
        """Threads read the store: that takes real time."""

        def looked() -> object:
            self.hand.loop.wait(0.01)
            return question()

        eventually(looked)

    def is_forced(self) -> bool:
        return bool(self.control._waiting)

    def commit(self) -> None:
        self.hand.store.commit()
        self.hand.loop.wait(0)
        self.hand.loop.wait(0)

    def close(self) -> None:
        self.hand.loop.run_until_complete(self.control.close())


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path / "socket")
    yield house
    house.close()


def fail(house: House) -> None:
    """A run fails: the turn has learned of it, and its batch is on its way."""
    house.hand.turn(MINUTE)
    house.hand.end("t", Outcome.FAILED, 1)


class TestAnEnd:
    """Nobody hears of it before it is in the store."""

    def test_is_in_no_event_no_log_line_and_no_number_before_it_is_committed(
        self, house: House, caplog: pytest.LogCaptureFixture
    ) -> None:
        hand = house.hand
        hand.add("t")
        fail(house)
        house.heard()
        hand.store.is_slow = True
        with caplog.at_level(logging.INFO, "evenbeat.runs"):
            hand.turn()
            assert house.heard() == []
            assert caplog.text == ""
            assert hand.node.status().outcomes == {}
            house.commit()
            (event,) = house.heard()
        assert isinstance(event, RunEvent)
        assert event.outcome is Outcome.FAILED
        assert "t failed" in caplog.text
        assert hand.node.status().outcomes == {"failed": 1}

    def test_is_told_once_when_a_store_that_failed_has_taken_it(self, house: House) -> None:
        hand = house.hand
        hand.add("t")
        fail(house)
        house.heard()
        hand.store.is_failing = True
        hand.turn()
        hand.loop.wait(5)
        assert house.heard() == []
        hand.store.is_failing = False
        hand.loop.wait(1.5)
        (event,) = house.heard()
        assert isinstance(event, RunEvent)
        assert hand.store.runs()[0].outcome is Outcome.FAILED

    def test_is_never_told_if_another_node_decides_about_it(self, house: House) -> None:
        hand = house.hand
        hand.add("t")
        fail(house)
        house.heard()
        hand.store.is_slow = True
        hand.turn()
        hand.node.outbox.discard_all(StoreError("the lease is lost"))
        house.commit()
        assert house.heard() == []
        assert hand.node.status().outcomes == {}

    def test_skips_are_counted_when_they_are_committed(self, house: House) -> None:
        hand = house.hand
        hand.add("t")
        hand.turn(MINUTE)
        hand.end("t", lasted=3 * MINUTE)
        hand.store.is_slow = True
        hand.turn()
        assert hand.node.status().skipped == {}
        house.commit()
        assert hand.node.status().skipped == {"coalesced": 2}


class TestAForcedRun:
    """Who waits for it is answered with its end, when that is committed."""

    def forced(self, house: House) -> "Pending[Reply | None]":
        return house.ask(ForceTasks(("t",), "ana", wait=True))

    def outcome(self, asked: "Pending[Reply | None]") -> str:
        reply = asked.result()
        assert reply is not None
        assert reply.ended is not None
        return reply.ended[0].outcome

    def test_is_answered_after_the_commit(self, house: House) -> None:
        hand = house.hand
        hand.add("t")
        asked = self.forced(house)
        hand.turn()
        hand.end("t", Outcome.FAILED, 1)
        hand.store.is_slow = True
        hand.turn()
        house.wait()
        assert not asked.done()
        house.commit()
        house.wait()
        assert self.outcome(asked) == "failed"

    def test_is_not_taken_for_the_run_before_it_also_if_it_is_claimed_when_that_one_is_told(self, house: House) -> None:
        hand = house.hand
        hand.add("t")
        hand.turn(MINUTE)
        asked = self.forced(house)
        hand.end("t", Outcome.FAILED, 1)
        hand.store.is_slow = True
        hand.turn()
        house.commit()
        house.wait()
        assert not asked.done()
        hand.under_way |= {run.name: run for run in hand.dispatched[-1:]}
        hand.end("t")
        hand.turn()
        house.wait()
        assert self.outcome(asked) == "succeeded"

    def test_each_hears_of_its_own(self, house: House) -> None:
        hand = house.hand
        hand.add("t")
        first = self.forced(house)
        hand.turn()
        second = house.ask(ForceTasks(("t",), "bob", wait=True))
        house.wait_for(lambda: len(house.control._waiting[hand.desk.find_or_raise("t").number]) == 2)
        hand.end("t", Outcome.FAILED, 1)
        hand.turn()
        house.wait()
        assert self.outcome(first) == "failed"
        assert not second.done()
        hand.end("t")
        hand.turn()
        house.wait()
        assert self.outcome(second) == "succeeded"

    @pytest.mark.parametrize("another_runs", [False, True])
    def test_of_a_task_that_is_removed_before_it_began_has_no_end(self, house: House, another_runs: bool) -> None:
        hand = house.hand
        hand.add("t")
        if another_runs:
            hand.turn(MINUTE)
        asked = self.forced(house)
        hand.remove("t")
        house.wait()
        reply = asked.result()
        assert reply is not None
        assert reply.problem == "the task was removed before it ran"

    @pytest.mark.parametrize("heard_of_it", [False, True])
    def test_of_a_task_that_is_removed_before_its_claim_is_committed(self, house: House, heard_of_it: bool) -> None:
        hand = house.hand
        hand.add("t")
        asked = self.forced(house)
        hand.store.is_slow = True
        hand.turn()
        hand.desk.remove(Filter(names=("t",)), "ana")
        if heard_of_it:
            hand.node.apply_changes()
        house.commit()
        house.wait()
        reply = asked.result()
        assert reply is not None
        assert reply.problem == "the task was removed before it ran"
        assert hand.dispatched == []

    def test_of_a_task_removed_while_its_end_is_on_its_way_is_answered_with_that_end(self, house: House) -> None:
        hand = house.hand
        hand.add("t")
        asked = self.forced(house)
        hand.turn()
        hand.end("t", Outcome.FAILED, 1)
        hand.store.is_slow = True
        hand.turn()
        hand.remove("t")
        house.commit()
        house.wait()
        assert self.outcome(asked) == "failed"

    def test_of_a_task_that_goes_to_another_node_is_not_waited_for_in_vain(self, house: House) -> None:
        hand = house.hand
        hand.add("t")
        asked = self.forced(house)
        hand.turn()
        hand.beat.release_tasks(hand.roster.all_rows())
        house.wait()
        reply = asked.result()
        assert reply is not None
        assert "moved to another node" in reply.problem


class TestAResultFromOutside:
    def test_is_told_and_answered_when_it_is_committed(self, house: House) -> None:
        hand = house.hand
        hand.add("t", check=True, passive=True, every="1h")
        house.heard()
        hand.store.is_slow = True
        asked = house.ask(SubmitResult("t", 2, "ana", "it burns"))
        assert house.heard() == []
        assert not asked.done()
        assert hand.beat.passive.submitted_count == 0
        house.commit()
        (event,) = house.heard()
        assert isinstance(event, RunEvent)
        assert asked.done()
        assert hand.beat.passive.submitted_count == 1


class TestAChange:
    def test_is_told_when_what_it_decided_is_committed(self, house: House) -> None:
        hand = house.hand
        hand.store.is_slow = True
        hand.add("t")
        assert house.heard() == []
        house.commit()
        assert house.heard() == [TaskEvent("t", "created", next=Instant(T0 + MINUTE))]

    def test_of_its_name_tells_both(self, house: House) -> None:
        hand = house.hand
        hand.add("t")
        house.heard()
        hand.set("t", new_name="u", every="1m", phase="0s", command=["true"])
        assert house.heard() == [
            TaskEvent("t", "removed"),
            TaskEvent("u", "created", next=Instant(T0 + MINUTE)),
        ]


def test_a_listener_that_fails_is_a_failure_of_the_node_and_costs_nobody_else_the_news(house: House) -> None:
    hand = house.hand
    hand.add("t")
    fail(house)
    house.heard()

    def broken(*_: Any) -> None:
        raise RuntimeError("broken")

    hand.beat.on_finished.insert(0, broken)
    hand.store.is_slow = True
    hand.turn()
    told: list[str] = []
    hand.node.outbox.put(Batch(), lambda: told.append("next"))
    house.commit()
    house.wait()
    assert told == ["next"]
    assert hand.node.reason == "it failed"


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
