"""A runner that has nothing else to look after than a timebox which ends in years, in this process."""

import os
from collections.abc import Iterator

import pytest
from worker_wire import WorkerWire, run_of

from evenbeat.core.timebox import NO_TIMEBOX
from evenbeat.model import MAX_EVERY, Job, Outcome
from evenbeat.wire.worker_frames import ClockFrame, RunResult, RunsFrame
from evenbeat.work import runner as runner_module
from evenbeat.work.runner import CommandRunner


@pytest.fixture
def wire() -> Iterator[WorkerWire]:
    wire = WorkerWire()
    yield wire
    wire.close()
    os.close(wire.theirs)


@pytest.mark.parametrize("timebox", [NO_TIMEBOX, MAX_EVERY])
def test_it_goes_on_when_such_a_run_has_ended(wire: WorkerWire, timebox: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner_module, "REPORT_START_AFTER", 1_000)
    monkeypatch.setattr(runner_module, "_REAP_INTERVAL", 1_000)
    runner = CommandRunner(wire.theirs)
    run = run_of(Job(command=("sleep", "0.1")), 1)
    run.timebox = timebox
    wire.send(ClockFrame(0), RunsFrame([run]))
    results: list[RunResult] = []
    while not results:
        runner.turn()
        results = wire.results()
    assert [result.outcome for result in results] == [Outcome.SUCCEEDED]
    # Now there is no child and nothing to reap: only the timer of the run is left.
    for _ in range(3):
        wire.send(ClockFrame(0))
        runner.turn()
    wire.send(RunsFrame([run_of(Job(command=("noop",)), 2)]))
    runner.turn()
    assert [result.token for result in wire.results()] == [2]
