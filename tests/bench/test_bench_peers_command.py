import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import Evenbeat
from evenbeat.bench.peers import running
from evenbeat.bench.peers.bench import Contender, Measure, measures, run_measures, selected
from evenbeat.bench.peers.function_callers import function_callers
from evenbeat.bench.peers.sizes import Sizes
from evenbeat.bench.peers.words import lines_of

PEERS_PYTHON = os.environ.get("EVENBEAT_PEERS_PYTHON")
"""The Python where APScheduler, Celery and huey are installed, if it is another one than that of the tests."""

TINY = Sizes(
    seconds=3,
    warm_up=2,
    overload_checks=40,
    overload_functions=40,
    offered_checks=20,
    offered_functions=20,
    offered_every=1,
    spread_checks=5,
    spread_every=1,
    start_checks=30,
    start_every=1,
    start_most_seconds=60,
    settle_seconds=0,
)
_REAL = [
    (measure.name, contender.name)
    for measure in measures(TINY, PEERS_PYTHON)
    for contender in measure.contenders
    if measure.name in ("offered", "functions_offered", "start", "spread") or contender.name == "loop"
]


@pytest.mark.parametrize(("measure_name", "contender_name"), _REAL)
def test_each_contender_is_really_measured(measure_name: str, contender_name: str) -> None:
    found = selected(measures(TINY, PEERS_PYTHON), f"{measure_name},{contender_name}")
    (measure,) = found
    missing = measure.missing() or measure.contenders[0].missing()
    if missing is not None:
        pytest.skip(missing)
    (measured,) = run_measures(found, TINY, 1)
    assert measured.missing == []
    figures = measured.figures[contender_name]
    assert all(math.isfinite(value) for values in figures.values() for value in values), figures
    assert figures.get("runs_per_s", [1.0])[0] > 0
    assert figures.get("start_peak", [1.0])[0] >= 1.0
    assert figures.get("memory_mb", [1.0])[0] > 0


@pytest.mark.parametrize("session", ["", "setsid "])
def test_no_contender_and_no_folder_is_left(session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_STOP_SECONDS", 0.2)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    stubborn = f"trap '' TERM; {session}sleep 600 & echo $! > {tmp_path}/child; wait"
    with (
        pytest.raises(KeyboardInterrupt),
        running.folder_for(None) as folder,
        running.running(["/bin/sh", "-c", stubborn], folder, None, {}) as contender,
    ):
        contender.wait_for(tmp_path / "child", 60)
        raise KeyboardInterrupt
    child = int((tmp_path / "child").read_text())
    assert not _runs(child)
    assert not folder.exists()


def test_a_child_whose_parent_died_is_stopped_too(tmp_path: Path) -> None:
    script = f"sleep 600 & echo $! > {tmp_path}/child"
    with running.folder_for(None) as folder, running.running(["/bin/sh", "-c", script], folder, None, {}) as contender:
        while not (tmp_path / "child").exists() or not (tmp_path / "child").read_text():
            time.sleep(0.01)
        with pytest.raises(running.ContenderFailed, match="ended with status 0"):
            contender.work(60)
    assert not _runs(int((tmp_path / "child").read_text()))


def test_a_contender_that_ends_by_itself_says_what_it_wrote_last(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "echo no license; exit 3"]
    with (
        running.folder_for(None) as folder,
        running.running(command, folder, None, {}) as contender,
        pytest.raises(running.ContenderFailed, match=r"status 3\. no license"),
    ):
        contender.wait_for(tmp_path / "never", 60)


def test_a_contender_that_does_not_begin_is_given_up(tmp_path: Path) -> None:
    with (
        running.folder_for(None) as folder,
        running.running(["/bin/sleep", "600"], folder, None, {}) as contender,
        pytest.raises(running.ContenderFailed, match="no run within 0 s"),
    ):
        contender.wait_for(tmp_path / "never", 0)


def test_one_that_fails_keeps_nothing_from_being_measured() -> None:
    def fail(_: Sizes) -> dict[str, float]:
        raise running.ContenderFailed("no license")

    def contender(name: str, measure: object, missing: str | None = None) -> Contender:
        return Contender(name, lambda: f"{name} 1.0", lambda: missing, measure)  # type: ignore[arg-type]

    order: list[str] = []

    def good(_: Sizes) -> dict[str, float]:
        order.append("good")
        return {"runs_per_s": 2_000.0 + 10 * len(order)}

    def other(_: Sizes) -> dict[str, float]:
        order.append("other")
        return {"p99_ms": 1.25}

    contenders = (
        contender("good", good),
        contender("bad", fail),
        contender("gone", fail, "gone is not installed: apt-get install gone"),
        contender("other", other),
    )
    (measured,) = run_measures([Measure("m", "The work", lambda: None, contenders)], TINY, 3)
    assert measured.missing[0] == "gone is not installed: apt-get install gone"
    assert measured.missing[1:] == [f"bad failed in round {i}: no license" for i in (1, 2, 3)]
    assert order == ["good", "other", "other", "good", "other", "good"], "another one begins each round"
    assert lines_of(measured, {"good": "good 1.0"})[:3] == [
        "[bold]The work[/bold]",
        "  good 1.0  runs/s 2,040 (2,010 to 2,060)",
        "  other     p99 ms 1.2 (1.2 to 1.2)",
    ]


def test_what_is_missing_says_how_to_install_it(evenbeat: Evenbeat, tmp_path: Path) -> None:
    found = evenbeat("bench", "peers", "--only", "functions,huey", "--peers-python", str(tmp_path / "python"), "--json")
    assert found.json["versions"] == {}
    assert found.json["measures"] == {"functions": {}}
    (line,) = found.json["missing"]["functions"]
    assert "pip install huey" in line
    assert "--peers-python" in line


def test_all_that_is_missing_has_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("nagios", "icinga"):
        monkeypatch.setattr(f"evenbeat.bench.peers.{module}.PROGRAM", tmp_path / "none")
    monkeypatch.setattr("evenbeat.bench.peers.check_measures.PLUGIN", tmp_path / "none")
    monkeypatch.setattr("shutil.which", lambda _: None)
    found = measures(TINY, str(tmp_path / "none"))
    said = " ".join(
        text for m in found for text in (m.missing(), *(c.missing() for c in m.contenders)) if text is not None
    )
    for package in ("nagios4-core", "icinga2-bin", "monitoring-plugins-basic", "gcc"):
        assert f"apt-get install {package}" in said
    for package in ("APScheduler", "celery", "huey"):
        assert f"pip install {package}" in said


def test_another_major_version_of_apscheduler_is_not_measured(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 4.0.0a6\n")
    python.chmod(0o755)
    (apscheduler,) = (caller for caller in function_callers(str(python)) if caller.name == "apscheduler")
    assert "version 3 is measured" in (apscheduler.missing() or "")


@pytest.mark.parametrize(
    ("words", "place"),
    [
        (["--only", "cron"], "--only"),
        (["--seconds", "1"], "--seconds"),
        (["--pairs", "0"], "--pairs"),
        (["--plot", "picture.jpg"], "--plot"),
    ],
)
def test_bad_options_change_nothing(evenbeat: Evenbeat, words: list[str], place: str) -> None:
    found = evenbeat("bench", "peers", *words)
    assert found.code == 2
    assert place in found.err


@pytest.mark.parametrize("words", [["--only", "nagios"], ["--seconds", "5"], ["--peers-python", "/usr/bin/python3"]])
def test_other_benches_have_no_peers(evenbeat: Evenbeat, words: list[str]) -> None:
    found = evenbeat("bench", "spawn", *words)
    assert found.code == 2
    assert "only `bench peers`" in found.err


def test_names_select_measures_and_contenders() -> None:
    found = measures(TINY, None)
    assert [m.name for m in selected(found, "start,spread")] == ["spread", "start"]
    assert [(m.name, [c.name for c in m.contenders]) for m in selected(found, "loop")] == [
        ("overload", ["loop"]),
        ("locale", ["loop"]),
    ]
    assert [c.name for m in selected(found, "start,evenbeat") for c in m.contenders] == ["evenbeat"]
    assert selected(found, None) == found


def test_sigterm_stops_the_contenders(tmp_path: Path) -> None:
    words = ["bench", "peers", "--only", "functions,evenbeat", "--pairs", "1", "--seconds", "60"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-P", "-m", "evenbeat", *words]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as bench:
        while not (databases := list(tmp_path.glob("evenbeat-peers-*/node.db"))):
            assert bench.poll() is None
            time.sleep(0.02)
        assert any(_has_open(pid, databases[0]) for pid in _pids())
        bench.send_signal(signal.SIGTERM)
        assert bench.wait() == 130
    assert list(tmp_path.iterdir()) == []
    assert not any(_has_open(pid, databases[0]) for pid in _pids())


def test_a_picture_is_drawn_of_what_was_measured(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from evenbeat.bench.peers.bench import Measured
    from evenbeat.bench.peers.drawing import draw_peers

    both = {
        "evenbeat": {"runs_per_s": [2_000.0, 2_100.0], "cpu_ms_per_run": [0.8, 0.9]},
        "nagios": {"runs_per_s": [1_400.0, 1_500.0], "cpu_ms_per_run": [1.1, 1.2]},
    }
    nothing = Measured("spread", "Spread", {}, ["no compiler"])
    path = tmp_path / "peers.png"
    draw_peers([Measured("overload", "Overload", both, []), nothing], {"nagios": "Nagios 4"}, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _has_open(pid: int, path: Path) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False
    return str(path) in command
