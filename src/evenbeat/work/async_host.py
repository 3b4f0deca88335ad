"""The async host: runs asynchronous functions at the same time on one loop, each cancelled when its timebox ends."""

import asyncio
import heapq
import inspect
import os
import signal
from collections import deque
from typing import Final

import msgspec

from evenbeat.clock.system_clock import boot_time
from evenbeat.core.timebox import kill_after
from evenbeat.model import SECOND, Invalid, Job, Outcome
from evenbeat.wire.worker_frames import (
    CancelFrame,
    ClockFrame,
    OutputFrame,
    ReadOutputFrame,
    ReadyFrame,
    RunResult,
    RunsFrame,
    RunSpec,
    StartedFrame,
)
from evenbeat.work import functions
from evenbeat.work.admission import refusal_reason
from evenbeat.work.context import Run as Context
from evenbeat.work.context import current
from evenbeat.work.functions import FunctionNotFound, FunctionOutcome
from evenbeat.work.node_socket import NodeConnection, NodeGone

REPORT_START_AFTER: Final = 0.1
"""Seconds after which a run that has not ended is reported as started, and gets a timer."""

_job = msgspec.msgpack.Decoder(Job)


class _RunningCoroutine:
    """A run of an asynchronous function."""

    __slots__ = ("context", "ending", "run", "started", "task", "timer")

    def __init__(self, run: RunSpec, context: Context, started: int) -> None:
        self.run = run
        self.context = context
        self.started = started
        self.ending: Outcome | None = None
        self.task: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None


class AsyncHost:
    """Runs coroutines for a node."""

    def __init__(self, connection: NodeConnection) -> None:
        self._connection = connection
        self.loop = asyncio.new_event_loop()
        self._offset = 0
        self._early: list[tuple[int, int, RunSpec]] = []
        """Runs that are not due yet, as a heap of due time, token and run."""
        self.early_timer: asyncio.TimerHandle | None = None
        """Set for the due time of the first of them."""
        self._running: dict[int, _RunningCoroutine] = {}
        self._unreported: deque[_RunningCoroutine] = deque()
        self._results: list[RunResult] = []

    def serve(self) -> None:
        """Work until the node has ended."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        asyncio.set_event_loop(self.loop)
        self.loop.add_reader(self._connection.descriptor, self.listen)
        self._connection.send(ReadyFrame(os.getpid()))
        self.loop.run_forever()

    def listen(self) -> None:
        """Act on what the node has sent."""
        try:
            messages = self._connection.receive()
        except NodeGone:
            self.loop.stop()
            return
        for message in messages:
            match message:
                case RunsFrame(runs):
                    for run in runs:
                        heapq.heappush(self._early, (run.due, run.token, run))
                case ClockFrame(offset, by):
                    self._offset = offset
                    for _, _, run in self._early if by else ():
                        run.move(by)
                    self._early = [(run.due, token, run) for _, token, run in self._early]
                    # The node checks this way whether our loop is blocked.
                    self._connection.send(ReadyFrame(os.getpid()))
                case CancelFrame(tokens):
                    self._cancel_early(set(tokens))
                    for running in [self._running[t] for t in tokens or self._running if t in self._running]:
                        self._end(running, Outcome.CANCELLED)
                case ReadOutputFrame(token, position):
                    reader = self._running.get(token)
                    start, data = (position, b"") if reader is None else reader.context._output_after(position)
                    self._connection.send(OutputFrame(token, position, start, data))
                    self._update_socket_events()
        self._start_due()

    def _start_due(self) -> None:
        """Start what is due, and set one timer for the rest."""
        if self.early_timer is not None:
            self.early_timer.cancel()
            self.early_timer = None
        wait = 0
        while self._early and not (wait := self._early[0][2].wait(boot_time() + self._offset)):
            self._start(heapq.heappop(self._early)[2])
        if self._early:
            self.early_timer = self.loop.call_later(wait / SECOND, self._start_due)

    def _cancel_early(self, tokens: set[int]) -> None:
        early, self._early = self._early, []
        for due, token, run in early:
            if not tokens or token in tokens:
                self._add_unstarted(run, Outcome.CANCELLED, "not started")
            else:
                heapq.heappush(self._early, (due, token, run))

    def _start(self, run: RunSpec) -> None:
        try:
            job = _job.decode(run.job)
            function = functions.find_function(job.function or "")
        except (FunctionNotFound, Invalid, msgspec.DecodeError) as e:
            self._add_unstarted(run, Outcome.BROKEN, str(e))
            return
        now = boot_time()
        if reason := refusal_reason(run, now + self._offset):
            self._add_unstarted(run, Outcome.DROPPED, reason)
            return
        running = _RunningCoroutine(run, Context(run, now, self._offset, job.output_keep), now)
        self._running[run.token] = running
        running.task = self.loop.create_task(self._execute(running, function, job))
        if run.timebox < REPORT_START_AFTER * SECOND:
            self._set_timer(running, now)
        if not self._unreported:
            self.loop.call_later(REPORT_START_AFTER, self._report_lasting_starts)
        self._unreported.append(running)

    def _set_timer(self, running: _RunningCoroutine, now: int) -> None:
        left = (running.started + running.run.timebox - now) / SECOND
        running.timer = self.loop.call_later(left, self._end, running, Outcome.TIMEBOXED)

    async def _execute(self, running: _RunningCoroutine, function: functions.UserFunction, job: Job) -> None:
        context, check = running.context, running.run.check
        current.set(context)
        try:
            value = function.invoke(context, job)
            if inspect.isawaitable(value):
                value = await value
            ending = functions.outcome_of_return(context, value, check=check)
        except BaseException as e:
            # A cancellation that the function caused itself is a failure like any other.
            ending = (
                FunctionOutcome(running.ending, None)
                if running.ending
                else functions.outcome_of_exception(context, e, check=check)
            )
        if running.ending is not None:
            ending = FunctionOutcome(running.ending, None)
        if running.timer is not None:
            running.timer.cancel()
        del self._running[running.run.token]
        self._add_result(context._result(ending.outcome, ending.status, boot_time()))

    def _end(self, running: _RunningCoroutine, outcome: Outcome) -> None:
        if running.ending is not None or running.task is None:
            return
        running.ending = outcome
        running.task.cancel()
        if running.timer is not None:
            running.timer.cancel()
        running.timer = self.loop.call_later(kill_after(running.run.timebox) / SECOND, self._give_up, running)

    def _give_up(self, running: _RunningCoroutine) -> None:
        """The function swallowed its cancellation. Only the end of this process ends it."""
        assert running.ending is not None
        self._results.append(running.context._result(running.ending, None, boot_time()))
        self._connection.send_results(self._results)
        self._connection.finish()
        os._exit(1)

    def _report_lasting_starts(self) -> None:
        now = boot_time()
        starts = []
        while self._unreported and self._unreported[0].started <= now - REPORT_START_AFTER * SECOND:
            running = self._unreported.popleft()
            if running.run.token in self._running:
                starts.append((running.run.token, running.started + self._offset))
                if running.timer is None:
                    self._set_timer(running, now)
        if starts:
            self._connection.send(StartedFrame(starts))
            self._update_socket_events()
        if self._unreported:
            self.loop.call_later(REPORT_START_AFTER / 2, self._report_lasting_starts)

    def _add_unstarted(self, run: RunSpec, outcome: Outcome, reason: str) -> None:
        now = boot_time() + self._offset
        self._add_result(RunResult(run.token, outcome, None, now, now, reason.encode(errors="backslashreplace")))

    def _add_result(self, result: RunResult) -> None:
        if not self._results:
            self.loop.call_soon(self._flush)
        self._results.append(result)

    def _flush(self) -> None:
        if self._results:
            self._connection.send_results(self._results)
            self._results = []
            self._update_socket_events()

    def _update_socket_events(self) -> None:
        """Wait until the node reads; while too much is unsent, accept no more runs."""
        if self._connection.is_waiting_to_send:
            self.loop.add_writer(self._connection.descriptor, self._send_rest)
        if self._connection.has_too_much_unsent:
            self.loop.remove_reader(self._connection.descriptor)

    def _send_rest(self) -> None:
        self._connection.flush()
        if not self._connection.is_waiting_to_send:
            self.loop.remove_writer(self._connection.descriptor)
            self.loop.add_reader(self._connection.descriptor, self.listen)
