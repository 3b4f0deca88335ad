"""What a scheduler must offer to be measured beside others: its configuration, its command, its own records."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class CheckWork(NamedTuple):
    """The same plugin check, many times: each check runs the command every so many seconds."""

    checks: int
    every: int
    command: tuple[str, ...]
    numbered: bool = False
    """The number of the check follows as the last word of the command."""
    first_at_once: bool = True
    """Where the scheduler delays or limits the first runs of new checks, raise that limit: first runs must not be
    what is measured."""

    def words_of(self, number: int) -> tuple[str, ...]:
        """The command of one check."""
        return (*self.command, str(number)) if self.numbered else self.command


class RunRecords(NamedTuple):
    """What a scheduler recorded of runs: when each ended, and how many seconds after its due time it started."""

    ended: Floats
    late: Floats


class Scheduler(Protocol):
    """A program that runs checks. It is started in a folder of its own, in a process of its own, and stopped again."""

    @property
    def name(self) -> str:
        """The word that `--only` selects it by."""

    @property
    def user_name(self) -> str | None:
        """The user to run it as if we are root; None if it runs as root."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that it needs beside those that every contender gets."""

    def missing(self) -> str | None:
        """What is missing on this machine and how to install it; None if the scheduler can be measured."""

    def version(self) -> str:
        """Name and version, for people."""

    def prepare(self, folder: Path, work: CheckWork) -> None:
        """Write its configuration into the folder."""

    def command(self, folder: Path) -> list[str]:
        """The command that runs it in the foreground."""

    def records(self, folder: Path) -> RunRecords:
        """What it recorded of its runs; called after it has stopped."""


def records_of(rows: list[tuple[float, float]]) -> RunRecords:
    """Columns made of rows (end, lateness)."""
    table = np.array(rows, dtype=np.float64).reshape(-1, 2)
    return RunRecords(table[:, 0], table[:, 1])
