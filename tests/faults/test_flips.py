"""Bytes of a stopped database are flipped: whatever is done with it then ends, well or with a refusal for people."""

import asyncio
import random
import threading
from pathlib import Path

import pytest
from budget import IS_FULL
from waiting import PATIENCE

from evenbeat.cli.main import main
from evenbeat.model import Invalid
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.contract import StoreError

SEEDS = range(400) if IS_FULL else range(12)
FILE = """
[node]
max_concurrent = 20
[limits]
two = 2
[periods.office]
ranges = ["monday-sunday 00:00-24:00"]
[tasks.often]
every = "1s"
limit = "two"
command = ["noop"]
[tasks.nightly]
cron = "H 3 * * *"
zone = "Europe/Berlin"
period = "office"
command = ["noop"]
[checks.disk]
every = "1s"
missed = "all"
command = ["false"]
[checks.told]
every = "1h"
passive = true
"""


@pytest.fixture(scope="session")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database with tasks, periods, limits, runs, skips and states."""
    folder = tmp_path_factory.mktemp("sound")
    many = "".join(f'[tasks.t{i}]\nevery = "1h"\ncommand = ["noop"]\n' for i in range(60))
    (folder / "a.toml").write_text(FILE + many)
    database = folder / "x.db"
    node = start(database, length=3.0, files=(folder / "a.toml",))
    assert node is not None
    assert node.turns.counts.runs
    return database.read_bytes()


def start(database: Path, length: float = 0.3, **options: object) -> Scheduler | None:
    """A node for a moment; None if it refused to start."""
    done: list[Scheduler | BaseException] = []

    def run() -> None:
        try:
            given = NodeOptions(workers=1, grace=1.0, length=length, **options)  # type: ignore[arg-type]
            done.append(asyncio.run(run_node(database, given, signals=False)))
        except BaseException as e:
            done.append(e)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert done, "it never ends"
    (found,) = done
    if isinstance(found, BaseException):
        if not isinstance(found, StoreError | Invalid):
            raise found
        assert isinstance(found, Invalid) or "x.db" in str(found), found
        return None
    return found


def flipped(content: bytes, seed: int) -> bytes:
    chance = random.Random(seed)
    new = bytearray(content)
    # Pages that are not full have room that nobody reads: several flips, so that one hits.
    for _ in range(chance.choice([1, 3, 10, 30])):
        at = chance.randrange(100 if chance.random() < 0.9 else 0, len(new))
        new[at] ^= 1 << chance.randrange(8)
    return bytes(new)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_is_flipped_every_start_and_every_question_ends(
    sound: bytes, tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "x.db"
    database.write_bytes(flipped(sound, seed))
    monkeypatch.setenv("EVENBEAT_DB", str(database))
    for words in (["ls"], ["history"], ["history", "disk"], ["why", "disk"], ["show", "often"], ["status"]):
        assert main(words) in (0, 1, 2), words
    assert main(["add", "more", "--every", "1h", "--", "noop"]) in (0, 1, 2)
    start(database)
    assert main(["backup", str(tmp_path / "backup.db")]) in (0, 1, 2)
    assert "Traceback" not in capsys.readouterr().err
