"""`evenbeat bench spawn`: short commands through the local queue and its workers, beside a bare spawn loop.

Twice: by the wall clock, which is what users see, and by the CPU time of all processes involved, children included,
which tells the same on a machine that has nothing else to do and more on one that has.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from evenbeat.cli.bench import Fact, Measure, Side, compare
from evenbeat.core.guard import kill_after
from evenbeat.model import SECOND, Invalid, Job
from evenbeat.queue.frames import Result, Run
from evenbeat.queue.local import LocalQueue

PROCESSES: Final = 2
RUNS: Final = 1_000
WINDOW: Final = 200
"""Runs in flight, as the slots of a node would allow; the bare loops have as many."""

_CHECK_DUMMY: Final = r"""
#include <stdio.h>
int main(void) { printf("OK: all is well|time=0.010s;1;2;0 size=42B\n"); return 0; }
"""


class Bare:
    """The baseline: as many loops as we have workers, each in a process of its own, kept for all pairs."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "evenbeat.cli.bare_spawn"]
        self._loops = [
            subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
            for _ in range(PROCESSES)
        ]
        return self

    @property
    def pids(self) -> list[int]:
        return [loop.pid for loop in self._loops]

    def spawn(self, program: str) -> None:
        for loop in self._loops:
            assert loop.stdin is not None
            loop.stdin.write(f"{program} {RUNS // PROCESSES}\n")
            loop.stdin.flush()
        for loop in self._loops:
            assert loop.stdout is not None
            assert loop.stdout.readline() == "done\n", "the baseline failed"

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for loop in self._loops:
            loop.communicate()


class Ours:
    """A local queue with its workers, kept for all pairs."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._token = self._left = 0
        self._job = msgspec.Raw()
        self._all_ended = asyncio.Event()
        self._loop.run_until_complete(self._start())
        return self

    async def _start(self) -> None:
        offset = (time.time_ns() - time.clock_gettime_ns(time.CLOCK_BOOTTIME)) // 1_000
        self._queue = LocalQueue(PROCESSES, self._take, lambda _: None, kill_after=kill_after, clock_offset=offset)
        self._queue.start()

    @property
    def pids(self) -> list[int]:
        return self._queue.pids

    def spawn(self, program: str) -> None:
        self._job = msgspec.Raw(msgspec.msgpack.encode(Job(command=(program,))))
        self._loop.run_until_complete(self._spawn())

    async def _spawn(self) -> None:
        self._left = RUNS
        self._all_ended.clear()
        self._dispatch(WINDOW)
        await self._all_ended.wait()

    def _dispatch(self, wanted: int) -> None:
        count = min(wanted, self._left)
        self._left -= count
        now = time.time_ns() // 1_000
        tokens = range(self._token, self._token + count)
        self._token += count
        self._queue.dispatch(
            [
                Run(token, self._job, "bench", now, 0, 10 * SECOND, now + 60 * SECOND, 0, 60 * SECOND, 0, 1, None)
                for token in tokens
            ]
        )

    def _take(self, results: list[Result]) -> None:
        for result in results:
            assert result.outcome == "succeeded", f"{result.outcome}: {result.output!r}"
        if self._left:
            self._dispatch(len(results))
        elif not self._queue.pending:
            self._all_ended.set()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self._loop.run_until_complete(self._queue.stop(0))
        self._loop.close()


def measures(pairs: int) -> Iterator[tuple[str, Measure]]:
    """Every measure, as soon as it is taken."""
    with tempfile.TemporaryDirectory() as folder, Ours() as ours, Bare() as bare:
        for key, title, program in _programs(Path(folder)):
            ours.spawn(program)
            bare.spawn(program)
            mine = Side("evenbeat, queue and workers", partial(ours.spawn, program), RUNS)
            theirs = Side("bare spawn loop", partial(bare.spawn, program), RUNS)
            what = f"{title}: {RUNS} runs, output captured, {PROCESSES} processes"
            yield key, compare(what, mine, theirs, pairs, clock=time.perf_counter)
            processes = [*ours.pids, *bare.pids]
            yield f"{key}_cpu", compare(f"{what}, by CPU time", mine, theirs, pairs, clock=partial(_cpu, processes))


def facts(_plot: str | None) -> Iterator[tuple[str, Fact]]:
    """Everything here is a ratio."""
    yield from ()


def check_options(plot: str | None) -> None:
    """Refuse a picture: there is nothing to draw."""
    if plot is not None:
        raise Invalid("this bench draws no picture, accepted: bench core --plot", place="--plot")


def _cpu(processes: list[int]) -> float:
    """Seconds of CPU that this process, these, and the children they have reaped ever used."""
    ticks = 0
    for process in processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(map(int, fields[11:15]))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _programs(folder: Path) -> Iterator[tuple[str, str, str]]:
    """What to run: children like the plugin check_dummy, as nearly as this machine can make them."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    source = folder / "check_dummy.c"
    source.write_text(_CHECK_DUMMY)
    for key, title, options in (
        ("check_dummy", "A child like check_dummy", ["-O2"]),
        ("static", "A tiny static child", ["-O2", "-static"]),
    ):
        program = folder / key
        if compiler is not None:
            subprocess.run([compiler, *options, "-o", program, source], check=False, capture_output=True)  # noqa: S603
        if program.exists():
            yield key, title, str(program)
        elif key == "check_dummy":
            yield "true", "/bin/true, as there is no C compiler here", "/bin/true"
