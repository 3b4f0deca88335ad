"""evenbeat as a contender: `evenbeat up` on checks or functions written out in TOML, in a process of its own."""

import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec

from evenbeat.bench.peers.contract import CheckWork, RunRecords, records_of
from evenbeat.model import SECOND, RunKind
from evenbeat.store.sqlite.sqlite_store import SqliteStore

_MOST_RUNS: Final = 2_000_000
_AT_ONCE: Final = '[node]\nstart_window = "1s"\nstart_rate = 100000\n'


class EvenbeatNode:
    """A node as `evenbeat up` runs it, with a database and everything that it does by default."""

    user_name: Final = None

    def __init__(self, name: str = "evenbeat", environment: Mapping[str, str] = MappingProxyType({})) -> None:
        self.name: Final = name
        self.environment: Final = environment

    def missing(self) -> str | None:
        return None

    def version(self) -> str:
        variables = (f"{name}={value}" for name, value in self.environment.items())
        return " ".join([f"evenbeat {version('evenbeat')}", *variables])

    def prepare(self, folder: Path, work: CheckWork) -> None:
        with (folder / "work.toml").open("w") as out:
            out.write(_AT_ONCE if work.first_at_once else "")
            out.writelines(_check(work, number) for number in range(work.checks))

    def prepare_functions(self, folder: Path, tasks: int, every: int, function: str) -> None:
        """Write tasks that call a function."""
        with (folder / "work.toml").open("w") as out:
            for number in range(tasks):
                out.write(f'[tasks."task {number}"]\nevery = "{every}s"\nfunction = "{function}"\nmissed = "skip"\n')

    def command(self, folder: Path) -> list[str]:
        words = [sys.executable, "-P", "-m", "evenbeat", "up"]
        return [*words, "--db", str(folder / "node.db"), str(folder / "work.toml")]

    def records(self, folder: Path) -> RunRecords:
        store = SqliteStore(folder / "node.db")
        try:
            runs = store.runs(most=_MOST_RUNS)
        finally:
            store.close()
        # First runs have no due time on the grid; they count as runs, and not as late.
        late = [(r.started - r.nominal) / SECOND if r.kind == RunKind.GRID else 0.0 for r in runs if r.started]
        ended = [(r.ended or 0) / SECOND for r in runs if r.started]
        return records_of([row for row in zip(ended, late, strict=True) if row[0]])


def _check(work: CheckWork, number: int) -> str:
    words = msgspec.json.encode(work.words_of(number)).decode()
    return f'[checks."host{number // 100}/check{number}"]\nevery = "{work.every}s"\ncommand = {words}\n'
