"""A node that cannot execute anything, or is not to, says so wherever it is asked."""

from pathlib import Path

import pytest
from hand_driven_node import Hand
from live_node import LiveNode
from waiting import eventually

from evenbeat.client.socket import SocketBackend
from evenbeat.load.task_keys import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Entry, RunKind, State
from evenbeat.node.answers.task_state import live_task_state_of
from evenbeat.report.status import NO_WORKERS_TEXT
from evenbeat.report.why import explain
from evenbeat.report.why_facts import Answer
from evenbeat.store.contract import Filter
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.requests import GetLiveTaskState, GetNodeMetrics, SubmitResult


def answer(hand: Hand, name: str) -> Answer:
    entry = hand.desk.find_or_raise(name)
    now, moment = hand.node.clock.now(), live_task_state_of(hand.node, entry.number)
    return explain(hand.store, name, None, now, lambda _: (True, moment))


class TestAFailingStore:
    @pytest.fixture
    def hand(self) -> Hand:
        hand = Hand(slots=1)
        hand.add("a")
        hand.add("b")
        hand.add("c", every="1h", phase="30m")
        hand.store.is_failing = True
        hand.turn(MINUTE)
        return hand

    def test_is_in_the_status(self, hand: Hand) -> None:
        assert hand.node.status().problems == ["the store fails: the disk is full"]
        hand.store.is_failing = False
        hand.loop.wait(2)
        assert hand.node.status().problems == []

    @pytest.mark.parametrize("name", ["a", "b"])
    def test_is_why_a_task_does_not_start_claimed_or_not(self, hand: Hand, name: str) -> None:
        assert answer(hand, name).answer == f"{name} is due and does not start: the store fails: the disk is full."

    def test_is_one_more_reason_for_one_that_is_not_due_yet(self, hand: Hand) -> None:
        found = answer(hand, "c")
        assert found.answer.startswith("c runs next on")
        assert "at the moment it would not start: the store fails: the disk is full" in found.reasons

    def test_is_why_a_forced_run_does_not_start(self, hand: Hand) -> None:
        hand.pause("c")
        hand.node.force([hand.desk.find_or_raise("c")])
        assert "does not start: the store fails" in answer(hand, "c").answer

    def test_of_a_paused_task_it_is_still_the_pause(self, hand: Hand) -> None:
        hand.pause("c")
        assert "paused" in answer(hand, "c").answer

    def test_one_that_takes_too_long_is_one_too(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.store.is_slow = True
        hand.turn(MINUTE)
        hand.loop.pass_by(7)
        assert hand.node.status().problems == ["the store has not committed anything for 7 s"]


def test_a_queue_that_fails_is_why_nothing_starts() -> None:
    hand = Hand(slots=1)
    hand.add("a")
    hand.add("b")
    hand.problem = "nats://q is out of reach"
    hand.turn(MINUTE)
    assert answer(hand, "b").answer == "b is due and does not start: nats://q is out of reach."
    assert hand.node.status().problems == ["nats://q is out of reach"]


class TestWithoutWorkers:
    """`up --workers 0`: it schedules, takes results from outside, and shows."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> LiveNode:
        return LiveNode(tmp_path / "a.db", workers=0)

    def tasks(self, node: LiveNode) -> dict[str, Entry]:
        often = task_from_table("often", {"every": "1s", "phase": "0s", "command": ["true"]}, check=False)
        told = task_from_table("told", {"every": "1h", "passive": True}, check=True)
        with node.door() as door:
            return {entry.task.name: entry for entry in door.add([often, told], "ana").created}

    def test_tasks_wait_and_are_executed_by_a_node_that_has_some(self, node: LiveNode) -> None:
        with node:
            entries = self.tasks(node)
            client = SocketBackend(node.database)
            eventually(lambda: (status := node.node.status()).waiting == 1 and status.late == 1)
            moment = client.ask(GetLiveTaskState(entries["often"].number)).moment
            assert moment is not None
            assert moment.obstacles == [NO_WORKERS_TEXT]
            numbers = client.ask(GetNodeMetrics()).numbers
            assert numbers is not None
            assert (numbers.workers, numbers.status.executes, numbers.status.problems) == (0, False, [])
            client.close()
            assert node.runs("often") == []
        with LiveNode(node.database) as other:
            eventually(lambda: any(run.ended for run in other.runs("often")))
            first = other.runs("often")[-1]
            assert first.kind is RunKind.CATCH_UP

    def test_results_from_outside_are_taken(self, node: LiveNode) -> None:
        with node:
            self.tasks(node)
            client = SocketBackend(node.database)
            taken = client.ask(SubmitResult("told", 2, "ana", "it burns")).taken
            client.close()
            assert taken is not None
            assert taken.state is State.CRITICAL
        store = SqliteStore(node.database, read_only=True)
        (told,) = store.conditions(Filter(names=("told",)))
        store.close()
        assert told.output == "it burns"

    def test_why_says_that_no_worker_executes(self, node: LiveNode) -> None:
        with node:
            entry = self.tasks(node)["often"]
            eventually(lambda: node.node.status().waiting == 1)
            store = SqliteStore(node.database, read_only=True)
            now, moment = node.node.clock.now(), live_task_state_of(node.node, entry.number)
            found = explain(store, "often", None, now, lambda _: (True, moment))
            store.close()
        assert found.answer == f"often is due and does not start: {NO_WORKERS_TEXT}."

    def test_it_stops_without_waiting_for_shutdown_tasks(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with LiveNode(tmp_path / "a.db", workers=0, grace=600) as node, node.door() as door:
            door.add([task_from_table("bye", {"cron": "@shutdown", "command": ["true"]}, check=False)], "ana")
            eventually(lambda: node.node.tasks.names.find("bye") is not None)
        assert f"the @shutdown tasks do not run: {NO_WORKERS_TEXT}" in caplog.text
        assert node.runs("bye") == []


class TestSetClocks:
    """How long something takes is not measured by a clock that people set."""

    @pytest.mark.parametrize("by", [-HOUR, HOUR])
    def test_uptime_and_rate_stay_what_they_are(self, by: int) -> None:
        hand = Hand()
        hand.add("a", every="1s", phase="0s")
        hand.advance(10 * SECOND)
        hand.clock_is_set(by)
        status = hand.node.status()
        assert (status.uptime, status.runs_per_second) == (10.0, round(status.runs / 10, 3))

    def test_a_step_is_not_a_standstill(self) -> None:
        hand = Hand()
        stood: list[int] = []
        hand.beat.on_standstill = stood.append

        async def turns() -> None:
            hand.beat._turn()
            hand.now += SECOND
            hand.clock_is_set(HOUR)
            hand.beat._turn()

        hand.loop.run_until_complete(turns())
        assert stood == []
