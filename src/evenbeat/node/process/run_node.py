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

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.client.in_process import InProcessBackend
from evenbeat.load.config import BadFileError, Durability
from evenbeat.load.pause_gc import without_garbage_collection
from evenbeat.model import Entry, Invalid
from evenbeat.node.loop.clock import Clock
from evenbeat.node.process.api_process import ApiProcess
from evenbeat.node.process.control_socket import ControlServer
from evenbeat.node.process.files_at_start import apply_files_at_start
from evenbeat.node.process.leftovers import end_leftover_workers
from evenbeat.node.process.passed_variables import warn_no_longer_passed
from evenbeat.node.process.token_file import ensure_token
from evenbeat.node.scheduler import NodeOptions, Scheduler
from evenbeat.store.contract import DatabaseLocked, Store, StoreError
from evenbeat.store.foreign_files import check_owned_by_us
from evenbeat.store.opening import open_store
from evenbeat.store.sqlite.connect import is_writable
from evenbeat.store.sqlite.ownership import DatabaseOwnership, socket_path
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.replies import ChangeResult

_REACHABLE_CHECK_INTERVAL: Final = 1.0
"""Seconds between two looks at the files by which others find the node."""
_LOCK_WAIT: Final = 30
"""Seconds to wait for another program that writes to the database when the node starts."""
_MAX_SIZE_CHECKED_AT_START: Final = 32 << 20
"""Bytes: a file up to this size is checked before a node starts, in a tenth of a second; a larger one after that."""
_log: Final = logging.getLogger("evenbeat.node")


async def run_node(
    database: Path,
    options: NodeOptions,
    ready: Callable[[Scheduler], None] = lambda _: None,
    *,
    before: Callable[[Scheduler], None] = lambda _: None,
    signals: bool = True,
) -> Scheduler:
    """Run a node until it is stopped. `before` may change tasks through its desk, `ready` is told when all is up."""
    check_owned_by_us(database)
    with DatabaseOwnership(database) as ownership:
        await _wait_for_writers(database)
        return await _run_owned(database, options, ownership, ready, before, signals=signals)


async def _run_owned(
    database: Path,
    options: NodeOptions,
    ownership: DatabaseOwnership,
    ready: Callable[[Scheduler], None],
    before: Callable[[Scheduler], None],
    *,
    signals: bool,
) -> Scheduler:
    with ApiProcess(database, options.listen) as face, ExitStack() as starting:
        # Until the node has put aside what is read here: see its `_settle_in`.
        starting.enter_context(without_garbage_collection())

        def up(node: Scheduler) -> None:
            starting.close()
            if isinstance(store, SqliteStore):
                store.inspect(node.store_was_inspected)
            ready(node)

        end_leftover_workers(database)
        store, all_new, files_problem = _open_store_and_apply_files(database, options)
        try:
            ownership.hold_file()
            node = Scheduler(store, options, database=str(database.resolve()))
            node.files_error = files_problem
            node.created_entries = all_new
            del all_new
            node.page = face.url
            if options.listen is not None:
                node.token_file = ensure_token(node.admin, database, options.listen)
            before(node)
            control = ControlServer(node, socket_path(database))
            await run_scheduler(control, face, up, signals=signals, look=ownership.look)
        finally:
            store.close()
    return node


async def run_node_in_process(
    inside: InProcessBackend,
    options: NodeOptions,
    ready: Callable[[Scheduler], None] = lambda _: None,
    *,
    before: Callable[[Scheduler], None] = lambda _: None,
    signals: bool = True,
) -> Scheduler:
    """Run a node on a store that only this program has, until it is stopped. The store stays open."""
    try:
        with inside.lock:
            node = Scheduler(inside.store, options, database=f"{type(inside.store).__name__} of process {os.getpid()}")
            inside.attach_scheduler(node.admin)
            is_new = inside.store.count() == 0
            changed, node.files_error = apply_files_at_start(node.admin, options.files, is_strict=options.is_strict)
            warn_no_longer_passed(inside.store, os.environ, node.admin.settings().pass_env or (), is_new=is_new)
            before(node)
        if changed.created or changed.changed or changed.removed:
            log_changes("files applied", "applied", changed)
        control = ControlServer(node, None)

        def up(node: Scheduler) -> None:
            inside.attach_control(control)
            ready(node)

        with ApiProcess("", None) as face:
            await run_scheduler(control, face, up, signals=signals)
    finally:
        inside.detach()
    return node


async def run_scheduler(
    control: ControlServer,
    face: ApiProcess,
    ready: Callable[[Scheduler], None],
    *,
    signals: bool,
    look: Callable[[], None] = lambda: None,
) -> None:
    """Let a node live that is asked through its control socket and shown by its face; `look` is called every second."""
    node = control.node
    looking: list[asyncio.Task[None]] = []
    if signals:
        _install_signal_handlers(node)

    async def up() -> None:
        await control.open()
        looking.append(asyncio.create_task(_keep_reachable(control, look)))
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
        if waited >= _LOCK_WAIT:
            raise DatabaseLocked(
                f"{database}: another program has locked the file for {_LOCK_WAIT} s: close that program, and start "
                "the node again"
            )
        # Each second for a person who waits; a log need not be filled with it.
        if waited == 1 or sys.stderr.isatty():
            message = "another program has locked %s; waiting for it, %d s more at most"
            _log.warning(message, database, _LOCK_WAIT - waited, extra={"action": "waiting_for_lock"})


async def _keep_reachable(control: ControlServer, look: Callable[[], None]) -> None:
    """Are the socket and the lock still there, by which others find the node?"""
    while True:
        await asyncio.sleep(_REACHABLE_CHECK_INTERVAL)
        try:
            look()
            await control.look()
        except OSError as e:
            _log.error("nobody can reach the node: %s", e, extra={"action": "unreachable"})


def _open_store_and_apply_files(database: Path, options: NodeOptions) -> tuple[Store, list[Entry], str]:
    """The store, with the durability that the files ask for, or asked for when they were last applied.

    Beside it all tasks that there are, if the files have just created every one of them; and what is wrong with them.
    """
    store = open_store(database)
    desk = TaskAdmin(store, Clock().now)
    try:
        if isinstance(store, SqliteStore) and database.stat().st_size <= _MAX_SIZE_CHECKED_AT_START:
            store.check()
        is_new = store.count() == 0
        changed, problem = apply_files_at_start(desk, options.files, is_strict=options.is_strict)
        settings = desk.settings()
        durability = settings.durability
        warn_no_longer_passed(store, os.environ, settings.pass_env or (), is_new=is_new)
    except BaseException:
        store.close()
        raise
    if changed.created or changed.changed or changed.removed:
        log_changes("files applied", "applied", changed)
    elif durability is not Durability.FULL:
        return store, [], problem
    if not isinstance(store, SqliteStore):
        return store, [], problem
    # A new one, also for the sake of memory: it does not hold the pages through which all this was written.
    store.close()
    store = SqliteStore(database, "full" if durability is Durability.FULL else "normal")
    return store, changed.created if is_new else [], problem


def _install_signal_handlers(node: Scheduler) -> None:
    loop = asyncio.get_running_loop()
    reloading: set[asyncio.Task[None]] = set()

    def reload() -> None:
        task = loop.create_task(_reload_files(node))
        reloading.add(task)  # the loop itself would not keep it
        task.add_done_callback(reloading.discard)

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, node.stop_or_stop_now, signal.Signals(number).name)
    loop.add_signal_handler(signal.SIGHUP, reload)


async def _reload_files(node: Scheduler) -> None:
    """Read the node's files again. A bad one changes nothing that runs."""
    try:
        changed = await asyncio.to_thread(node.admin.apply, node.options.files, "reload", anew=True)
    except (BadFileError, Invalid, StoreError) as e:
        if not isinstance(e, StoreError):
            node.files_error = str(e)
        _log.error("nothing was reloaded: %s", e, extra={"action": "reload_failed"})
        return
    finally:
        node.apply_changes()
    node.files_error = ""
    log_changes("reloaded", "reloaded", changed)


def log_changes(what: str, action: str, changed: ChangeResult) -> None:
    for notice in changed.notices:
        _log.warning("%s", notice, extra={"action": "not_in_force"})
    counts = len(changed.created), len(changed.changed), len(changed.removed)
    _log.info("%s: %d new, %d changed, %d removed", what, *counts, extra={"action": action})
