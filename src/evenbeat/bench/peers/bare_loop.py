"""A bare spawn loop as a contender: it starts commands as fast as it can, and times, checks and keeps nothing.

As a program, it is that loop. It writes how many runs ended in each second.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np

from evenbeat.admin.capacity import DEFAULT_MAX_CONCURRENT
from evenbeat.bench.bare_spawn import run_processes
from evenbeat.bench.peers.contract import CheckWork, RunRecords

_COUNTS: Final = "ends-per-second"
_FOR_EVER: Final = 1 << 60


class BareLoop:
    """Two processes that spawn, read and reap, as in `evenbeat bench spawn`. They have no due times."""

    user_name: Final = None

    def __init__(self, name: str = "loop", environment: Mapping[str, str] = MappingProxyType({})) -> None:
        self.name: Final = name
        self.environment: Final = environment

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        return " ".join(["bare spawn loop", *(f"{name}={value}" for name, value in self.environment.items())])

    def prepare(self, folder: Path, work: CheckWork) -> None:
        (folder / "command.json").write_bytes(msgspec.json.encode(work.command))

    def command(self, folder: Path) -> list[str]:
        return [sys.executable, "-P", "-m", "evenbeat.bench.peers.bare_loop", str(folder)]

    def records(self, folder: Path) -> RunRecords:
        rows = [line.split() for file in folder.glob(f"{_COUNTS}.*") for line in file.read_text().splitlines()]
        ended = np.repeat([float(second) for second, _ in rows], [int(count) for _, count in rows])
        return RunRecords(ended, np.zeros(len(ended)))


def main(folder: Path, processes: int) -> None:
    """Run the loop in several processes until a signal ends them."""
    command = msgspec.json.decode((folder / "command.json").read_bytes(), type=list[str])
    for _ in range(processes - 1):
        if os.fork() == 0:
            break
    ended: Counter[int] = Counter()
    with (folder / f"{_COUNTS}.{os.getpid()}").open("w", buffering=1) as out:

        def count() -> None:
            second = int(time.time())
            if second not in ended:
                out.writelines(f"{before} {number}\n" for before, number in ended.items())
                ended.clear()
            ended[second] += 1

        run_processes(command, _FOR_EVER, DEFAULT_MAX_CONCURRENT // processes, count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), os.cpu_count() or 1)
