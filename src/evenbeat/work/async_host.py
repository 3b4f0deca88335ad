"""A host for asynchronous functions: all at the same time on one loop, each cancelled at the end of its timebox."""

import asyncio
import heapq
import inspect
import os
import signal
from collections import deque
from typing import Final

import msgspec

from evenbeat.core.guard import kill_after
from evenbeat.model import SECOND, Invalid, Job, Outcome
from evenbeat.wire.worker_frames import CancelFrame, ClockFrame, ReadyFrame, RunResult, RunsFrame, RunSpec, StartedFrame
from evenbeat.work import functions
from evenbeat.work.admission import boot_time, refusal_reason
from evenbeat.work.context import Run as Context
from evenbeat.work.context import current
from evenbeat.work.functions import FunctionNotFound, FunctionOutcome
from evenbeat.work.node_socket import NodeConnection, NodeGone

REPORT_START_AFTER: Final = 0.1
"""Seconds after which a run that has not ended is told as started, and gets a timer."""

_job = msgspec.msgpack.Decoder(Job)


class _RunningCoroutine:
    """A function on its way."""

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

    def __init__(self, link: NodeConnection) -> None:
        self._link = link
        self._loop = asyncio.new_event_loop()
        self._offset = 0
        self._early: list[tuple[int, int, RunSpec]] = []
        """Those that are not due yet, as a heap: when they are, and their tokens."""
        self._moment: asyncio.TimerHandle | None = None
        """When the first of them is due."""
        self._running: dict[int, _RunningCoroutine] = {}
        self._young: deque[_RunningCoroutine] = deque()
        self._results: list[RunResult] = []

    def serve(self) -> None:
        """Work until the node is gone."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        asyncio.set_event_loop(self._loop)
        self._loop.add_reader(self._link.descriptor, self._listen)
        self._link.send(ReadyFrame(os.getpid()))
        self._loop.run_forever()

    def _listen(self) -> None:
        try:
            messages = self._link.receive()
        except NodeGone:
            self._loop.stop()
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
                    self._link.send(ReadyFrame(os.getpid()))  # the node asks this way whether the loop still turns
                case CancelFrame(tokens):
                    self._cancel_early(set(tokens))
                    for running in [self._running[t] for t in tokens or self._running if t in self._running]:
                        self._end(running, Outcome.CANCELLED)
        self._begin_due()

    def _begin_due(self) -> None:
        """What is due begins, and for the rest there is one timer."""
        if self._moment is not None:
            self._moment.cancel()
            self._moment = None
        wait = 0
        while self._early and not (wait := self._early[0][2].wait(boot_time() + self._offset)):
            self._begin(heapq.heappop(self._early)[2])
        if self._early:
            self._moment = self._loop.call_later(wait / SECOND, self._begin_due)

    def _cancel_early(self, tokens: set[int]) -> None:
        early, self._early = self._early, []
        for due, token, run in early:
            if not tokens or token in tokens:
                self._tell_unstarted(run, Outcome.CANCELLED, "not started")
            else:
                heapq.heappush(self._early, (due, token, run))

    def _begin(self, run: RunSpec) -> None:
        try:
            job = _job.decode(run.job)
            function = functions.find_function(job.function or "")
        except (FunctionNotFound, Invalid, msgspec.DecodeError) as e:
            self._tell_unstarted(run, Outcome.BROKEN, str(e))
            return
        now = boot_time()
        if reason := refusal_reason(run, now + self._offset):
            self._tell_unstarted(run, Outcome.DROPPED, reason)
            return
        running = _RunningCoroutine(run, Context(run, now, self._offset), now)
        self._running[run.token] = running
        running.task = self._loop.create_task(self._do(running, function, job))
        if run.timebox < REPORT_START_AFTER * SECOND:
            self._set_timer(running, now)
        if not self._young:
            self._loop.call_later(REPORT_START_AFTER, self._look_at_the_young)
        self._young.append(running)

    def _set_timer(self, running: _RunningCoroutine, now: int) -> None:
        left = (running.started + running.run.timebox - now) / SECOND
        running.timer = self._loop.call_later(left, self._end, running, Outcome.TIMEBOXED)

    async def _do(self, running: _RunningCoroutine, function: functions.UserFunction, job: Job) -> None:
        context, check = running.context, running.run.check
        current.set(context)
        try:
            value = function.invoke(context, job)
            if inspect.isawaitable(value):
                value = await value
            ending = functions.outcome_of_return(context, value, check=check)
        except BaseException as e:
            # What is cancelled from inside is a failure like any other.
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
        self._tell(context._result(ending.outcome, ending.status, boot_time()))

    def _end(self, running: _RunningCoroutine, outcome: Outcome) -> None:
        if running.ending is not None or running.task is None:
            return
        running.ending = outcome
        running.task.cancel()
        if running.timer is not None:
            running.timer.cancel()
        running.timer = self._loop.call_later(kill_after(running.run.timebox) / SECOND, self._give_up, running)

    def _give_up(self, running: _RunningCoroutine) -> None:
        """It swallowed the cancellation. Nothing but the end of this process ends it."""
        assert running.ending is not None
        self._results.append(running.context._result(running.ending, None, boot_time()))
        self._link.send_results(self._results)
        self._link.finish()
        os._exit(1)

    def _look_at_the_young(self) -> None:
        now = boot_time()
        starts = []
        while self._young and self._young[0].started <= now - REPORT_START_AFTER * SECOND:
            running = self._young.popleft()
            if running.run.token in self._running:
                starts.append((running.run.token, running.started + self._offset))
                if running.timer is None:
                    self._set_timer(running, now)
        if starts:
            self._link.send(StartedFrame(starts))
            self._mind_the_link()
        if self._young:
            self._loop.call_later(REPORT_START_AFTER / 2, self._look_at_the_young)

    def _tell_unstarted(self, run: RunSpec, outcome: Outcome, reason: str) -> None:
        now = boot_time() + self._offset
        self._tell(RunResult(run.token, outcome, None, now, now, reason.encode(errors="backslashreplace")))

    def _tell(self, result: RunResult) -> None:
        if not self._results:
            self._loop.call_soon(self._flush)
        self._results.append(result)

    def _flush(self) -> None:
        if self._results:
            self._link.send_results(self._results)
            self._results = []
            self._mind_the_link()

    def _mind_the_link(self) -> None:
        """A node that does not read is not asked for more work."""
        if self._link.is_waiting_to_send:
            self._loop.add_writer(self._link.descriptor, self._proceed)
        if self._link.has_too_much_unsent:
            self._loop.remove_reader(self._link.descriptor)

    def _proceed(self) -> None:
        self._link.flush()
        if not self._link.is_waiting_to_send:
            self._loop.remove_writer(self._link.descriptor)
            self._loop.add_reader(self._link.descriptor, self._listen)
