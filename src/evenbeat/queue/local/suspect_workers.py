"""Isolate runs of tasks that may have killed a worker process: each gets a worker of its own, so that no other is
lost."""

from collections.abc import Callable
from typing import Final, Protocol

from evenbeat.core.worker_deaths import isolated_worker
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.plain_results import Results, tokens_of
from evenbeat.wire.worker_frames import RunSpec

MAX_ISOLATED: Final = 16
"""Worker processes for such runs. If more runs are open at the same time, some of them share one."""


class RunExecutor(Protocol):
    """Executes runs: `CommandWorkers` with one worker, or `AsyncHostSupervisor`."""

    @property
    def restarts(self) -> int: ...

    @property
    def workers(self) -> list[WorkerHandle]: ...

    def give(self, runs: list[RunSpec]) -> None: ...

    def cancel(self, tokens: set[int]) -> None: ...

    def set_clock(self, offset: int, by: int = 0) -> None: ...

    def close(self) -> None: ...


class IsolatedExecutors:
    """Executors that are started for a run, and end when they have no run left."""

    def __init__(
        self,
        new: Callable[[Callable[[Results], None]], RunExecutor],
        results: Callable[[Results], None],
    ) -> None:
        """`new` makes an executor that reports its results to the callback it is given."""
        self._new = new
        self._results = results
        self._executors: dict[int, RunExecutor] = {}
        self._tokens: dict[int, set[int]] = {}
        """The open runs of each executor."""
        self._ending: list[RunExecutor] = []
        self._count = 0
        self._restarts = 0

    @property
    def workers(self) -> list[WorkerHandle]:
        """All workers, also those that are about to end."""
        self._ending = [executor for executor in self._ending if executor.workers]
        return [worker for executor in (*self._executors.values(), *self._ending) for worker in executor.workers]

    @property
    def restarts(self) -> int:
        """Worker processes that ended before they were told to."""
        return self._restarts + sum(executor.restarts for executor in self._executors.values())

    def give(self, runs: list[RunSpec]) -> None:
        """Give each run to a worker without any other run, as long as there are enough."""
        for run in runs:
            numbers = list(self._executors)
            place = isolated_worker([len(self._tokens[number]) for number in numbers], MAX_ISOLATED)
            number = self._start() if place is None else numbers[place]
            self._tokens[number].add(run.token)
            self._executors[number].give([run])

    def cancel(self, tokens: set[int]) -> None:
        """End these runs, or all if none is named."""
        for executor in list(self._executors.values()):
            executor.cancel(tokens)

    def set_clock(self, offset: int, by: int = 0) -> None:
        for executor in self._executors.values():
            executor.set_clock(offset, by)

    def close(self) -> None:
        """End all workers, and their runs with them."""
        for executor in self._executors.values():
            executor.close()

    def _start(self) -> int:
        self._count += 1
        number = self._count
        self._tokens[number] = set()
        self._executors[number] = self._new(lambda results: self._on_results(number, results))
        return number

    def _on_results(self, number: int, results: Results) -> None:
        has = self._tokens.get(number)
        if has is not None:
            has.difference_update(tokens_of(results))
            if not has:
                executor = self._executors.pop(number)
                del self._tokens[number]
                self._restarts += executor.restarts
                executor.close()
                self._ending.append(executor)
        self._results(results)
