"""A host for ordinary functions: one at a time, each result told before the next begins."""

import asyncio
import inspect
import os
import select
import signal
import time
from collections import deque
from contextlib import suppress

import msgspec

from evenbeat.model import Invalid, Job, Outcome
from evenbeat.wire.worker_frames import (
    CancelFrame,
    ClockFrame,
    ReadyFrame,
    ResultsFrame,
    RunResult,
    RunsFrame,
    RunSpec,
    StartedFrame,
    WrongHostFrame,
)
from evenbeat.work import functions
from evenbeat.work.admission import boot_time, refusal_reason
from evenbeat.work.context import Run as Context
from evenbeat.work.context import current
from evenbeat.work.functions import FunctionNotFound, FunctionOutcome
from evenbeat.work.node_socket import NodeConnection, NodeGone

_job = msgspec.msgpack.Decoder(Job)
_DEAF = 0.001
"""Seconds for which a host with work before it does not look whether something has arrived."""


class TimeIsUp(BaseException):
    """Raised into a function whose timebox has ended, or that was cancelled. Like KeyboardInterrupt, not an error."""


class SyncHost:
    """Calls functions for a node."""

    def __init__(self, link: NodeConnection) -> None:
        self._link = link
        self._offset = 0
        self._now = 0
        """A time that has passed, by the node's clock."""
        self._waiting: deque[RunSpec] = deque()
        self._listened = 0.0
        self._cancelled: set[int] = set()
        self._running: Context | None = None
        self._token = -1
        self._ending: Outcome | None = None

    def serve(self) -> None:
        """Work until the node is gone."""
        signal.signal(signal.SIGTERM, self._interrupt)
        poll = select.poll()
        poll.register(self._link.descriptor, select.POLLIN)
        with suppress(NodeGone):
            self._link.send(ReadyFrame(os.getpid()))
            while True:
                if not self._waiting:
                    poll.poll()
                    self._listen()
                    continue
                if wait := self._wait(self._waiting[0]):
                    poll.poll(wait / 1_000)
                    self._listen()
                    continue
                if time.monotonic() > self._listened + _DEAF:
                    self._listen()
                self._do(self._waiting.popleft())

    def _wait(self, run: RunSpec) -> int:
        """Microseconds until it is due; of those that are late the clock need not be asked."""
        if run.due <= self._now:
            return 0
        self._now = boot_time() + self._offset
        return run.wait(self._now)

    def _listen(self) -> None:
        self._listened = time.monotonic()
        for message in self._link.receive():
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

    def _interrupt(self, _number: int, _frame: object) -> None:
        """The node signals that there is a reason to stop; which run it meant is for us to find out."""
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

    def _do(self, run: RunSpec) -> None:
        if run.token in self._cancelled:
            self._cancelled.discard(run.token)
            self._tell_unstarted(run, Outcome.CANCELLED, "not started")
            return
        try:
            job = _job.decode(run.job)
            is_new = not functions.is_imported(job.function or "")
            function = functions.find_function(job.function or "")
        except (FunctionNotFound, Invalid, msgspec.DecodeError) as e:
            self._tell_unstarted(run, Outcome.BROKEN, str(e))
            return
        if function.is_async:
            self._tell(WrongHostFrame([run.token]))
            return
        now = boot_time()
        if reason := refusal_reason(run, now + self._offset):
            self._tell_unstarted(run, Outcome.DROPPED, reason)
            return
        if is_new:
            # The timebox begins after the import, and the node watches over it.
            self._tell(StartedFrame([(run.token, now + self._offset)]))
        context = Context(run, now, self._offset)
        ending = self._call(context, function, job, run)
        self._tell(ResultsFrame([context._result(ending.outcome, ending.status, boot_time())]))

    def _call(self, context: Context, function: functions.UserFunction, job: Job, run: RunSpec) -> FunctionOutcome:
        self._token, self._ending = run.token, None
        outside = current.set(context)
        try:
            try:
                self._running = context
                value = function.invoke(context, job)
                if value is not None and inspect.iscoroutine(value):
                    # An asynchronous function in the clothes of an ordinary one, such as a wrapped one.
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
            self._cancelled.discard(run.token)
        return ending if self._ending is None else FunctionOutcome(self._ending, None)

    def _tell_unstarted(self, run: RunSpec, outcome: Outcome, reason: str) -> None:
        now = boot_time() + self._offset
        self._tell(
            ResultsFrame([RunResult(run.token, outcome, None, now, now, reason.encode(errors="backslashreplace"))])
        )

    def _tell(self, message: ResultsFrame | StartedFrame | WrongHostFrame) -> None:
        self._link.send(message)
        if self._link.is_waiting_to_send:
            self._link.finish()
