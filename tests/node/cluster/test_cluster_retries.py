"""Retries in a cluster: one that waits goes to the next node, with its nominal time and the number of its attempt."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from cluster_nodes import Cluster, cluster, sleeping
from msgspec.structs import replace
from waiting import eventually_async

from evenbeat.model import SECOND, Cause, RunKind
from evenbeat.store.contract import ProblemFilter
from evenbeat.testing.postgres_server import PostgresServer


def test_a_retry_that_waits_is_made_by_the_node_that_takes_over(
    newest_postgres: PostgresServer, nats_url: str, tmp_path: Path
) -> None:
    async def scenario(c: Cluster) -> None:
        await c.start_worker()
        await c.add(replace(sleeping("job", "false"), retries=2, backoff=4 * SECOND, backoff_max=4 * SECOND))
        one = await c.start()
        await c.do(running("job"))
        await eventually_async(lambda: [run for run in c.runs("job") if run.ended], "the first attempt")
        two = await c.start()
        c.members.remove(one)
        await one.stop()
        await eventually_async(lambda: two.names, "the takeover")
        await eventually_async(lambda: len([run for run in c.runs("job") if run.ended]) == 3, "all attempts")
        runs = c.runs("job")[::-1]
        assert [(run.kind, run.attempt) for run in runs] == [
            (RunKind.FORCED, 1),
            (RunKind.RETRY, 2),
            (RunKind.RETRY, 3),
        ]
        assert len({run.nominal for run in runs}) == 1
        await eventually_async(lambda: c.store.problems(ProblemFilter(cause=Cause.FAILED)), "the problem")

    def running(name: str) -> Callable[..., object]:
        return lambda client: client.run_now([name], wait=False)

    async def whole() -> None:
        async with cluster(newest_postgres.create_database(), nats_url, tmp_path) as made:
            await scenario(made)

    asyncio.run(whole())
