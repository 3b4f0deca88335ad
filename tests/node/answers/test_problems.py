"""A node that cannot execute anything, or is not to, says so wherever it is asked."""

from pathlib import Path

import pytest
from hand_driven_node import HandDrivenNode
from live_node import LiveNode
from waiting import eventually

from evenbeat.client.socket import SocketBackend
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Entry, RunKind, State
from evenbeat.node.answers.task_state import live_task_state_of
from evenbeat.report.status import NO_WORKERS_TEXT
from evenbeat.report.why import explain
from evenbeat.report.why_facts import Answer
from evenbeat.store.contract import Filter
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.requests import GetLiveTaskState, GetNodeMetrics, SubmitResult


def answer(driven: HandDrivenNode, name: str) -> Answer:
    entry = driven.admin.find_or_raise(name)
    now, moment = driven.node.clock.now(), live_task_state_of(driven.node, entry.number)
    return explain(driven.store, name, None, now, lambda _: (True, moment))


class TestAFailingStore:
    @pytest.fixture
    def driven(self) -> HandDrivenNode:
        driven = HandDrivenNode(slots=1)
        driven.add("a")
        driven.add("b")
        driven.add("c", every="1h", phase="30m")
        driven.store.is_failing = True
        driven.turn(MINUTE)
        return driven

    def test_is_in_the_status(self, driven: HandDrivenNode) -> None:
        assert driven.node.status().problems == ["the store fails: the disk is full"]
        driven.store.is_failing = False
        driven.loop.wait(2)
        assert driven.node.status().problems == []

    @pytest.mark.parametrize("name", ["a", "b"])
    def test_is_why_a_task_does_not_start_claimed_or_not(self, driven: HandDrivenNode, name: str) -> None:
        assert answer(driven, name).answer == f"{name} is due and does not start: the store fails: the disk is full."

    def test_is_one_more_reason_for_one_that_is_not_due_yet(self, driven: HandDrivenNode) -> None:
        found = answer(driven, "c")
        assert found.answer.startswith("c runs next on")
        assert "at the moment it would not start: the store fails: the disk is full" in found.reasons

    def test_is_why_a_forced_run_does_not_start(self, driven: HandDrivenNode) -> None:
        driven.pause("c")
        driven.node.live.force([driven.admin.find_or_raise("c")])
        assert "does not start: the store fails" in answer(driven, "c").answer

    def test_of_a_paused_task_it_is_still_the_pause(self, driven: HandDrivenNode) -> None:
        driven.pause("c")
        assert "paused" in answer(driven, "c").answer

    def test_one_that_takes_too_long_is_one_too(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.store.is_slow = True
        driven.turn(MINUTE)
        driven.loop.pass_by(7)
        assert driven.node.status().problems == ["the store has not committed anything for 7 s"]


def test_a_queue_that_fails_is_why_nothing_starts() -> None:
    driven = HandDrivenNode(slots=1)
    driven.add("a")
    driven.add("b")
    driven.problem = "nats://q is out of reach"
    driven.turn(MINUTE)
    assert answer(driven, "b").answer == "b is due and does not start: nats://q is out of reach."
    assert driven.node.status().problems == ["nats://q is out of reach"]


class TestWithoutWorkers:
    """`up --workers 0`: it schedules, takes results from outside, and shows."""

    @pytest.fixture
    def node(self, tmp_path: Path) -> LiveNode:
        return LiveNode(tmp_path / "a.db", workers=0)

    def tasks(self, node: LiveNode) -> dict[str, Entry]:
        often = task_from_table("often", {"every": "1s", "phase": "0s", "command": ["true"]}, check=False)
        passive = task_from_table("told", {"every": "1h", "passive": True}, check=True)
        with node.client() as client:
            return {entry.task.name: entry for entry in client.add([often, passive], "ana").created}

    def test_tasks_wait_and_are_executed_by_a_node_that_has_some(self, node: LiveNode) -> None:
        with node:
            entries = self.tasks(node)
            backend = SocketBackend(node.database)
            eventually(lambda: (status := node.node.status()).waiting == 1 and status.late == 1)
            moment = backend.ask(GetLiveTaskState(entries["often"].number)).moment
            assert moment is not None
            assert moment.obstacles == [NO_WORKERS_TEXT]
            numbers = backend.ask(GetNodeMetrics()).numbers
            assert numbers is not None
            assert (numbers.workers, numbers.status.executes, numbers.status.problems) == (0, False, [])
            backend.close()
            assert node.runs("often") == []
        with LiveNode(node.database) as other:
            eventually(lambda: any(run.ended for run in other.runs("often")))
            first = other.runs("often")[-1]
            assert first.kind is RunKind.CATCH_UP

    def test_results_from_outside_are_taken(self, node: LiveNode) -> None:
        with node:
            self.tasks(node)
            backend = SocketBackend(node.database)
            taken = backend.ask(SubmitResult("told", 2, "ana", "it burns")).taken
            backend.close()
            assert taken is not None
            assert taken.state is State.CRITICAL
        store = SqliteStore(node.database, read_only=True)
        (passive,) = store.conditions(Filter(names=("told",)))
        store.close()
        assert passive.output == "it burns"

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
        with LiveNode(tmp_path / "a.db", workers=0, grace=600) as node, node.client() as client:
            client.add([task_from_table("bye", {"cron": "@shutdown", "command": ["true"]}, check=False)], "ana")
            eventually(lambda: node.node.tasks.names.find("bye") is not None)
        assert f"the @shutdown tasks do not run: {NO_WORKERS_TEXT}" in caplog.text
        assert node.runs("bye") == []


class TestSetClocks:
    """How long something takes is not measured by a clock that people set."""

    @pytest.mark.parametrize("by", [-HOUR, HOUR])
    def test_uptime_and_rate_stay_what_they_are(self, by: int) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1s", phase="0s")
        driven.advance(10 * SECOND)
        driven.clock_is_set(by)
        status = driven.node.status()
        assert (status.uptime, status.runs_per_second) == (10.0, round(status.runs / 10, 3))

    def test_a_step_is_not_a_standstill(self) -> None:
        driven = HandDrivenNode()
        stood: list[int] = []
        driven.turns.on_standstill = stood.append

        async def turns() -> None:
            driven.turn_by_timer()
            driven.now += SECOND
            driven.clock_is_set(HOUR)
            driven.turn_by_timer()

        driven.loop.run_until_complete(turns())
        assert stood == []
