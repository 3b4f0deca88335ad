"""What a start costs: `python -m tools.starts [CHECKS]` writes checks as TOML, and runs `evenbeat up` on them, twice.

Prints the CPU seconds of the node's process until its first run, and the memory of all its processes (PSS) a while
after it; and beside them, what it takes to do no more than parse the file: that tells how fast the machine is just now.
The commands do nothing; each has arguments of its own, and one check in four has labels. All modules are compiled
already, as they are after an installation.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import rtoml

from evenbeat.cli.main import import_command
from evenbeat.cli.main import main as evenbeat
from evenbeat.load.pause_gc import without_garbage_collection

_EVERY: Final = ("1m", "5m", "5m", "10m")
_SETTLE: Final = 5.0
"""Seconds after the first run until memory is looked at."""


def main(checks: int) -> None:
    """Both starts, each a process of its own."""
    with TemporaryDirectory(prefix="evenbeat-starts-") as folder:
        env = os.environ | {"PYTHONPYCACHEPREFIX": f"{folder}/compiled", "PYTHONDONTWRITEBYTECODE": ""}
        few, many = Path(folder) / "few", Path(folder) / "many"
        _write(few, 10)
        _run(few, env)
        print(f"{checks:,} checks, {_write(many, checks) / 1e6:.1f} MB of TOML")
        for word in ("first", "second"):
            print(f"{word} start: {_run(many, env)}; rtoml alone: {_parsing(many):.2f} s")


def _write(folder: Path, checks: int) -> int:
    folder.mkdir()
    with (folder / "checks.toml").open("w") as out:
        out.writelines(_check(i) for i in range(checks))
        return out.tell()


def _run(folder: Path, env: dict[str, str]) -> str:
    command = [sys.executable, "-m", "tools.starts", "one", str(folder)]
    return subprocess.run(command, check=True, env=env, capture_output=True, text=True).stdout.strip()  # noqa: S603


def _parsing(folder: Path) -> float:
    text = (folder / "checks.toml").read_text()
    with without_garbage_collection():
        before = time.process_time()
        rtoml.loads(text)
        return time.process_time() - before


def _check(i: int) -> str:
    labels = f'labels = {{ team = "team{i % 20}", site = "site{i % 7}" }}\n' if i % 4 == 0 else ""
    words = f'["noop", "-H", "host{i:06}.example.org", "-w", "100,20%", "-c", "500,60%"]'
    return f'[checks."host{i:06}/ping"]\nevery = "{_EVERY[i % 4]}"\ncommand = {words}\nattempts = 3\n{labels}\n'


def _start(folder: Path) -> None:
    import_command("evenbeat.cli.commands.up")  # as the command does it
    from evenbeat.node.loop.turn import TurnLoop  # noqa: PLC0415

    claim = TurnLoop._claim

    def first(beat: TurnLoop, *args: object) -> object:
        cpu = time.process_time()
        TurnLoop._claim = claim  # type: ignore[method-assign]
        asyncio.get_running_loop().call_later(_SETTLE, end, cpu)
        return claim(beat, *args)  # type: ignore[arg-type]

    def end(cpu: float) -> None:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
        memory = sum(_pss(pid) for pid in (os.getpid(), *map(int, children)))
        print(f"{cpu:.2f} s of CPU to the first run, {memory / 1e6:.0f} MB")
        os.kill(os.getpid(), signal.SIGTERM)

    TurnLoop._claim = first  # type: ignore[method-assign, assignment]
    sys.exit(evenbeat(["up", "--db", str(folder / "starts.db"), "--workers", "2", str(folder / "checks.toml")]))


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        _start(Path(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
