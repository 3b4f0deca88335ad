"""The local queue: hands runs over to worker processes on this machine, and their results back to the node.

It lives on the node's asyncio loop and decides nothing: which run, when and how long is the node's to say.
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

from evenbeat.child_processes.cleanup import OrphanGuard
from evenbeat.model import Outcome
from evenbeat.queue.local.command_workers import CommandWorkers
from evenbeat.queue.local.function_hosts import FunctionHosts
from evenbeat.queue.local.host_environment import own_user
from evenbeat.queue.local.suspect_workers import IsolatedExecutors
from evenbeat.queue.local.worker_process import WorkerHandle
from evenbeat.wire.worker_frames import (
    EARLY_DELIVERY,
    NODE_ENVIRONMENT,
    HostEnvironment,
    RunResult,
    RunSpec,
    host_environment_of,
)

DEFAULT_HOSTS: Final = 4
"""Ordinary functions that can run at the same time."""
_STOP_TIMEOUT: Final = 7.0
"""Seconds for what was cancelled to end: kill_after is at most 5."""
_UNUSED_HOSTS_TIMEOUT: Final = 30.0
"""Seconds between two looks at hosts with a user, folder or variables of their own: without work twice, they end."""
_END_TIMEOUT: Final = 5.0
"""Seconds for worker processes to end, and as many again once they were killed."""
_log: Final = logging.getLogger("evenbeat.node")


class LocalQueue:
    """Process workers, function hosts, and the runs that are with them."""

    early_delivery: Final = EARLY_DELIVERY

    def __init__(
        self,
        workers: int,
        on_results: Callable[[list[RunResult]], None],
        on_started: Callable[[list[tuple[int, int]]], None],
        *,
        kill_after: Callable[[int], int],
        clock_offset: int,
        hosts: int = DEFAULT_HOSTS,
        records: Path | None = None,
        pass_env: Sequence[str] = (),
    ) -> None:
        """`on_results` gets every dispatched run exactly once; `on_started` those that last (token, since when).

        `clock_offset` is the node's clock minus the boot-time clock, `kill_after` the rule of `core.guard`.
        Should worker processes and what they run outlive the node, its successor finds them by the file `records`.
        Commands get the variables that `pass_env` names: see `core.environment`.
        """
        self._on_results = on_results
        self._on_started = on_started
        self._offset = clock_offset
        self._pending: set[int] = set()
        self._all_ended: asyncio.Event | None = None
        self._kill_after = kill_after
        self._host_count = hosts
        self.keeper: Final = OrphanGuard(records)
        self._team = CommandWorkers(workers, self._take_results, on_started, self._now, self.keeper, pass_env)
        self._pass_env = pass_env
        self._alone = IsolatedExecutors(self._new_team, self._take_results)
        self._hosts: dict[HostEnvironment, FunctionHosts] = {NODE_ENVIRONMENT: self._new_hosts(NODE_ENVIRONMENT)}
        self._going: list[FunctionHosts] = []
        """Hosts that were told to end."""
        self._restarts_of_ended = 0
        self._look: asyncio.TimerHandle | None = None

    def _new_team(self, ended: Callable[[list[RunResult]], None]) -> CommandWorkers:
        """One worker for commands, for runs that must not share one."""
        team = CommandWorkers(1, ended, self._on_started, self._now, self.keeper, self._pass_env)
        team.start(self._offset)
        return team

    def _new_hosts(self, place: HostEnvironment) -> FunctionHosts:
        return FunctionHosts(
            place, self._host_count, self._take_results, self._on_started, self._now, self._kill_after, self.keeper
        )

    @property
    def pending(self) -> int:
        """Runs dispatched and not ended."""
        return len(self._pending)

    @property
    def is_busy(self) -> bool:
        """Have workers more commands than they can begin for a while?"""
        return self._team.is_busy

    @property
    def workers(self) -> list[tuple[int, str]]:
        """All worker processes that are up, and what they run."""
        found = [(worker, "commands") for worker in (*self._team.workers, *self._alone.workers)]
        for hosts in (*self._hosts.values(), *self._going):
            found += [(worker, "functions") for worker in hosts.sync_hosts.workers]
            found += [(worker, "async functions") for worker in (*hosts.async_host.workers, *hosts.isolated.workers)]
        return [(worker.pid, kind) for worker, kind in found if not worker.is_gone]

    @property
    def problem(self) -> str:
        """Why nothing, or not everything, can be started now, or ""."""
        return self._team.problem or next((hosts.problem for hosts in self._hosts.values() if hosts.problem), "")

    @property
    def restarts(self) -> int:
        """Worker processes that ended before they were told to."""
        of_hosts = self._restarts_of_ended + sum(hosts.restarts for hosts in self._hosts.values())
        return self._team.restarts + self._alone.restarts + of_hosts

    @property
    def pids(self) -> list[int]:
        """Of all worker processes that are up."""
        return [pid for pid, _ in self.workers]

    def start(self) -> None:
        """Bring up the process workers; function hosts come with the first function. Needs a running loop."""
        self.keeper.start()
        for hosts in self._hosts.values():
            hosts.set_clock(self._offset)
        self._team.start(self._offset)

    def dispatch(
        self,
        runs: Sequence[RunSpec],
        functions: Sequence[str | None] | None = None,
        tasks: Sequence[int] = (),  # noqa: ARG002
        pools: Sequence[str | None] | None = None,  # noqa: ARG002 - all workers are here, and serve every pool
    ) -> None:
        """Make these runs. `functions` names the function of each, None for a command; left out, all are commands."""
        self._pending.update([run.token for run in runs])
        if functions is None:
            self._give_commands(list(runs))
            return
        commands: list[RunSpec] = []
        by_place: dict[HostEnvironment, list[tuple[RunSpec, str]]] = {}
        for run, function in zip(runs, functions, strict=True):
            if function is None:
                commands.append(run)
            else:
                by_place.setdefault(host_environment_of(run), []).append((run, function))
        if commands:
            self._give_commands(commands)
        for place, some in by_place.items():
            self._hosts_at(place).give(some)

    def _give_commands(self, runs: list[RunSpec]) -> None:
        if any(run.alone for run in runs):
            self._alone.give([run for run in runs if run.alone])
            runs = [run for run in runs if not run.alone]
        if runs:
            self._team.give(runs)

    def _hosts_at(self, place: HostEnvironment) -> FunctionHosts:
        if place.user is not None and place.user == own_user():
            place = msgspec.structs.replace(place, user=None)
        hosts = self._hosts.get(place)
        if hosts is None:
            hosts = self._hosts[place] = self._new_hosts(place)
            hosts.set_clock(self._offset)
            if self._look is None:
                self._look = asyncio.get_running_loop().call_later(_UNUSED_HOSTS_TIMEOUT, self._end_unused_hosts)
        return hosts

    def _end_unused_hosts(self) -> None:
        """The node's own stay; others end when nobody has needed them for a while."""
        self._look = None
        self._going = [hosts for hosts in self._going if hosts.workers]
        for place, hosts in list(self._hosts.items()):
            if place == NODE_ENVIRONMENT or not hosts.is_idle:
                continue
            if hosts.was_idle:
                del self._hosts[place]
                self._restarts_of_ended += hosts.restarts
                hosts.close()
                self._going.append(hosts)
            hosts.was_idle = True
        if len(self._hosts) > 1 or self._going:
            self._look = asyncio.get_running_loop().call_later(_UNUSED_HOSTS_TIMEOUT, self._end_unused_hosts)

    def confirm_stored(self, tokens: Sequence[int]) -> None:
        """Nobody here waits for that: the worker has told, and is done with it."""

    def cancel(self, tokens: Sequence[int] = ()) -> None:
        """End these runs, or all; each gets its result, `cancelled` unless it ended before it heard of it."""
        wanted = set(tokens)
        self._team.cancel(wanted)
        self._alone.cancel(wanted)
        for hosts in self._hosts.values():
            hosts.cancel(wanted)

    def kill(self, tokens: Sequence[int]) -> None:
        """End the processes that have these runs, with all that they run: nothing of it lives on."""
        wanted = set(tokens)
        for worker in self._all_workers():
            if not wanted.isdisjoint(worker.outstanding):
                worker.signal(signal.SIGKILL)

    def set_clock(self, offset: int, by: int = 0) -> None:
        """The node's clock is another: it was disciplined, or set by so much; then runs move with it."""
        self._offset = offset
        self._team.set_clock(offset, by)
        self._alone.set_clock(offset, by)
        for hosts in self._hosts.values():
            hosts.set_clock(offset, by)

    async def stop(self, grace: float) -> None:
        """Wait so many seconds for what runs, cancel the rest, end all workers. Every result has come when it returns.

        Nothing may be dispatched any more.
        """
        if not await self._ended_within(grace):
            self.cancel()
            if self.pids:
                await self._ended_within(_STOP_TIMEOUT)
        self._team.close()
        self._alone.close()
        if self._look is not None:
            self._look.cancel()
        for hosts in self._hosts.values():
            hosts.close()
        if not await self._gone_within(_END_TIMEOUT):
            living = [worker for worker in self._all_workers() if not worker.is_gone]
            for worker in living:
                worker.signal(signal.SIGKILL)
            if not living or not await self._gone_within(_END_TIMEOUT):
                told = {"action": "leftovers", "workers": [worker.pid for worker in self._all_workers()]}
                _log.error("worker processes do not end: the guardian sees to them", extra=told)
        self.keeper.stop()
        self._resolve_forgotten()

    async def _gone_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._all_workers() and time.monotonic() < deadline:
            await asyncio.sleep(0.005)
        return not self._all_workers()

    def _all_workers(self) -> list[WorkerHandle]:
        """Also those that have ended and have left something behind."""
        hosts = (*self._hosts.values(), *self._going)
        return [*self._team.workers, *self._alone.workers, *(worker for some in hosts for worker in some.workers)]

    async def _ended_within(self, seconds: float) -> bool:
        self._all_ended = asyncio.Event()
        if not self._pending:
            return True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_ended.wait(), seconds)
        return not self._pending

    def _resolve_forgotten(self) -> None:
        now = self._now()
        left = [RunResult(t, Outcome.CANCELLED, None, now, now, b"the node was stopped") for t in self._pending]
        if left:
            self._take_results(left)

    def _now(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000 + self._offset

    def _take_results(self, results: list[RunResult]) -> None:
        self._pending.difference_update([result.token for result in results])
        self._on_results(results)
        if self._all_ended is not None and not self._pending:
            self._all_ended.set()
