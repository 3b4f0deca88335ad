"""The power goes: of the database only what was synced is left, and by chance some of the rest. No run outlives it."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from budget import IS_FULL
from crashing_node import CrashingNode
from waiting import eventually

from evenbeat.store.sqlite.first_load import LEAST_TASKS
from evenbeat.store.sqlite.sqlite_store import SqliteStore

SEEDS = range(12) if IS_FULL else range(1)
ROUNDS = 4 if IS_FULL else 1
LOAD = 300
"""Tasks once a second that do nothing but make the store work."""
SECTOR = 512
COMPILER = shutil.which("cc") or shutil.which("gcc")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for the library that is preloaded")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("library") / "powerloss.so"
    source = Path(__file__).with_name("powerloss.c")
    command = [str(COMPILER), "-O1", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return made


@pytest.fixture
def crashing(tmp_path: Path) -> Iterator[CrashingNode]:
    one = CrashingNode(tmp_path, durability="full")
    yield one
    one.close()


LOADING = """
import sys
from pathlib import Path
from evenbeat.store.sqlite import connect, first_load
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_task

connect._WRITER_CACHE = 1_000  # pages are written before the commit
store = SqliteStore(Path(sys.argv[1]), "full")
with store.used_alone():
    store.create([a_task(f"task {i}") for i in range(first_load.LEAST_TASKS)], "me", T0)
store.create([a_task("one more")], "me", T0)
store.close()
"""
"""The first tasks of a database are loaded past its log."""


def preloaded(library: Path, crashing: CrashingNode, **more: str) -> dict[str, str]:
    return {"LD_PRELOAD": str(library), "POWERLOSS_DATABASE": str(crashing.database), **more}


def come_back(crashing: CrashingNode, chance: random.Random) -> None:
    """The machine is booted again: every process is gone, and files have what the disk has."""
    eventually(lambda: not crashing.running(), "no run is left")
    keep_what_was_synced(crashing.database, chance)


def keep_what_was_synced(database: Path, chance: random.Random) -> None:
    """Files have what the disk has, and some sectors that were not synced."""
    survivors = chance.choice([0.0, 0.0, 0.5])
    for suffix in ("", "-wal", "-journal"):
        path = database.with_name(database.name + suffix)
        disk = path.with_name(f"{path.name}.disk")
        if not disk.exists():
            path.unlink(missing_ok=True)
            continue
        content = bytearray(disk.read_bytes())
        cached = path.read_bytes() if path.exists() else b""
        for at in range(0, min(len(content), len(cached)), SECTOR):
            if chance.random() < survivors:
                content[at : at + SECTOR] = cached[at : at + SECTOR][: len(content) - at]
        path.write_bytes(content)
        disk.write_bytes(content)
    database.with_name(database.name + "-shm").unlink(missing_ok=True)


def test_what_is_not_synced_is_gone(library: Path, tmp_path: Path) -> None:
    """The library can fail: with durability "normal" a commit is not synced, and such a power loss forgets it."""
    crashing = CrashingNode(tmp_path)
    try:
        crashing.start(environment=preloaded(library, crashing))
        eventually(lambda: len(crashing.running()) > 2, "it runs")
        crashing.kill()
        before = (tmp_path / "evenbeat.db-wal").read_bytes()
        come_back(crashing, random.Random(0))
        path = tmp_path / "evenbeat.db-wal"
        assert not path.exists() or len(path.read_bytes()) < len(before)
    finally:
        crashing.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_power_goes_within_a_large_checkpoint_while_more_is_committed(
    library: Path, tmp_path: Path, seed: int
) -> None:
    """Hundreds of commits a second go on while what was committed before is moved from the log to the database."""
    chance = random.Random(seed)
    crashing = CrashingNode(tmp_path, durability="full", load=LOAD)
    try:
        for _ in range(ROUNDS):
            at = {"POWERLOSS_CHECKPOINT": str(chance.choice([2, 3, 5]))}
            crashing.start(checkpoints=4 * LOAD, environment=preloaded(library, crashing, **at))
            crashing.wait_for_crash()
            come_back(crashing, chance)
        crashing.start(checkpoints=4 * LOAD)
        crashing.live_on()
        crashing.stop()
        assert crashing.findings() == []
    finally:
        crashing.close()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("where", ["anywhere", "POWERLOSS_COMMIT", "POWERLOSS_CHECKPOINT"])
def test_the_power_goes(crashing: CrashingNode, library: Path, where: str, seed: int) -> None:
    chance = random.Random(f"{where} {seed}")
    for _ in range(ROUNDS):
        at = {} if where == "anywhere" else {where: str(chance.choice([3, 5, 8, 13, 21]))}
        crashing.start(checkpoints=20, environment=preloaded(library, crashing, **at))
        crashing.force("rare", "plain0")
        if where == "anywhere":
            time.sleep(chance.uniform(0.0, 2.0))
            crashing.kill()
        else:
            crashing.wait_for_crash()
        come_back(crashing, chance)
    crashing.start(checkpoints=20)
    crashing.live_on()
    crashing.stop()
    assert crashing.findings() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_the_power_goes_within_the_first_load(library: Path, tmp_path: Path, seed: int) -> None:
    """At each sync of the database in turn, until the load ends before that one: all of its tasks are there or none."""
    chance = random.Random(seed)
    counts = []
    for at in range(1, 100):
        database = tmp_path / str(at) / "evenbeat.db"
        database.parent.mkdir()
        environment = os.environ | {
            "LD_PRELOAD": str(library),
            "POWERLOSS_DATABASE": str(database),
            "POWERLOSS_CHECKPOINT": str(at),
        }
        ended = subprocess.run([sys.executable, "-c", LOADING, str(database)], env=environment, check=False).returncode
        keep_what_was_synced(database, chance)
        store = SqliteStore(database)
        counts.append(store.count())
        store.check()
        store.close()
        if not ended:
            break
        assert ended == -signal.SIGKILL
    assert counts == sorted(counts)
    assert set(counts) <= {0, LEAST_TASKS, LEAST_TASKS + 1}
    assert counts[0] == 0
    assert counts[-1] == LEAST_TASKS + 1
