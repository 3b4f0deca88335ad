"""The queue of a cluster on a real server: every run that is handed over gets one result, whatever it is."""

import asyncio
import time
from pathlib import Path

import pytest
from nats_nodes import NatsScene, Node, hurry, play
from waiting import eventually_async

from evenbeat.core import run_lease
from evenbeat.model import SECOND, Job, Outcome
from evenbeat.wire.cluster_messages import MAX_MESSAGE_SIZE, RunReport, encode_message
from evenbeat.wire.worker_frames import RunResult


def test_commands_and_functions_of_both_kinds_are_run(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        await cluster.worker(node)
        tokens = node.send(
            Job(command=("echo", "hello")),
            Job(command=("exit 3",), shell=True),
            Job(function="os:getcwd"),
            Job(function="asyncio:sleep", args=(0,)),
            Job(command=("no-such-program",)),
            Job(command=("sleep", "30")),
            timebox=1,
        )
        results = await node.answers(tokens)
        outcomes = ["succeeded", "failed", "succeeded", "succeeded", "broken", "timeboxed"]
        assert [r.outcome for r in results] == outcomes
        assert results[0].output == b"hello\n"
        assert results[1].status == 3
        assert tokens[5] in node.started
        assert node.queue.pending == 0

    play(nats_url, scene)


def test_thousands_of_runs_get_one_result_each_and_nothing_stays_behind(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        workers = [await cluster.worker(node, slots=100), await cluster.worker(node, slots=1_000)]
        tokens = [token for _ in range(10) for token in node.noops(500)]
        assert {r.outcome for r in await node.answers(tokens)} == {Outcome.SUCCEEDED}
        assert node.repeated == []
        assert sum(worker.runs for worker in workers) == 5_000
        await eventually_async(lambda: not any(worker.held for worker in workers))
        client = await cluster.client()
        jetstream = client.jetstream()
        deadline = time.monotonic() + 20
        while (await jetstream.stream_info(cluster.where.stream)).state.messages:
            assert time.monotonic() < deadline, "messages are left in the stream"
            await asyncio.sleep(0.02)
        assert (node.late, node.queue.counts.redispatched, node.queue.counts.lost) == ([], 0, 0)

    play(nats_url, scene)


def test_a_worker_runs_no_more_at_a_time_than_it_has_slots_and_others_get_the_rest(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        small = await cluster.worker(node, slots=2)
        tokens = node.commands("sleep 300", 3, timebox=600)
        await eventually_async(lambda: len(node.started) == 2)
        large = await cluster.worker(node, slots=10)
        await eventually_async(lambda: len(node.started) == 3)
        assert (small.held, large.held) == (2, 1)
        node.queue.cancel()
        assert {r.outcome for r in await node.answers(tokens)} == {Outcome.CANCELLED}

    play(nats_url, scene)


def test_runs_go_to_workers_of_their_pool_whatever_its_name(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        odd = await cluster.worker(node, pools=("Köln, Halle 3", "gpu"))
        plain = await cluster.worker(node)
        await node.answers(node.commands("true", 3, pool="Köln, Halle 3") + node.commands("true", 2, pool="gpu"))
        assert (odd.runs, plain.runs) == (5, 0)
        await node.answers(node.commands("true", 4))
        assert (odd.runs, plain.runs) == (5, 4)
        assert {pool: view.workers for pool, view in node.queue.pools.items()} == {
            "Köln, Halle 3": 1,
            "default": 1,
            "gpu": 1,
        }

    play(nats_url, scene)


def test_a_pool_without_workers_is_seen_and_its_runs_are_told_so(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)

    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        await cluster.worker(node)
        tokens = node.commands("true", 2, pool="moon")
        await eventually_async(lambda: node.queue.pools["moon"].without_worker_for)
        assert (node.queue.pools["moon"].waiting, node.queue.pools["default"].without_worker_for) == (2, None)
        results = await node.answers(tokens)
        assert {(r.outcome, r.output) for r in results} == {(Outcome.BROKEN, b"no worker of pool 'moon' for 1 s")}
        # Its message is still there, and starts nothing when somebody comes for it.
        late = await cluster.worker(node, pools=("moon",))
        assert (await node.answers(node.commands("true", pool="moon")))[0].outcome == Outcome.SUCCEEDED
        assert late.runs == 1

    play(nats_url, scene)


def test_a_run_too_large_for_a_message_is_told_so(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        await cluster.worker(node)
        large = Job(command=("true", *["x" * 90_000] * 11))
        (token,) = node.send(large)
        near = node.send(*[Job(command=("true", "x" * 90_000))] * 30)
        assert node.queue.pending == 31
        (result,) = await node.answers([token])
        assert result.outcome == Outcome.BROKEN
        assert str(MAX_MESSAGE_SIZE).encode() in result.output
        assert {r.outcome for r in await node.answers(near)} == {Outcome.SUCCEEDED}

    play(nats_url, scene)


def test_large_outputs_come_back_whole(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        await cluster.worker(node, processes=2)
        results = await node.answers(node.commands("head -c 60000 /dev/zero", 60))
        assert {len(r.output) for r in results} == {60_000}

    play(nats_url, scene)


def test_cancelled_runs_end_wherever_they_are(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        await cluster.worker(node)
        waiting = node.commands("true", pool="moon")
        running, other = node.commands("sleep 300", timebox=600), node.commands("sleep 300", timebox=600)
        await eventually_async(lambda: len(node.started) == 2)
        node.queue.cancel(waiting + running)
        assert [r.outcome for r in await node.answers(waiting + running)] == [Outcome.CANCELLED] * 2
        assert other[0] not in node.results
        assert node.queue.pending == 1
        node.queue.cancel()
        assert (await node.answers(other))[0].outcome == Outcome.CANCELLED

    play(nats_url, scene)


def test_a_result_is_kept_by_its_worker_until_it_is_stored(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        worker = await cluster.worker(node)
        node.is_storing = False
        tokens = node.commands("echo once")
        await node.answers(tokens)
        await asyncio.sleep(2.5)  # it is told again meanwhile
        assert worker.held == 1
        node.queue.confirm_stored(tokens)
        await eventually_async(lambda: worker.held == 0)
        assert (node.repeated, node.late) == ([], [])

    play(nats_url, scene)


def test_what_a_node_forgets_is_adopted_by_another_with_its_result(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        first, second = await cluster.node("first"), await cluster.node("second")
        await cluster.worker(first, second)
        second.owned = lambda task: False
        tokens = first.commands("sleep 2; echo done", 2)
        await eventually_async(lambda: len(first.started) == 2)
        first.owned, second.owned = second.owned, first.owned
        first.queue.forget(tokens)
        second.queue.adopt([(token, token) for token in tokens], {})
        results = await second.answers(tokens)
        assert {(r.outcome, r.output) for r in results} == {(Outcome.SUCCEEDED, b"done\n")}
        assert (first.results, first.late, second.late, first.queue.pending) == ({}, [], [], 0)

    play(nats_url, scene)


def test_what_is_adopted_and_nobody_has_is_lost_and_never_started(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hurry(monkeypatch)

    async def scene(cluster: NatsScene) -> None:
        first = await cluster.node("first")
        tokens = first.commands("true", 2)
        await eventually_async(lambda: not first.queue.problem)
        await first.queue.stop(0)
        second = await cluster.node("second")
        second.queue.adopt([(token, token) for token in tokens], {})
        worker = await cluster.worker(second)  # gets the message of the first, and asks the second
        results = await second.answers(tokens)
        assert {r.outcome for r in results} == {Outcome.LOST}
        assert (worker.runs, second.queue.counts.lost) == (0, 2)

    play(nats_url, scene)


def test_late_and_repeated_results_are_told_as_such_and_change_nothing(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        worker = await cluster.worker(node)
        (token,) = await _ran(node)
        client = await cluster.client()
        result = RunResult(token, Outcome.FAILED, 1, 5, 6, b"late")
        repeated = RunReport(worker.id, [], [(token, result)])
        late = RunReport("another", [], [(token, result), (7, RunResult(1 << 40, Outcome.SUCCEEDED, 0, 5, 6, b""))])
        for report in (repeated, repeated, late, late):
            await client.publish(cluster.where.nodes, encode_message(report))
        await eventually_async(lambda: len(node.late) == 2)
        await node.answers(node.commands("true"))
        assert [r.token for _, r in node.late] == [token, 1 << 40]
        assert node.results[token].outcome == Outcome.SUCCEEDED
        assert (node.repeated, node.queue.counts.late_results) == ([], 2)

    play(nats_url, scene)


async def _ran(node: Node) -> list[int]:
    tokens = node.commands("true")
    await node.answers(tokens)
    return tokens


def test_a_node_without_its_lease_answers_nothing(nats_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)
    monkeypatch.setattr(run_lease, "RUN_LEASE_DURATION", 20 * SECOND)

    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        worker = await cluster.worker(node)
        running = node.commands("sleep 0.5; echo done")
        await eventually_async(lambda: node.started)
        node.has_lease = False
        waiting = node.commands("true")
        await asyncio.sleep(1.5)
        assert (node.results, worker.runs, worker.held) == ({}, 1, 1)
        node.has_lease = True
        assert [r.outcome for r in await node.answers(running + waiting)] == [Outcome.SUCCEEDED] * 2
        assert (node.repeated, node.late) == ([], [])

    play(nats_url, scene)


def test_what_makes_no_sense_disturbs_nobody(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        worker = await cluster.worker(node)
        client = await cluster.client()
        for subject in (cluster.where.nodes, cluster.where.worker(worker.id), cluster.where.runs("default")):
            for data in (b"", b"\xc1", b"\x91\x01", b"x" * 100_000):
                await client.publish(subject, data)
        assert (await node.answers(node.commands("true")))[0].outcome == Outcome.SUCCEEDED
        assert node.queue.counts.unreadable == 4

    play(nats_url, scene)


def test_workers_are_shown_and_take_their_leave(nats_url: str) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        worker = await cluster.worker(node, name="east", pools=("a", "b"), slots=7)
        await eventually_async(lambda: node.queue.worker_views[0].started)
        (shown,) = node.queue.worker_views
        assert (shown.name, shown.pools, shown.slots, shown.is_leaving) == ("east", ["a", "b"], 7, False)
        assert shown.silent_for < 10
        assert abs(shown.started / 1e6 - time.time()) < 30
        assert node.queue.workers == [(shown.pid, "east: a, b")]
        running = node.commands("sleep 1; echo done", pool="a")
        await eventually_async(lambda: node.started)
        leaving = asyncio.create_task(worker.leave(20))
        await eventually_async(lambda: node.queue.worker_views[0].is_leaving)
        assert node.queue.pools["a"].workers == 0
        await leaving
        assert (await node.answers(running))[0].outcome == Outcome.SUCCEEDED
        assert worker.held == 0

    play(nats_url, scene)


def test_one_that_is_told_to_leave_cancels_what_does_not_end_in_time(nats_url: str, tmp_path: Path) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        worker = await cluster.worker(node)
        running = node.commands("sleep 300", timebox=600)
        await eventually_async(lambda: node.started)
        await worker.leave(0.1)
        assert (await node.answers(running))[0].outcome == Outcome.CANCELLED

    play(nats_url, scene)
