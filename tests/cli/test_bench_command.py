import pytest

from conftest import Evenbeat
from evenbeat.cli import bench_core
from evenbeat.cli.bench import Side, compare


def test_each_measure_has_the_promised_shape(evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in (("_ENTRIES", 30), ("_NAMES", 50), ("_BASELINE_NAMES", 20), ("_GRID", 1_000)):
        monkeypatch.setattr(bench_core, name, size)
    found = evenbeat("bench", "core", "--pairs", "2", "--json").json
    assert list(found) == ["one_off_cronsim", "evaluation_cronsim", "one_off_croniter", "shared_cache", "interval_grid"]
    for measure in found.values():
        assert list(measure) == ["ours", "baseline", "ratio", "pairs"]
        assert len(measure["pairs"]) == 2


def test_the_ratio_is_the_median_of_the_pairs_and_who_goes_first_alternates() -> None:
    order: list[str] = []

    def work(name: str) -> int:
        order.append(name)
        return sum(range(20_000))

    measure = compare("t", Side("o", lambda: work("ours"), 10), Side("b", lambda: work("base"), 10), pairs=3)
    assert order == ["ours", "base", "base", "ours", "ours", "base"]
    ratios = sorted(ours / base for ours, base in measure.pairs)
    assert measure.ratio == ratios[1]


def test_a_senseless_number_of_pairs_is_refused(evenbeat: Evenbeat) -> None:
    assert evenbeat("bench", "core", "--pairs", "0").code == 2
