"""Schedulers of Python functions as contenders: evenbeat, APScheduler, Celery and huey call the same function.

The function itself writes down when it was due and when it started, so the figures of all have one source.
"""

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from evenbeat.bench.peers.evenbeat_node import EvenbeatNode
from evenbeat.bench.peers.programs.note import LOG

_PROGRAMS: Final = Path(__file__).with_name("programs")


class FunctionWork(NamedTuple):
    """The same function, by many tasks: each task calls it every so many seconds."""

    tasks: int
    every: int
    seconds: int
    """How long it lasts, at most."""


class FunctionCaller(NamedTuple):
    """A scheduler that calls functions of Python."""

    name: str
    missing: Callable[[], str | None]
    version: Callable[[], str]
    prepare: Callable[[Path, FunctionWork], list[str]]
    """Writes what is needed into the folder, and returns the command that runs it there."""


def environment_of(log: Path) -> Mapping[str, str]:
    """Where the function is, and where it writes."""
    return {LOG: str(log), "PYTHONPATH": str(_PROGRAMS), "PYTHONDONTWRITEBYTECODE": "1"}


def function_callers(peers_python: str | None) -> list[FunctionCaller]:
    """All of them; `peers_python` is the Python where those of others are installed."""
    node = EvenbeatNode()

    def prepare(folder: Path, work: FunctionWork) -> list[str]:
        node.prepare_functions(folder, work.tasks, work.every, f"{_PROGRAMS / 'note.py'}:note_run")
        return node.command(folder)

    ours = FunctionCaller(node.name, node.missing, node.version, prepare)
    python = peers_python or sys.executable
    return [ours, *(_caller(name, python) for name in ("APScheduler", "celery", "huey"))]


def _caller(package: str, python: str) -> FunctionCaller:
    program = _PROGRAMS / f"{package.lower()}_program.py"

    def version() -> str:
        return f"{package.capitalize() if package == 'celery' else package} {installed_version(python, package)}"

    def missing() -> str | None:
        found = installed_version(python, package)
        if not found:
            return f"{package} is not installed for {python}: pip install {package}, or name its Python: --peers-python"
        if package == "APScheduler" and not found.startswith("3."):
            return f"APScheduler {found} is there, version 3 is measured: pip install 'APScheduler<4'"
        return None

    def prepare(_: Path, work: FunctionWork) -> list[str]:
        return [python, str(program), str(work.tasks), str(work.every), str(work.seconds)]

    return FunctionCaller(package.lower(), missing, version, prepare)


def installed_version(python: str, package: str) -> str:
    """The version of a package where this Python finds it; empty if it does not, or if there is no such Python."""
    ask = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"
    try:
        done = subprocess.run([python, "-c", ask, package], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return ""
    return done.stdout.strip()
