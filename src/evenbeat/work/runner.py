"""The process worker: one epoll loop starts children and sees them end.

`evenbeat.work.runner DESCRIPTOR PASS_ENV`; the last is a list of names with commas between them.

It imports almost nothing and has no threads, so that spawning stays cheap. Its life hangs on the socket: when that
closes, the node has ended, and so do all children.
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
from evenbeat.core.guard import kill_after
from evenbeat.model import SECOND, Outcome
from evenbeat.wire.worker_frames import (
    CancelFrame,
    ClockFrame,
    OutOfResourcesFrame,
    ReadyFrame,
    RunResult,
    RunsFrame,
    RunSpec,
    StartedFrame,
)
from evenbeat.work.admission import boot_time, refusal_reason
from evenbeat.work.child import NO_DESCRIPTOR, READ_SIZE, ChildProcess
from evenbeat.work.escaped_processes import StrayProcesses, kill_strays, signal_strays
from evenbeat.work.libc import adopt_orphans
from evenbeat.work.node_socket import NodeConnection, NodeGone
from evenbeat.work.spawn import NOOP, CannotStart, OutOfResources, PreparedRun, Spawner

REPORT_START_AFTER: Final = 100_000
"""A run that has not ended by then is told as started, and gets a timer and a descriptor of its own."""
_STARTING: Final = 10_000
"""After so long, children that have ended are seen to: results must not wait behind a long queue of starts. Not sooner:
seeing to many of them one after the other takes less time for each."""
_RESULTS_PER_FRAME: Final = 256
_GATHERING: Final = 40_000
"""Results wait so long for others, unless these are already as many as what is left: every frame wakes the node."""
_REAPING: Final = 2 * SECOND
"""Between two looks whether something that was adopted has ended."""
_PEEK: Final = os.WEXITED | os.WNOHANG | os.WNOWAIT
_OWN_DESCRIPTORS: Final = 32
_ASKING: Final = 50_000
"""Between two looks whether a child has ended for which there was no descriptor."""
_NO_DESCRIPTOR: Final = -2
_READABLE: Final = select.EPOLLIN
_HUNG_UP: Final = select.EPOLLHUP


class CommandRunner:
    """Runs commands for a node, as many at a time as it is given and descriptors allow."""

    def __init__(self, descriptor: int, pass_env: Sequence[str] = ()) -> None:
        self._link = NodeConnection(descriptor)
        self._poll = select.epoll()
        self._poll.register(descriptor, select.EPOLLIN)
        self._asked = select.EPOLLIN
        self._is_unheard = False
        self._full = ""
        """Why nothing can be started, as the node was told last."""
        """Does the node read so little that it should get nothing more to read?"""
        self._spawner = Spawner(pass_env)
        self._offset = 0
        self._early: list[tuple[int, int, PreparedRun]] = []
        """Those that are not due yet, as a heap: when they are, and their tokens."""
        self._waiting: deque[PreparedRun] = deque()
        self._children: dict[int, ChildProcess] = {}
        self._by_descriptor: dict[int, ChildProcess] = {}
        # Both by token: one of a child that has ended leads nowhere, and keeps nothing alive.
        self._unreported: deque[tuple[int, int]] = deque()
        self._timers: list[tuple[int, int]] = []
        self._results: list[RunResult] = []
        self._send_at = 0
        self._unwatched: dict[int, ChildProcess] = {}
        """By token: children that last, and have no descriptor."""
        self._strays = StrayProcesses()
        self._reap_at = sys.maxsize
        """Never, as long as there is no child."""
        # A child costs its pipe, and its pidfd when it lasts.
        self._room = max(1, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - _OWN_DESCRIPTORS) // 2)

    def serve(self) -> None:
        """Work until the node is gone, and leave nothing behind."""
        try:
            self._link.send(ReadyFrame(os.getpid()))
            while True:
                self._turn()
        except NodeGone:
            self._look_for_strays(boot_time())
            for child in self._children.values():
                strays = self._strays.strays_of(child.process, self._spawner.marks(child.run))
                child.signal(signal.SIGKILL)
                kill_permitted(one.pid for one in strays)

    def _turn(self) -> None:
        events = self._poll.poll(self._poll_timeout())
        now = boot_time()
        for descriptor, event in events:
            child = self._by_descriptor.get(descriptor)
            if child is not None:
                self._hear(child, descriptor, event, now)
            elif descriptor == self._link.descriptor:
                self._on_node_socket(event)
        if self._unreported and self._unreported[0][0] + REPORT_START_AFTER <= now:
            self._report_lasting_starts(now)
        while self._timers and self._timers[0][0] <= now:
            child = self._children.get(heapq.heappop(self._timers)[1])
            if child is not None:
                self._time_is_up(child, now)
        while self._early and not self._early[0][2].run.wait(now + self._offset):
            self._waiting.append(heapq.heappop(self._early)[2])
        if self._waiting and not self._is_unheard:
            now = self._start_some(now + _STARTING)
        if self._unwatched:
            self._ask_unwatched(now)
        if now >= self._reap_at:
            self._reap_adopted(now)
        left = len(self._children) + len(self._waiting) + len(self._early)
        if self._results and (now >= self._send_at or len(self._results) >= left):
            self._flush()

    def _start_some(self, enough: int) -> int:
        """Start what there is room and time for; what time it was at the last start."""
        # None of those that are started here is seen to end here.
        room = self._room - len(self._children)
        now = boot_time()
        while room > 0 and now <= enough and self._waiting and self._start(self._waiting.popleft(), now):
            room -= 1
            now = boot_time()
        return now

    def _poll_timeout(self) -> float:
        if self._may_start():
            return 0
        soonest = min(
            self._unreported[0][0] + REPORT_START_AFTER if self._unreported else sys.maxsize,
            self._timers[0][0] if self._timers else sys.maxsize,
            self._send_at if self._results else sys.maxsize,
            self._early[0][0] - self._offset if self._early else sys.maxsize,
            self._reap_at,
            boot_time() + _ASKING if self._unwatched else sys.maxsize,
        )
        return -1 if soonest == sys.maxsize else max(0, soonest - boot_time()) / 1_000_000

    def _may_start(self) -> bool:
        return bool(self._waiting) and len(self._children) < self._room and not self._is_unheard

    def _on_node_socket(self, event: int) -> None:
        if event & select.EPOLLOUT:
            self._link.flush()
            self._update_socket_events()
        if not event & (select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR):
            return
        for message in self._link.receive():
            match message:
                case RunsFrame(runs):
                    self._take(runs)
                case ClockFrame(offset, by):
                    self._set_clock(offset, by)
                case CancelFrame(tokens):
                    self._cancel(set(tokens))

    def _set_clock(self, offset: int, by: int) -> None:
        self._offset = offset
        if by:
            for order in (*self._waiting, *(order for _, _, order in self._early)):
                order.run.move(by)
            self._early = [(due + by, token, order) for due, token, order in self._early]

    def _take(self, runs: list[RunSpec]) -> None:
        now = boot_time() + self._offset
        for run in runs:
            try:
                order = self._spawner.prepare(run)
                if run.wait(now):
                    heapq.heappush(self._early, (run.due, run.token, order))
                else:
                    self._waiting.append(order)
            except CannotStart as e:
                self._tell_unstarted(run, Outcome.BROKEN, str(e))

    def _start(self, order: PreparedRun, now: int) -> bool:
        """Start it, or say why not; False if it must wait for others to end."""
        run = order.run
        if reason := refusal_reason(run, now + self._offset):
            self._tell_unstarted(run, Outcome.DROPPED, reason)
            return True
        if order.words == NOOP:
            self._tell(RunResult(run.token, Outcome.SUCCEEDED, 0, now + self._offset, now + self._offset, b""))
            return True
        try:
            process, pipe = self._spawner.spawn(order)
        except CannotStart as e:
            self._tell_unstarted(run, Outcome.BROKEN, str(e))
            return True
        except OutOfResources as e:
            if self._children:
                self._waiting.appendleft(order)
                self._say_full(str(e))
                return False
            self._tell_unstarted(run, Outcome.BROKEN, f"the machine is full: {e}")
            return True
        if self._full:
            self._say_full("")
        self._children[run.token] = child = ChildProcess(run, process, pipe, now)
        self._watch(child, pipe)
        if self._reap_at == sys.maxsize:
            self._reap_at = now + _REAPING
        self._unreported.append((now, run.token))
        if run.timebox < REPORT_START_AFTER:
            self._set_timer(child, now + run.timebox)
        return True

    def _say_full(self, reason: str) -> None:
        """Once: the node tells people why runs wait here."""
        if reason != self._full:
            self._full = reason
            self._link.send(OutOfResourcesFrame(reason))
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
                self._unwatched[child.run.token] = child  # no descriptor is left: it is asked again and again
                return
            self._watch(child, child.pidfd)

    def _ask_unwatched(self, now: int) -> None:
        unwatched, self._unwatched = self._unwatched, {}
        for token, child in unwatched.items():
            if token in self._children:
                self._hear(child, _NO_DESCRIPTOR, 0, now)

    def _hear(self, child: ChildProcess, descriptor: int, event: int, now: int) -> None:
        if descriptor == child.pipe:
            size = child.read()
            # With nobody left to write, what was read was all, and the end need not be waited for.
            if size and not (event & _HUNG_UP and size < READ_SIZE):
                return
            self._unwatch(descriptor)
            child.pipe = NO_DESCRIPTOR
        # Its output or the child itself has come to an end; if the child lives on without output, wait for it.
        if not child.reap():
            self._watch_process(child)
            return
        if child.pipe != NO_DESCRIPTOR:
            child.read_the_rest()
            self._unwatch(child.pipe)
        if child.pidfd != NO_DESCRIPTOR:
            self._unwatch(child.pidfd)
        if child.strays:
            kill_strays(child.strays)
        del self._children[child.run.token]
        self._tell(child.result(now, self._offset))

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
            self._link.send(StartedFrame(starts))
            self._update_socket_events()

    def _set_timer(self, child: ChildProcess, when: int) -> None:
        heapq.heappush(self._timers, (when, child.run.token))
        if len(self._timers) > 2 * len(self._children) + 64:
            self._timers = [timer for timer in self._timers if timer[1] in self._children]
            heapq.heapify(self._timers)

    def _time_is_up(self, child: ChildProcess, now: int) -> None:
        if child.ending is None:
            self._end(child, Outcome.TIMEBOXED, now)
        elif now >= child.kill_at:
            child.signal(signal.SIGKILL)
            kill_strays(child.strays)

    def _end(self, child: ChildProcess, outcome: Outcome, now: int) -> None:
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
        """What descendants of runs have left behind ends as a child of ours."""
        self._reap_at = now + _REAPING
        runs = {child.process: child for child in self._children.values()}
        try:
            while (ended := os.waitid(os.P_ALL, 0, _PEEK)) is not None:
                child = runs.get(ended.si_pid)
                if child is None:
                    os.waitpid(ended.si_pid, 0)
                else:
                    self._hear(child, _NO_DESCRIPTOR, 0, now)
        except ChildProcessError:
            self._reap_at = sys.maxsize

    def _cancel(self, tokens: set[int]) -> None:
        now = boot_time()
        unstarted = [order for order in self._waiting if not tokens or order.run.token in tokens]
        unstarted += [order for _, token, order in self._early if not tokens or token in tokens]
        self._waiting = deque(order for order in self._waiting if tokens and order.run.token not in tokens)
        self._early = [early for early in self._early if tokens and early[1] not in tokens]
        heapq.heapify(self._early)
        for order in unstarted:
            self._tell_unstarted(order.run, Outcome.CANCELLED, "not started")
        for child in [c for t, c in self._children.items() if not tokens or t in tokens]:
            if child.ending is None:
                self._end(child, Outcome.CANCELLED, now)

    def _tell_unstarted(self, run: RunSpec, outcome: Outcome, reason: str) -> None:
        now = boot_time() + self._offset
        self._tell(RunResult(run.token, outcome, None, now, now, reason.encode(errors="backslashreplace")))

    def _tell(self, result: RunResult) -> None:
        if not self._results:
            self._send_at = result.ended - self._offset + _GATHERING
        self._results.append(result)
        if len(self._results) >= _RESULTS_PER_FRAME:
            self._flush()

    def _flush(self) -> None:
        self._link.send_results(self._results, len(self._children) + len(self._early))
        self._results = []
        self._update_socket_events()

    def _update_socket_events(self) -> None:
        self._is_unheard = self._link.has_too_much_unsent
        asked = (0 if self._is_unheard else select.EPOLLIN) | (select.EPOLLOUT if self._link.is_waiting_to_send else 0)
        if asked != self._asked:
            self._poll.modify(self._link.descriptor, asked)
            self._asked = asked


def main(descriptor: int, pass_env: Sequence[str]) -> None:
    """Make sure that children inherit no signal settings, then serve."""
    # Signals are for the node to decide about. A handler, unlike ignoring, ends with the exec of a child, and so does
    # every disposition our own parent left us with: `subprocess`, which starts runs of other users, leaves them.
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if number in _NOT_FOR_US or signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, _ignore_signal)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    adopt_orphans()
    # What is here now stays, and need not be looked at again; nor what waits for its start or its end, again and again.
    gc.freeze()
    gc.set_threshold(50_000)
    CommandRunner(descriptor, pass_env).serve()
    # Nothing to tidy up, and nobody to wait for.
    os._exit(0)


_NOT_FOR_US: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE}


def _ignore_signal(_number: int, _frame: object) -> None:
    pass


if __name__ == "__main__":
    main(int(sys.argv[1]), list(filter(None, sys.argv[2].split(","))))
