from pathlib import Path
from types import ModuleType

import pytest

from conftest import Evenbeat
from evenbeat.bench import dependencies as bench_dependencies
from evenbeat.bench import growth as bench_growth
from evenbeat.bench import memory as bench_memory
from evenbeat.bench import segment as bench_segment
from evenbeat.bench import when as bench_when
from evenbeat.bench.measure import Contender, compare_in_pairs

_SMALL: list[tuple[ModuleType, dict[str, object]]] = [
    (bench_when, {"_ENTRIES": 30, "_NAMES": 50, "_BASELINE_NAMES": 20, "_GRID": 1_000}),
    (bench_segment, {"_TASKS": 500}),
    (bench_dependencies, {"_CHILDREN": 500, "_PARENTS": 50, "_MARKED": 300, "_SEGMENTS": 5}),
    (bench_memory, {"_TASKS": 2_000}),
    (bench_growth, {"_TASKS": 1_000, "_SIZES": (100, 1_000, 10**12)}),
]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, sizes in _SMALL:
        for name, size in sizes.items():
            monkeypatch.setattr(module, name, size)


@pytest.mark.usefixtures("small")
def test_each_measure_has_the_promised_shape(evenbeat: Evenbeat) -> None:
    found = evenbeat("bench", "core", "--pairs", "2", "--json").json
    # 15 of them for the open problem, holds and downtimes, 4 for dependencies, 4 for retries, 4 for longer_than
    assert found.pop("bytes_per_task")["columns"] <= 127
    assert found.pop("scan_ns_per_task") > 0
    assert found.pop("marking_ms") > 0
    when = ["one_off_cronsim", "evaluation_cronsim", "one_off_croniter", "shared_cache", "interval_grid"]
    baselines = ("heapq", "packed_heapq", "numpy")
    segments = [f"segment_{mix}_{b}" for mix in ("10s_1h", "5m_1h", "1h") for b in baselines]
    assert list(found) == [*when, *segments, "segment_dependencies"]
    for measure in found.values():
        assert list(measure) == ["ours", "baseline", "ratio", "pairs"]
        assert len(measure["pairs"]) == 2


@pytest.mark.usefixtures("small")
def test_the_picture_shows_the_sizes_that_fit_into_memory(evenbeat: Evenbeat, tmp_path: Path) -> None:
    picture = tmp_path / "segment.png"
    found = evenbeat("bench", "core", "--pairs", "1", "--plot", str(picture), "--json").json["segment_cost"]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert found.pop("left_out") == [10**12]
    assert list(found) == ["10s_1h", "1h"]
    for costs in found.values():
        assert [cost["tasks"] for cost in costs] == [100, 1_000]
        assert list(costs[0]) == ["tasks", "ours_ms", "numpy_ms"]


@pytest.mark.usefixtures("small")
def test_people_are_told_what_was_left_out(evenbeat: Evenbeat, tmp_path: Path) -> None:
    out = evenbeat("bench", "core", "--pairs", "1", "--plot", str(tmp_path / "segment.png")).out
    assert "left out: 1,000,000,000,000 tasks" in out
    assert "bytes" in out


def test_a_picture_that_cannot_be_drawn_is_refused_before_anything_is_measured(evenbeat: Evenbeat) -> None:
    result = evenbeat("bench", "core", "--plot", "segment.gif")
    assert (result.code, result.out) == (2, "")
    assert "'segment.gif' is not a .png file" in result.err


def test_the_ratio_is_the_median_of_the_pairs_and_who_goes_first_alternates() -> None:
    order: list[str] = []

    def work(name: str) -> int:
        order.append(name)
        return sum(range(20_000))

    measure = compare_in_pairs(
        "t", Contender("o", lambda: work("ours"), 10), Contender("b", lambda: work("base"), 10), pairs=3
    )
    assert order == ["ours", "base", "base", "ours", "ours", "base"]
    ratios = sorted(ours / base for ours, base in measure.pairs)
    assert measure.ratio == ratios[1]


def test_a_senseless_number_of_pairs_is_refused(evenbeat: Evenbeat) -> None:
    assert evenbeat("bench", "core", "--pairs", "0").code == 2
