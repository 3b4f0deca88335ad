"""How long history is kept: what files say, and what counts for a database of before there was `keep_runs`."""

import logging
from pathlib import Path

import pytest
from compacted_history import START, CompactedHistory

from evenbeat.admin.history_settings import settle_default, stored_retention
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.core.retention import Retention
from evenbeat.load.config import Config, NodeSettings
from evenbeat.load.files import load_file
from evenbeat.model import DAY, HOUR, Instant, Invalid
from evenbeat.store.memory import MemoryStore
from evenbeat.testing.samples import T0


def apply(store: MemoryStore, owner: str, node: NodeSettings) -> None:
    TaskAdmin(store, lambda: Instant(T0)).apply_config(owner, Config((), {}, {}, node), "test")


class TestDefault:
    def test_of_a_new_database_every_run_stays_for_two_days(self, caplog: pytest.LogCaptureFixture) -> None:
        store = MemoryStore()
        settle_default(store)
        assert stored_retention(store) == Retention(2 * DAY, 30 * DAY, 400 * DAY)
        CompactedHistory(store, Retention(DAY, DAY)).record(1, START)
        settle_default(store)  # the next start, and there are runs
        assert stored_retention(store).keep_runs == 2 * DAY
        assert not caplog.records

    def test_a_database_that_has_runs_goes_on_as_before(self, caplog: pytest.LogCaptureFixture) -> None:
        store = MemoryStore()
        CompactedHistory(store, Retention(DAY, DAY)).record(1, START)
        with caplog.at_level(logging.WARNING):
            settle_default(store)
            settle_default(store)
        assert stored_retention(store) == Retention(30 * DAY, 30 * DAY, 400 * DAY)
        (said,) = caplog.messages
        assert 'with `keep_runs = "2d"` in [node]' in said
        apply(store, "program", NodeSettings(keep=10 * DAY))
        assert stored_retention(store) == Retention(10 * DAY, 10 * DAY, 400 * DAY)
        apply(store, "program", NodeSettings(keep_runs=3 * DAY))
        assert stored_retention(store) == Retention(3 * DAY, 30 * DAY, 400 * DAY)


class TestFiles:
    def test_what_is_kept_less_long_than_two_days_has_no_runs_for_longer(self) -> None:
        store = MemoryStore()
        apply(store, "program", NodeSettings(keep=HOUR))
        assert stored_retention(store) == Retention(HOUR, HOUR, 400 * DAY)

    def test_every_run_for_longer_than_what_is_kept_for_longer_is_refused(self) -> None:
        store = MemoryStore()
        words = r"`keep_runs` \(5d\) is longer than `keep` \(4d\), accepted: at most as long"
        with pytest.raises(Invalid, match=words):
            apply(store, "program", NodeSettings(keep=4 * DAY, keep_runs=5 * DAY))
        with pytest.raises(Invalid, match=r"`keep_runs` \(31d\) is longer than `keep` \(30d\)"):
            apply(store, "program", NodeSettings(keep_runs=31 * DAY))

    def test_of_two_owners_together_too(self) -> None:
        store = MemoryStore()
        apply(store, "app:one", NodeSettings(keep_runs=5 * DAY))
        with pytest.raises(Invalid, match=r"`keep_runs` \(5d\) is longer than `keep` \(4d\)"):
            apply(store, "app:two", NodeSettings(keep=4 * DAY))
        apply(store, "app:two", NodeSettings(keep=5 * DAY))
        assert stored_retention(store) == Retention(5 * DAY, 5 * DAY, 400 * DAY)


def test_a_file_says_it(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[node]\nkeep = "10d"\nkeep_runs = "36h"\n')
    node = load_file(file).node
    assert node is not None
    assert (node.keep, node.keep_runs) == (10 * DAY, 36 * HOUR)
