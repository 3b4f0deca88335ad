import pytest

from conftest import Evenbeat
from evenbeat.bench import spawn as bench_spawn


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_spawn, "RUNS", 40)
    monkeypatch.setattr(bench_spawn, "WARM", 4)
    monkeypatch.setattr(bench_spawn, "SLOTS", 8)  # not all at once: some must be left when the first ones have ended


@pytest.mark.usefixtures("small")
def test_spawning_is_measured_beside_a_bare_loop(evenbeat: Evenbeat) -> None:
    found = evenbeat("bench", "spawn", "--pairs", "2", "--json").json
    assert len(found) >= 2
    for measure in found.values():
        assert list(measure) == ["ours", "baseline", "ratio", "pairs"]
        assert len(measure["pairs"]) == 2
        assert measure["ratio"] > 0


@pytest.mark.usefixtures("small")
def test_a_machine_without_a_compiler_says_what_it_ran_instead(
    evenbeat: Evenbeat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert "no C compiler" in evenbeat("bench", "spawn", "--pairs", "1").out


def test_there_is_no_picture_of_it(evenbeat: Evenbeat) -> None:
    assert evenbeat("bench", "spawn", "--plot", "x.png").code == 2
