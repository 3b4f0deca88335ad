"""A supervisor starts its processes again when they end, ever later if they end at once, and stops them in order."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from waiting import eventually_async

from evenbeat.child_processes.process_table import process_info
from evenbeat.child_processes.supervisor import ProcessSupervisor, RestartBackoff, SupervisedProcess

FOR_EVER = "import signal; signal.pause()"
DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); signal.pause()"


class Keeper:
    """Keeps one process running that runs this code, and records with which status each one ended."""

    def __init__(self, code: str, **options: Any) -> None:
        self._code = code
        self.options = options
        self.statuses: list[int] = []
        self.pauses: list[float] = []
        self.hopeless: list[bool] = []
        self.as_wanted = False
        self.supervisor = ProcessSupervisor(self._new, self.start)

    def start(self) -> None:
        self.supervisor.start()

    def _new(self) -> SupervisedProcess:
        command = [sys.executable, "-S", "-c", self._code]
        return SupervisedProcess(command, self._has_ended, environment={}, **self.options)

    def _has_ended(self, process: SupervisedProcess) -> None:
        self.statuses.append(process.reap())
        self.pauses.append(self.supervisor.ended(process, as_wanted=self.as_wanted))
        self.hopeless.append(self.supervisor.is_hopeless)


def descriptors() -> set[str]:
    return {entry.name for entry in os.scandir("/proc/self/fd")}


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    before = descriptors()
    asyncio.run(scene())
    assert descriptors() == before


def test_a_process_that_is_killed_is_replaced_at_once() -> None:
    async def scene() -> None:
        keeper = Keeper(FOR_EVER)
        keeper.start()
        (first,) = keeper.supervisor.processes
        first.signal(signal.SIGKILL)
        await eventually_async(lambda: bool(keeper.statuses) and bool(keeper.supervisor.processes))
        assert keeper.supervisor.processes[0].pid != first.pid
        assert (keeper.statuses, keeper.pauses, keeper.supervisor.restarts) == ([-signal.SIGKILL], [0], 1)
        await keeper.supervisor.stop(30)
        assert keeper.statuses[1:] == [-signal.SIGTERM]
        assert keeper.supervisor.restarts == 1

    play(scene)


def test_a_process_that_we_end_is_replaced_and_not_counted() -> None:
    async def scene() -> None:
        keeper = Keeper(FOR_EVER)
        keeper.as_wanted = True
        keeper.start()
        (first,) = keeper.supervisor.processes
        first.signal(signal.SIGKILL)
        await eventually_async(lambda: bool(keeper.statuses and keeper.supervisor.processes), "a second one")
        assert (keeper.pauses, keeper.supervisor.restarts) == ([0], 0)
        await keeper.supervisor.stop(5)

    play(scene)


def test_processes_that_end_at_once_are_started_ever_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestartBackoff, "FIRST_PAUSE", 0.01)

    async def scene() -> None:
        keeper = Keeper("raise SystemExit(3)")
        keeper.start()
        await eventually_async(lambda: len(keeper.statuses) == 4)
        await keeper.supervisor.stop(30)
        assert keeper.hopeless == [False, False, False, True]
        assert keeper.statuses == [3, 3, 3, 3]
        assert keeper.pauses == [0, 0.01, 0.02, 0.04]

    play(scene)


def test_the_pause_has_an_upper_bound_and_a_long_life_resets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    backoff = RestartBackoff()
    pauses = [backoff.pause_after(now) for _ in range(20)]
    assert pauses[0] == 0
    assert pauses == sorted(pauses)
    assert pauses[-1] == RestartBackoff.LONGEST_PAUSE
    assert backoff.pause_after(now - RestartBackoff.SHORT_LIFE - 1) == 0
    assert not backoff.is_hopeless


def test_what_does_not_end_when_told_to_is_killed() -> None:
    async def scene() -> None:
        reader, writer = os.pipe()
        keeper = Keeper(DEAF, output=writer)
        keeper.start()
        os.close(writer)
        await asyncio.to_thread(os.read, reader, 1)
        os.close(reader)
        await keeper.supervisor.stop(0.05)
        assert keeper.statuses == [-signal.SIGKILL]

    play(scene)


def test_a_machine_that_is_full_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RestartBackoff, "RETRY_START_AFTER", 0.01)
    real, refusals = os.pidfd_open, iter(range(3))
    started: list[int] = []

    def full(pid: int) -> int:
        started.append(pid)
        if next(refusals, None) is not None:
            raise OSError(24, "Too many open files")
        return real(pid)

    monkeypatch.setattr("os.pidfd_open", full)

    async def scene() -> None:
        keeper = Keeper(FOR_EVER, stdin=subprocess.PIPE, owned_descriptors=[os.open(os.devnull, os.O_RDONLY)])
        keeper.start()
        assert keeper.supervisor.processes == []
        assert keeper.supervisor.start_problem == "Too many open files"
        keeper.options.pop("owned_descriptors")  # the failed start has closed it
        await eventually_async(lambda: bool(keeper.supervisor.processes))
        assert keeper.supervisor.start_problem == ""
        await keeper.supervisor.stop(30)
        assert not any(process_info(pid) for pid in started)

    play(scene)
