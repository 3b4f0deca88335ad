"""Let a node live in a cluster: on a database that others share, with a queue between it and the workers."""

import asyncio
from collections.abc import Callable
from secrets import token_hex

from evenbeat.node.cluster_node import ClusterNode
from evenbeat.node.control import Control
from evenbeat.node.face import Face
from evenbeat.node.live import listen_to_signals, tell_changes
from evenbeat.node.owner import cluster_socket
from evenbeat.node.requests import Reply, Request
from evenbeat.node.service import Node, Options
from evenbeat.queue.where import Where
from evenbeat.store.opening import shown
from evenbeat.store.postgres import PostgresStore


async def live_in_cluster(
    database: str,
    where: Where,
    options: Options,
    ready: Callable[[Node], None] = lambda _: None,
    *,
    signals: bool = True,
) -> ClusterNode:
    """Run a node until it is stopped; `ready` is told when all is up."""
    path = cluster_socket(token_hex(8))
    store = await asyncio.to_thread(PostgresStore, database)
    try:
        with Face(database, options.listen, path) as face:
            node = await asyncio.to_thread(ClusterNode, store, options, where, shown(database))
            node.page = face.url
            changed = await asyncio.to_thread(node.desk.apply, options.files, "start")
            if changed.created or changed.changed or changed.removed:
                tell_changes("files applied", "applied", changed)
            control = Control(node, path)

            async def perform(request: Request) -> Reply:
                reply = await control.reply_to(request)
                assert reply is not None
                return reply

            node.perform = perform
            if signals:
                listen_to_signals(node)

            async def up() -> None:
                await control.open()
                face.start()
                ready(node)

            try:
                await node.run(up)
            finally:
                await face.stop()
                await control.close()
    finally:
        await asyncio.to_thread(store.close)
    return node
