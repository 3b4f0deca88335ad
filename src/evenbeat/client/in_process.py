"""The client of a store inside a program, and of the node that this program runs on it from time to time.

No other process can reach such a store, so there is no lock file and no control socket.
"""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Final, Protocol

from evenbeat.admin.perform import affected_tasks, perform_change, perform_sign_in, reply_to_change
from evenbeat.admin.problem_actions import perform_problem_request
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.client.contract import Backend
from evenbeat.client.store_based import LocalClient, wall_clock
from evenbeat.model import Entry, Invalid
from evenbeat.report.why import explain
from evenbeat.report.why_facts import Answer
from evenbeat.store.contract import Store, StoreError
from evenbeat.wire.live_runs import LiveTaskState
from evenbeat.wire.replies import Reply, raise_if_refused
from evenbeat.wire.requests import (
    ApplyFiles,
    BackUpDatabase,
    ForceTasks,
    GetLiveTaskState,
    NodeQuery,
    ProblemRequest,
    Request,
    ResultRequest,
    SignInRequest,
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


class RunnableTasks(Protocol):
    """The live tasks of a node."""

    def force(self, entries: Sequence[Entry], named: int) -> dict[str, str]: ...


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

    def __init__(self, store: Store, backend: Backend, who: str) -> None:
        super().__init__(who)
        self._program_store = store
        self._performs = backend

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
        return explain(self._program_store, name_or_id, at, self._now(), self._live_task_state)

    def _live_task_state(self, number: int) -> tuple[bool, LiveTaskState | None]:
        is_live = self.has_node()
        return is_live, self._performs.ask(GetLiveTaskState(number)).moment if is_live else None

    def has_node(self) -> bool:
        return self._performs.is_live

    def close(self) -> None:
        """The program closes its store itself."""


def client_on_own_loop(node: RunningNode, who: str) -> InProcessClient:
    """For code that runs on the loop of the node itself."""
    return InProcessClient(node.store, _OwnLoopBackend(node), who)


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
        if isinstance(request, ForceTasks | ResultRequest | SignInRequest | SubscribeToEvents | NodeQuery) or (
            isinstance(request, ApplyFiles) and not request.files
        ):
            return self._ask_the_node(request)
        with self.lock:
            if isinstance(request, ProblemRequest):
                return perform_problem_request(self._admin, request)
            return reply_to_change(request, perform_change(self._admin, request))

    def close(self) -> None:
        """The program closes its store itself."""

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
            isinstance(request, ForceTasks) and request.wait
        ):
            raise RuntimeError("this would wait for the loop it is called on; call it from another thread")
        if isinstance(request, ForceTasks):
            entries = node.admin.select_forced(request.names, request.who, request.only)
            node.apply_changes()  # one of them may have just been created
            waiting = node.live.force(entries, request.named)
            return Reply(ended=[], waiting=waiting, touched=affected_tasks(entries, named=request.named))
        if isinstance(request, ProblemRequest):
            return perform_problem_request(node.admin, request)
        try:
            return reply_to_change(request, perform_change(node.admin, request, node.options.files))
        finally:
            node.apply_changes()

    def close(self) -> None:
        """There is nothing to let go of."""
