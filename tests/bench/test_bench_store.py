import pytest

from evenbeat.bench import history_size
from evenbeat.bench import store as bench_store


def test_both_sides_do_the_same_rows_and_each_measure_has_its_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_store, "_TASKS", 200)
    monkeypatch.setattr(bench_store, "_RUNS", 100)
    monkeypatch.setattr(bench_store, "_BATCH", 20)
    found = dict(bench_store.comparisons(pairs=2))
    assert list(found) == ["store_awaited", "store"]
    for measure in found.values():
        assert len(measure.pairs) == 2
        assert measure.ratio > 0


def test_a_packed_run_takes_less_than_in_the_log_also_with_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_size, "_TASKS", 200)
    monkeypatch.setattr(history_size, "_MINUTES", 20)
    ((key, found),) = bench_store.observations(None)
    assert key == "run_sizes"
    assert isinstance(found.value, dict)
    assert list(found.value) == ["without_output", "load_line"]
    for size in found.value.values():
        assert 0 < size["merged"] <= size["packed"] < size["logged"]
        assert size["pack_us"] > 0 < size["merge_us"]
    assert found.value["without_output"]["logged"] < 20
    assert found.value["load_line"]["logged"] < 25
    assert "bytes in the log" in found.text
