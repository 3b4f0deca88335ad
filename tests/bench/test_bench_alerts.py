"""`evenbeat bench alerts`, small: what it counts is what a storm of problems makes, and nothing here is timed."""

import pytest

from conftest import Evenbeat
from evenbeat.bench import alerts as bench_alerts
from evenbeat.model import SECOND


def test_a_storm_makes_one_message_for_each_channel(evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {
        "_CHECKS": 500,
        "_TASKS": 50,
        "_EVERY": SECOND,
        "_SECONDS": 1.0,
        "_WARM_UP_SECONDS": 1.0,
        "_GATHER": 8 * SECOND,
        "_AFTER_SECONDS": 0.5,
    }
    for name, value in small.items():
        monkeypatch.setattr(bench_alerts, name, value)
    monkeypatch.setattr(bench_alerts, "_storms", [])
    found = evenbeat("bench", "alerts", "--pairs", "1", "--json").json
    assert list(found) == ["alerts_storm", "alerts_calm", "messages", "lateness_ms"]
    assert found["messages"] == [[500, 500]]
    assert found["lateness_ms"].keys() == {"calm", "storm"}
    assert all(list(found[name]) == ["ours", "baseline", "ratio", "pairs"] for name in ("alerts_storm", "alerts_calm"))
