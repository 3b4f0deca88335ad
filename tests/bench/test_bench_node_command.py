import pytest

from conftest import Evenbeat
from evenbeat.bench import history_size
from evenbeat.bench import node as bench_node
from evenbeat.bench import store as bench_store
from evenbeat.bench.bare_node import BaselineNode
from evenbeat.model import Job


def test_a_whole_node_is_measured_by_runs_that_have_ended_and_are_in_its_store() -> None:
    assert bench_node.throughput(Job(command=("noop",)), tasks=60, warm=5, slots=20) > 0


def test_the_bare_path_is_measured() -> None:
    assert BaselineNode.throughput(60) > 0


def test_the_store_is_measured_beside_a_bare_loop(evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_store, "_TASKS", 100)
    monkeypatch.setattr(bench_store, "_RUNS", 50)
    monkeypatch.setattr(bench_store, "_BATCH", 10)
    monkeypatch.setattr(history_size, "_TASKS", 50)
    monkeypatch.setattr(history_size, "_MINUTES", 30)
    found = evenbeat("bench", "store", "--pairs", "1", "--json").json
    assert list(found.pop("run_sizes")) == ["without_output", "load_line"]
    assert set(found) == {"store_awaited", "store"}
    assert all(list(measure) == ["ours", "baseline", "ratio", "pairs"] for measure in found.values())
