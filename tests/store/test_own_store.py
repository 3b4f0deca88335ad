"""The store in the documentation passes the contract suite, and is as short as the page says."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from evenbeat.app import App
from evenbeat.model import Instant, Invalid
from evenbeat.store.contract import Batch, Store, StoreError
from evenbeat.store.memory import MemoryStore
from evenbeat.store.opening import open_store
from evenbeat.testing.samples import T0, a_claim, a_task
from evenbeat.testing.store import StoreContract

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-store.md"
(CODE,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

shown: dict[str, Any] = {"__name__": "own_store"}
exec(compile(CODE, PAGE.name, "exec"), shown)
JournalStore = shown["JournalStore"]


def test_it_is_little_more_than_a_hundred_lines() -> None:
    assert len(CODE.splitlines()) < 120


class TestJournalStore(StoreContract):
    def make_store(self, folder: Path) -> Store:
        store: Store = JournalStore(folder / "journal")
        return store

    def reopen(self, store: Store, folder: Path) -> Store:
        store.close()
        return self.make_store(folder)

    def open_backup(self, path: Path) -> Store:
        store: Store = JournalStore(path)
        return store


def test_half_a_line_is_as_if_it_had_never_been(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    store = JournalStore(path)
    (entry,) = store.create([a_task("a")], "me", Instant(T0))
    before = path.stat().st_size
    store.record(Batch(claims=[a_claim(entry.number)])).result()
    store.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5)
    store = JournalStore(path)
    assert list(store.progress()) == []
    assert path.stat().st_size == before
    store.close()


def test_a_disk_that_does_not_write_is_told(tmp_path: Path) -> None:
    store = JournalStore(tmp_path / "journal")
    store._file.close()
    store._file = Path("/dev/full").open("ab", buffering=0)  # noqa: SIM115 - the store closes it
    with pytest.raises(StoreError, match="nothing of this change"):
        store.create([a_task("a")], "me", Instant(T0))
    assert store.count() == 0
    store.close()


def test_an_app_runs_on_it_and_finds_everything_again(tmp_path: Path) -> None:
    for times in (1, 2):
        store = JournalStore(tmp_path / "journal")
        app = App(store=store, workers=1)
        app.command("echo", ["echo", "here"], every="1d")
        app.start()
        app.force("echo", wait=True)
        app.stop(wait=True)
        assert [run.output for run in app.history("echo")] == ["here\n"] * times
        store.close()


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with the module of the page, and modules that hold no store."""
    (tmp_path / "own_journal.py").write_text(CODE + OPEN + "\n\ndef not_a_store(read_only):\n    return 3\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("own_journal", None)


def evenbeat(folder: Path, *argv: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "evenbeat", *argv]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


DATABASE = "python:own_journal:open_journal"
(SHOWN,) = re.findall(r"^    def open_journal.*?$.*?^$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
OPEN = f"\n\n{dedent(SHOWN)}"


def test_a_node_and_the_commands_work_on_it(own: Path) -> None:
    (own / "a.toml").write_text('[tasks.hello]\ncron = "@reboot"\ncommand = ["echo", "hello"]\n')
    assert evenbeat(own, "add", "mine", "--every", "1d", "--db", DATABASE, "--", "true").returncode == 0
    up = evenbeat(own, "up", "a.toml", "--db", DATABASE, "--for", "2s", "--json")
    assert up.returncode == 0, up.stderr
    assert json.loads(up.stdout)["runs"] == 1
    shown = json.loads(evenbeat(own, "show", "hello", "--db", DATABASE, "--json").stdout)
    assert (shown["outcome"], shown["output"]) == ("succeeded", "hello\n")
    assert {path.name for path in own.iterdir()} - {"__pycache__"} == {
        "a.toml", "journal", "own_journal.py", f"{DATABASE}.lock",
    }  # fmt: skip


def test_a_live_node_on_it_is_asked_by_others(own: Path) -> None:
    node = subprocess.Popen(
        [sys.executable, "-m", "evenbeat", "up", "--db", DATABASE], cwd=own, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while evenbeat(own, "status", "--db", DATABASE).returncode:
            assert node.poll() is None
            assert time.monotonic() < deadline
        assert evenbeat(own, "add", "echo", "--every", "1d", "--db", DATABASE, "--", "echo", "hi").returncode == 0
        done = evenbeat(own, "run", "echo", "--wait", "--db", DATABASE)
        assert (done.returncode, done.stdout.strip()[-2:]) == (0, "hi")
        second = evenbeat(own, "up", "--db", DATABASE, "--for", "1s")
        assert second.returncode == 2
        assert "already" in second.stderr
    finally:
        node.terminate()
        assert node.wait(60) == 0


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("python:own_journal", "names no function, accepted: python:MODULE:FUNCTION"),
        ("python:nowhere:open", "No module named 'nowhere'"),
        ("python:own_journal:nothing", "has no attribute 'nothing'"),
        ("python:own_journal:not_a_store", "returned a int, which is no store"),
    ],
)
@pytest.mark.usefixtures("own")
def test_what_opens_no_store_is_refused(reference: str, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        open_store(reference)


@pytest.mark.usefixtures("own")
def test_a_store_that_cannot_be_opened_says_so() -> None:
    with pytest.raises(StoreError, match=f"{DATABASE} cannot be opened: .*journal"):
        open_store(DATABASE, read_only=True)


def test_what_needs_another_process_is_refused(own: Path) -> None:
    done = evenbeat(own, "up", "--db", DATABASE, "--listen", "0")
    assert done.returncode == 2
    assert "--listen: the API has a process of its own" in done.stderr


def test_a_database_in_memory_is_for_programs(tmp_path: Path) -> None:
    for argv in (("up", "--for", "1s"), ("add", "x", "--every", "1h"), ("ls",)):
        done = evenbeat(tmp_path, *argv, "--db", ":memory:")
        assert done.returncode == 2
        assert 'a database in memory is for a program: App(":memory:")' in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert isinstance(open_store(":memory:"), MemoryStore)
