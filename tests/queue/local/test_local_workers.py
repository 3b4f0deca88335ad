"""The workers of the local queue: spread, replaced, stopped, and nothing of them left."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from queue_node import QueueNode, descriptors, is_alive, play

from evenbeat.child_processes.supervisor import RestartBackoff
from evenbeat.model import Job, Outcome
from evenbeat.queue.local import command_workers, sync_function_hosts
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.plain_results import MessageToNode, Results
from evenbeat.wire.worker_frames import ResultsFrame, RunResult

HERE = Path(__file__).parents[2] / "support"


def children() -> set[str]:
    """Of this process, zombies included."""
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_a_thousand_runs_leave_no_zombie_and_no_descriptor() -> None:
    before = descriptors(), children()

    async def scene(queue_node: QueueNode) -> None:
        await queue_node.answers(queue_node.send(*[Job(command=("true",))] * 2))
        workers = queue_node.queue.pids
        open_then = [len(descriptors(pid)) for pid in workers]
        results = await queue_node.answers(queue_node.send(*[Job(command=("true",))] * 1_000, timebox=60))
        assert {r.outcome for r in results} == {Outcome.SUCCEEDED}
        assert [len(descriptors(pid)) for pid in workers] == open_then
        for pid in workers:
            assert Path(f"/proc/{pid}/task/{pid}/children").read_text() == ""

    play(scene, workers=2)
    assert (descriptors(), children()) == before


def is_busy(queue_node: QueueNode) -> bool:
    return queue_node.queue.is_busy


def test_workers_are_busy_while_each_has_more_than_it_can_begin() -> None:
    async def scene(queue_node: QueueNode) -> None:
        assert not is_busy(queue_node)
        few = queue_node.send(*[Job(command=("true",))] * 100)
        assert not is_busy(queue_node), "not all of them"
        many = queue_node.send(*[Job(command=("true",))] * 400, timebox=60)
        assert is_busy(queue_node)
        await queue_node.answers(few + many)
        assert not is_busy(queue_node)

    play(scene, workers=2)


def test_workers_are_not_busy_with_what_only_lasts() -> None:
    async def scene(queue_node: QueueNode) -> None:
        lasting = queue_node.send(*[Job(command=("sleep", "30"))] * 100, timebox=60)
        assert is_busy(queue_node)
        await queue_node.until(lambda: queue_node.started.keys() >= set(lasting))
        assert not is_busy(queue_node)
        queue_node.queue.cancel()

    play(scene)


def test_what_a_worker_has_not_begun_is_known_also_if_it_was_given_more_while_it_told() -> None:
    unbegun: list[int] = []

    async def scene(queue_node: QueueNode) -> None:
        (worker,) = queue_node.queue._command_workers.workers
        hear = worker._on_frames
        tokens = queue_node.send(*[Job(command=("true",))] * 150, timebox=60)

        def listen(who: WorkerHandle, messages: list[MessageToNode]) -> None:
            has_results = any(isinstance(message, ResultsFrame) for message in messages)
            if has_results and not unbegun:
                tokens.extend(queue_node.send(*[Job(command=("true",))] * 400, timebox=60))
            hear(who, messages)
            if has_results:
                unbegun.append(who.unstarted_count)

        worker._on_frames = listen
        await queue_node.until(lambda: bool(unbegun))
        await queue_node.answers(tokens)

    play(scene)
    assert 400 <= unbegun[0] < 550, "not those that it had begun"
    assert unbegun[-1] == 0


def test_work_is_spread_over_the_workers() -> None:
    async def scene(queue_node: QueueNode) -> None:
        results = await queue_node.answers(queue_node.send(*[Job(command=("echo $PPID",), shell=True)] * 10))
        counts = [sum(int(r.output) == pid for r in results) for pid in queue_node.queue.pids]
        assert counts == [5, 5]

    play(scene, workers=2)


def test_runs_that_only_wait_do_not_keep_a_worker_from_getting_its_share() -> None:
    async def scene(queue_node: QueueNode) -> None:
        waiting = queue_node.send(*[Job(command=("sleep", "300"))] * 3, timebox=600)
        await queue_node.until(lambda: len(queue_node.started) == 3)
        results = await queue_node.answers(queue_node.send(*[Job(command=("echo $PPID",), shell=True)] * 10))
        assert sorted(sum(int(r.output) == pid for r in results) for pid in queue_node.queue.pids) == [5, 5]
        assert not set(waiting) & set(queue_node.results)

    play(scene, workers=2)


def test_a_killed_worker_loses_its_runs_and_its_children_and_is_replaced() -> None:
    async def scene(queue_node: QueueNode) -> None:
        (worker,) = queue_node.queue.pids
        lasting = queue_node.send(Job(command=("sleep", "300")), Job(command=("trap '' TERM; sleep 300",), shell=True))
        await queue_node.until(lambda: len(queue_node.started) == 2)
        left_behind = [int(p) for p in Path(f"/proc/{worker}/task/{worker}/children").read_text().split()]
        assert len(left_behind) == 2
        os.kill(worker, signal.SIGKILL)
        results = await queue_node.answers(lasting)
        assert {(r.outcome, r.status) for r in results} == {(Outcome.LOST, None)}
        assert [r.started for r in results] == [queue_node.started[token] for token in lasting]
        await queue_node.until(lambda: not any(map(is_alive, left_behind)))
        assert (await queue_node.command("echo", "again")).output == b"again\n"
        assert queue_node.queue.pids != [worker]

    play(scene)


def test_signals_of_the_terminal_and_of_operators_do_not_reach_the_runs() -> None:
    async def scene(queue_node: QueueNode) -> None:
        assert (await queue_node.command("true")).outcome == Outcome.SUCCEEDED
        (worker,) = queue_node.queue.pids
        assert os.getsid(worker) == worker != os.getsid(0)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(worker, number)
        assert (await queue_node.command("true")).outcome == Outcome.SUCCEEDED
        assert queue_node.queue.pids == [worker]

    play(scene)


NODE = """
import asyncio, sys
sys.path.insert(0, {here!r})
from queue_node import QueueNode
from evenbeat.model import Job

async def main():
    queue_node = QueueNode()
    queue_node.queue.start()
    queue_node.send(
        Job(command=("echo $$ >{folder}/command; exec sleep 300",), shell=True),
        Job(function="{folder}/functions.py:stuck"),
        Job(function="{folder}/functions.py:waits"),
        timebox=600,
    )
    await asyncio.sleep(600)

asyncio.run(main())
"""

FUNCTIONS = """
import asyncio, itertools, os

def tell(name):
    with open(f"{folder}/{{name}}.new", "w") as f:
        f.write(str(os.getpid()))
    os.rename(f"{folder}/{{name}}.new", f"{folder}/{{name}}")

def stuck():
    tell("sync")
    sum(itertools.repeat(1))

async def waits():
    tell("async")
    await asyncio.sleep(300)
"""


def test_a_killed_node_takes_everything_with_it(tmp_path: Path) -> None:
    (tmp_path / "functions.py").write_text(FUNCTIONS.format(folder=tmp_path))
    node = subprocess.Popen([sys.executable, "-c", NODE.format(here=str(HERE), folder=tmp_path)])
    files = [tmp_path / name for name in ("command", "sync", "async")]
    deadline = time.monotonic() + 30
    try:
        while not all(file.exists() and file.read_text().strip() for file in files):
            assert time.monotonic() < deadline, "it did not start"
            time.sleep(0.01)
    finally:
        node.kill()
        node.wait()
    started = [int(file.read_text()) for file in files]
    while any(map(is_alive, started)):
        assert time.monotonic() < deadline, "something outlived its node"
        time.sleep(0.01)


def test_a_node_that_does_not_listen_for_a_while_loses_nothing() -> None:
    async def scene(queue_node: QueueNode) -> None:
        tokens = queue_node.send(*[Job(command=("head", "-c", "60000", "/dev/zero"))] * 100, timebox=60)
        time.sleep(1)  # the loop of the node is blocked
        results = await queue_node.answers(tokens)
        assert {len(r.output) for r in results} == {60_000}

    play(scene)


def test_more_runs_than_fit_into_a_socket_arrive() -> None:
    async def scene(queue_node: QueueNode) -> None:
        jobs = [Job(command=("true", "x" * 50_000)) for _ in range(100)]
        assert {r.outcome for r in await queue_node.answers(queue_node.send(*jobs, timebox=60))} == {Outcome.SUCCEEDED}
        noops = queue_node.send(*[Job(command=("noop",))] * 20_000)
        assert {r.outcome for r in await queue_node.answers(noops)} == {Outcome.SUCCEEDED}

    play(scene)


def test_workers_that_cannot_start_are_tried_with_pauses_and_then_told(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command_workers, "_PROGRAM", ("evenbeat.work.no_such_program",))
    monkeypatch.setattr(sync_function_hosts, "_PROGRAM", ("evenbeat.work.no_such_program",))
    monkeypatch.setattr(RestartBackoff, "FIRST_PAUSE", 0.01)

    async def scene(queue_node: QueueNode) -> None:
        results = await queue_node.answers(queue_node.send(Job(command=("true",)), Job(function="os:getcwd")))
        assert {r.outcome for r in results} == {Outcome.BROKEN}
        assert all(b"can be started" in r.output for r in results)

    play(scene)
    assert "no_such_program" in capfd.readouterr().err


def test_a_machine_too_full_for_a_worker_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestartBackoff, "RETRY_START_AFTER", 0.01)
    real, refusals, before = subprocess.Popen, iter(range(4)), descriptors()

    def full(*args: Any, **kwargs: Any) -> Any:
        if next(refusals, None) is not None:
            raise BlockingIOError(11, "no room for another process")
        return real(*args, **kwargs)

    monkeypatch.setattr("subprocess.Popen", full)

    async def scene(queue_node: QueueNode) -> None:
        assert queue_node.queue.problem == "worker processes cannot be started: no room for another process"
        jobs = Job(command=("true",)), Job(function="os:getcwd"), Job(function="asyncio:sleep", args=(0,))
        assert {r.outcome for r in await queue_node.answers(queue_node.send(*jobs))} == {Outcome.SUCCEEDED}
        assert queue_node.queue.problem == ""

    play(scene)
    assert descriptors() == before


def test_a_worker_without_descriptors_says_that_it_waits_for_some() -> None:
    async def scene(queue_node: QueueNode) -> None:
        (long,) = queue_node.send(Job(command=("sleep", "60")), timebox=600)
        await queue_node.until(lambda: long in queue_node.started)
        (worker,) = queue_node.queue.pids
        before = resource.prlimit(worker, resource.RLIMIT_NOFILE)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, (_room_for_one(worker), before[1]))
        (waits,) = queue_node.send(Job(command=("true",)))
        await queue_node.until(lambda: "workers wait to start commands" in queue_node.queue.problem)
        resource.prlimit(worker, resource.RLIMIT_NOFILE, before)
        queue_node.queue.cancel([long])
        (result,) = await queue_node.answers([waits])
        assert result.outcome == Outcome.SUCCEEDED
        await queue_node.until(lambda: queue_node.queue.problem == "")

    play(scene)


def _room_for_one(process: int) -> int:
    """A limit below which one descriptor is free; a pipe needs two."""
    taken = {int(number) for number in [path.name for path in Path(f"/proc/{process}/fd").iterdir()]}
    free = [number for number in range(max(taken) + 3) if number not in taken]
    return free[1]


def test_stopping_waits_for_what_ends_in_time_and_cancels_the_rest() -> None:
    async def whole() -> list[RunResult]:
        queue_node = QueueNode()
        queue_node.queue.start()
        tokens = queue_node.send(Job(command=("sleep", "0.3")), Job(command=("sleep", "300")), timebox=600)
        await queue_node.queue.stop(1.0)
        assert queue_node.queue.pids == []
        return [queue_node.results[token] for token in tokens]

    short, long = asyncio.run(whole())
    assert short.outcome == Outcome.SUCCEEDED
    assert (long.outcome, long.status) == (Outcome.CANCELLED, -15)


def test_a_queue_that_is_stopped_at_once_resolves_all_it_was_given() -> None:
    async def whole() -> QueueNode:
        queue_node = QueueNode(workers=2)
        queue_node.queue.start()
        queue_node.send(*[Job(command=("sleep", "300")), Job(function="time:sleep", args=(300,))] * 10)
        await queue_node.queue.stop(0)
        return queue_node

    queue_node = asyncio.run(whole())
    assert len(queue_node.results) == 20
    assert {r.outcome for r in queue_node.results.values()} == {Outcome.CANCELLED}


def test_the_process_worker_imports_almost_nothing() -> None:
    code = "import sys, evenbeat.work.runner; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "asyncio", "socket", "subprocess", "threading", "pathlib", "logging"} & set(found)


def test_a_worker_whose_word_could_not_be_taken_is_replaced() -> None:
    """A bug of ours in a callback must not leave runs that are pending for ever."""

    async def scene(queue_node: QueueNode) -> None:
        await queue_node.command("true")
        (worker,) = queue_node.queue.pids
        command_workers = queue_node.queue._command_workers
        take, failures = command_workers._results, iter([RuntimeError("a bug")])

        def failing(results: Results) -> None:
            for error in failures:
                raise error
            take(results)

        command_workers._results = failing
        lost = queue_node.send(Job(command=("true",)), Job(command=("sleep", "300")), timebox=600)
        results = await queue_node.answers(lost[1:])
        assert results[0].outcome == Outcome.LOST
        await queue_node.until(lambda: queue_node.queue.pids not in ([], [worker]))
        assert (await queue_node.command("echo", "well")).output == b"well\n"
        queue_node.queue._pending.discard(lost[0])  # the node has failed, so it is the next one's to see to

    play(scene)
