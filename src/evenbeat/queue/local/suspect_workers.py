"""Runs of tasks that may have killed a worker process: each has a worker for itself, and no other is lost with it."""

from collections.abc import Callable
from typing import Final, Protocol

from evenbeat.core.run_lease import isolated_worker
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.worker_frames import RunResult, RunSpec

MAX_ISOLATED: Final = 16
"""Worker processes for such runs. If there are more runs at the same time, some of them share one."""


class RunExecutor(Protocol):
    """What makes runs: a team of one worker process, or a host of asynchronous functions."""

    @property
    def restarts(self) -> int: ...

    @property
    def workers(self) -> list[WorkerHandle]: ...

    def give(self, runs: list[RunSpec]) -> None: ...

    def cancel(self, tokens: set[int]) -> None: ...

    def set_clock(self, offset: int, by: int = 0) -> None: ...

    def close(self) -> None: ...


class IsolatedExecutors:
    """Parts that are started for a run, and end when none is left for them."""

    def __init__(
        self,
        new: Callable[[Callable[[list[RunResult]], None]], RunExecutor],
        results: Callable[[list[RunResult]], None],
    ) -> None:
        """`new` makes a part, which tells its results to what it is given."""
        self._new = new
        self._results = results
        self._parts: dict[int, RunExecutor] = {}
        self._tokens: dict[int, set[int]] = {}
        """What each part has."""
        self._ending: list[RunExecutor] = []
        self._made = 0
        self._restarts = 0

    @property
    def workers(self) -> list[WorkerHandle]:
        """All that are there, also those that are about to end."""
        self._ending = [part for part in self._ending if part.workers]
        return [worker for part in (*self._parts.values(), *self._ending) for worker in part.workers]

    @property
    def restarts(self) -> int:
        """Worker processes that ended before they were told to."""
        return self._restarts + sum(part.restarts for part in self._parts.values())

    def give(self, runs: list[RunSpec]) -> None:
        """Each to a worker without any other run, as far as there are enough."""
        for run in runs:
            numbers = list(self._parts)
            place = isolated_worker([len(self._tokens[number]) for number in numbers], MAX_ISOLATED)
            number = self._start() if place is None else numbers[place]
            self._tokens[number].add(run.token)
            self._parts[number].give([run])

    def cancel(self, tokens: set[int]) -> None:
        """End these runs; all, if none is named."""
        for part in list(self._parts.values()):
            part.cancel(tokens)

    def set_clock(self, offset: int, by: int = 0) -> None:
        for part in self._parts.values():
            part.set_clock(offset, by)

    def close(self) -> None:
        """Let all workers go; what they still run ends with them."""
        for part in self._parts.values():
            part.close()

    def _start(self) -> int:
        self._made += 1
        number = self._made
        self._tokens[number] = set()
        self._parts[number] = self._new(lambda results: self._ended(number, results))
        return number

    def _ended(self, number: int, results: list[RunResult]) -> None:
        has = self._tokens.get(number)
        if has is not None:
            has.difference_update([result.token for result in results])
            if not has:
                part = self._parts.pop(number)
                del self._tokens[number]
                self._restarts += part.restarts
                part.close()
                self._ending.append(part)
        self._results(results)
