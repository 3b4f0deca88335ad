"""The queue of a cluster when things go wrong: messages, servers, workers. What runs writes down that it did."""

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from nats.aio.msg import Msg
from nats_nodes import NatsScene, Node, hurry, lines, play
from queue_node import is_alive
from waiting import eventually_async

from evenbeat.core import run_lease
from evenbeat.model import SECOND, Outcome
from evenbeat.queue.nats import fetch as nats_fetch
from evenbeat.queue.nats import publishing as nats_shipping
from evenbeat.queue.nats.connection import NatsConnection
from evenbeat.queue.nats.worker import ClusterWorker
from evenbeat.testing.nats_server import NatsServer

Send = Callable[..., bool]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(autouse=True)
def _hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    hurry(monkeypatch)


def disturb(monkeypatch: pytest.MonkeyPatch, how: Callable[[Send], Send]) -> None:
    """Let all that anybody sends pass through this."""
    real: Any = NatsConnection.send
    monkeypatch.setattr(
        NatsConnection, "send", lambda link, *args, **kwargs: how(lambda *a, **k: real(link, *a, **k))(*args, **kwargs)
    )


async def run_many(cluster: NatsScene, node: Node, file: Path, count: int = 150) -> None:
    """Runs that write down their numbers: each has run once, and has one good result."""
    tokens = [t for n in range(count) for t in node.commands(f"echo {n} >>{file}")]
    results = await node.answers(tokens)
    assert Counter(r.outcome for r in results) == {Outcome.SUCCEEDED: count}
    assert sorted(map(int, lines(file))) == list(range(count))
    assert node.repeated == []


def test_doubled_messages_start_nothing_twice(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def twice(send: Send) -> Send:
        return lambda *args, **kwargs: send(*args, **kwargs) and send(*args, **kwargs)

    disturb(monkeypatch, twice)

    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        for _ in range(2):
            await cluster.worker(node)
        await run_many(cluster, node, tmp_path / "ran")
        assert node.late == []

    play(server.url, scene)


def test_delivered_again_and_again_they_start_nothing_twice(server: NatsServer, tmp_path: Path) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        client = await cluster.client()
        copies = 0

        async def copy(message: Msg) -> None:
            nonlocal copies
            # Without its id, so that the servers take it for a new one.
            if copies < 300:
                copies += 1
                await client.publish(message.subject, message.data)

        await client.subscribe(cluster.where.all_runs, cb=copy)
        for _ in range(2):
            await cluster.worker(node)
        await run_many(cluster, node, tmp_path / "ran", 60)
        await eventually_async(lambda: copies == 300)

    play(server.url, scene)


def test_lost_messages_lose_no_run(server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_shipping, "_CONFIRM_TIMEOUT", 300_000)
    monkeypatch.setattr(nats_shipping, "_STREAM_CHECK_AGE", 300_000)
    monkeypatch.setattr(nats_fetch, "_FETCH_TIMEOUT", 0.3)
    monkeypatch.setattr(nats_fetch, "_ANSWER_TIMEOUT", 0.1)
    monkeypatch.setattr(run_lease, "MAX_DISPATCH_ATTEMPTS", 1_000)
    monkeypatch.setattr(run_lease, "NO_WORKER_TIMEOUT", 60 * SECOND)
    luck = random.Random(7)

    def sometimes(send: Send) -> Send:
        return lambda *args, **kwargs: True if luck.random() < 0.15 else send(*args, **kwargs)

    disturb(monkeypatch, sometimes)

    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        for _ in range(2):
            await cluster.worker(node)
        await run_many(cluster, node, tmp_path / "ran", 60)

    play(server.url, scene)


@pytest.mark.parametrize("wiping", ["delete", "purge"])
def test_a_wiped_queue_loses_no_run(
    server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wiping: str
) -> None:
    monkeypatch.setattr(nats_shipping, "_STREAM_CHECK_AGE", 300_000)
    monkeypatch.setattr(run_lease, "NO_WORKER_TIMEOUT", 60 * SECOND)
    file = tmp_path / "ran"

    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        jetstream = (await cluster.client()).jetstream()
        await eventually_async(lambda: node.queue._publisher._stream.created)
        tokens = [t for n in range(50) for t in node.commands(f"echo {n} >>{file}")]
        while (await jetstream.stream_info(cluster.where.stream)).state.messages < 50:
            await asyncio.sleep(0.01)
        await (jetstream.delete_stream if wiping == "delete" else jetstream.purge_stream)(cluster.where.stream)
        await eventually_async(lambda: node.queue.counts.redispatched)
        worker = await cluster.worker(node)
        results = await node.answers(tokens)
        assert {r.outcome for r in results} == {Outcome.SUCCEEDED}
        # And once more, with a worker that fetches, and runs that it has.
        lasting = node.commands(f"echo lasting >>{file}; sleep 1")
        await eventually_async(lambda: lasting[0] in node.started)
        await (jetstream.delete_stream if wiping == "delete" else jetstream.purge_stream)(cluster.where.stream)
        results = await node.answers(lasting + node.commands(f"echo after >>{file}"))
        assert {r.outcome for r in results} == {Outcome.SUCCEEDED}
        assert sorted(lines(file)) == sorted([*map(str, range(50)), "lasting", "after"])
        assert (node.repeated, worker.fenced) == ([], 0)

    play(server.url, scene)


def test_servers_that_are_away_lose_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lease, "RUN_LEASE_DURATION", 20 * SECOND)
    monkeypatch.setattr(run_lease, "NO_WORKER_TIMEOUT", 60 * SECOND)
    monkeypatch.setattr(nats_shipping, "_STREAM_CHECK_AGE", 300_000)
    server = NatsServer(tmp_path / "nats")
    server.start()
    file = tmp_path / "ran"

    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        worker = await cluster.worker(node)
        tokens = node.commands(f"echo lasting >>{file}; sleep 1")
        await eventually_async(lambda: node.started)
        server.kill()
        tokens += [t for n in range(20) for t in node.commands(f"echo {n} >>{file}")]
        await eventually_async(lambda: node.queue.problem and worker.problem)
        assert str(server.ports[0]) in node.queue.problem
        await eventually_async(lambda: worker.held and worker.runs == 1)  # it has ended, and nobody hears of it
        tokens += [t for n in range(20, 40) for t in node.commands(f"echo {n} >>{file}")]
        await asyncio.sleep(1.5)  # longer than a run waits for a pool without a worker
        server.start()
        assert {r.outcome for r in await node.answers(tokens)} == {Outcome.SUCCEEDED}
        assert sorted(lines(file)) == sorted([*map(str, range(40)), "lasting"])
        await eventually_async(lambda: not node.queue.problem)

    try:
        play(server.url, scene)
    finally:
        server.stop()


def test_a_cluster_goes_on_without_the_leader_of_its_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lease, "RUN_LEASE_DURATION", 20 * SECOND)
    monkeypatch.setattr(nats_shipping, "_STREAM_CHECK_AGE", 300_000)
    server = NatsServer(tmp_path / "nats", 3)
    server.start()

    async def scene(cluster: NatsScene) -> None:
        cluster.replicate(3)
        node = await cluster.node()
        await cluster.worker(node)
        await run_many(cluster, node, tmp_path / "before", 20)
        leader = server.leader(cluster.where.stream)
        assert leader >= 0
        server.kill(leader)
        await run_many(cluster, node, tmp_path / "after", 20)
        assert server.leader(cluster.where.stream) not in (leader, -1)

    try:
        play(server.url, scene)
    finally:
        server.stop()


def test_more_replicas_than_servers_are_a_problem_that_is_told(server: NatsServer) -> None:
    async def scene(cluster: NatsScene) -> None:
        cluster.replicate(3)
        node = await cluster.node()
        await eventually_async(lambda: "stream" in node.queue.problem)
        assert "replicas" in node.queue.problem

    play(server.url, scene)


def test_what_nobody_takes_though_it_is_fetched_is_set_aside(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_shipping, "_STREAM_CHECK_AGE", 100_000)
    monkeypatch.setattr(run_lease, "NO_WORKER_TIMEOUT", 60 * SECOND)

    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        await eventually_async(lambda: not node.queue.problem)
        client = await cluster.client()
        await eventually_async(lambda: node.queue._publisher._stream.created)
        thief = await client.jetstream().pull_subscribe(cluster.where.runs("default"), durable="thief")
        tokens = node.commands("true", 2)
        for _ in range(run_lease.MAX_DISPATCH_ATTEMPTS):
            (message,) = await thief.fetch(1, timeout=20)
            await message.ack()
        results = await node.answers(tokens)
        reason = b"set aside: handed over 3 times, and no worker took it"
        assert {(r.outcome, r.output) for r in results} == {(Outcome.BROKEN, reason)}
        assert (node.queue.counts.set_aside, node.queue.counts.redispatched) == (2, 4)

    play(server.url, scene)


def test_a_killed_worker_loses_its_runs_after_a_while_and_no_others(server: NatsServer, tmp_path: Path) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        process = await cluster.process(node)
        await cluster.worker(node, pools=("other",))
        lost = node.commands(f"echo $$ >>{tmp_path / 'pids'}; exec sleep 300", 3, timebox=600)
        kept = node.commands("sleep 300", timebox=600, pool="other")
        await eventually_async(lambda: len(node.started) == 4)
        process.kill()
        results = await node.answers(lost)
        assert {r.outcome for r in results} == {Outcome.LOST}
        assert [r.started for r in results] == [node.started[token] for token in lost]
        assert b"its worker w is gone" in results[0].output
        assert not any(is_alive(int(pid)) for pid in lines(tmp_path / "pids"))
        assert (kept[0] in node.results, node.queue.counts.lost) == (False, 3)
        assert node.queue.worker_deaths.deaths(lost[0]) == 0, "it may be cut off"
        await cluster.process(node)
        await eventually_async(
            lambda: [node.queue.worker_deaths.deaths(task) for task in (*lost, *kept)] == [1, 1, 1, 0]
        )

    play(server.url, scene)


def cut_off(worker: ClusterWorker) -> Callable[[], None]:
    """Let it neither hear nor be heard; what heals it."""
    link: Any = worker._connection
    handlers = dict(link._client._subs)
    real, callbacks = link.send, {sid: sub._cb for sid, sub in handlers.items()}

    async def deaf(message: Msg) -> None:
        pass

    link.send = lambda *args, **kwargs: True
    for sub in handlers.values():
        sub._cb = deaf

    def heal() -> None:
        link.send = real
        for sid, sub in handlers.items():
            sub._cb = callbacks[sid]

    return heal


def test_a_worker_that_is_cut_off_ends_its_runs_before_they_are_lost(server: NatsServer, tmp_path: Path) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        worker = await cluster.worker(node)
        polite = node.commands(f"echo $$ >>{tmp_path / 'pids'}; exec sleep 300", timebox=600)
        stubborn = node.commands(f"trap '' TERM; echo $$ >>{tmp_path / 'pids'}; sleep 300", timebox=600)
        await eventually_async(lambda: len(lines(tmp_path / "pids")) == 2 and len(node.started) == 2)
        pids = list(map(int, lines(tmp_path / "pids")))
        heal = cut_off(worker)
        lived: list[bool] = []
        while not node.results:
            lived = [is_alive(pid) for pid in pids]
            await asyncio.sleep(0.005)
        assert lived == [False, False], "it was lost before it had ended"
        assert {r.outcome for r in await node.answers(polite + stubborn)} == {Outcome.LOST}
        assert (worker.fenced, node.late) == (2, [])
        heal()
        # It tells what became of them, which nobody waits for any more, and goes on.
        await eventually_async(lambda: len(node.late) == 2)
        assert {r.outcome for _, r in node.late} == {Outcome.LOST}
        await eventually_async(lambda: worker.held == 0)
        assert (await node.answers(node.commands("true")))[0].outcome == Outcome.SUCCEEDED
        assert node.repeated == []
        assert [node.queue.worker_deaths.deaths(task) for task in polite + stubborn] == [0, 0]

    play(server.url, scene)


def test_the_runs_of_a_worker_that_is_stopped_end_before_they_are_lost(server: NatsServer, tmp_path: Path) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        process = await cluster.process(node)
        line = f"trap '' TERM; echo $$ >>{tmp_path / 'pids'}; while :; do sleep 0.1; done"
        tokens = node.commands(line, 2, timebox=600)
        await eventually_async(lambda: len(lines(tmp_path / "pids")) == 2 and len(node.started) == 2)
        pids = list(map(int, lines(tmp_path / "pids")))
        os.kill(process.pid, signal.SIGSTOP)
        lived: list[bool] = []
        while not node.results:
            lived = [is_alive(pid) for pid in pids]
            await asyncio.sleep(0.005)
        assert lived == [False, False], "it was lost before it had ended"
        assert {r.outcome for r in await node.answers(tokens)} == {Outcome.LOST}
        os.kill(process.pid, signal.SIGCONT)
        await eventually_async(lambda: len(node.late) == 2)
        assert (await node.answers(node.commands("true")))[0].outcome == Outcome.SUCCEEDED

    play(server.url, scene)


def test_permissions_that_come_too_late_are_not_used(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lease, "PERMISSION_DURATION", 200_000)

    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        worker = await cluster.worker(node)
        real: Any = worker._handle_start_reply
        held_back: list[Any] = []
        monkeypatch.setattr(worker, "_handle_start_reply", held_back.append)
        tokens = node.commands("true")
        await eventually_async(lambda: node.queue.counts.reopened)
        monkeypatch.setattr(worker, "_handle_start_reply", real)
        for permission in held_back:
            real(permission)
        assert (await node.answers(tokens))[0].outcome == Outcome.SUCCEEDED
        assert worker.runs == 1

    play(server.url, scene)


def test_a_worker_drains_on_sigterm(server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_lease, "NO_WORKER_TIMEOUT", 60 * SECOND)

    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        process = await cluster.process(node, "--json", "--slots", "1")
        running = node.commands("sleep 1; echo done")
        await eventually_async(lambda: node.started)
        waiting = node.commands("echo later")
        process.send_signal(signal.SIGTERM)
        await eventually_async(lambda: process.poll() is not None)
        assert process.returncode == 0
        assert json.loads(process.communicate()[0]) == {"runs": 1, "fenced": 0, "unconfirmed": 0}
        assert (await node.answers(running))[0].output == b"done\n"
        await cluster.worker(node)
        assert (await node.answers(waiting))[0].output == b"later\n"
        assert node.queue.counts.lost == 0

    play(server.url, scene)


def test_a_second_signal_ends_a_worker_at_once(server: NatsServer) -> None:
    async def scene(cluster: NatsScene) -> None:
        node = await cluster.node()
        process = await cluster.process(node, "--grace", "10m")
        running = node.commands("sleep 300", timebox=600)
        await eventually_async(lambda: node.started)
        process.send_signal(signal.SIGTERM)
        await eventually_async(lambda: node.queue.worker_views[0].is_leaving)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        await eventually_async(lambda: process.poll() is not None)
        assert (await node.answers(running))[0].outcome == Outcome.CANCELLED

    play(server.url, scene)
