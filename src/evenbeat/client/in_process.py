"""The client of a store inside a program, and of the node that this program runs on it from time to time.

No other process can reach such a store, so there is no lock file and no control socket.
"""

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Final, Protocol

from evenbeat.admin.job_with_arguments import own_job
from evenbeat.admin.perform import affected_tasks, perform_change, perform_sign_in, reply_to_change
from evenbeat.admin.problem_actions import perform_problem_request
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.task_cursors import cursor_to_set, note_cursor, set_stored_cursor
from evenbeat.admin.task_stops import check_stop_reason, note_stops, tasks_to_stop
from evenbeat.client.contract import Backend
from evenbeat.client.store_based import LocalClient, wall_clock
from evenbeat.model import Entry, Instant, Invalid, Job
from evenbeat.report.why import explain
from evenbeat.report.why_facts import Answer
from evenbeat.store.contract import Store, StoreError
from evenbeat.wire.live_runs import LiveTaskState
from evenbeat.wire.replies import HeldByOtherNode, Reply, StopFound, StoppedRun, raise_if_refused
from evenbeat.wire.requests import (
    ApplyFiles,
    BackUpDatabase,
    ForceTasks,
    GetLiveTaskState,
    NodeQuery,
    ProblemRequest,
    Request,
    ResultRequest,
    RunRequest,
    SetCursor,
    SignInRequest,
    StopRuns,
    SubscribeToEvents,
)

_LOOP_CHECK_INTERVAL: Final = 0.5
"""Seconds between two checks that the loop that is to answer still runs."""


class RequestHandler(Protocol):
    """The part of a node that answers requests, on the loop of the node."""

    async def reply_within(self, request: Request) -> Reply | None: ...


class StartedWith(Protocol):
    """How the node was started."""

    @property
    def files(self) -> Sequence[Path]: ...


class PlannableRuns(Protocol):
    """The forced runs of a node with arguments of their own."""

    def plan(self, entry: Entry, job: Job) -> tuple[str, str] | None: ...


class FoundRun(Protocol):
    """What a node has found of a task that is to be stopped."""

    @property
    def name(self) -> str: ...

    @property
    def found(self) -> StopFound: ...


class RunnableTasks(Protocol):
    """The live tasks of a node."""

    @property
    def own_runs(self) -> PlannableRuns: ...

    def force(self, entries: Sequence[Entry], named: int, *, is_own: bool) -> dict[str, str]: ...

    def stop(self, entries: Sequence[Entry], who: str, reason: str) -> Sequence[FoundRun]: ...

    def set_cursor(self, entry: Entry, cursor: bytes | None) -> bytes | None: ...


class RunningNode(Protocol):
    """A node of this program, used on its own loop."""

    @property
    def store(self) -> Store: ...

    @property
    def admin(self) -> TaskAdmin: ...

    @property
    def options(self) -> StartedWith: ...

    @property
    def page(self) -> str: ...

    @property
    def live(self) -> RunnableTasks: ...

    def apply_changes(self) -> None: ...


class InProcessClient(LocalClient):
    """Reads the store of the program; its backend performs changes."""

    def __init__(self, store: Store, backend: Backend, who: str, clock: Callable[[], Instant] = wall_clock) -> None:
        super().__init__(who)
        self._program_store = store
        self._performs = backend
        self._clock = clock

    def now(self) -> Instant:
        return self._clock()

    @property
    def _store(self) -> Store:
        return self._program_store

    @property
    def _backend(self) -> Backend:
        return self._performs

    def _live_node(self) -> Backend | None:
        return self._performs if self._performs.is_live else None

    def _release(self, node: Backend) -> None:
        """The node stays with the program."""

    def why(self, name_or_id: str, at: str | None = None) -> Answer:
        return explain(self._program_store, name_or_id, at, self.now(), self._live_task_state)

    def _live_task_state(self, number: int) -> tuple[bool, LiveTaskState | None]:
        is_live = self.has_node()
        return is_live, self._performs.ask(GetLiveTaskState(number)).moment if is_live else None

    def has_node(self) -> bool:
        return self._performs.is_live

    def close(self) -> None:
        """The program closes its store itself."""


def client_on_own_loop(node: RunningNode, who: str) -> InProcessClient:
    """For code that runs on the loop of the node itself."""
    return InProcessClient(node.store, _OwnLoopBackend(node), who, node.admin.now)


class InProcessBackend:
    """The store of a program, and the node that runs on it from time to time; for other threads than the node's."""

    def __init__(self, store: Store) -> None:
        self.store: Final = store
        self.lock: Final = threading.RLock()
        """Held while a node takes over from `_idle`, so that it misses no change."""
        self._idle: Final = TaskAdmin(store, wall_clock)
        self._admin = self._idle
        self._handler: RequestHandler | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach_scheduler(self, admin: TaskAdmin) -> None:
        """From now on the node's task administration makes all changes; the caller holds the lock."""
        self._admin = admin

    def attach_control(self, handler: RequestHandler) -> None:
        """From now on the node answers."""
        self._handler, self._loop = handler, asyncio.get_running_loop()

    def detach(self) -> None:
        """The node has ended; only the store is left."""
        with self.lock:
            self._admin, self._handler, self._loop = self._idle, None, None

    @property
    def is_live(self) -> bool:
        """Does a node run on the store?"""
        return self._handler is not None

    def ask(self, request: Request) -> Reply:
        """Perform the request, or raise why not. Not to be called on the loop of the node."""
        if isinstance(request, BackUpDatabase):
            self.store.backup(Path(request.path))
            return Reply()
        if isinstance(request, RunRequest | ResultRequest | SignInRequest | SubscribeToEvents | NodeQuery) or (
            isinstance(request, ApplyFiles) and not request.files
        ):
            return self._ask_the_node(request)
        if isinstance(request, SetCursor) and self.is_live:
            return self._ask_the_node(request)
        with self.lock:
            if isinstance(request, SetCursor):
                return self._set_cursor(request)
            if isinstance(request, ProblemRequest):
                return perform_problem_request(self._admin, request)
            return reply_to_change(request, perform_change(self._admin, request))

    def close(self) -> None:
        """The program closes its store itself."""

    def _set_cursor(self, request: SetCursor) -> Reply:
        if self._admin is not self._idle:
            # It has read the cursors already.
            raise StoreError("the node of this program is starting or stopping, so try again")
        return set_stored_cursor(self._idle, request)

    def _ask_the_node(self, request: Request) -> Reply:
        handler, loop = self._handler, self._loop
        if handler is None or loop is None:
            raise Invalid("no node of this program runs; run() or start() starts one")
        try:
            answer = asyncio.run_coroutine_threadsafe(handler.reply_within(request), loop)
            while True:
                try:
                    reply = answer.result(_LOOP_CHECK_INTERVAL)
                    break
                except TimeoutError:
                    if loop.is_closed():
                        raise
        except (CancelledError, TimeoutError, RuntimeError):
            raise StoreError("the node stopped before it had answered") from None
        assert reply is not None
        raise_if_refused(reply)
        return reply


class _OwnLoopBackend:
    """The node of this very thread: it can be told to do something, but nothing may wait for its loop."""

    is_live = True

    def __init__(self, node: RunningNode) -> None:
        self._node = node

    def ask(self, request: Request) -> Reply:
        node = self._node
        if isinstance(request, SignInRequest):
            return perform_sign_in(node.admin, request, node.page)
        if isinstance(request, BackUpDatabase | ResultRequest | SubscribeToEvents | NodeQuery) or (
            isinstance(request, RunRequest) and request.wait
        ):
            raise RuntimeError("this would wait for the loop it is called on; call it from another thread")
        if isinstance(request, ForceTasks):
            own = request.arguments
            entries = node.admin.select_forced(request.names, request.who, request.only, arguments=own)
            node.apply_changes()  # one of them may have just been created
            if own is not None and (planned := node.live.own_runs.plan(entries[0], own_job(entries[0], own))):
                node.store.set_settings(dict([planned]))
            waiting = node.live.force(entries, request.named, is_own=own is not None)
            return Reply(ended=[], waiting=waiting, touched=affected_tasks(entries, named=request.named))
        if isinstance(request, StopRuns):
            check_stop_reason(request.reason)
            entries = tasks_to_stop(node.store, request.only, node.admin.now())
            node.apply_changes()
            stopped = node.live.stop(entries, request.who, request.reason)
            found = [stop.name for stop in stopped if stop.found is not StopFound.NOTHING]
            note_stops(node.store, found, request, node.admin.now())
            return Reply(stopped=[StoppedRun(stop.name, stop.found) for stop in stopped])
        if isinstance(request, SetCursor):
            entry, cursor = cursor_to_set(node.admin, request)
            node.apply_changes()
            try:
                before = node.live.set_cursor(entry, cursor)
            except HeldByOtherNode:
                words = f"{entry.task.name!r} is not live on this node; set its cursor from another thread"
                raise StoreError(words) from None
            return Reply(cursor=note_cursor(node.admin, entry, request.who, before, cursor))
        if isinstance(request, ProblemRequest):
            return perform_problem_request(node.admin, request)
        try:
            return reply_to_change(request, perform_change(node.admin, request, node.options.files))
        finally:
            node.apply_changes()

    def close(self) -> None:
        """There is nothing to let go of."""
