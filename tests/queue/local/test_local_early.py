"""Runs that reach a worker before they are due: it waits for the moment, and meanwhile they can be cancelled."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest
from queue_node import QueueNode, clock_offset, play
from worker_wire import run_of

from evenbeat.clock.system_clock import boot_time
from evenbeat.model import HOUR, SECOND, Job, Outcome
from evenbeat.queue.local import sync_function_hosts
from evenbeat.wire import worker_frames
from evenbeat.wire.worker_frames import (
    EARLY_DELIVERY,
    RunSpec,
)

if TYPE_CHECKING:
    from evenbeat.queue.local.worker_process import WorkerHandle

HERE = Path(__file__).parents[2] / "support"
NOOP = Job(command=("noop",))
CHILD = Job(command=("true",))
SYNC = Job(function="sample_functions:add", args=(1, 2))
ASYNC = Job(function="sample_functions:nothing")
NAP = Job(function="sample_functions:nap", args=(0.1,))


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)


def now() -> int:
    return time.time_ns() // 1_000


class TestWait:
    def run_due_in(self, microseconds: int) -> RunSpec:
        return run_of(NOOP, nominal=microseconds)

    @pytest.mark.parametrize(
        ("due", "wait"),
        [(-1, 0), (0, 0), (1, 1), (2 * EARLY_DELIVERY, 2 * EARLY_DELIVERY), (2 * EARLY_DELIVERY + 1, 0)],
    )
    def test_until_it_is_due_unless_the_clock_was_set_back_meanwhile(self, due: int, wait: int) -> None:
        assert self.run_due_in(due).wait(0) == wait


@pytest.mark.parametrize("job", [NOOP, CHILD, SYNC, ASYNC], ids=["noop", "command", "function", "async function"])
def test_none_starts_before_it_is_due(job: Job) -> None:
    async def scene(queue_node: QueueNode) -> None:
        await queue_node.run(job)  # from now on it is known how long it takes
        for _ in range(10):
            due = now() + EARLY_DELIVERY
            result = await queue_node.run(job, nominal=due)
            assert result.outcome == Outcome.SUCCEEDED
            assert result.started >= due

    play(scene)


@pytest.mark.parametrize("job", [NOOP, SYNC, ASYNC], ids=["command", "function", "async function"])
def test_a_clock_that_was_set_back_holds_nothing_up(job: Job) -> None:
    async def scene(queue_node: QueueNode) -> None:
        assert (await queue_node.run(job, nominal=now() + HOUR)).outcome == Outcome.SUCCEEDED

    play(scene)


@pytest.mark.parametrize("by", [-2 * SECOND, 2 * SECOND])
@pytest.mark.parametrize("job", [NOOP, SYNC, ASYNC, NAP], ids=["command", "function", "async function", "long one"])
def test_what_waits_for_its_moment_when_the_clock_is_set_starts_at_that_moment_and_is_guarded_by_it(
    job: Job, by: int
) -> None:
    async def scene(queue_node: QueueNode) -> None:
        await queue_node.run(job)
        offset = clock_offset()
        queue_node.queue.set_clock(offset)
        due = boot_time() + offset + EARLY_DELIVERY
        guard = {"interval": 10 * SECOND, "tolerance": SECOND, "latest_start": due + HOUR}
        (token,) = queue_node.send(job, nominal=due, last_start=due - 9 * SECOND, **guard)
        (again,) = queue_node.send(job, nominal=due, last_start=due - 9 * SECOND + SECOND, **guard)
        queue_node.queue.set_clock(offset + by, by)
        result, too_soon = await queue_node.answers([token, again])
        assert result.outcome == Outcome.SUCCEEDED
        assert result.started >= due + by
        assert result.started < due + by + 60 * SECOND
        # Nothing about the guard has changed either, whichever way the clock was set.
        assert too_soon.outcome == Outcome.DROPPED

    play(scene)


def test_a_function_that_may_last_takes_no_host_before_it_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_frames, "EARLY_DELIVERY", HOUR)

    async def scene(queue_node: QueueNode) -> None:
        await queue_node.run(NAP)
        (early,) = queue_node.send(NAP, nominal=now() + HOUR)
        (other,) = queue_node.send(NAP)
        await queue_node.answers([other])
        queue_node.queue.cancel([early])
        (result,) = await queue_node.answers([early])
        assert (result.outcome, result.output) == (Outcome.CANCELLED, b"not started")

    play(scene, hosts=1)


def test_such_functions_begin_when_they_are_due_the_first_one_first() -> None:
    async def scene(queue_node: QueueNode) -> None:
        await queue_node.run(NAP)
        due = now() + EARLY_DELIVERY
        (last,) = queue_node.send(NAP, nominal=due)
        (first,) = queue_node.send(NAP, nominal=due - EARLY_DELIVERY // 2)
        before, after = await queue_node.answers([first, last])
        assert due - EARLY_DELIVERY // 2 <= before.started < before.ended <= after.started
        assert after.started >= due

    play(scene, hosts=1)


def test_the_time_in_a_function_counts_from_when_it_was_due() -> None:
    async def scene(queue_node: QueueNode) -> None:
        await queue_node.run(SYNC)
        due = now() + EARLY_DELIVERY
        nap = Job(function="sample_functions:nap", args=(0.5,))
        (token,) = queue_node.send(nap, nominal=due)
        (result,) = await queue_node.answers([token])
        assert queue_node.started[token] >= due
        assert result.started >= due

    play(scene)


class TestAge:
    """For how long a host has been at its first run: that is what the timebox goes by."""

    def host(self, since: float) -> sync_function_hosts._SyncHostQueue:
        host = sync_function_hosts._SyncHostQueue(cast("WorkerHandle", None))
        host.since = since
        return host

    @pytest.mark.parametrize(
        ("due", "wall", "age"),
        [
            (0, 8 * SECOND, 8.0),  # it was late, or due just then
            (-HOUR, 8 * SECOND, 8.0),
            (15_000, 8 * SECOND, 7.985),  # it waited first
            (15_000, 10_000, 7.96),  # ... and the clock was set back since: waiting explains no more than this
            (HOUR, 8 * SECOND, 7.96),
        ],
    )
    def test_it_counts_from_when_the_run_was_due(self, due: int, wall: int, age: float) -> None:
        assert self.host(100.0).age(run_of(SYNC, nominal=due), 108.0, wall) == pytest.approx(age)

    def test_while_it_waits_it_has_not_begun(self) -> None:
        assert self.host(100.0).age(run_of(SYNC, nominal=20_000), 100.01, 10_000) == 0.0


def test_a_host_that_obeyed_a_cancel_is_judged_anew() -> None:
    async def scene(queue_node: QueueNode) -> None:
        (token,) = queue_node.send(Job(function="sample_functions:nap", args=(20,)))
        await queue_node.until(lambda: token in queue_node.started)
        queue_node.queue.cancel([token])
        assert (await queue_node.answers([token]))[0].outcome == Outcome.CANCELLED
        result = await queue_node.run(Job(function="sample_functions:deaf"), timebox=0.2)
        assert result.outcome == Outcome.TIMEBOXED

    play(scene, hosts=1)
