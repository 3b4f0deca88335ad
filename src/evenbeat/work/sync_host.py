"""The sync host: calls ordinary functions one at a time, and reports each result before it starts the next."""

import asyncio
import inspect
import os
import select
import signal
import time
from collections import deque
from contextlib import suppress

import msgspec

from evenbeat.clock.system_clock import boot_time
from evenbeat.model import Invalid, Job, Outcome
from evenbeat.wire.plain_results import encode_plain_frame
from evenbeat.wire.worker_frames import (
    READ_NOW,
    CancelFrame,
    ClockFrame,
    OutputFrame,
    ReadOutputFrame,
    ReadyFrame,
    ResultsFrame,
    RunResult,
    RunsFrame,
    RunSpec,
    StartedFrame,
    WrongHostFrame,
    encode_frame,
)
from evenbeat.work import functions
from evenbeat.work.admission import refusal_reason
from evenbeat.work.context import Run as Context
from evenbeat.work.context import current
from evenbeat.work.functions import FunctionNotFound, FunctionOutcome
from evenbeat.work.node_socket import NodeConnection, NodeGone

_job = msgspec.msgpack.Decoder(Job)
_MOST_PREPARED = 1_000
"""Jobs that are kept unpacked."""
_MIN_READ_INTERVAL = 0.001
"""Seconds between two reads of the socket while there is work to do."""


class TimeIsUp(BaseException):
    """Raised in a function whose timebox has ended, or that was cancelled. Like KeyboardInterrupt, not an Exception."""


class SyncHost:
    """Calls functions for a node."""

    def __init__(self, connection: NodeConnection) -> None:
        self._connection = connection
        self._offset = 0
        self._now = 0
        """The node's clock when it was last read."""
        self._waiting: deque[RunSpec] = deque()
        self._last_read = 0.0
        self._cancelled: set[int] = set()
        self._running: Context | None = None
        self._token = -1
        self._ending: Outcome | None = None
        self._is_listening = False
        self._prepared: dict[bytes, tuple[Job, functions.UserFunction]] = {}
        """By their packed form: jobs without arguments, and their functions."""

    def serve(self) -> None:
        """Work until the node has ended."""
        signal.signal(signal.SIGTERM, self._interrupt)
        signal.signal(READ_NOW, self._interrupt)
        signal.siginterrupt(READ_NOW, False)  # noqa: FBT003
        poll = select.poll()
        poll.register(self._connection.descriptor, select.POLLIN)
        with suppress(NodeGone):
            self._connection.send(ReadyFrame(os.getpid()))
            while True:
                if not self._waiting:
                    poll.poll()
                    self._listen()
                    continue
                if wait := self._wait(self._waiting[0]):
                    poll.poll(wait / 1_000)
                    self._listen()
                    continue
                if time.monotonic() > self._last_read + _MIN_READ_INTERVAL:
                    self._listen()
                self._execute(self._waiting.popleft())

    def _wait(self, run: RunSpec) -> int:
        """Microseconds until it is due; the clock is not read again for a run that was due at the last reading."""
        if run.due <= self._now:
            return 0
        self._now = boot_time() + self._offset
        return run.wait(self._now)

    def _listen(self) -> None:
        if self._is_listening:
            return  # a signal has come meanwhile, and what it came for is read next
        self._is_listening = True
        try:
            self._take_messages()
        finally:
            self._is_listening = False

    def _take_messages(self) -> None:
        self._last_read = time.monotonic()
        for message in self._connection.receive():
            match message:
                case RunsFrame(runs):
                    self._waiting.extend(runs)
                case ClockFrame(offset, by):
                    self._offset = offset
                    for run in self._waiting if by else ():
                        run.move(by)
                    self._now = 0
                case CancelFrame(tokens):
                    self._cancelled.update(tokens or (run.token for run in self._waiting))
                    if not tokens and self._running is not None:
                        self._cancelled.add(self._token)
                case ReadOutputFrame(token, position):
                    context = self._running if token == self._token else None
                    start, data = (position, b"") if context is None else context._output_after(position)
                    self._send(OutputFrame(token, position, start, data))

    def _interrupt(self, _number: int, _frame: object) -> None:
        """The node signals that a run must end, or that it reads its output; we find out which run."""
        run = self._running
        if run is None or self._ending is not None:
            return
        self._listen()
        if self._token in self._cancelled:
            self._ending = Outcome.CANCELLED
        elif run.expired:
            self._ending = Outcome.TIMEBOXED
        if self._ending is not None:
            raise TimeIsUp

    def _execute(self, run: RunSpec) -> None:
        if self._cancelled and run.token in self._cancelled:
            self._cancelled.discard(run.token)
            self._send_unstarted(run, Outcome.CANCELLED, "not started")
            return
        try:
            job, function, is_new = self._prepare(bytes(run.job))
        except (FunctionNotFound, Invalid, msgspec.DecodeError) as e:
            self._send_unstarted(run, Outcome.BROKEN, str(e))
            return
        if function.is_async:
            self._send(WrongHostFrame([run.token]))
            return
        now, offset = boot_time(), self._offset
        if reason := refusal_reason(run, now + offset):
            self._send_unstarted(run, Outcome.DROPPED, reason)
            return
        if is_new:
            # The timebox begins after the import, and the node enforces it.
            self._send(StartedFrame([(run.token, now + offset)]))
        context = Context(run, now, offset, job.output_keep)
        ending = self._call(context, function, job, run)
        if context._is_silent and ending == functions.SUCCEEDED:
            self._send_frame(encode_plain_frame(run.token, now + offset, boot_time() + offset))
        else:
            self._send(ResultsFrame([context._result(ending.outcome, ending.status, boot_time())]))

    def _prepare(self, packed: bytes) -> tuple[Job, functions.UserFunction, bool]:
        """The job and its function, and whether that had to be imported."""
        known = self._prepared.get(packed)
        if known is not None:
            return *known, False
        job = _job.decode(packed)
        is_new = not functions.is_imported(job.function or "")
        function = functions.find_function(job.function or "")
        # A function may change lists and tables among its arguments: each run gets arguments of its own.
        if not (job.args or job.kwargs):
            if len(self._prepared) >= _MOST_PREPARED:
                self._prepared.clear()
            self._prepared[packed] = (job, function)
        return job, function, is_new

    def _call(self, context: Context, function: functions.UserFunction, job: Job, run: RunSpec) -> FunctionOutcome:
        self._token, self._ending = run.token, None
        outside = current.set(context)
        try:
            try:
                self._running = context
                value = function.invoke(context, job)
                if value is not None and inspect.iscoroutine(value):
                    # An asynchronous function that does not look like one, for example because it is wrapped.
                    value = asyncio.run(value)
            finally:
                self._running = None
            ending = functions.outcome_of_return(context, value, check=run.check)
        except TimeIsUp:
            ending = FunctionOutcome(Outcome.TIMEBOXED, None)
        except BaseException as e:
            ending = functions.outcome_of_exception(context, e, check=run.check)
        finally:
            self._running = None
            current.reset(outside)
            if self._cancelled:
                self._cancelled.discard(run.token)
        return ending if self._ending is None else FunctionOutcome(self._ending, None)

    def _send_unstarted(self, run: RunSpec, outcome: Outcome, reason: str) -> None:
        now = boot_time() + self._offset
        self._send(
            ResultsFrame([RunResult(run.token, outcome, None, now, now, reason.encode(errors="backslashreplace"))])
        )

    def _send(self, message: ResultsFrame | StartedFrame | WrongHostFrame | OutputFrame) -> None:
        self._send_frame(encode_frame(message))

    def _send_frame(self, frame: bytes) -> None:
        self._connection.send_frame(frame)
        if self._connection.is_waiting_to_send:
            self._connection.finish()
