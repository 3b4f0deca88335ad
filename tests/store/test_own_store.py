"""The store that the documentation shows keeps the contract, and is as small as it says."""

import re
from pathlib import Path
from typing import Any

import pytest

from evenbeat.app import App
from evenbeat.model import Instant
from evenbeat.store.contract import Batch, Store, StoreError
from evenbeat.testing.samples import T0, a_claim, a_task
from evenbeat.testing.store import StoreContract

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "own-store.md"
(CODE,) = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)

shown: dict[str, Any] = {"__name__": "own_store"}
exec(compile(CODE, PAGE.name, "exec"), shown)
JournalStore = shown["JournalStore"]


def test_it_is_less_than_a_hundred_lines() -> None:
    assert len(CODE.splitlines()) < 100


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
