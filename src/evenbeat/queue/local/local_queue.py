"""The local queue: delivers runs to worker processes on this machine, and their results to the node.

It lives on the node's asyncio loop and decides nothing: the node says which run starts when, and how long it may take.
"""

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from evenbeat.child_processes.orphan_guard import OrphanGuard
from evenbeat.clock.system_clock import boot_time
from evenbeat.model import Outcome
from evenbeat.queue.contract import OUTPUT_ANSWER_TIMEOUT
from evenbeat.queue.local.command_workers import CommandWorkers
from evenbeat.queue.local.function_hosts import FunctionHosts
from evenbeat.queue.local.host_environment import own_user
from evenbeat.queue.local.suspect_workers import IsolatedExecutors
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.plain_results import Results, tokens_of
from evenbeat.wire.worker_frames import (
    EARLY_DELIVERY,
    NODE_ENVIRONMENT,
    TOKEN_OF,
    HostEnvironment,
    OutputFrame,
    RunResult,
    RunSpec,
    host_environment_of,
)

DEFAULT_HOSTS: Final = 4
"""Ordinary functions that can run at the same time."""
_STOP_TIMEOUT: Final = 7.0
"""Seconds for cancelled runs to end: kill_after is at most 5."""
_UNUSED_HOSTS_TIMEOUT: Final = 30.0
"""Seconds between two checks of hosts with an environment of their own: those that are idle twice in a row end."""
_END_TIMEOUT: Final = 5.0
"""Seconds for worker processes to end, and as many again once they were killed."""
_log: Final = logging.getLogger("evenbeat.node")


class LocalQueue:
    """Command workers, function hosts, and the runs that they hold."""

    early_delivery: Final = EARLY_DELIVERY

    def __init__(
        self,
        workers: int,
        on_results: Callable[[Results], None],
        on_started: Callable[[list[tuple[int, int]]], None],
        *,
        kill_after: Callable[[int], int],
        clock_offset: int,
        hosts: int = DEFAULT_HOSTS,
        records: Path | None = None,
        pass_env: Sequence[str] = (),
    ) -> None:
        """For `on_results` and `on_started` see `queue.contract`.

        `clock_offset` is the node's clock minus the boot-time clock, `kill_after` the rule of `core.drop_guard`.
        By the file `records` the next node finds worker processes and runs that outlive this one.
        Commands get the variables that `pass_env` names: see `core.environment`.
        """
        self._on_results = on_results
        self._on_started = on_started
        self._offset = clock_offset
        self._pending: set[int] = set()
        self._none_pending: asyncio.Event | None = None
        self._kill_after = kill_after
        self._host_count = hosts
        self.orphan_guard: Final = OrphanGuard(records)
        self._command_workers = CommandWorkers(
            workers, self._take_results, on_started, self._now, self.orphan_guard, pass_env
        )
        self._pass_env = pass_env
        self._isolated = IsolatedExecutors(self._new_isolated_worker, self._take_results)
        self._hosts: dict[HostEnvironment, FunctionHosts] = {NODE_ENVIRONMENT: self._new_hosts(NODE_ENVIRONMENT)}
        self._ending_hosts: list[FunctionHosts] = []
        """Hosts that were told to end, and may not have ended."""
        self._restarts_of_ended = 0
        self._idle_check: asyncio.TimerHandle | None = None

    def _new_isolated_worker(self, ended: Callable[[Results], None]) -> CommandWorkers:
        """A command worker for runs that must not share one."""
        worker = CommandWorkers(1, ended, self._on_started, self._now, self.orphan_guard, self._pass_env)
        worker.start(self._offset)
        return worker

    def _new_hosts(self, environment: HostEnvironment) -> FunctionHosts:
        return FunctionHosts(
            environment,
            self._host_count,
            self._take_results,
            self._on_started,
            self._now,
            self._kill_after,
            self.orphan_guard,
        )

    @property
    def pending(self) -> int:
        """Runs that were dispatched and have not ended."""
        return len(self._pending)

    @property
    def is_busy(self) -> bool:
        """Do workers have more commands than they can start for a while?"""
        return self._command_workers.is_busy

    @property
    def workers(self) -> list[tuple[int, str]]:
        """Process id of all worker processes that are up, and what they run."""
        found = [(worker, "commands") for worker in (*self._command_workers.workers, *self._isolated.workers)]
        for hosts in (*self._hosts.values(), *self._ending_hosts):
            found += [(worker, "functions") for worker in hosts.sync_hosts.workers]
            found += [(worker, "async functions") for worker in (*hosts.async_host.workers, *hosts.isolated.workers)]
        return [(worker.pid, kind) for worker, kind in found if not worker.is_gone]

    @property
    def problem(self) -> str:
        """Why nothing, or not everything, can be started now, or ""."""
        return self._command_workers.problem or next(
            (hosts.problem for hosts in self._hosts.values() if hosts.problem), ""
        )

    @property
    def restarts(self) -> int:
        """Worker processes that ended before they were told to."""
        of_hosts = self._restarts_of_ended + sum(hosts.restarts for hosts in self._hosts.values())
        return self._command_workers.restarts + self._isolated.restarts + of_hosts

    @property
    def restarts_by_worker(self) -> dict[str, int]:
        """The node itself is the only worker."""
        return {"": self.restarts}

    @property
    def pids(self) -> list[int]:
        """Of all worker processes that are up."""
        return [pid for pid, _ in self.workers]

    def start(self) -> None:
        """Start the command workers; function hosts start with the first function. Needs a running loop."""
        self.orphan_guard.start()
        for hosts in self._hosts.values():
            hosts.set_clock(self._offset)
        self._command_workers.start(self._offset)

    def dispatch(
        self,
        runs: Sequence[RunSpec],
        functions: Sequence[str | None] | None = None,
        tasks: Sequence[int] = (),  # noqa: ARG002
        pools: Sequence[str | None] | None = None,  # noqa: ARG002 - local workers serve every pool
    ) -> None:
        """Execute these runs. `functions`: the function of each, None for a command; omitted if all are commands."""
        self._pending.update(map(TOKEN_OF, runs))
        if functions is None:
            self._give_commands(list(runs))
            return
        commands: list[RunSpec] = []
        calls: list[tuple[RunSpec, str]] = []
        elsewhere: dict[HostEnvironment, list[tuple[RunSpec, str]]] = {}
        for run, function in zip(runs, functions, strict=True):
            if function is None:
                commands.append(run)
            elif (environment := host_environment_of(run)) is NODE_ENVIRONMENT:
                calls.append((run, function))
            else:
                elsewhere.setdefault(environment, []).append((run, function))
        if commands:
            self._give_commands(commands)
        if calls:
            self._hosts[NODE_ENVIRONMENT].give(calls)
        for environment, some in elsewhere.items():
            self._hosts_in(environment).give(some)

    def _give_commands(self, runs: list[RunSpec]) -> None:
        if any(run.alone for run in runs):
            self._isolated.give([run for run in runs if run.alone])
            runs = [run for run in runs if not run.alone]
        if runs:
            self._command_workers.give(runs)

    def _hosts_in(self, environment: HostEnvironment) -> FunctionHosts:
        if environment.user is not None and environment.user == own_user():
            environment = msgspec.structs.replace(environment, user=None)
        hosts = self._hosts.get(environment)
        if hosts is None:
            hosts = self._hosts[environment] = self._new_hosts(environment)
            hosts.set_clock(self._offset)
            if self._idle_check is None:
                self._idle_check = asyncio.get_running_loop().call_later(_UNUSED_HOSTS_TIMEOUT, self._end_unused_hosts)
        return hosts

    def _end_unused_hosts(self) -> None:
        """End hosts that had no run for a while, except those in the node's own environment."""
        self._idle_check = None
        self._ending_hosts = [hosts for hosts in self._ending_hosts if hosts.workers]
        for environment, hosts in list(self._hosts.items()):
            if environment == NODE_ENVIRONMENT or not hosts.is_idle:
                continue
            if hosts.was_idle:
                del self._hosts[environment]
                self._restarts_of_ended += hosts.restarts
                hosts.close()
                self._ending_hosts.append(hosts)
            hosts.was_idle = True
        if len(self._hosts) > 1 or self._ending_hosts:
            self._idle_check = asyncio.get_running_loop().call_later(_UNUSED_HOSTS_TIMEOUT, self._end_unused_hosts)

    def confirm_stored(self, tokens: Sequence[int]) -> None:
        """Nothing to do: a local worker forgets a run when it has reported the result."""

    def cancel(self, tokens: Sequence[int] = ()) -> None:
        """End these runs, or all if none is named. Each gets its result: `cancelled`, unless it had ended before."""
        wanted = set(tokens)
        self._command_workers.cancel(wanted)
        self._isolated.cancel(wanted)
        for hosts in self._hosts.values():
            hosts.cancel(wanted)

    async def read_output(self, token: int, position: int) -> OutputFrame | None:
        """What a run has written from a position on; None if no worker has it, or does not answer in time."""
        worker = next((one for one in self._all_workers() if token in one.outstanding and not one.is_gone), None)
        if worker is None:
            return None
        answer = worker.read_output(token, position)
        await asyncio.wait((answer,), timeout=OUTPUT_ANSWER_TIMEOUT)
        return answer.result() if answer.done() else None

    def kill(self, tokens: Sequence[int]) -> None:
        """Kill the worker processes that hold these runs, with everything that they run."""
        wanted = set(tokens)
        for worker in self._all_workers():
            if not wanted.isdisjoint(worker.outstanding):
                worker.signal(signal.SIGKILL)

    def set_clock(self, offset: int, by: int = 0) -> None:
        """The node's clock has a new offset: it was disciplined, or set by `by`; then unstarted runs move with it."""
        self._offset = offset
        self._command_workers.set_clock(offset, by)
        self._isolated.set_clock(offset, by)
        for hosts in self._hosts.values():
            hosts.set_clock(offset, by)

    async def stop(self, grace: float) -> None:
        """Wait `grace` seconds for open runs, cancel the rest, end all workers. All results are reported when it
        returns.

        Nothing may be dispatched after this call.
        """
        if not await self._none_pending_within(grace):
            self.cancel()
            if self.pids:
                await self._none_pending_within(_STOP_TIMEOUT)
        self._command_workers.close()
        self._isolated.close()
        if self._idle_check is not None:
            self._idle_check.cancel()
        for hosts in self._hosts.values():
            hosts.close()
        if not await self._all_gone_within(_END_TIMEOUT):
            living = [worker for worker in self._all_workers() if not worker.is_gone]
            for worker in living:
                worker.signal(signal.SIGKILL)
            if not living or not await self._all_gone_within(_END_TIMEOUT):
                fields = {"action": "leftovers", "workers": [worker.pid for worker in self._all_workers()]}
                _log.error("worker processes do not end: the guardian will kill them", extra=fields)
        self.orphan_guard.stop()
        self._cancel_pending()

    async def _all_gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._all_workers() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        return not self._all_workers()

    def _all_workers(self) -> list[WorkerHandle]:
        """All workers, also those that have ended and whose runs have not."""
        hosts = (*self._hosts.values(), *self._ending_hosts)
        return [
            *self._command_workers.workers,
            *self._isolated.workers,
            *(worker for some in hosts for worker in some.workers),
        ]

    async def _none_pending_within(self, seconds: float) -> bool:
        self._none_pending = asyncio.Event()
        if not self._pending:
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._none_pending.wait(), seconds)
        return not self._pending

    def _cancel_pending(self) -> None:
        now = self._now()
        left = [RunResult(t, Outcome.CANCELLED, None, now, now, b"the node was stopped") for t in self._pending]
        if left:
            self._take_results(left)

    def _now(self) -> int:
        return boot_time() + self._offset

    def _take_results(self, results: Results) -> None:
        self._pending.difference_update(tokens_of(results))
        self._on_results(results)
        if self._none_pending is not None and not self._pending:
            self._none_pending.set()
