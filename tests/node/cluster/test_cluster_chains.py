"""Chains in a cluster: parents and the tasks after them may belong to different nodes, and nodes leave meanwhile."""

import asyncio
from pathlib import Path

from cluster_nodes import Cluster, cluster, sleeping
from msgspec.structs import replace
from waiting import eventually_async

from evenbeat.model import RunKind, Schedule
from evenbeat.testing.postgres_server import PostgresServer

_FOLLOWERS = 6
"""So many that some of them belong to the other node than their parent."""


def test_tasks_of_all_nodes_run_once_after_their_parent_whichever_node_it_is_on(
    newest_postgres: PostgresServer, nats_url: str, tmp_path: Path
) -> None:
    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        one, two = await c.start(), await c.start()
        await c.add(sleeping("backup", "true"))
        names = [f"after {i}" for i in range(_FOLLOWERS)]
        for name in names:
            await c.add(replace(sleeping(name, "true"), schedule=Schedule(after=("backup",))))
        await eventually_async(lambda: {*names, "backup"} <= {*one.names, *two.names}, "all tasks to be live")
        assert set(names) & set(one.names), "the first node has some"
        assert set(names) & set(two.names), "the second node has some"

        async def run_backup(times: int) -> None:
            await c.do(lambda client: client.run_now(["backup"], wait=True))
            await eventually_async(
                lambda: all(len([run for run in c.runs(name) if run.ended]) == times for name in names), "all followers"
            )

        await run_backup(1)
        c.members.remove(two)
        await two.stop()
        await eventually_async(lambda: {*names, "backup"} <= {*one.names}, "the takeover")
        await run_backup(2)
        nominals = [run.nominal for run in c.runs("backup")]
        for name in names:
            assert [(run.nominal, run.kind) for run in c.runs(name)] == [(n, RunKind.CHAIN) for n in nominals]

    async def whole() -> None:
        async with cluster(newest_postgres.create_database(), nats_url, tmp_path) as made:
            await scenario(made)

    asyncio.run(whole())
