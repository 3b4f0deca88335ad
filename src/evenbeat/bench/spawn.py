"""`evenbeat bench spawn`: short commands through a whole node - claimed, dispatched, spawned, captured, finished in
SQLite - beside a bare spawn loop.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from evenbeat.admin.capacity import DEFAULT_MAX_CONCURRENT
from evenbeat.bench.measure import Comparison
from evenbeat.bench.node import comparison_of, throughput
from evenbeat.model import Job

PROCESSES: Final = 2
RUNS: Final = 10_000
WARM: Final = 1_000
"""The number of those that are discarded as warm-up."""
SLOTS: Final = DEFAULT_MAX_CONCURRENT
"""Runs at the same time: as many as a node has by default; and as many children of the baseline."""

_CHECK_DUMMY: Final = r"""
#include <stdio.h>
int main(void) { printf("OK: all is well|time=0.010s;1;2;0 size=42B\n"); return 0; }
"""


class BaselineSpawner:
    """The baseline: as many loops as we have workers, each in a process of its own, kept for all pairs."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "evenbeat.bench.bare_spawn", str(SLOTS // PROCESSES)]
        self._loops = [
            subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603
            for _ in range(PROCESSES)
        ]
        return self

    def spawn(self, program: str) -> None:
        for loop in self._loops:
            assert loop.stdin is not None
            loop.stdin.write(f"{program} {RUNS // PROCESSES}\n")
            loop.stdin.flush()
        for loop in self._loops:
            assert loop.stdout is not None
            assert loop.stdout.readline() == "done\n", "the baseline failed"

    def rate(self, program: str) -> float:
        """Runs per second."""
        start = time.perf_counter()
        self.spawn(program)
        return RUNS / (time.perf_counter() - start)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        for loop in self._loops:
            loop.communicate()


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Every measure, as soon as it is taken."""
    with tempfile.TemporaryDirectory() as folder, BaselineSpawner() as bare:
        for key, title, program in _programs(Path(folder)):
            job = Job(command=(program,))
            bare.spawn(program)
            rates = []
            for i in range(pairs):
                theirs = bare.rate(program) if i % 2 else 0.0
                ours = throughput(job, RUNS, WARM, SLOTS)
                rates.append((ours, theirs or bare.rate(program)))
            what = f"{title}: {RUNS:,} runs, output captured, {PROCESSES} processes"
            yield key, comparison_of(what, "evenbeat, a whole node", "bare spawn loop", rates)


def _programs(folder: Path) -> Iterator[tuple[str, str, str]]:
    """The command to run: as similar to the plugin check_dummy as this machine allows."""
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
