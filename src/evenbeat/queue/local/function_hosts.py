"""All function hosts of one place: those for ordinary functions, and the one for asynchronous functions."""

from collections.abc import Callable

from evenbeat.child_processes.cleanup import Keeper
from evenbeat.queue.local.async_function_host import LoopHost
from evenbeat.queue.local.function_host_pool import Pool
from evenbeat.queue.local.host_environment import HostPlace
from evenbeat.queue.local.suspect_workers import Alone
from evenbeat.queue.local.worker_process import Worker
from evenbeat.wire.worker_frames import Place, Result, Run


class Hosts:
    """Started on demand. Which functions are asynchronous is found out by calling them."""

    def __init__(
        self,
        place: Place,
        size: int,
        results: Callable[[list[Result]], None],
        started: Callable[[list[tuple[int, int]]], None],
        now: Callable[[], int],
        kill_after: Callable[[int], int],
        keeper: Keeper,
    ) -> None:
        self._results = results
        self._asynchronous: set[str] = set()
        self._pending: set[int] = set()
        self.was_idle = False
        """It had nothing to do when it was last looked at."""
        self._offset = 0
        where = HostPlace(place)

        def new_loop_host(ended: Callable[[list[Result]], None]) -> LoopHost:
            host = LoopHost(ended, started, now, kill_after, keeper, where)
            host.set_clock(self._offset)
            return host

        self.pool = Pool(size, self._ended, started, self._redirect, now, kill_after, keeper, where)
        self.loop_host = LoopHost(self._ended, started, now, kill_after, keeper, where)
        self.alone = Alone(new_loop_host, self._ended)
        """Hosts of asynchronous functions for runs that must not share one; ordinary functions never share theirs."""

    @property
    def workers(self) -> list[Worker]:
        return [*self.pool.workers, *self.loop_host.workers, *self.alone.workers]

    @property
    def is_idle(self) -> bool:
        """Has it no run?"""
        return not self._pending

    @property
    def problem(self) -> str:
        """Why functions cannot be started now, or ""."""
        return self.pool.problem or self.loop_host.problem

    @property
    def restarts(self) -> int:
        """Hosts that ended before they were told to."""
        return self.pool.restarts + self.loop_host.restarts + self.alone.restarts

    def give(self, runs: list[tuple[Run, str]]) -> None:
        """Runs and their functions."""
        self.was_idle = False
        self._pending.update(run.token for run, _ in runs)
        ordinary = [(run, function) for run, function in runs if function not in self._asynchronous]
        if ordinary:
            self.pool.give(ordinary)
        if len(ordinary) < len(runs):
            self._give_asynchronous([run for run, function in runs if function in self._asynchronous])

    def cancel(self, tokens: set[int]) -> None:
        """End these runs; all, if none is named."""
        self.pool.cancel(tokens)
        self.loop_host.cancel(tokens)
        self.alone.cancel(tokens)

    def set_clock(self, offset: int, by: int = 0) -> None:
        self._offset = offset
        self.pool.set_clock(offset, by)
        self.loop_host.set_clock(offset, by)
        self.alone.set_clock(offset, by)

    def close(self) -> None:
        """Let all hosts go; what they still run ends with them."""
        self.pool.close()
        self.loop_host.close()
        self.alone.close()

    def _redirect(self, runs: list[tuple[Run, str]]) -> None:
        self._asynchronous.update(function for _, function in runs)
        self._give_asynchronous([run for run, _ in runs])

    def _give_asynchronous(self, runs: list[Run]) -> None:
        together = [run for run in runs if not run.alone]
        if together:
            self.loop_host.give(together)
        self.alone.give([run for run in runs if run.alone])

    def _ended(self, results: list[Result]) -> None:
        self._pending.difference_update([result.token for result in results])
        self._results(results)
