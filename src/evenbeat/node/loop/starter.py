"""The starter: runs whose claims are committed go to the queue when they are due, or just before."""

import asyncio
from bisect import bisect_right
from collections.abc import Container, Set
from typing import Final, NamedTuple

from evenbeat.clock.node_clock import Clock
from evenbeat.node.loop.counters import RunCounters
from evenbeat.queue.contract import Dispatcher
from evenbeat.wire.worker_frames import RunSpec

CLAIM_AHEAD: Final = 100_000
"""Microseconds by which runs are claimed before they are due: for so long a turn, its commit and the commit before it
may last without making a run late."""
_MIN_STEP: Final = 0.001
"""Seconds between two deliveries at least, or a quarter of the lead: runs that are due within them go together."""


class ReadyRuns(NamedTuple):
    """Runs in the order in which they are due, with what `Dispatcher.dispatch` needs."""

    due: list[int]
    runs: list[RunSpec]
    functions: list[str | None] | None
    tasks: list[int]
    pools: list[str | None] | None

    def part(self, first: int, end: int | None = None) -> "ReadyRuns":
        """The runs from `first` to before `end`."""
        some = slice(first, end)
        functions = self.functions and self.functions[some]
        return ReadyRuns(self.due[some], self.runs[some], functions, self.tasks[some], self.pools and self.pools[some])

    def only(self, kept: list[int]) -> "ReadyRuns":
        """The runs in these places."""
        if len(kept) == len(self.runs):
            return self
        return ReadyRuns(
            [self.due[i] for i in kept],
            [self.runs[i] for i in kept],
            self.functions and [self.functions[i] for i in kept],
            [self.tasks[i] for i in kept],
            self.pools and [self.pools[i] for i in kept],
        )

    def without(self, tokens: Set[int]) -> "ReadyRuns":
        """The runs but these."""
        return self.only([i for i, run in enumerate(self.runs) if run.token not in tokens])

    def move(self, by: int) -> "ReadyRuns":
        """The same runs by a clock that was set `by` so much: due at the same moment."""
        for run in self.runs:
            run.move(by)
        return self._replace(due=[due + by for due in self.due])


class Starter:
    """Holds runs that are not due yet."""

    def __init__(self, queue: Dispatcher, clock: Clock, counts: RunCounters, wanted: Container[int]) -> None:
        """`wanted` are the tokens of runs that are still to be made: others are dropped when they are due."""
        self._queue = queue
        self._clock = clock
        self._counts = counts
        self._wanted = wanted
        self._held: list[ReadyRuns] = []
        self._timer: asyncio.TimerHandle | None = None
        self.moved = 0
        """How far the clock was set since the start."""

    def start(self, ready: ReadyRuns, moved: int | None = None) -> None:
        """Deliver each run when it is due; `moved` is the value at the time of their claim, by default that of now."""
        self._held.append(ready if moved in (None, self.moved) else ready.move(self.moved - (moved or 0)))
        self._go()

    def clock_was_set(self, by: int) -> None:
        """The clock was set: runs that are held still start at the same moment as planned."""
        self.moved += by
        self._held = [ready.move(by) for ready in self._held]

    def held(self) -> set[int]:
        """The tokens of the runs that are held, of which no worker knows."""
        return {run.token for ready in self._held for run in ready.runs}

    def drop(self) -> list[RunSpec]:
        """Deliver nothing more; returns the runs that were held."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        held, self._held = self._held, []
        return [run for ready in held for run in ready.runs if run.token in self._wanted]

    def take_back(self, tokens: Set[int]) -> list[RunSpec]:
        """Deliver none of these runs; returns those of them that were held."""
        taken = [run for ready in self._held for run in ready.runs if run.token in tokens]
        if taken:
            self._held = [ready.without(tokens) for ready in self._held]
        return taken

    def _go(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._clock.now()
        still_held = []
        lead = self._queue.early_delivery
        for ready in self._held:
            count = bisect_right(ready.due, now + lead)
            if count < len(ready.due) and ready.due[count] - now > CLAIM_AHEAD:
                count = len(ready.due)  # the clock was set back since they were claimed
            if count:
                self._dispatch(ready.part(0, count))
            if count < len(ready.due):
                still_held.append(ready.part(count))
        self._held = still_held
        if still_held:
            wait = (min(ready.due[0] for ready in still_held) - lead - now) / 1e6
            self._timer = asyncio.get_running_loop().call_later(max(wait, _MIN_STEP, lead / 4e6), self._go)

    def _dispatch(self, ready: ReadyRuns) -> None:
        ready = ready.only([i for i, run in enumerate(ready.runs) if run.token in self._wanted])
        if ready.runs:
            self._counts.runs += len(ready.runs)
            self._queue.dispatch(ready.runs, ready.functions, ready.tasks, ready.pools)
