"""Run a node of a cluster: open the shared database, apply the files, make the scheduler, and serve until stopped."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from secrets import token_hex

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.load.config import NodeSettings
from evenbeat.node.cluster.membership import ClusterMembership
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.api_process import ApiProcess
from evenbeat.node.process.control_socket import ControlServer
from evenbeat.node.process.files_at_start import apply_node_files
from evenbeat.node.process.run_node import serving
from evenbeat.node.process.worker_beside import CompanionProcess
from evenbeat.node.scheduler import CHANGES_AT_ONCE, Scheduler
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
) -> Scheduler:
    """Run a node of a cluster until it is stopped; with `worker`, a worker process beside it for as long.

    `before` may change tasks through the admin of the scheduler, `ready` is called when everything is up.
    """
    if isinstance(where, str):
        where = parse_queue_address(where)
    path = cluster_socket_path(token_hex(8))
    store = await asyncio.to_thread(PostgresStore, database)
    try:
        with ApiProcess(database, options.listen, path) as api:
            membership = await asyncio.to_thread(ClusterMembership, store, where)
            admin = TaskAdmin(store, membership.clock.now)
            admin.part_size = CHANGES_AT_ONCE  # nodes that are up claim runs in between
            apply = partial(apply_node_files, is_strict=options.is_strict, has_workers=worker, in_cluster=True)
            applied = await asyncio.to_thread(apply, admin, options.files)
            name = without_password(database)
            node = Scheduler(admin, options, membership, membership.clock, name, files_error=applied.problem)
            node.page = api.url
            await asyncio.to_thread(before, node)
            async with _companion_worker(where, options, applied.settings) if worker else nullcontext():
                control = ControlServer(node, path)
                membership.requests.perform = control.reply_to
                async with serving(control, api, ready, signals=signals) as on_up:
                    await node.run(on_up)
    finally:
        await asyncio.to_thread(store.close)
    return node


@asynccontextmanager
async def _companion_worker(where: QueueAddress, options: NodeOptions, said: NodeSettings) -> AsyncIterator[None]:
    grace = f"{options.stop_grace(said.stop_grace):g}s"
    command = ["evenbeat", "worker", "--beside", "--workers", str(options.workers), "--grace", grace]
    command += [f"--pass-env={name}" for name in said.pass_env or ()]
    # The address may hold a password: not as an argument, which every user of the machine can read.
    beside = CompanionProcess(command, {"EVENBEAT_QUEUE": where.url_with_secrets})
    beside.start()
    try:
        yield
    finally:
        await beside.stop()
