"""Runs with arguments of their own in a cluster: they go to the node that holds the task, and with the task."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from cluster_nodes import Cluster, cluster, sleeping
from waiting import eventually_async

from evenbeat.node.loop.jobs_with_arguments import stored_own_jobs
from evenbeat.testing.postgres_server import PostgresServer
from evenbeat.wire.requests import RunArguments

NAMES = [f"t{i}" for i in range(12)]
"""Tasks, of which each of two nodes is sure to get some."""


def test_each_node_runs_its_tasks_with_them_and_another_one_goes_on(
    newest_postgres: PostgresServer, nats_url: str, tmp_path: Path
) -> None:
    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        await c.add(*(sleeping(name, "echo", name) for name in NAMES), sleeping("long", "sleep", "3"))
        one, two = await c.start(), await c.start()
        await eventually_async(lambda: one.names and two.names and len(one.names | two.names) == 13, "a share")
        for name in NAMES:
            (ended,) = await c.do(asking(name, "dear"))
            assert ended.output == f"{name} dear\n"
        # A run that waits goes along when its node leaves.
        name = next(name for name in NAMES if name in one.names)
        await c.do(lambda client: client.set_slots(1))
        await c.do(lambda client: client.run_now(["long"], wait=False))
        await eventually_async(lambda: any(run.started for run in c.runs("long")), "the long run")
        await c.do(lambda client: client.request_run([name], RunArguments(("later",))))
        c.members.remove(one)
        await one.stop()
        await eventually_async(lambda: [run for run in c.runs(name) if run.output == f"{name} later\n"], "the run")
        await eventually_async(lambda: not stored_own_jobs(c.store), "the end of what is stored")

    def asking(name: str, word: str) -> Callable[..., object]:
        return lambda client: client.run_now([name], wait=True, arguments=RunArguments((word,)))

    async def whole() -> None:
        async with cluster(newest_postgres.create_database(), nats_url, tmp_path) as made:
            await scenario(made)

    asyncio.run(whole())
