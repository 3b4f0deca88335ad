"""All function hosts of one environment: the sync hosts, the async host, and async hosts for single runs."""

from collections.abc import Callable

from evenbeat.child_processes.orphan_guard import OrphanGuard
from evenbeat.queue.local.async_function_host import AsyncHostSupervisor
from evenbeat.queue.local.host_environment import HostLauncher
from evenbeat.queue.local.suspect_workers import IsolatedExecutors
from evenbeat.queue.local.sync_function_hosts import SyncHosts
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.plain_results import Results, tokens_of
from evenbeat.wire.worker_frames import HostEnvironment, RunSpec


class FunctionHosts:
    """Hosts are started on demand. A sync host that is given an asynchronous function sends it back."""

    def __init__(
        self,
        environment: HostEnvironment,
        size: int,
        results: Callable[[Results], None],
        started: Callable[[list[tuple[int, int]]], None],
        now: Callable[[], int],
        kill_after: Callable[[int], int],
        orphan_guard: OrphanGuard,
    ) -> None:
        self._results = results
        self._async_functions: set[str] = set()
        self._pending: set[int] = set()
        self.was_idle = False
        """It had no run at the last check."""
        self._offset = 0
        launcher = HostLauncher(environment)

        def new_loop_host(ended: Callable[[Results], None]) -> AsyncHostSupervisor:
            host = AsyncHostSupervisor(ended, started, now, kill_after, orphan_guard, launcher)
            host.set_clock(self._offset)
            return host

        self.sync_hosts = SyncHosts(
            size, self._on_results, started, self._on_wrong_host, now, kill_after, orphan_guard, launcher
        )
        self.async_host = AsyncHostSupervisor(self._on_results, started, now, kill_after, orphan_guard, launcher)
        self.isolated = IsolatedExecutors(new_loop_host, self._on_results)
        """Async hosts for runs that must not share one; ordinary functions never share theirs."""

    @property
    def workers(self) -> list[WorkerHandle]:
        return [*self.sync_hosts.workers, *self.async_host.workers, *self.isolated.workers]

    @property
    def is_idle(self) -> bool:
        """Has it no run?"""
        return not self._pending

    @property
    def problem(self) -> str:
        """Why functions cannot be started now, or ""."""
        return self.sync_hosts.problem or self.async_host.problem

    @property
    def restarts(self) -> int:
        """Hosts that ended before they were told to."""
        return self.sync_hosts.restarts + self.async_host.restarts + self.isolated.restarts

    def give(self, runs: list[tuple[RunSpec, str]]) -> None:
        """Runs and their functions."""
        self.was_idle = False
        self._pending.update([run.token for run, _ in runs])
        ordinary = runs
        if self._async_functions:
            ordinary = [(run, function) for run, function in runs if function not in self._async_functions]
        if ordinary:
            self.sync_hosts.give(ordinary)
        if len(ordinary) < len(runs):
            self._give_asynchronous([run for run, function in runs if function in self._async_functions])

    def cancel(self, tokens: set[int]) -> None:
        """End these runs, or all if none is named."""
        self.sync_hosts.cancel(tokens)
        self.async_host.cancel(tokens)
        self.isolated.cancel(tokens)

    def set_clock(self, offset: int, by: int = 0) -> None:
        self._offset = offset
        self.sync_hosts.set_clock(offset, by)
        self.async_host.set_clock(offset, by)
        self.isolated.set_clock(offset, by)

    def close(self) -> None:
        """Kill all hosts, and their runs with them."""
        self.sync_hosts.close()
        self.async_host.close()
        self.isolated.close()

    def _on_wrong_host(self, runs: list[tuple[RunSpec, str]]) -> None:
        self._async_functions.update(function for _, function in runs)
        self._give_asynchronous([run for run, _ in runs])

    def _give_asynchronous(self, runs: list[RunSpec]) -> None:
        together = [run for run in runs if not run.alone]
        if together:
            self.async_host.give(together)
        self.isolated.give([run for run in runs if run.alone])

    def _on_results(self, results: Results) -> None:
        self._pending.difference_update(tokens_of(results))
        self._results(results)
