import pytest

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
