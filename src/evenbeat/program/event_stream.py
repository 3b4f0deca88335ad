"""What happens on the node of a program, as events: for hooks, and for loops that iterate over `App.events`."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from evenbeat.admin.task_admin import LiveChange
from evenbeat.client.socket import NodeSocket
from evenbeat.core.task import Flag
from evenbeat.node.loop.pending_run import PendingRun
from evenbeat.node.scheduler import Scheduler
from evenbeat.program.views import Event, RunInfo, SkipInfo, TaskChange
from evenbeat.store.contract import Finish, Skip, StoreError
from evenbeat.store.sqlite.ownership import socket_path
from evenbeat.wire.events import RunEvent

MAX_UNREAD: Final = 10_000
"""Events that wait for one slow reader; with more its iteration ends with an error."""
_MAX_NAMED: Final = 100
"""Changed tasks that are named one by one; of more at once there is one event without a name."""


class EventSink(Protocol):
    """Takes events at once, on the loop of the node: the hooks of a program."""

    def __bool__(self) -> bool:
        """Does it want any?"""

    def take(self, event: Event) -> None: ...


class _Reader:
    """One iteration, perhaps on another loop than the node's."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.unread: asyncio.Queue[Event | None] = asyncio.Queue(MAX_UNREAD)
        self.is_behind = False

    def add(self, events: Sequence[Event | None]) -> None:
        """On the loop of the node; None is the end."""
        with suppress(RuntimeError):  # the loop of the reader is closed
            self.loop.call_soon_threadsafe(self._add, events)

    def _add(self, events: Sequence[Event | None]) -> None:
        try:
            for event in events:
                self.unread.put_nowait(event)
        except asyncio.QueueFull:
            self.is_behind = True


class NodeEvents:
    """The events of the node of this program."""

    def __init__(self, hooks: EventSink) -> None:
        self._hooks = hooks
        self._readers: list[_Reader] = []

    def attach(self, node: Scheduler) -> None:
        """Hear what happens on this node from now on."""
        self._node = node
        for listeners in (node.turns.on_finished, node.turns.passive.on_submitted):
            listeners.append(self._finished)
        node.turns.on_skipped.append(self._skipped)
        node.on_change.append(self._changed)

    def end(self) -> None:
        """The node has stopped: iterations end."""
        for reader in self._readers:
            reader.add([None])

    async def read(self) -> AsyncGenerator[Event, None]:
        """Events from now on, until the node stops; StoreError if the caller does not keep up."""
        reader = _Reader()
        self._readers.append(reader)
        try:
            while not reader.is_behind:
                if (event := await reader.unread.get()) is None:
                    return
                yield event
        finally:
            self._readers.remove(reader)
        raise StoreError(f"more than {MAX_UNREAD} events wait: the reader does not keep up")

    def _is_heard(self) -> bool:
        return bool(self._hooks or self._readers)

    def _finished(self, runs: Sequence[PendingRun], finishes: Sequence[Finish]) -> None:
        if not self._is_heard():
            return
        tasks, events = self._node.tasks, list[Event]()
        for run, finish in zip(runs, finishes, strict=True):
            row = tasks.row(run.number)
            is_check = row is not None and bool(tasks.columns.flags[row] & int(Flag.CHECK))
            is_retried = row is not None and tasks.lifecycle.retries.nominals.get(row) == run.nominal
            name = tasks.name_of(run.number, run.name)
            events.append(RunInfo.of_finish(name, run, finish, is_check=is_check, is_retried=is_retried))
        self._publish(events)

    def _skipped(self, skips: Sequence[Skip]) -> None:
        if self._is_heard():
            tasks = self._node.tasks
            self._publish([SkipInfo.of(tasks.name_of(skip.task, ""), skip) for skip in skips])

    def _changed(self, change: LiveChange) -> None:
        if not self._readers:
            return
        changed = change.changed
        named: list[Event] = [
            TaskChange(entry.task.name, word)
            for word, entries in (
                ("created", changed.created),
                ("changed", changed.changed),
                ("removed", changed.removed),
            )
            for entry in entries
        ]
        self._publish(named if len(named) <= _MAX_NAMED else [TaskChange(None, "many")])

    def _publish(self, events: Sequence[Event]) -> None:
        for event in events if self._hooks else ():
            self._hooks.take(event)
        for reader in self._readers:
            reader.add(events)


async def read_socket_events(database: Path) -> AsyncGenerator[Event, None]:
    """The events of the node that runs on a database of this machine; outputs are their first lines only."""
    async for message in NodeSocket(socket_path(database)).events():
        for event in message.events:
            yield RunInfo.of_event(event) if isinstance(event, RunEvent) else TaskChange(event.name, event.change)
