"""Runs that reach a runner or a host before they are due, in this process: a moment can last as long as it takes."""

import asyncio
import os
import threading
import time
from collections.abc import Iterator

import pytest
from worker_wire import WorkerWire, run_of

from evenbeat.clock.system_clock import boot_time
from evenbeat.model import HOUR, SECOND, Job, Outcome
from evenbeat.wire import worker_frames
from evenbeat.wire.worker_frames import CancelFrame, ClockFrame, RunsFrame
from evenbeat.work.async_host import AsyncHost
from evenbeat.work.node_socket import NodeConnection
from evenbeat.work.runner import CommandRunner
from evenbeat.work.sync_host import SyncHost

NOOP = Job(command=("noop",))
SYNC = Job(function="sample_functions:add", args=(1, 2))
ASYNC = Job(function="sample_functions:nothing")


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerWire]:
    monkeypatch.setattr(worker_frames, "EARLY_DELIVERY", HOUR)
    wire = WorkerWire()
    yield wire
    wire.close()
    os.close(wire.theirs)


class TestRunner:
    def turn_until_idle(self, runner: CommandRunner) -> None:
        runner.turn()
        while runner.poll_timeout() == 0:  # a turn that took long has left a start to the next one
            runner.turn()

    def test_it_waits_as_long_as_the_first_of_them(self, wire: WorkerWire) -> None:
        runner = CommandRunner(wire.theirs)
        due = boot_time() + HOUR
        wire.send(ClockFrame(0), RunsFrame([run_of(NOOP, 1, nominal=due + SECOND), run_of(NOOP, 2, nominal=due)]))
        runner.turn()
        assert wire.results() == []
        assert HOUR / SECOND - 60 < runner.poll_timeout() <= HOUR / SECOND
        wire.send(ClockFrame(HOUR))
        self.turn_until_idle(runner)
        assert [result.token for result in wire.results()] == [2]
        wire.send(ClockFrame(HOUR + SECOND))
        self.turn_until_idle(runner)
        assert [result.token for result in wire.results()] == [1]

    @pytest.mark.parametrize("tokens", [[], [1]])
    def test_what_waits_can_be_cancelled(self, wire: WorkerWire, tokens: list[int]) -> None:
        runner = CommandRunner(wire.theirs)
        wire.send(ClockFrame(0), RunsFrame([run_of(NOOP, 1), run_of(NOOP, 2)]))
        runner.turn()
        wire.send(CancelFrame(tokens))
        runner.turn()
        wire.send(ClockFrame(HOUR + SECOND))
        self.turn_until_idle(runner)
        found = {result.token: result.outcome for result in wire.results()}
        assert found == {1: Outcome.CANCELLED, 2: Outcome.SUCCEEDED if tokens else Outcome.CANCELLED}


class TestAsyncHost:
    @pytest.fixture
    def host(self, wire: WorkerWire) -> Iterator[AsyncHost]:
        host = AsyncHost(NodeConnection(wire.theirs))
        yield host
        host.loop.close()

    def hear(self, host: AsyncHost, wire: WorkerWire, *messages: RunsFrame | ClockFrame | CancelFrame) -> None:
        wire.send(*messages)
        host.listen()
        host.loop.run_until_complete(asyncio.sleep(0.01))

    def test_it_waits_for_the_first_of_them(self, wire: WorkerWire, host: AsyncHost) -> None:
        due = boot_time() + HOUR
        self.hear(
            host,
            wire,
            ClockFrame(0),
            RunsFrame([run_of(ASYNC, 1, nominal=due + SECOND), run_of(ASYNC, 2, nominal=due)]),
        )
        assert wire.results() == []
        assert host.early_timer is not None
        assert host.early_timer.when() - host.loop.time() <= HOUR / SECOND
        self.hear(host, wire, ClockFrame(HOUR))
        assert [result.token for result in wire.results()] == [2]
        self.hear(host, wire, ClockFrame(HOUR + SECOND))
        assert [result.token for result in wire.results()] == [1]

    @pytest.mark.parametrize("tokens", [[], [1]])
    def test_what_waits_can_be_cancelled(self, wire: WorkerWire, host: AsyncHost, tokens: list[int]) -> None:
        self.hear(host, wire, ClockFrame(0), RunsFrame([run_of(ASYNC, 1), run_of(ASYNC, 2)]))
        self.hear(host, wire, CancelFrame(tokens))
        self.hear(host, wire, ClockFrame(HOUR + SECOND))
        found = {result.token: result.outcome for result in wire.results()}
        assert found == {1: Outcome.CANCELLED, 2: Outcome.SUCCEEDED if tokens else Outcome.CANCELLED}


class TestSyncHost:
    def test_it_waits_for_the_first_and_hears_what_comes_meanwhile(
        self, wire: WorkerWire, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("signal.signal", lambda *_: None)
        host = threading.Thread(target=SyncHost(NodeConnection(wire.theirs)).serve)
        host.start()
        wire.send(ClockFrame(0), RunsFrame([run_of(SYNC, 1), run_of(SYNC, 2)]))
        wire.send(CancelFrame([1]))
        wire.send(ClockFrame(HOUR + SECOND))
        found: dict[int, str] = {}
        while len(found) < 2:
            found |= {result.token: result.outcome for result in wire.results()}
            time.sleep(0.001)
        assert found == {1: Outcome.CANCELLED, 2: Outcome.SUCCEEDED}
        wire.close()
        host.join()
