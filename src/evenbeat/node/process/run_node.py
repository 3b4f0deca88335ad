"""Let a node live on a database: own it, open its control socket, listen to signals, and leave it tidy."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from evenbeat.admin.task_admin import Changed, Desk
from evenbeat.client.in_process import Inside
from evenbeat.load.config import BadFileError, Durability
from evenbeat.load.pause_gc import without_collector
from evenbeat.model import Entry, Invalid
from evenbeat.node.loop.clock import Clock
from evenbeat.node.process.api_process import Face
from evenbeat.node.process.control_socket import Control
from evenbeat.node.process.files_at_start import apply_at_start
from evenbeat.node.process.leftovers import end_leftovers
from evenbeat.node.process.passed_variables import tell_no_longer_passed
from evenbeat.node.process.token_file import have_token
from evenbeat.node.scheduler import Node, Options
from evenbeat.store.contract import Locked, Store, StoreError
from evenbeat.store.foreign_files import must_be_ours
from evenbeat.store.opening import open_store
from evenbeat.store.sqlite.connect import is_writable
from evenbeat.store.sqlite.ownership import Ownership, socket_path
from evenbeat.store.sqlite.sqlite_store import SqliteStore

_LOOK: Final = 1.0
"""Seconds between two looks at the files by which others find the node."""
_PATIENCE: Final = 30
"""Seconds to wait for another program that writes to the database when the node starts."""
_CHECKED_AT_START: Final = 32 << 20
"""Bytes: a file up to this size is checked before a node starts, in a tenth of a second; a larger one after that."""
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
    must_be_ours(database)
    with Ownership(database) as ownership:
        await _wait_for_writers(database)
        return await _live(database, options, ownership, ready, before, signals=signals)


async def _live(
    database: Path,
    options: Options,
    ownership: Ownership,
    ready: Callable[[Node], None],
    before: Callable[[Node], None],
    *,
    signals: bool,
) -> Node:
    with Face(database, options.listen) as face, ExitStack() as starting:
        # Until the node has put aside what is read here: see its `_settle_in`.
        starting.enter_context(without_collector())

        def up(node: Node) -> None:
            starting.close()
            if isinstance(store, SqliteStore):
                store.inspect(node.store_was_inspected)
            ready(node)

        end_leftovers(database)
        store, all_new, files_problem = _open_as_files_say(database, options)
        try:
            ownership.hold_file()
            node = Node(store, options, database=str(database.resolve()))
            node.files_problem = files_problem
            node.all_new = all_new
            del all_new
            node.page = face.url
            if options.listen is not None:
                node.token_file = have_token(node.desk, database, options.listen)
            before(node)
            control = Control(node, socket_path(database))
            await live_behind(control, face, up, signals=signals, look=ownership.look)
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
            is_new = inside.store.count() == 0
            changed, node.files_problem = apply_at_start(node.desk, options.files, is_strict=options.is_strict)
            tell_no_longer_passed(inside.store, os.environ, node.desk.settings().pass_env or (), is_new=is_new)
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


async def live_behind(
    control: Control,
    face: Face,
    ready: Callable[[Node], None],
    *,
    signals: bool,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Let a node live that is asked through its control socket and shown by its face; `look` is called every second."""
    node = control.node
    looking: list[asyncio.Task[None]] = []
    if signals:
        _listen(node)

    async def up() -> None:
        await control.open()
        looking.append(asyncio.create_task(_look_after(control, look)))
        face.start()
        ready(node)

    try:
        await node.run(up)
    finally:
        for task in looking:
            task.cancel()
        await face.stop()
        await control.close()


async def _wait_for_writers(database: Path) -> None:
    """Another program may be writing to the database, and be done in a moment. Raise Locked if it is not."""
    waited = 0
    while not await asyncio.to_thread(is_writable, database, 1.0):
        waited += 1
        if waited >= _PATIENCE:
            raise Locked(
                f"{database}: another program has locked the file for {_PATIENCE} s: close that program, and start the "
                "node again"
            )
        # Each second for a person who waits; a log need not be filled with it.
        if waited == 1 or sys.stderr.isatty():
            message = "another program has locked %s; waiting for it, %d s more at most"
            _log.warning(message, database, _PATIENCE - waited, extra={"action": "waiting_for_lock"})


async def _look_after(control: Control, look: Callable[[], None]) -> None:
    """Are the socket and the lock still there, by which others find the node?"""
    while True:
        await asyncio.sleep(_LOOK)
        try:
            look()
            await control.look()
        except OSError as e:
            _log.error("nobody can reach the node: %s", e, extra={"action": "unreachable"})


def _open_as_files_say(database: Path, options: Options) -> tuple[Store, list[Entry], str]:
    """The store, with the durability that the files ask for, or asked for when they were last applied.

    Beside it all tasks that there are, if the files have just created every one of them; and what is wrong with them.
    """
    store = open_store(database)
    desk = Desk(store, Clock().now)
    try:
        if isinstance(store, SqliteStore) and database.stat().st_size <= _CHECKED_AT_START:
            store.check()
        is_new = store.count() == 0
        changed, problem = apply_at_start(desk, options.files, is_strict=options.is_strict)
        settings = desk.settings()
        durability = settings.durability
        tell_no_longer_passed(store, os.environ, settings.pass_env or (), is_new=is_new)
    except BaseException:
        store.close()
        raise
    if changed.created or changed.changed or changed.removed:
        tell_changes("files applied", "applied", changed)
    elif durability is not Durability.FULL:
        return store, [], problem
    if not isinstance(store, SqliteStore):
        return store, [], problem
    # A new one, also for the sake of memory: it does not hold the pages through which all this was written.
    store.close()
    store = SqliteStore(database, "full" if durability is Durability.FULL else "normal")
    return store, changed.created if is_new else [], problem


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
        if not isinstance(e, StoreError):
            node.files_problem = str(e)
        _log.error("nothing was reloaded: %s", e, extra={"action": "reload_failed"})
        return
    finally:
        node.take_over()
    node.files_problem = ""
    tell_changes("reloaded", "reloaded", changed)


def tell_changes(what: str, action: str, changed: Changed) -> None:
    for notice in changed.notices:
        _log.warning("%s", notice, extra={"action": "not_in_force"})
    counts = len(changed.created), len(changed.changed), len(changed.removed)
    _log.info("%s: %d new, %d changed, %d removed", what, *counts, extra={"action": action})
