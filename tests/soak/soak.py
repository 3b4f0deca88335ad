"""Hours of a mixed load in minutes, by short intervals: do memory and descriptors of a node stay where they were?

`python tests/soak/soak.py [RUNS]`, or `make soak`: 250,000 runs are what 10,000 checks every five minutes make in two
hours. Meanwhile files are read anew, tasks come, go, rest and are forced, functions and commands fail, talk too much
and have to be killed. Prints what was measured; exits 1 if something grew.
"""

import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from evenbeat.client.node_or_database import connect_to_live_node, open_client
from evenbeat.model import SECOND, Job, Schedule, Task
from evenbeat.store.contract import Filter
from evenbeat.wire.requests import GetStatus
from evenbeat.wire.status import Status

RUNS: Final = 250_000
_QUICK: Final = 1_500
"""Tasks that return at once, every second."""
_WARM: Final = 0.4
"""Of all runs, the part after which everything has happened once and caches are full."""
_MEMORY: Final = 1.05
_SLACK: Final = 3 << 20
"""How much more memory is no growth: a factor and bytes, as the kernel counts pages and allocators keep some."""
_HERE: Final = Path(__file__).parent
_MIX: Final = f"""
[node]
max_concurrent = 200
keep = "1m"
[limits]
two = 2
[periods.office]
ranges = ["monday-sunday 00:00-24:00"]
[tasks.shell]
command = "echo $((RANDOM % 3)); exit $((RANDOM % 2))"
shell = true
every = "1s"
[tasks.long]
command = ["sleep", "30"]
timebox = "1s"
every = "2s"
[tasks.gigabyte]
command = ["head", "-c", "3000000", "/dev/zero"]
every = "2s"
[tasks.missing]
command = ["no-such-program"]
every = "1s"
[checks.moody]
command = "exit $(( $(date +%s) / 3 % 3 ))"
shell = true
every = "1s"
attempts = 2
[tasks.endless]
function = "{_HERE}/habits.py:endless"
timebox = "1s"
every = "5s"
"""
_FUNCTIONS: Final = {"quick": 100, "talkative": 10, "failing": 10, "remembering": 20, "waiting": 20}


class Sample(NamedTuple):
    """All processes of a node at one moment."""

    runs: int
    memory: int
    descriptors: int
    processes: int
    database: int


def soak(runs: int) -> tuple[list[Sample], Status]:
    """Let a node live through so many runs; what was seen meanwhile, and its last status."""
    with TemporaryDirectory(prefix="evenbeat-soak-") as name:
        folder = Path(name)
        file, database = folder / "soak.toml", folder / "soak.db"
        file.write_text(_tasks(0))
        command = [sys.executable, "-m", "evenbeat", "up", str(file), "--db", str(database), "--workers", "2"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as node:
            try:
                return _watch(node.pid, database, file, runs)
            finally:
                node.send_signal(signal.SIGTERM)


def _tasks(edition: int) -> str:
    """The file, which is a bit different each time it is read."""
    parts = [_MIX]
    for i in range(_QUICK):
        more = 'limit = "two"' if i % 100 == 0 else 'period = "office"' if i % 10 == 0 else ""
        every = "2s" if i % 50 == edition % 50 else "1s"
        parts.append(f'[tasks.noop{i}]\ncommand = ["noop"]\nevery = "{every}"\n{more}\n')
    for function, times in _FUNCTIONS.items():
        section = "checks" if function == "talkative" else "tasks"
        parts += [
            f'[{section}.{function}{i}]\nfunction = "{_HERE}/habits.py:{function}"\nevery = "1s"\n'
            for i in range(times)
        ]
    return "\n".join(parts)


def _watch(pid: int, database: Path, file: Path, runs: int) -> tuple[list[Sample], Status]:
    samples: list[Sample] = []
    status, edition = _status(database), 0
    while status.runs < runs:
        edition += 1
        _disturb(database, file, edition)
        time.sleep(1)
        status = _status(database)
        samples.append(_sample(pid, database, status.runs))
    return samples, status


def _disturb(database: Path, file: Path, edition: int) -> None:
    with open_client(database, "soak") as client:
        if edition % 3 == 0:
            file.write_text(_tasks(edition))
            client.apply([file])
        visitor = Task(f"visitor{edition}", Schedule(every=SECOND), Job(command=("noop",)))
        client.add([visitor], "soak")
        client.run_now([visitor.name], wait=False)
        client.pause(Filter(names=("noop1?",)), paused=edition % 2 == 0)
        if edition > 3:
            client.remove(Filter(names=(f"visitor{edition - 3}",)))


def _status(database: Path) -> Status:
    deadline = time.monotonic() + 60
    while (node := connect_to_live_node(database)) is None:
        assert time.monotonic() < deadline, "the node does not come up"
        time.sleep(0.1)
    try:
        status = node.ask(GetStatus()).status
    finally:
        node.close()
    assert status is not None
    return status


def _sample(node: int, database: Path, runs: int) -> Sample:
    """Of the node and its workers; what they run at the moment does not count."""
    memory = descriptors = processes = 0
    for pid in [node, *_children(node)]:
        with suppress(OSError, ProcessLookupError):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            memory += sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))
            descriptors += len(list(Path(f"/proc/{pid}/fd").iterdir()))
            processes += 1
    return Sample(runs, memory, descriptors, processes, database.stat().st_size)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def growth(samples: list[Sample]) -> list[str]:
    """What has grown between the first half of the samples after the warm-up and the second, in words."""
    warm = [sample for sample in samples if sample.runs > _WARM * samples[-1].runs]
    before, after = warm[: len(warm) // 2], warm[len(warm) // 2 :]
    found = []
    for what, slack in (("memory", _SLACK), ("descriptors", 8), ("database", 4 << 20)):
        first, last = (median(getattr(sample, what) for sample in half) for half in (before, after))
        if last > first * _MEMORY + slack:
            found.append(f"{what} grew from {first:,.0f} to {last:,.0f}")
    return found


def main(runs: int) -> int:
    """Soak and tell."""
    samples, status = soak(runs)
    print(f"{'runs':>10} {'memory MB':>10} {'descriptors':>12} {'processes':>10} {'database MB':>12}")
    for sample in samples[:: max(1, len(samples) // 25)]:
        print(
            f"{sample.runs:10,} {sample.memory / 1e6:10.1f} {sample.descriptors:12} {sample.processes:10} "
            f"{sample.database / 1e6:12.1f}"
        )
    print("outcomes:", status.outcomes)
    problems = growth(samples)
    print("\n".join(problems) or "flat")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else RUNS))
