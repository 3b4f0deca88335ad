"""Let a node live in a cluster: on a database that others share, with a queue between it and the workers."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from secrets import token_hex

from evenbeat.node.cluster.cluster_scheduler import ClusterNode
from evenbeat.node.process.api_process import Face
from evenbeat.node.process.control_socket import Control
from evenbeat.node.process.files_at_start import apply_at_start
from evenbeat.node.process.passed_variables import tell_no_longer_passed
from evenbeat.node.process.run_node import live_behind, tell_changes
from evenbeat.node.process.worker_beside import Beside
from evenbeat.node.scheduler import Node, Options
from evenbeat.queue.nats.address import Where, parse_where
from evenbeat.store.opening import shown
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.sqlite.ownership import cluster_socket


async def live_in_cluster(
    database: str,
    where: Where | str,
    options: Options,
    ready: Callable[[Node], None] = lambda _: None,
    *,
    before: Callable[[Node], None] = lambda _: None,
    signals: bool = True,
    worker: bool = False,
) -> ClusterNode:
    """Run a node until it is stopped. `before` may change tasks through its desk, `ready` is told when all is up.

    With `worker` there is one beside it, for as long as it lives.
    """
    if isinstance(where, str):
        where = parse_where(where)
    path = cluster_socket(token_hex(8))
    store = await asyncio.to_thread(PostgresStore, database)
    try:
        with Face(database, options.listen, path) as face:
            node = await asyncio.to_thread(ClusterNode, store, options, where, shown(database))
            node.page = face.url
            is_new = await asyncio.to_thread(store.count) == 0
            changed, node.files_problem = await asyncio.to_thread(
                apply_at_start, node.desk, options.files, is_strict=options.is_strict
            )
            pass_env = (await asyncio.to_thread(node.desk.settings)).pass_env or ()
            if worker:
                tell = partial(tell_no_longer_passed, is_new=is_new, in_cluster=True)
                await asyncio.to_thread(tell, store, os.environ, pass_env)
            if changed.created or changed.changed or changed.removed:
                tell_changes("files applied", "applied", changed)
            await asyncio.to_thread(before, node)
            async with _worker_beside(where, options, pass_env) if worker else nullcontext():
                control = Control(node, path)
                node.orders.perform = control.reply_to
                await live_behind(control, face, ready, signals=signals)
    finally:
        await asyncio.to_thread(store.close)
    return node


@asynccontextmanager
async def _worker_beside(where: Where, options: Options, pass_env: Sequence[str]) -> AsyncIterator[None]:
    command = ["evenbeat", "worker", "--beside", "--workers", str(options.workers), "--grace", f"{options.grace:g}s"]
    command += [f"--pass-env={name}" for name in pass_env]
    # Its address has a password in it, perhaps: not as an argument, which every user of the machine can read.
    beside = Beside(command, {"EVENBEAT_QUEUE": where.whole})
    beside.start()
    try:
        yield
    finally:
        await beside.stop()
