"""Hooks: functions of the program that are called in it once the end or the skip of a run is committed."""

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

from evenbeat.model import Invalid, Outcome
from evenbeat.name_patterns import matches_pattern
from evenbeat.program.views import Event, RunInfo, SkipInfo

MAX_WAITING: Final = 10_000
"""Calls that wait for slow hooks; further ones are dropped, and the log says how many."""
_END_PATIENCE: Final = 10.0
"""Seconds within which hooks end when the node stops."""
_NO_FAILURES: Final = (Outcome.SUCCEEDED, Outcome.DROPPED, Outcome.CANCELLED, Outcome.INTERRUPTED)
_log: Final = logging.getLogger("evenbeat.hooks")

HookKind = Literal["success", "failure", "skip"]
HookFunction = Callable[[Any], object]


class _Hook(NamedTuple):
    kind: HookKind
    patterns: Sequence[str]
    """Of the names of its tasks; empty for all tasks."""
    function: HookFunction

    def is_for(self, task: str) -> bool:
        """Is it called for this task?"""
        return not self.patterns or any(matches_pattern(pattern, task) for pattern in self.patterns)


class Hooks:
    """The hooks of one program. Without any nothing is gathered and nothing waits."""

    def __init__(self) -> None:
        self._hooks: list[_Hook] = []
        self._waiting: asyncio.Queue[tuple[HookFunction, Event]] | None = None
        self._dropped = 0

    def add(self, kind: HookKind, patterns: Sequence[str], function: HookFunction) -> None:
        """Call a function with each end or skip of this kind, of tasks whose names match a pattern, or of all."""
        if not inspect.isroutine(function):
            raise Invalid(f"a hook is a function, found {type(function).__name__}", place=f"on_{kind}")
        self._hooks.append(_Hook(kind, patterns, function))

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def take(self, event: Event) -> None:
        """Something happened: its hooks are called soon. On the loop on which `call` runs."""
        if self._waiting is None:
            return
        for function in self.functions_for(event):
            try:
                self._waiting.put_nowait((function, event))
            except asyncio.QueueFull:
                self._dropped += 1

    def functions_for(self, event: Event) -> list[HookFunction]:
        """The functions to call with this event, in the order in which they were declared."""
        kind = _kind_of(event)
        return [hook.function for hook in self._hooks if hook.kind == kind and hook.is_for(str(event.task))]

    async def call(self) -> None:
        """Call hooks in the order of what happened, one at a time, until cancelled; then those that wait, for a while.

        Ordinary functions run in a thread, so that the node goes on; asynchronous ones on this loop.
        """
        waiting = self._waiting = asyncio.Queue(MAX_WAITING)
        thread = ThreadPoolExecutor(1, "evenbeat-hooks")
        try:
            while True:
                await self._call(*(await waiting.get()), thread)
        except asyncio.CancelledError:
            with suppress(TimeoutError):
                async with asyncio.timeout(_END_PATIENCE):
                    while not waiting.empty():
                        await self._call(*waiting.get_nowait(), thread)
            if not waiting.empty():
                _log.error("%d calls of hooks were not made: the node has stopped", waiting.qsize())
            raise
        finally:
            self._waiting = None
            thread.shutdown(wait=False, cancel_futures=True)

    async def _call(self, function: HookFunction, event: Event, thread: ThreadPoolExecutor) -> None:
        if self._dropped:
            _log.error("%d calls of hooks were dropped: the hooks are too slow", self._dropped)
            self._dropped = 0
        try:
            if inspect.iscoroutinefunction(function):
                await function(event)
            else:
                await asyncio.get_running_loop().run_in_executor(thread, function, event)
        except Exception:
            name = getattr(function, "__qualname__", repr(function))
            _log.exception("the hook %s failed for %s", name, event.task, extra={"action": "hook_failed"})


def _kind_of(event: Event) -> HookKind | None:
    match event:
        case SkipInfo():
            return "skip"
        case RunInfo(outcome=Outcome.SUCCEEDED):
            return "success"
        case RunInfo(outcome=outcome, is_retried=False) if outcome not in _NO_FAILURES:
            return "failure"
    return None
