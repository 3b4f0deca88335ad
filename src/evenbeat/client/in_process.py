"""A store that lives inside a program, with or without a node on it: how the program's own threads change it.

Nobody else can reach such a store, so there is no lock file and no control socket.
"""

import asyncio
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Final

from evenbeat.admin.perform import perform_change, reply_to_change
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.model import Instant, Invalid
from evenbeat.node.process.control_socket import ControlServer
from evenbeat.store.contract import Store, StoreError
from evenbeat.wire.replies import Reply, raise_if_refused
from evenbeat.wire.requests import (
    ApplyFiles,
    BackUpDatabase,
    ForceTasks,
    NodeQuery,
    Request,
    ResultRequest,
    SignInRequest,
    SubscribeToEvents,
)

_LOOP_CHECK_INTERVAL: Final = 0.5
"""Seconds between two looks whether the loop that is to answer is still there."""


class InProcessBackend:
    """The store of a program, and the node that runs on it from time to time."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.lock: Final = threading.RLock()
        """Held while a node takes the place of the desk, so that no change goes unnoticed by it."""
        self._idle: Final = TaskAdmin(store, _wall_now)
        self._desk = self._idle
        self._control: ControlServer | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach_scheduler(self, desk: TaskAdmin) -> None:
        """From now on everything is changed through the desk of this node; hold the lock until it is."""
        self._desk = desk

    def attach_control(self, control: ControlServer) -> None:
        """From now on it can be asked."""
        self._control, self._loop = control, asyncio.get_running_loop()

    def detach(self) -> None:
        """There is only the store."""
        with self.lock:
            self._desk, self._control, self._loop = self._idle, None, None

    # What a door needs

    @property
    def is_live(self) -> bool:
        """Does a node run on it?"""
        return self._control is not None

    def ask(self, request: Request) -> Reply:
        """Do it, or raise why not. Not on the loop of the node itself."""
        if isinstance(request, BackUpDatabase):
            self.store.backup(Path(request.path))
            return Reply()
        if isinstance(request, ForceTasks | ResultRequest | SignInRequest | SubscribeToEvents | NodeQuery) or (
            isinstance(request, ApplyFiles) and not request.files
        ):
            return self._ask_the_node(request)
        with self.lock:
            return reply_to_change(request, perform_change(self._desk, request))

    def close(self) -> None:
        """Whoever opened the store closes it."""

    def _ask_the_node(self, request: Request) -> Reply:
        control, loop = self._control, self._loop
        if control is None or loop is None:
            raise Invalid("no node of this program runs; run() or start() starts one")
        try:
            answer = asyncio.run_coroutine_threadsafe(control.reply_within(request), loop)
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


def _wall_now() -> Instant:
    return Instant(time.time_ns() // 1_000)
