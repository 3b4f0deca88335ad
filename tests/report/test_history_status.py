"""The size of the database as `status` shows it, and the warning long before its disk is full."""

import numpy as np
import pytest

from evenbeat.cli.output.status_lines import history_lines
from evenbeat.core.retention import Retention
from evenbeat.model import DAY, SECOND
from evenbeat.report.history_status import history_status, in_bytes, outgrown_disk_words
from evenbeat.store.history_contract import Layer, LayerSize, Part, StoreSize
from evenbeat.wire.status import HistoryStatus, LayerStatus

MB = 10**6
LAYERS = {"runs": LayerStatus(1_000_000, 15 * MB, 15.0)}


def a_status(*, forecast: int = 90 * MB, free: int | None = 1_000 * MB, rows: int = 1_000_000) -> HistoryStatus:
    layers = {"runs": LayerStatus(rows, 15 * rows, 15.0)}
    return HistoryStatus(50 * MB, MB, 2 * MB, 80 * MB, forecast, free, 2 * 86_400.0, 30 * 86_400.0, layers)


class TestWarning:
    def test_there_is_room(self) -> None:
        assert outgrown_disk_words(a_status()) is None
        assert outgrown_disk_words(a_status(free=None)) is None
        assert outgrown_disk_words(a_status(forecast=50 * MB, free=0)) is None

    def test_long_before_the_disk_is_full(self) -> None:
        assert outgrown_disk_words(a_status(forecast=1_050 * MB)) == (
            "the database outgrows its disk, in about 500 days: it becomes 1.1 GB with this retention, and 1.0 GB are "
            "free; keep less (`keep_runs`, `keep`), or give it a larger disk"
        )

    def test_defaults_warn_nobody(self) -> None:
        assert outgrown_disk_words(a_status(forecast=5_000 * MB, rows=10)) is None


class TestLines:
    def test_a_line_for_the_terminal(self) -> None:
        assert history_lines(None) == []
        assert history_lines(a_status()) == [
            "database: 50 MB, grows by 2.0 MB a day, becomes 90 MB: every run is kept for 2 d, what says more for 30 d"
            "; 1.0 GB are free on its disk"
        ]
        assert "outgrows its disk" in history_lines(a_status(forecast=1_050 * MB))[1]

    @pytest.mark.parametrize(
        ("size", "words"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (99 * MB, "99 MB"), (4 * 10**15, "4000 TB")]
    )
    def test_sizes_in_words(self, size: int, words: str) -> None:
        assert in_bytes(size) == words


def test_what_was_measured_counts() -> None:
    layers = dict.fromkeys(Layer, LayerSize(0, 0, 0)) | {
        Layer.RUNS: LayerSize(24, 144_000, 144_000 * 10),
        Layer.HOURS: LayerSize(2, 4_800, 4_800 * 40),
    }
    hours = [
        Part(1, Layer.HOURS, 0, 2_400, 2_400 * 20, 0, 0, is_merged=True),
        Part(2, Layer.HOURS, DAY, 2_400, 2_400 * 60, 0, 0),
    ]
    rates, retention = np.array([60.0] * 100), Retention(2 * DAY, 30 * DAY)
    size = StoreSize(4 * MB, MB, 0, layers)
    found = history_status(size, hours, rates, retention, DAY, 0.0, "")
    every_run, today, merged, rest = 6_000 * 48.5 * 10, 1_200 * 60, 70_800 * 20, 3 * MB - (1_440_000 + 192_000) * 1.1
    assert found.in_30_days == pytest.approx((every_run + today + merged) * 1.1 + rest, rel=0.2)
    assert (found.keep_runs, found.disk_free) == (2 * DAY / SECOND, None)
    assert found.layers["runs"] == LayerStatus(144_000, 1_440_000, 10.0)
