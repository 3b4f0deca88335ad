"""What a start costs: `python -m tools.starts [CHECKS]` writes checks out in TOML and starts a node on them, twice.

Prints the CPU seconds of the node's process until its first run, and the memory of all its processes (PSS) a while
after it. The commands do nothing; each has arguments of its own, and one check in four has labels.
"""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from evenbeat.node.live import live
from evenbeat.node.service import Node, Options

_EVERY: Final = ("1m", "5m", "5m", "10m")
_SETTLE: Final = 5.0
"""Seconds after the first run until memory is looked at."""


def main(checks: int) -> None:
    """Both starts, each a process of its own."""
    with TemporaryDirectory(prefix="evenbeat-starts-") as folder:
        file = Path(folder) / "checks.toml"
        with file.open("w") as out:
            out.writelines(_check(i) for i in range(checks))
        print(f"{checks:,} checks, {file.stat().st_size / 1e6:.1f} MB of TOML")
        for word in ("first", "second"):
            done = subprocess.run(  # noqa: S603
                [sys.executable, "-m", "tools.starts", "one", folder], check=True, capture_output=True, text=True
            )
            print(f"{word} start: {done.stdout.strip()}")


def _check(i: int) -> str:
    labels = f'labels = {{ team = "team{i % 20}", site = "site{i % 7}" }}\n' if i % 4 == 0 else ""
    words = f'["noop", "-H", "host{i:06}.example.org", "-w", "100,20%", "-c", "500,60%"]'
    return f'[checks."host{i:06}/ping"]\nevery = "{_EVERY[i % 4]}"\ncommand = {words}\nattempts = 3\n{labels}\n'


def _start(folder: Path) -> None:
    cpu: list[float] = []

    def up(node: Node) -> None:
        claim = node.beat._claim

        def first(*args: object) -> object:
            cpu.append(time.process_time())
            node.beat._claim = claim  # type: ignore[method-assign]
            asyncio.get_running_loop().call_later(_SETTLE, end, node)
            return claim(*args)  # type: ignore[arg-type]

        node.beat._claim = first  # type: ignore[method-assign, assignment]

    def end(node: Node) -> None:
        memory = sum(_pss(pid) for pid in (os.getpid(), *(pid for pid, _ in node.queue.workers)))
        print(f"{cpu[0]:.2f} s of CPU to the first run, {memory / 1e6:.0f} MB")
        node.stop("measured")

    options = Options(files=(folder / "checks.toml",), workers=2, grace=5)
    asyncio.run(live(folder / "starts.db", options, up, signals=False))


def _pss(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        _start(Path(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
