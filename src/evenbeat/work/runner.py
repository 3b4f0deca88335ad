"""The worker process for commands: one epoll loop starts children and notices their ends.

`evenbeat.work.runner DESCRIPTOR PASS_ENV`; the last is a list of names with commas between them.

It imports almost nothing and has no threads, so that spawning stays cheap. When its socket closes, the node has ended:
it kills all children and ends too.
"""

import gc
import heapq
import os
import resource
import select
import signal
import sys
from collections import deque
from collections.abc import Sequence
from typing import Final

from evenbeat.child_processes.process_table import kill_permitted
from evenbeat.clock.system_clock import boot_time
from evenbeat.core.timebox import kill_after
from evenbeat.model import SECOND, Invalid, Outcome
from evenbeat.wire.plain_results import encode_record
from evenbeat.wire.worker_frames import (
    CancelFrame,
    ClockFrame,
    OutOfResourcesFrame,
    OutputFrame,
    ReadOutputFrame,
    ReadyFrame,
    RunResult,
    RunsFrame,
    RunSpec,
    StartedFrame,
)
from evenbeat.work.admission import refusal_reason
from evenbeat.work.child import NO_DESCRIPTOR, ChildProcess
from evenbeat.work.escaped_processes import StrayProcesses, adopt_orphans, kill_strays, signal_strays
from evenbeat.work.node_socket import NodeConnection, NodeGone
from evenbeat.work.spawn import NOOP, CannotStart, OutOfResources, PreparedRun, Spawner

REPORT_START_AFTER: Final = 100_000
"""A run that has not ended by then is reported as started, and gets a timer and a pidfd."""
_MAX_STARTING_TIME: Final = 10_000
"""After so long, ended children are handled: results must not wait behind a long queue of starts. Not sooner, as it is
faster to handle many of them one after the other."""
_RESULTS_PER_FRAME: Final = 256
_RESULT_DELAY: Final = 40_000
"""Results wait so long for others, unless they are as many as the remaining runs: every frame wakes the node."""
_LONGEST_POLL: Final = 86_400.0
"""Seconds: the kernel takes no more than 24 days, and a timebox may be longer."""
_REAP_INTERVAL: Final = 2 * SECOND
"""Between two checks whether an adopted process has ended."""
_PEEK: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT
_OWN_DESCRIPTORS: Final = 32
_UNWATCHED_POLL_INTERVAL: Final = 50_000
"""Between two checks whether a child without a pidfd has ended."""
_NO_DESCRIPTOR: Final = -2
_READABLE: Final = select.EPOLLIN
_HUNG_UP: Final = select.EPOLLHUP


class CommandRunner:
    """Runs commands for a node, as many at a time as it is given and descriptors allow."""

    def __init__(self, descriptor: int, pass_env: Sequence[str] = ()) -> None:
        self._connection = NodeConnection(descriptor)
        self._poll = select.epoll()
        self._poll.register(descriptor, select.EPOLLIN)
        self._socket_events = select.EPOLLIN
        self._node_is_slow = False
        """Does the node read so slowly that no more runs should be started?"""
        self._resource_problem = ""
        """Why no run can be started, as last reported to the node."""
        self._spawner = Spawner(pass_env)
        self._offset = 0
        self._early: list[tuple[int, int, PreparedRun]] = []
        """Runs that are not due yet, as a heap of due time, token and run."""
        self._waiting: deque[PreparedRun] = deque()
        self._children: dict[int, ChildProcess] = {}
        self._by_descriptor: dict[int, ChildProcess] = {}
        # Both hold tokens: that of an ended child leads nowhere, and keeps nothing alive.
        self._unreported: deque[tuple[int, int]] = deque()
        self._timers: list[tuple[int, int]] = []
        self._results: list[RunResult] = []
        self._plain_results: list[bytes] = []
        """Results of `noop`, packed."""
        self._send_at = 0
        self._unwatched: dict[int, ChildProcess] = {}
        """By token: children that last, and for which there was no pidfd."""
        self._strays = StrayProcesses()
        self._reap_at = sys.maxsize
        """sys.maxsize, for never, while there is no child."""
        # A child costs its pipe, and its pidfd when it lasts.
        self._max_children = max(1, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OWN_DESCRIPTORS) // 2)

    def serve(self) -> None:
        """Work until the node has ended, and leave no process behind."""
        try:
            self._connection.send(ReadyFrame(os.getpid()))
            while True:
                self.turn()
        except NodeGone:
            self._look_for_strays(boot_time())
            for child in self._children.values():
                strays = self._strays.strays_of(child.process, self._spawner.marks(child.run))
                child.signal(signal.SIGKILL)
                kill_permitted(one.pid for one in strays)
            self._spawner.cursors.close()

    def turn(self) -> None:
        """Wait for something to happen, then deal with it: messages, ends of children, timeboxes."""
        events = self._poll.poll(self.poll_timeout())
        now = boot_time()
        for descriptor, event in events:
            child = self._by_descriptor.get(descriptor)
            if child is not None:
                self._on_child_event(child, descriptor, event, now)
            elif descriptor == self._connection.descriptor:
                self._on_node_socket(event)
        if self._unreported and self._unreported[0][0] + REPORT_START_AFTER <= now:
            self._report_lasting_starts(now)
        while self._timers and self._timers[0][0] <= now:
            child = self._children.get(heapq.heappop(self._timers)[1])
            if child is not None:
                self._time_is_up(child, now)
        while self._early and not self._early[0][2].run.wait(now + self._offset):
            self._waiting.append(heapq.heappop(self._early)[2])
        if self._waiting and not self._node_is_slow:
            now = self._start_some(now + _MAX_STARTING_TIME)
        if self._unwatched:
            self._check_unwatched(now)
        if now >= self._reap_at:
            self._reap_adopted(now)
        left = len(self._children) + len(self._waiting) + len(self._early)
        unsent = len(self._results) + len(self._plain_results)
        if unsent and (now >= self._send_at or unsent >= left):
            self._flush()

    def _start_some(self, deadline: int) -> int:
        """Start as many waiting runs as there is room for until the deadline; the time of the last start."""
        # No child that is started here is removed here.
        room = self._max_children - len(self._children)
        now = boot_time()
        while room > 0 and now <= deadline and self._waiting and self._start(self._waiting.popleft(), now):
            room -= 1
            now = boot_time()
        return now

    def poll_timeout(self) -> float:
        """Seconds until something is to be done though nothing happens."""
        if self._can_start():
            return 0
        soonest = min(
            self._unreported[0][0] + REPORT_START_AFTER if self._unreported else sys.maxsize,
            self._timers[0][0] if self._timers else sys.maxsize,
            self._send_at if self._results or self._plain_results else sys.maxsize,
            self._early[0][0] - self._offset if self._early else sys.maxsize,
            self._reap_at,
            boot_time() + _UNWATCHED_POLL_INTERVAL if self._unwatched else sys.maxsize,
        )
        return -1 if soonest == sys.maxsize else min(max(0, soonest - boot_time()) / 1_000_000, _LONGEST_POLL)

    def _can_start(self) -> bool:
        return bool(self._waiting) and len(self._children) < self._max_children and not self._node_is_slow

    def _on_node_socket(self, event: int) -> None:
        if event & select.EPOLLOUT:
            self._connection.flush()
            self._update_socket_events()
        if not event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            return
        for message in self._connection.receive():
            match message:
                case RunsFrame(runs):
                    self._take(runs)
                case ClockFrame(offset, by):
                    self._set_clock(offset, by)
                case CancelFrame(tokens):
                    self._cancel(set(tokens))
                case ReadOutputFrame(token, position):
                    self._send_output(token, position)

    def _send_output(self, token: int, position: int) -> None:
        child = self._children.get(token)
        start, data = (position, b"") if child is None else child.output_after(position)
        self._connection.send(OutputFrame(token, position, start, data))
        self._update_socket_events()

    def _set_clock(self, offset: int, by: int) -> None:
        self._offset = offset
        if by:
            for prepared in (*self._waiting, *(prepared for _, _, prepared in self._early)):
                prepared.run.move(by)
            self._early = [(due + by, token, prepared) for due, token, prepared in self._early]

    def _take(self, runs: list[RunSpec]) -> None:
        now = boot_time() + self._offset
        for run in runs:
            try:
                prepared = self._spawner.prepare(run)
                if run.wait(now):
                    heapq.heappush(self._early, (run.due, run.token, prepared))
                else:
                    self._waiting.append(prepared)
            except CannotStart as e:
                self._add_unstarted(run, Outcome.BROKEN, str(e))

    def _start(self, prepared: PreparedRun, now: int) -> bool:
        """Start a run, or report why not; False if it must wait until others have ended."""
        run = prepared.run
        if reason := refusal_reason(run, now + self._offset):
            self._add_unstarted(run, Outcome.DROPPED, reason)
            return True
        if prepared.words == NOOP:
            self._add_plain_result(run.token, now)
            return True
        try:
            process, pipe = self._spawner.spawn(prepared, now + self._offset)
        except CannotStart as e:
            self._spawner.cursors.forget(run.token)
            self._add_unstarted(run, Outcome.BROKEN, str(e))
            return True
        except OutOfResources as e:
            if self._children:
                self._waiting.appendleft(prepared)
                self._report_resource_problem(str(e))
                return False
            self._add_unstarted(run, Outcome.BROKEN, f"the machine is full: {e}")
            return True
        if self._resource_problem:
            self._report_resource_problem("")
        self._children[run.token] = child = ChildProcess(run, process, pipe, now, keep=prepared.job.output_keep)
        self._watch(child, pipe)
        if self._reap_at == sys.maxsize:
            self._reap_at = now + _REAP_INTERVAL
        self._unreported.append((now, run.token))
        if run.timebox < REPORT_START_AFTER:
            self._set_timer(child, now + run.timebox)
        return True

    def _report_resource_problem(self, reason: str) -> None:
        """Report it once: the node shows why runs wait here."""
        if reason != self._resource_problem:
            self._resource_problem = reason
            self._connection.send(OutOfResourcesFrame(reason))
            self._update_socket_events()

    def _watch(self, child: ChildProcess, descriptor: int) -> None:
        self._by_descriptor[descriptor] = child
        self._poll.register(descriptor, _READABLE)

    def _unwatch(self, descriptor: int) -> None:
        # Explicitly, and before closing: a child that is just being started still has this descriptor until its exec,
        # so that closing it here would leave it in the epoll set.
        del self._by_descriptor[descriptor]
        self._poll.unregister(descriptor)
        os.close(descriptor)

    def _watch_process(self, child: ChildProcess) -> None:
        if child.pidfd == NO_DESCRIPTOR:
            try:
                child.pidfd = os.pidfd_open(child.process)
            except OSError:
                self._unwatched[child.run.token] = child  # no descriptor is left: it is polled instead
                return
            self._watch(child, child.pidfd)

    def _check_unwatched(self, now: int) -> None:
        unwatched, self._unwatched = self._unwatched, {}
        for token, child in unwatched.items():
            if token in self._children:
                self._on_child_event(child, _NO_DESCRIPTOR, 0, now)

    def _on_child_event(self, child: ChildProcess, descriptor: int, event: int, now: int) -> None:
        if descriptor == child.pipe:
            if not child.read(is_hung_up=bool(event & _HUNG_UP)):
                return
            self._unwatch(descriptor)
            child.pipe = NO_DESCRIPTOR
        # Its output has ended, or the child itself; if the child lives on without output, wait for it.
        result = child.reap(now, self._offset)
        if result is None:
            self._watch_process(child)
            return
        if child.pipe != NO_DESCRIPTOR:
            self._unwatch(child.pipe)
        if child.pidfd != NO_DESCRIPTOR:
            self._unwatch(child.pidfd)
        if child.strays:
            kill_strays(child.strays)
        del self._children[child.run.token]
        self._take_cursor(result)
        self._add_result(result)

    def _take_cursor(self, result: RunResult) -> None:
        """The cursor that the command wrote goes with its result, however the run ended. One that cannot be kept is a
        failure: the next run would begin where this one did.
        """
        try:
            result.cursor = self._spawner.cursors.take(result.token)
        except Invalid as e:
            if result.outcome == Outcome.SUCCEEDED:
                result.outcome = Outcome.FAILED
            result.output = b"%b\n%b\n" % (result.output.rstrip(b"\n"), str(e).encode())

    def _report_lasting_starts(self, now: int) -> None:
        starts = []
        while self._unreported and self._unreported[0][0] + REPORT_START_AFTER <= now:
            child = self._children.get(self._unreported.popleft()[1])
            if child is None:
                continue
            starts.append((child.run.token, child.started + self._offset))
            self._watch_process(child)
            if child.run.timebox >= REPORT_START_AFTER:
                self._set_timer(child, child.started + child.run.timebox)
        if starts:
            self._connection.send(StartedFrame(starts))
            self._update_socket_events()

    def _set_timer(self, child: ChildProcess, when: int) -> None:
        heapq.heappush(self._timers, (when, child.run.token))
        if len(self._timers) > 2 * len(self._children) + 64:
            self._timers = [timer for timer in self._timers if timer[1] in self._children]
            heapq.heapify(self._timers)

    def _time_is_up(self, child: ChildProcess, now: int) -> None:
        if child.ending is None:
            self._end_run(child, Outcome.TIMEBOXED, now)
        elif now >= child.kill_at:
            child.signal(signal.SIGKILL)
            kill_strays(child.strays)

    def _end_run(self, child: ChildProcess, outcome: Outcome, now: int) -> None:
        child.ending = outcome
        child.kill_at = now + kill_after(child.run.timebox)
        self._watch_process(child)
        self._look_for_strays(now)
        child.strays = self._strays.strays_of(child.process, self._spawner.marks(child.run))
        for number in (signal.SIGTERM, signal.SIGCONT):
            child.signal(number)
            signal_strays(child.strays, number)
        self._set_timer(child, child.kill_at)

    def _look_for_strays(self, now: int) -> None:
        self._strays.scan({child.process for child in self._children.values()}, now)

    def _reap_adopted(self, now: int) -> None:
        """Reap orphans of runs, which the kernel has made our children."""
        self._reap_at = now + _REAP_INTERVAL
        runs = {child.process: child for child in self._children.values()}
        try:
            while (ended := os.waitid(os.P_ALL, 0, _PEEK)) is not None:
                child = runs.get(ended.si_pid)
                if child is None:
                    os.waitpid(ended.si_pid, 0)
                else:
                    self._on_child_event(child, _NO_DESCRIPTOR, 0, now)
        except ChildProcessError:
            self._reap_at = sys.maxsize

    def _cancel(self, tokens: set[int]) -> None:
        now = boot_time()
        unstarted = [prepared for prepared in self._waiting if not tokens or prepared.run.token in tokens]
        unstarted += [prepared for _, token, prepared in self._early if not tokens or token in tokens]
        self._waiting = deque(prepared for prepared in self._waiting if tokens and prepared.run.token not in tokens)
        self._early = [early for early in self._early if tokens and early[1] not in tokens]
        heapq.heapify(self._early)
        for prepared in unstarted:
            self._add_unstarted(prepared.run, Outcome.CANCELLED, "not started")
        for child in [c for t, c in self._children.items() if not tokens or t in tokens]:
            if child.ending is None:
                self._end_run(child, Outcome.CANCELLED, now)

    def _add_unstarted(self, run: RunSpec, outcome: Outcome, reason: str) -> None:
        now = boot_time() + self._offset
        self._add_result(RunResult(run.token, outcome, None, now, now, reason.encode(errors="backslashreplace")))

    def _add_result(self, result: RunResult) -> None:
        if not (self._results or self._plain_results):
            self._send_at = result.ended - self._offset + _RESULT_DELAY
        self._results.append(result)
        if len(self._results) >= _RESULTS_PER_FRAME:
            self._flush()

    def _add_plain_result(self, token: int, now: int) -> None:
        if not (self._results or self._plain_results):
            self._send_at = now + _RESULT_DELAY
        self._plain_results.append(encode_record(token, now + self._offset, now + self._offset))
        if len(self._plain_results) >= _RESULTS_PER_FRAME:
            self._flush()

    def _flush(self) -> None:
        held = len(self._children) + len(self._early)
        self._connection.send_results(self._results, held, b"".join(self._plain_results))
        self._results, self._plain_results = [], []
        self._update_socket_events()

    def _update_socket_events(self) -> None:
        self._node_is_slow = self._connection.has_too_much_unsent
        events = (0 if self._node_is_slow else select.EPOLLIN) | (
            select.EPOLLOUT if self._connection.is_waiting_to_send else 0
        )
        if events != self._socket_events:
            self._poll.modify(self._connection.descriptor, events)
            self._socket_events = events


def main(descriptor: int, pass_env: Sequence[str]) -> None:
    """Make sure that children inherit no signal settings, then serve."""
    # Only the node tells us to end. We set a handler instead of ignoring a signal: a child loses handlers at its exec,
    # but would inherit ignored signals: `subprocess`, which starts runs of other users, does not reset them.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number in _IGNORED_SIGNALS or signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _ignore_signal)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    adopt_orphans()
    # What exists now stays, so the garbage collector need not scan it; waiting runs need not be scanned often either.
    gc.freeze()
    gc.set_threshold(50_000)
    CommandRunner(descriptor, pass_env).serve()
    # There is nothing to clean up.
    os._exit(0)


_IGNORED_SIGNALS: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE}


def _ignore_signal(_number: int, _frame: object) -> None:
    pass


if __name__ == "__main__":
    main(int(sys.argv[1]), list(filter(None, sys.argv[2].split(","))))
