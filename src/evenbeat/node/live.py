"""Let a node live on a database: own it, open its control socket, listen to signals, and leave it tidy."""

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from evenbeat.load.collector import without_collector
from evenbeat.load.config import BadFileError, Durability
from evenbeat.model import Entry, Invalid
from evenbeat.node.clock import Clock
from evenbeat.node.control import Control
from evenbeat.node.desk import Changed, Desk
from evenbeat.node.face import Face
from evenbeat.node.inside import Inside
from evenbeat.node.leftovers import end_leftovers
from evenbeat.node.owner import Ownership, socket_path
from evenbeat.node.service import Node, Options
from evenbeat.store.contract import Store, StoreError
from evenbeat.store.opening import open_store
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
    with Ownership(database), Face(database, options.listen) as face, ExitStack() as starting:
        # Until the node has put aside what is read here: see its `_settle_in`.
        starting.enter_context(without_collector())

        def up(node: Node) -> None:
            starting.close()
            if isinstance(store, SqliteStore):
                store.inspect(node.store_was_inspected)
            ready(node)

        end_leftovers(database)
        store, all_new = _open_as_files_say(database, options.files)
        try:
            node = Node(store, options, database=str(database.resolve()))
            node.all_new = all_new
            del all_new
            node.page = face.url
            before(node)
            await live_behind(Control(node, socket_path(database)), face, up, signals=signals)
        finally:
            store.close()
    return node


async def live_inside(
    inside: Inside,
    options: Options,
    ready: Callable[[Node], None] = lambda _: None,
    *,
    before: Callable[[Node], None] = lambda _: None,
    signals: bool = True,
) -> Node:
    """Run a node on a store that only this program has, until it is stopped. The store stays open."""
    try:
        with inside.lock:
            node = Node(inside.store, options, database=f"{type(inside.store).__name__} of process {os.getpid()}")
            inside.node_comes(node.desk)
            changed = node.desk.apply(options.files, "start")
            before(node)
        if changed.created or changed.changed or changed.removed:
            tell_changes("files applied", "applied", changed)
        control = Control(node, None)

        def up(node: Node) -> None:
            inside.node_is_up(control)
            ready(node)

        with Face("", None) as face:
            await live_behind(control, face, up, signals=signals)
    finally:
        inside.node_is_gone()
    return node


async def live_behind(control: Control, face: Face, ready: Callable[[Node], None], *, signals: bool) -> None:
    """Let a node live that is asked through its control socket and shown by its face."""
    node = control.node
    if signals:
        _listen(node)

    async def up() -> None:
        await control.open()
        face.start()
        ready(node)

    try:
        await node.run(up)
    finally:
        await face.stop()
        await control.close()


def _open_as_files_say(database: Path, files: Sequence[Path]) -> tuple[Store, list[Entry]]:
    """The store, with the durability that the files ask for, or asked for when they were last applied.

    Beside it all tasks that there are, if the files have just created every one of them.
    """
    store = open_store(database)
    desk = Desk(store, Clock().now)
    try:
        is_new = store.count() == 0
        changed = desk.apply(files, "start")
        durability = desk.settings().durability
    except BaseException:
        store.close()
        raise
    if changed.created or changed.changed or changed.removed:
        tell_changes("files applied", "applied", changed)
    elif durability is not Durability.FULL:
        return store, []
    if not isinstance(store, SqliteStore):
        return store, []
    # A new one, also for the sake of memory: it does not hold the pages through which all this was written.
    store.close()
    store = SqliteStore(database, "full" if durability is Durability.FULL else "normal")
    return store, changed.created if is_new else []


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
    tell_changes("reloaded", "reloaded", changed)


def tell_changes(what: str, action: str, changed: Changed) -> None:
    for notice in changed.notices:
        _log.warning("%s", notice, extra={"action": "not_in_force"})
    counts = len(changed.created), len(changed.changed), len(changed.removed)
    _log.info("%s: %d new, %d changed, %d removed", what, *counts, extra={"action": action})
