"""Runs and stops the node of a program: in its main thread, in another thread, or on the loop of the program."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Protocol

from evenbeat.node.scheduler import Scheduler
from evenbeat.program.program_end import at_program_end

_STOP_REPEAT_SECONDS: Final = 0.2
"""Seconds between two requests to stop a node whose program ends."""
_HOST_VARIABLE: Final = "EVENBEAT_HOST"
"""Set where functions run: the module is imported there too, and must not start a node of its own."""


class NodeStarter(Protocol):
    """Runs a node until it is stopped; calls `up` when everything is up."""

    def __call__(self, up: Callable[[Scheduler], None], *, signals: bool) -> Coroutine[Any, Any, Scheduler]: ...


class NodeRunner:
    """The node of a program from start to stop, as often as the program likes."""

    def __init__(self, live: NodeStarter) -> None:
        self._start_node = live
        self.node: Scheduler | None = None
        """While it is up."""
        self._thread: int | None = None
        self._life: asyncio.Task[Scheduler] | None = None
        self._background: threading.Thread | None = None
        self._state_lock = threading.Lock()
        self._is_running = False
        self._is_to_stop = False
        """A stop was requested before the node was up."""

    def node_of_this_thread(self) -> Scheduler | None:
        """The node if this thread runs it: nothing here may wait for its loop."""
        return self.node if self._thread == threading.get_ident() else None

    def adopt(self, node: Scheduler | None) -> None:
        """Methods called in this thread are answered by a node that something else runs here; None ends that."""
        with self._state_lock:
            if node is not None and self._is_running:
                raise RuntimeError("this app is running already; stop it first")
            self.node, self._thread = node, None if node is None else threading.get_ident()
            self._is_running = node is not None

    def run(self) -> None:
        """Live until a signal or `stop` says otherwise; only the main thread hears signals."""
        refuse_in_function_host()
        this = threading.current_thread()
        if this is threading.main_thread():
            asyncio.run(self._live(signals=True))
        else:
            self._run_beside(ends_with_program=this.daemon)  # as Python does with the thread itself

    def start(self) -> None:
        """Run in a thread of its own; returns when everything is up, or raises why it cannot be."""
        refuse_in_function_host()
        if self._background is not None and self._is_to_stop:
            self._background.join()
        is_up, failed = threading.Event(), list[BaseException]()

        def background() -> None:
            try:
                self._run_beside(is_up.set, ends_with_program=True)
            except BaseException as e:
                failed.append(e)
                if is_up.is_set():
                    raise  # no caller waits for it any more: Python prints it
            finally:
                is_up.set()

        thread = threading.Thread(target=background, name="evenbeat")
        thread.start()
        is_up.wait()
        if failed:
            thread.join()
            raise failed[0]
        self._background = thread

    def _run_beside(self, ready: Callable[[], None] = lambda: None, *, ends_with_program: bool) -> None:
        """Live in a thread that is not the main one. When the main one ends, it waits for this, or stops it first."""
        is_over = threading.Event()

        def end() -> None:
            is_to_stop = ends_with_program
            while not is_over.is_set():
                if is_to_stop:
                    # Again and again: it may be just about to start.
                    self.stop(wait=False, reason="the main thread of the program has ended")
                try:
                    is_over.wait(_STOP_REPEAT_SECONDS)
                except KeyboardInterrupt:
                    if is_to_stop:
                        raise
                    is_to_stop = True

        with at_program_end(end):
            try:
                asyncio.run(self._live(signals=False, ready=ready))
            finally:
                is_over.set()

    def stop(self, *, wait: bool, reason: str = "the program asked for it") -> None:
        """Stop in order. With `wait`, return when a node that `start` started has ended."""
        with self._state_lock:
            self._is_to_stop = self._is_running
            node = self.node
        if node is not None:
            with suppress(RuntimeError):  # its loop is closed: it has ended
                node.loop.call_soon_threadsafe(node.stop, reason)
        if wait and self._background is not None:
            self._background.join()

    async def enter(self) -> None:
        """Run on this loop; returns when everything is up, or raises why it cannot be."""
        refuse_in_function_host()
        ready = asyncio.Event()
        self._life = asyncio.create_task(self._live(signals=False, ready=ready.set))
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait({self._life, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.is_set():
            waiting.cancel()
            await self._life  # it failed to start, and says why

    async def leave(self) -> None:
        """Stop in order what `enter` has started."""
        assert self._life is not None
        if self.node is not None:
            self.node.stop("the program left it")
        await self._life

    async def _live(self, *, signals: bool, ready: Callable[[], None] = lambda: None) -> Scheduler:
        with self._state_lock:
            if self._is_running:
                raise RuntimeError("this app is running already; stop it before it is started again")
            self._is_running, self._is_to_stop = True, False

        def up(node: Scheduler) -> None:
            with self._state_lock:
                self.node, self._thread = node, threading.get_ident()
                if self._is_to_stop:
                    node.stop("the program asked for it")
            ready()

        try:
            return await self._start_node(up, signals=signals)
        finally:
            with self._state_lock:
                self.node = self._thread = None
                self._is_running = False


def refuse_in_function_host() -> None:
    """Raise RuntimeError in a process that has imported the program to run a task of it."""
    if os.environ.get(_HOST_VARIABLE):
        raise RuntimeError(
            'the app is to be run under `if __name__ == "__main__":`, this module is imported to run a task'
        )
