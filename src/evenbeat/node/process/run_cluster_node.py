"""Let a node live in a cluster: on a database that others share, with a queue between it and the workers."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from secrets import token_hex

from evenbeat.node.cluster.cluster_scheduler import ClusterScheduler
from evenbeat.node.process.api_process import ApiProcess
from evenbeat.node.process.control_socket import ControlServer
from evenbeat.node.process.files_at_start import apply_files_at_start
from evenbeat.node.process.passed_variables import warn_no_longer_passed
from evenbeat.node.process.run_node import log_changes, run_scheduler
from evenbeat.node.process.worker_beside import CompanionProcess
from evenbeat.node.scheduler import NodeOptions, Scheduler
from evenbeat.queue.nats.address import QueueAddress, parse_queue_address
from evenbeat.store.addresses import without_password
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.sqlite.ownership import cluster_socket_path


async def run_cluster_node(
    database: str,
    where: QueueAddress | str,
    options: NodeOptions,
    ready: Callable[[Scheduler], None] = lambda _: None,
    *,
    before: Callable[[Scheduler], None] = lambda _: None,
    signals: bool = True,
    worker: bool = False,
) -> ClusterScheduler:
    """Run a node until it is stopped. `before` may change tasks through its desk, `ready` is told when all is up.

    With `worker` there is one beside it, for as long as it lives.
    """
    if isinstance(where, str):
        where = parse_queue_address(where)
    path = cluster_socket_path(token_hex(8))
    store = await asyncio.to_thread(PostgresStore, database)
    try:
        with ApiProcess(database, options.listen, path) as face:
            node = await asyncio.to_thread(ClusterScheduler, store, options, where, without_password(database))
            node.page = face.url
            is_new = await asyncio.to_thread(store.count) == 0
            changed, node.files_error = await asyncio.to_thread(
                apply_files_at_start, node.admin, options.files, is_strict=options.is_strict
            )
            pass_env = (await asyncio.to_thread(node.admin.settings)).pass_env or ()
            if worker:
                tell = partial(warn_no_longer_passed, is_new=is_new, in_cluster=True)
                await asyncio.to_thread(tell, store, os.environ, pass_env)
            if changed.created or changed.changed or changed.removed:
                log_changes("files applied", "applied", changed)
            await asyncio.to_thread(before, node)
            async with _companion_worker(where, options, pass_env) if worker else nullcontext():
                control = ControlServer(node, path)
                node.orders.perform = control.reply_to
                await run_scheduler(control, face, ready, signals=signals)
    finally:
        await asyncio.to_thread(store.close)
    return node


@asynccontextmanager
async def _companion_worker(where: QueueAddress, options: NodeOptions, pass_env: Sequence[str]) -> AsyncIterator[None]:
    command = ["evenbeat", "worker", "--beside", "--workers", str(options.workers), "--grace", f"{options.grace:g}s"]
    command += [f"--pass-env={name}" for name in pass_env]
    # Its address has a password in it, perhaps: not as an argument, which every user of the machine can read.
    beside = CompanionProcess(command, {"EVENBEAT_QUEUE": where.url_with_secrets})
    beside.start()
    try:
        yield
    finally:
        await beside.stop()
