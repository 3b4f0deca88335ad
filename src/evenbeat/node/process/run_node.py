"""Run a single node: own its database, open it, apply the files, make the scheduler, and serve until it is stopped."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Final, Protocol

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.clock.node_clock import Clock
from evenbeat.load.config import BadFileError, Durability
from evenbeat.load.pause_gc import without_garbage_collection
from evenbeat.model import Invalid
from evenbeat.node.definition_copy import DefinitionCopy, definition_copy_path
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.api_process import ApiProcess
from evenbeat.node.process.control_socket import ControlServer
from evenbeat.node.process.files_at_start import apply_node_files, log_changes
from evenbeat.node.process.followed_files import FileState, FollowedFiles
from evenbeat.node.process.node_reports import report_node
from evenbeat.node.process.token_file import ensure_token
from evenbeat.node.process.workers_left_behind import end_leftover_workers
from evenbeat.node.scheduler import Scheduler
from evenbeat.node.single_membership import SingleMembership
from evenbeat.store.contract import DatabaseLocked, Store, StoreError
from evenbeat.store.foreign_files import check_owned_by_us
from evenbeat.store.opening import open_store
from evenbeat.store.sqlite.connect import is_writable
from evenbeat.store.sqlite.ownership import DatabaseOwnership, socket_path
from evenbeat.store.sqlite.sqlite_store import SqliteStore

_REACHABLE_CHECK_INTERVAL: Final = 1.0
"""Seconds between two looks at the files by which other programs find the node."""
_FOLLOW_INTERVAL: Final = 1.0
"""Seconds between two looks at files that are followed."""
_LOCK_WAIT: Final = 30
"""Seconds to wait for another program that writes to the database when the node starts."""
_MAX_SIZE_CHECKED_AT_START: Final = 32 << 20
"""Bytes: a file up to this size is checked before the node starts, in a tenth of a second; a larger one afterwards."""
_log: Final = logging.getLogger("evenbeat.node")


class ProgramStore(Protocol):
    """The store of a program, which its threads change when no node runs; a node that runs takes this over."""

    @property
    def store(self) -> Store: ...

    @property
    def lock(self) -> AbstractContextManager[object]:
        """Held while the node takes over."""

    def attach_scheduler(self, admin: TaskAdmin) -> None: ...

    def attach_control(self, handler: ControlServer) -> None: ...

    def detach(self) -> None:
        """The node has ended."""


async def run_node(
    database: Path,
    options: NodeOptions,
    ready: Callable[[Scheduler], None] = lambda _: None,
    *,
    before: Callable[[Scheduler], None] = lambda _: None,
    signals: bool = True,
) -> Scheduler:
    """Run a single node on a database file until it is stopped.

    `before` may change tasks through the admin of the scheduler, `ready` is called when everything is up.
    """
    check_owned_by_us(database)
    with DatabaseOwnership(database) as ownership:
        await _wait_for_writers(database)
        with ApiProcess(database, options.listen) as api, ExitStack() as starting:
            # Until everything that is read here has been set aside: see `Scheduler.tasks_are_live`.
            starting.enter_context(without_garbage_collection())
            end_leftover_workers(database)
            store = open_store(database)
            try:
                node = _make_scheduler(store, database, options)
                ownership.hold_file()
                node.page = api.url
                if options.listen is not None:
                    node.token_file = ensure_token(node.admin, database, options.listen)
                before(node)

                def up(node: Scheduler) -> None:
                    starting.close()
                    if isinstance(store, SqliteStore):
                        store.inspect(node.store_was_inspected)
                    ready(node)

                control = ControlServer(node, socket_path(database))
                async with serving(control, api, up, signals=signals, look=ownership.look) as on_up:
                    await node.run(on_up)
            finally:
                store.close()
    return node


def _make_scheduler(store: Store, database: Path, options: NodeOptions) -> Scheduler:
    """Apply the files, give the store the durability that they ask for, and make the scheduler."""
    if isinstance(store, SqliteStore) and database.stat().st_size <= _MAX_SIZE_CHECKED_AT_START:
        store.check()
    clock = Clock()
    admin = TaskAdmin(store, clock.now)
    applied = apply_node_files(admin, options.files, is_strict=options.is_strict)
    if isinstance(store, SqliteStore) and (applied.has_changed or applied.settings.durability is Durability.FULL):
        # Also for the sake of memory: new connections do not hold the pages through which all this was written.
        store.reopen("full" if applied.settings.durability is Durability.FULL else "normal")
    copy = DefinitionCopy(definition_copy_path(database), store) if isinstance(store, SqliteStore) else None
    membership = SingleMembership(applied.all_entries, copy)
    return Scheduler(admin, options, membership, clock, database=str(database.resolve()), files_error=applied.problem)


async def run_node_in_process(
    inside: ProgramStore,
    options: NodeOptions,
    ready: Callable[[Scheduler], None] = lambda _: None,
    *,
    before: Callable[[Scheduler], None] = lambda _: None,
    signals: bool = True,
) -> Scheduler:
    """Run a node on a store that only this program has, until it is stopped. The store stays open."""
    clock, store = Clock(), inside.store
    try:
        with inside.lock:
            admin = TaskAdmin(store, clock.now)
            inside.attach_scheduler(admin)
            applied = apply_node_files(admin, options.files, is_strict=options.is_strict)
            where = f"{type(store).__name__} of process {os.getpid()}"
            node = Scheduler(admin, options, SingleMembership(), clock, database=where, files_error=applied.problem)
            before(node)
        control = ControlServer(node, None)

        def up(node: Scheduler) -> None:
            inside.attach_control(control)
            ready(node)

        with ApiProcess("", None) as api:
            async with serving(control, api, up, signals=signals) as on_up:
                await node.run(on_up)
    finally:
        inside.detach()
    return node


@asynccontextmanager
async def serving(
    control: ControlServer,
    api: ApiProcess,
    ready: Callable[[Scheduler], None],
    *,
    signals: bool,
    look: Callable[[], None] = lambda: None,
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """While a scheduler runs: its signals, its control socket and its API process. Yields what it awaits once it is up.

    `ready` is called when everything is up, `look` every second from then on.
    """
    looking: list[asyncio.Task[None]] = []
    if signals:
        _install_signal_handlers(control.node)

    async def on_up() -> None:
        await control.open()
        looking.append(asyncio.create_task(_keep_reachable(control, look)))
        looking.append(asyncio.create_task(report_node(control.node)))
        if control.node.options.followed is not None:
            looking.append(asyncio.create_task(_follow_files(control.node, control.node.options.followed)))
        api.start()
        ready(control.node)

    try:
        yield on_up
    finally:
        for task in looking:
            task.cancel()
        await api.stop()
        await control.close()


async def _wait_for_writers(database: Path) -> None:
    """Wait while another program writes to the database; raise DatabaseLocked if that takes too long."""
    waited = 0
    while not await asyncio.to_thread(is_writable, database, 1.0):
        waited += 1
        if waited >= _LOCK_WAIT:
            raise DatabaseLocked(
                f"{database}: another program has locked the file for {_LOCK_WAIT} s: close that program, and start "
                "the node again"
            )
        # Each second for a person at a terminal; a log needs it only once.
        if waited == 1 or sys.stderr.isatty():
            message = "another program has locked %s; waiting for it, %d s more at most"
            _log.warning(message, database, _LOCK_WAIT - waited, extra={"action": "waiting_for_lock"})


async def _keep_reachable(control: ControlServer, look: Callable[[], None]) -> None:
    """Restore the socket and the lock, by which other programs find the node, when they are deleted."""
    while True:
        await asyncio.sleep(_REACHABLE_CHECK_INTERVAL)
        try:
            look()
            await control.look()
        except OSError as e:
            _log.error("the node cannot be reached: %s", e, extra={"action": "unreachable"})


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


async def _follow_files(node: Scheduler, states: tuple[FileState, ...]) -> None:
    """Read the node's files again whenever they have changed."""
    followed = FollowedFiles(node.options.files, states)
    while True:
        await asyncio.sleep(_FOLLOW_INTERVAL)
        if await asyncio.to_thread(followed.have_changed):
            await _reload_files(node, anew=False)


async def _reload_files(node: Scheduler, *, anew: bool = True) -> None:
    """Read the node's files again; without `anew` those that have changed. A broken file changes nothing."""
    try:
        changed = await asyncio.to_thread(node.admin.apply, node.options.files, "reload", anew=anew)
    except (BadFileError, Invalid, StoreError) as e:
        if not isinstance(e, StoreError):
            node.files_error = str(e)
        _log.error("nothing was reloaded: %s", e, extra={"action": "reload_failed"})
        return
    finally:
        node.apply_changes()
    node.files_error = ""
    log_changes("reloaded", "reloaded", changed)
