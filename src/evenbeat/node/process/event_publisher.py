"""Gathers the events of a live node and sends them to its subscribers; without any it costs next to nothing."""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from evenbeat.admin.task_admin import LiveChange
from evenbeat.core.columns import Ints
from evenbeat.core.task import Flag
from evenbeat.core.telling_lines import summary_line
from evenbeat.model import FOREVER, Entry, Instant, Outcome, RunKind, State
from evenbeat.node.answers.task_state import next_run_time
from evenbeat.node.loop.pending_run import PendingRun
from evenbeat.node.scheduler import Scheduler
from evenbeat.report.words import has_run_failed
from evenbeat.store.contract import NEVER, Finish
from evenbeat.wire.events import Event, EventMessage, RunEvent, TaskEvent, WaitingRetry

MAX_PLAIN_RUNS_PER_SECOND: Final = 50
"""Plain successes that are sent per second: a person cannot read more, and the history has them all."""
MAX_NAMED_TASKS: Final = 100
"""Changed tasks that are named one by one; of more only the number is sent."""
MAX_EVENTS_PER_MESSAGE: Final = 5_000
"""Events in one message; more leave a gap in `seq`."""
GATHER_SECONDS: Final = 0.1
"""Seconds in which events are gathered for one message."""
STATUS_INTERVAL: Final = 1.0
UNSENT_LIMIT: Final = 4 << 20
"""Bytes that may wait for a slow subscriber; with more it is dropped."""
_READ_SIZE: Final = 4_096
_log: Final = logging.getLogger("evenbeat.control")

EventSink = Callable[[bytes], bool]
"""Takes a line and does not wait; False if the subscriber has fallen behind and is to be dropped."""


class EventBroadcaster:
    """Sends all subscribers the events of this node, and of the other nodes of its cluster."""

    def __init__(self, node: Scheduler, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._watchers: list[EventSink] = []
        self._seq = 0
        self._relay = None if node.others is None else node.others.relay
        self._events: list[Event] = []
        self._events_elsewhere: list[Event] = []
        """Events of other nodes."""
        self._left_out_here = 0
        """Events beyond the bound since the last message ..."""
        self._left_out = 0
        """... and those that other nodes have left out."""
        self._tasks = 0
        self._second = 0
        self._plain = 0
        """Plain runs that were sent in that second."""
        self._runs = 0
        """Runs that had been started when the status was last sent."""
        self._gathering: asyncio.TimerHandle | None = None
        self._status: asyncio.TimerHandle | None = None
        node.turns.on_finished.append(self._finished)
        node.turns.passive.on_submitted.append(self._finished)
        node.on_change.append(self._changed)
        node.turns.on_downtime.append(self._downtime_changed)
        if self._relay is not None:
            self._relay.on_events = self._happened_elsewhere
            self._each_second()

    async def feed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send events on a connection until the subscriber closes it or reads too slowly."""
        transport = writer.transport

        def send(line: bytes) -> bool:
            if transport.get_write_buffer_size() > UNSENT_LIMIT:
                _log.warning("dropped a slow event subscriber: it did not keep up", extra={"action": "watcher_dropped"})
                transport.abort()
            else:
                writer.write(line)
            return not transport.is_closing()

        self.watch(send)
        try:
            while await reader.read(_READ_SIZE):
                pass
        finally:
            self.leave(send)

    def watch(self, sink: EventSink) -> None:
        """Add a subscriber. Its first message comes at once: the status, and the number of the last event."""
        self._send_events()  # to the other subscribers, so that this one begins with the next event
        if not self._watchers and self._relay is not None:
            self._seq += 1  # other nodes may have had events that they did not send
            self._relay.announce()
        elif not self._watchers:
            self._runs = self._node.turns.counts.runs
            self._status = self._loop.call_later(STATUS_INTERVAL, self._each_second)
        self._watchers.append(sink)
        sink(_encode_line(EventMessage(self._node.start_id, self._seq, status=self._node.status())))

    def leave(self, sink: EventSink) -> None:
        """Remove a subscriber."""
        if sink in self._watchers:
            self._watchers.remove(sink)
        self._rest_if_alone()

    # What happens

    def _is_watched(self) -> bool:
        return bool(self._watchers) or (self._relay is not None and self._relay.is_watched)

    def _happened_elsewhere(self, events: Sequence[Event], left_out: int) -> None:
        if not self._watchers:
            self._seq += 1
            return
        room = MAX_EVENTS_PER_MESSAGE - len(self._events_elsewhere)
        self._events_elsewhere += events[:room]
        self._left_out += left_out + max(len(events) - room, 0)
        self._gather()

    def _finished(self, runs: Sequence[PendingRun], finishes: Sequence[Finish]) -> None:
        if not self._is_watched():
            self._seq += 1  # the next subscriber sees by the number that there were events
            return
        second = int(self._loop.time())
        if second != self._second:
            self._second, self._plain = second, 0
        for run, finish in zip(runs, finishes, strict=True):
            if not finish.notable:
                if self._plain == MAX_PLAIN_RUNS_PER_SECOND:
                    continue
                self._plain += 1
            if len(self._events) < MAX_EVENTS_PER_MESSAGE:
                self._events.append(self._run_event(run, finish))
            else:
                self._left_out_here += 1
        self._gather()

    def _changed(self, change: LiveChange) -> None:
        changed = change.changed
        count = len(changed.removed) + len(changed.changed) + len(changed.created) + len(change.replanned)
        if not count:
            return
        if not self._is_watched():
            self._seq += 1
            return
        self._tasks += count
        if self._tasks <= MAX_NAMED_TASKS:
            self._events += self._task_events(change)
        self._gather()

    def announce_tasks(self, names: Sequence[str], change: str) -> None:
        """Something happened to these tasks that changed no definition: "acknowledged", for example."""
        if not self._is_watched():
            self._seq += 1
            return
        self._tasks += len(names)
        if self._tasks <= MAX_NAMED_TASKS:
            rows = {name: self._node.tasks.names.find(name) for name in names}
            self._events += (
                TaskEvent(name, change, next=None if row is None else next_run_time(self._node, row))
                for name, row in rows.items()
            )
        self._gather()

    def _downtime_changed(self, rows: Ints) -> None:
        tasks = self._node.tasks
        rows = rows[tasks.columns.used[rows] & (tasks.columns.flags[rows] & int(Flag.REMOVED) == 0)]
        if len(rows) <= MAX_NAMED_TASKS:
            self.announce_tasks(tasks.names.names(rows), "downtime")
        elif self._is_watched():
            self._tasks += len(rows)
            self._gather()
        else:
            self._seq += 1

    def _run_event(self, run: PendingRun, finish: Finish) -> RunEvent:
        row = self._node.tasks.row(run.number)
        is_check = row is not None and self._node.tasks.columns.flags[row] & int(Flag.CHECK)
        return RunEvent(
            self._node.tasks.name_of(run.number, run.name),
            Instant(run.nominal),
            RunKind(run.kind),
            Instant(finish.started),
            Instant(finish.ended),
            Outcome(finish.outcome),
            finish.status,
            State(finish.state) if is_check and finish.result_at > NEVER else None,
            finish.hard,
            finish.attempt,
            finish.flapping,
            summary_line(finish.output, is_check=bool(is_check), has_failed=has_run_failed(finish.outcome)),
            finish.notable,
            None if row is None else next_run_time(self._node, row),
            finish.is_latest,
            run.number,
            None if row is None or is_check else self._waiting_retry(row, finish),
        )

    def _waiting_retry(self, row: int, finish: Finish) -> WaitingRetry | None:
        policy = self._node.tasks.lifecycle.retries.policy(row)
        if policy is None or finish.extra_kind != RunKind.RETRY or finish.extra >= FOREVER:
            return None
        return WaitingRetry(finish.attempt + 1, policy.retries + 1, Instant(finish.extra))

    def _task_events(self, change: LiveChange) -> Iterator[TaskEvent]:
        changed, before, replanned = change
        for number in replanned:
            row = self._node.tasks.row(number)
            if row is not None:
                yield TaskEvent(self._node.tasks.names.name(row), "changed", next=next_run_time(self._node, row))
        for entry in changed.removed:
            yield TaskEvent(entry.task.name, "removed")
        for entry in changed.changed:
            name = entry.task.name
            old = before.get(entry.number, name)
            if old == name:
                yield TaskEvent(name, "changed", next=self._next(entry))
            else:  # to a subscriber, which knows tasks by name, it is another task
                yield TaskEvent(old, "removed")
                yield TaskEvent(name, "created", next=self._next(entry))
        for entry in changed.created:
            yield TaskEvent(entry.task.name, "created", next=self._next(entry))

    def _next(self, entry: Entry) -> Instant | None:
        row = self._node.tasks.row(entry.number)
        return None if row is None else next_run_time(self._node, row)

    # Sending

    def _gather(self) -> None:
        if self._gathering is None and (self._events or self._events_elsewhere or self._left_out or self._tasks):
            self._gathering = self._loop.call_later(GATHER_SECONDS, self._send_events)

    def _send_events(self) -> None:
        events = self._events
        if self._tasks > MAX_NAMED_TASKS:
            runs = [event for event in events if isinstance(event, RunEvent)]
            events = [TaskEvent(None, "many", self._tasks), *runs]
        if self._relay is not None and (events or self._left_out_here):
            self._relay.send_events(events, self._left_out_here)
        events = events + self._events_elsewhere
        self._seq += self._left_out + self._left_out_here + len(events)
        self._forget_events()
        if events and self._watchers:
            self._send(EventMessage(self._node.start_id, self._seq, events))

    def _each_second(self) -> None:
        runs = self._node.turns.counts.runs
        started, self._runs = runs - self._runs, runs
        self._status = self._loop.call_later(STATUS_INTERVAL, self._each_second)
        if self._relay is not None:
            self._relay.send_started(started)
            started += self._relay.started_elsewhere()
        if self._watchers:
            if self._relay is not None:
                self._relay.announce()
            status = self._node.status()
            self._send(EventMessage(self._node.start_id, self._seq, status=status, started_last_second=started))

    def _send(self, message: EventMessage) -> None:
        line = _encode_line(message)
        self._watchers = [sink for sink in self._watchers if sink(line)]
        self._rest_if_alone()

    def _rest_if_alone(self) -> None:
        if self._watchers:
            return
        if self._relay is not None:
            return  # other nodes may be watched: what was gathered is sent to them soon
        if self._status is not None:
            self._status.cancel()
            self._status = None
        self._seq += self._left_out + self._left_out_here + len(self._events)
        self._forget_events()

    def _forget_events(self) -> None:
        self._events, self._events_elsewhere, self._tasks = [], [], 0
        self._left_out = self._left_out_here = 0
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None


def _encode_line(message: EventMessage) -> bytes:
    return msgspec.json.encode(message) + b"\n"
