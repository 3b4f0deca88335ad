"""Let a node live on a database: own it, open its control socket, listen to signals, and leave it tidy."""

import asyncio
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from evenbeat.load.config import BadFileError
from evenbeat.model import Invalid
from evenbeat.node.control import Control
from evenbeat.node.leftovers import end_leftovers
from evenbeat.node.owner import Ownership
from evenbeat.node.service import Node, Options
from evenbeat.store.contract import StoreError
from evenbeat.store.sqlite import SqliteStore

_log: Final = logging.getLogger("evenbeat.node")


async def live(
    database: Path,
    options: Options,
    ready: Callable[[Node], None] = lambda _: None,
    *,
    before: Callable[[Node], None] = lambda _: None,
    signals: bool = True,
) -> Node:
    """Run a node until it is stopped. `before` may change tasks through its desk, `ready` is told when all is up."""
    with Ownership(database):
        end_leftovers(database)
        store = SqliteStore(database)
        try:
            node = Node(store, options, database=str(database.resolve()))
            before(node)
            control = Control(node, database)
            if signals:
                _listen(node)

            async def up() -> None:
                await control.open()
                ready(node)

            try:
                await node.run(up)
            finally:
                await control.close()
        finally:
            store.close()
    return node


def _listen(node: Node) -> None:
    loop = asyncio.get_running_loop()
    reloading: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = loop.create_task(_reload(node))
        reloading.add(task)  # the loop itself would not keep it
        task.add_done_callback(reloading.discard)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, node.stop_or_hurry, signal.Signals(number).name)
    loop.add_signal_handler(signal.SIGHUP, reload)


async def _reload(node: Node) -> None:
    """Read the node's files again. A bad one changes nothing that runs."""
    try:
        changed = await asyncio.to_thread(node.desk.apply, node.options.files, "reload", anew=True)
    except (BadFileError, Invalid, StoreError) as e:
        _log.error("nothing was reloaded: %s", e, extra={"action": "reload_failed"})
        return
    finally:
        node.take_over()
    _log.info(
        "reloaded: %d new, %d changed, %d removed",
        len(changed.created),
        len(changed.changed),
        len(changed.removed),
        extra={"action": "reloaded"},
    )
