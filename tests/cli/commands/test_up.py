"""A real node in a process of its own, and the commands that talk to it while it lives."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, eventually

from conftest import Evenbeat
from evenbeat.client.node_or_database import connect_to_live_node
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.requests import GetLiveTaskState

Up = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "live.db"
    monkeypatch.setenv("EVENBEAT_DB", str(path))
    return path


@pytest.fixture
def up(database: Path) -> Iterator[Up]:
    """Start nodes; when it returns, the node answers."""
    nodes: list[subprocess.Popen[str]] = []

    def start(*argv: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "evenbeat", "up", "--workers", "1", "--json", *argv]
        node = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        nodes.append(node)
        eventually(lambda: answers(database) or node.poll() is not None)
        return node

    yield start
    for node in nodes:
        node.kill()
        node.communicate()


def answers(database: Path) -> bool:
    client = connect_to_live_node(database)
    if client is not None:
        client.close()
    return client is not None


def stopped(node: "subprocess.Popen[str]", by: int = signal.SIGTERM) -> Any:
    """The summary of a node that is told to stop."""
    node.send_signal(by)
    out, err = node.communicate(timeout=PATIENCE)
    assert node.returncode == 0, err
    return json.loads(out)


def test_a_node_runs_what_is_due_and_sums_up(up: Up, evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(
        '[tasks.often]\nevery = "1s"\ncommand = ["noop"]\n[checks.bad]\nevery = "1s"\ncommand = ["false"]\n'
    )
    node = up(str(file), "--for", "3s")
    out, err = node.communicate(timeout=PATIENCE)
    summary = json.loads(out)
    assert summary.keys() == {"runs", "outcomes", "skipped", "lateness", "reason"}
    assert summary["outcomes"]["succeeded"] >= 2
    assert summary["outcomes"]["failed"] >= 2
    assert summary["lateness"].keys() == {"p50", "p99", "max"}
    assert 'action=state message="bad is WARNING (SOFT, attempt 1 of 3)" task=bad outcome=failed' in err
    assert "action=ready" in err
    runs = evenbeat("history", "-n", "100", "--json").json["runs"]
    assert len(runs) == summary["runs"]
    assert {run["state"] for run in runs if run["task"] == "bad"} == {"warning"}


def test_a_flood_of_failures_is_counted_and_not_listed(up: Up, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("".join(f'[tasks.t{i}]\nevery = "1s"\ncommand = ["nosuch"]\n' for i in range(100)))
    begun = time.monotonic()
    node = up(str(file), "--for", "4s")
    out, err = node.communicate(timeout=PATIENCE)
    seconds = int(time.monotonic() - begun) + 2  # of the clock that the node counts by, at most
    assert json.loads(out)["outcomes"].keys() == {"broken"}
    lines = [line for line in err.splitlines() if "action=failed" in line]
    assert 0 < len(lines) <= 10 * seconds
    assert "see `evenbeat history --failed`" in err


def test_a_forced_run_is_waited_for_and_its_output_shown(up: Up, evenbeat: Evenbeat) -> None:
    up()
    evenbeat("add", "hello", "--every", "1h", "--", "echo", "hi there")
    evenbeat("add", "fails", "--every", "1h", "--", "false")
    found = evenbeat("run", "hello", "--wait")
    assert found.code == 0
    assert "hello succeeded" in found.out
    assert "hi there" in found.out
    both = evenbeat("run", "hello", "fails", "--wait", "--json")
    assert both.code == 1
    assert [(run["task"], run["outcome"]) for run in both.json["runs"]] == [("hello", "succeeded"), ("fails", "failed")]
    assert evenbeat("run", "nobody").code == 2
    newest = eventually(lambda: evenbeat("history", "fails", "--json").json["runs"])[0]
    assert (newest["kind"], newest["outcome"], newest["status"]) == ("forced", "failed", 1)


def test_a_run_is_followed_to_its_end_and_read_afterwards(up: Up, evenbeat: Evenbeat, database: Path) -> None:
    up()
    gate = database.with_name("gate")
    evenbeat(
        "add",
        "x",
        "--every",
        "1h",
        "--shell",
        "--",
        f"echo one; until test -e {gate}; do sleep 0.02; done; echo two; exit 3",
    )
    assert evenbeat("logs", "x").code == 1
    command = [sys.executable, "-m", "evenbeat", "run", "x", "--follow"]
    following = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert following.stdout is not None
    assert following.stdout.readline() == "one\n"
    assert evenbeat("logs", "x").out == "one\n", "it is still under way"
    second = subprocess.Popen([sys.executable, "-m", "evenbeat", "logs", "x", "-f"], stdout=subprocess.PIPE, text=True)
    assert second.stdout is not None
    assert second.stdout.readline() == "one\n"
    gate.touch()
    out, err = following.communicate(timeout=PATIENCE)
    assert (following.returncode, out, err.splitlines()[-1]) == (1, "two\n", "x failed with status 3")
    assert second.communicate(timeout=PATIENCE)[0] == "two\n"
    assert evenbeat("logs", "x").out == "one\ntwo\n"
    found = evenbeat("logs", "x", "--json").json
    assert (found["output"], found["outcome"], found["status"]) == ("one\ntwo\n", "failed", 3)
    assert evenbeat("logs", "x", "--run", found["started"]).out == "one\ntwo\n"
    assert "`evenbeat history` lists the runs" in evenbeat("logs", "x", "--run", "2001-01-01").err
    assert "follows one task, found 2" in evenbeat("run", "x", "x", "--follow").err


def test_whoever_waits_for_a_forced_run_does_not_get_the_one_before_it(
    up: Up, evenbeat: Evenbeat, database: Path
) -> None:
    up()
    gate = database.with_name("gate")
    first = f"touch {gate}.began; while ! test -e {gate}; do sleep 0.02; done; echo first"
    script = f"test -e {gate} && echo second && exit; {first}"
    evenbeat("add", "x", "--every", "1h", "--shell", "--", script)
    evenbeat("run", "x")
    eventually(Path(f"{gate}.began").exists)
    waiting = subprocess.Popen(
        [sys.executable, "-m", "evenbeat", "run", "x", "--wait"], stdout=subprocess.PIPE, text=True
    )
    eventually(lambda: what_it_waits_for("x", database) == "waits for its running instance")
    gate.touch()
    out, _ = waiting.communicate(timeout=PATIENCE)
    assert "second" in out


@pytest.mark.parametrize("option", ["--wait", "--follow"])
def test_whoever_waits_for_a_forced_run_that_is_withdrawn_hears_who_has_stopped_it(
    up: Up, evenbeat: Evenbeat, database: Path, option: str
) -> None:
    up()
    evenbeat("add", "x", "--every", "1h", "--", "sleep", "100")
    evenbeat("run", "x")
    eventually(lambda: evenbeat("ls", "--state", "running", "--json").json["tasks"])
    waiting = subprocess.Popen(
        [sys.executable, "-m", "evenbeat", "run", "x", option], stderr=subprocess.PIPE, text=True
    )
    eventually(lambda: what_it_waits_for("x", database) == "waits for its running instance")
    assert "no task matches 'y*'" in evenbeat("stop", "y*").err
    evenbeat("stop", "x", "--reason", "wrong database")
    _, err = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 2
    assert re.search("evenbeat run: stopped by .*: wrong database$", err)


def what_it_waits_for(name: str, database: Path) -> str:
    """As the live node has it, whatever else is known of the task."""
    store = SqliteStore(database, read_only=True)
    entry = store.find(name)
    store.close()
    client = connect_to_live_node(database)
    assert entry is not None
    assert client is not None
    moment = client.ask(GetLiveTaskState(entry.number)).moment
    client.close()
    return "" if moment is None else moment.waiting


def test_why_knows_who_waits_for_a_slot(up: Up, evenbeat: Evenbeat) -> None:
    up("--max-concurrent", "1")
    evenbeat("add", "long", "--every", "1h", "--timebox", "10m", "--", "sleep", "100")
    evenbeat("add", "next", "--every", "1h", "--", "noop")
    evenbeat("run", "long")
    eventually(lambda: "long is running" in evenbeat("why", "long").out)
    evenbeat("run", "next")
    eventually(lambda: evenbeat("status", "--json").json["waiting"] == 1)
    found = evenbeat("why", "next", "--json").json
    assert found["answer"].startswith("next is due and waits for a slot")
    assert any("1 of 1 slots are taken" in reason for reason in found["reasons"])
    assert [task["name"] for task in evenbeat("ls", "--state", "running", "--json").json["tasks"]] == ["long"]


def test_tasks_change_while_the_node_lives(up: Up, evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text('[tasks.a]\nevery = "1h"\ncommand = ["noop"]\n')
    up(str(file))
    assert evenbeat("status", "--json").json["tasks"] == 1
    evenbeat("add", "b", "--every", "1h", "--", "noop")
    assert evenbeat("status", "--json").json["tasks"] == 2
    assert evenbeat("set", "b", "every=2h").code == 0
    assert "every 2h" in evenbeat("why", "b").out
    evenbeat("pause", "b")
    assert evenbeat("status", "--json").json["disabled"] == 1
    evenbeat("rm", "b")
    file.write_text('[tasks.a]\nevery = "1h"\ncommand = ["noop"]\n[tasks.c]\nevery = "1h"\ncommand = ["noop"]\n')
    assert evenbeat("reload", "--json").json["created"] == ["c"]
    assert evenbeat("status", "--json").json["tasks"] == 2
    file.write_text("[tasks.a")
    found = evenbeat("reload")
    assert found.code == 2
    assert str(file) in found.err
    assert evenbeat("status", "--json").json["tasks"] == 2
    assert evenbeat("backup", str(tmp_path / "copy.db")).code == 0


def test_a_second_node_is_refused_by_whatever_path(up: Up, evenbeat: Evenbeat, database: Path) -> None:
    node = up()
    link = database.with_name("link.db")
    link.symlink_to(database)
    for path in (database, link):
        found = evenbeat("up", "--db", str(path))
        assert found.code == 2
        assert f"(process {node.pid})" in found.err
    assert evenbeat("status", "--db", str(link)).code == 0


def test_whoever_waits_for_a_run_of_a_node_that_stops_is_told(up: Up, evenbeat: Evenbeat) -> None:
    node = up()
    evenbeat("add", "x", "--every", "1h", "--timebox", "10m", "--", "sleep", "100")
    waiting = subprocess.Popen(
        [sys.executable, "-m", "evenbeat", "run", "x", "--wait"], stdout=subprocess.PIPE, text=True
    )
    eventually(lambda: evenbeat("status", "--json").json["pending"] == 1)
    node.send_signal(signal.SIGINT)
    assert node.stderr is not None
    assert any("action=stopping" in line for line in iter(node.stderr.readline, ""))  # two signals at once are one
    summary = stopped(node, signal.SIGINT)
    assert summary["outcomes"] == {"interrupted": 1}
    out, _ = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 1
    assert "interrupted" in out


def test_a_stop_waits_for_runs_and_a_second_signal_does_not(up: Up, evenbeat: Evenbeat) -> None:
    node = up()
    evenbeat("add", "long", "--every", "1h", "--timebox", "10m", "--", "sleep", "100")
    evenbeat("run", "long")
    eventually(lambda: evenbeat("status", "--json").json["pending"] == 1)
    node.send_signal(signal.SIGINT)
    assert node.stderr is not None
    lines = iter(node.stderr.readline, "")
    assert any("action=waiting" in line and "waiting for long; Ctrl-C again stops at once" in line for line in lines)
    summary = stopped(node, signal.SIGINT)
    assert summary["outcomes"] == {"interrupted": 1}
    assert summary["reason"] == "SIGINT"
    assert evenbeat("history", "--failed", "--json").json["runs"][0]["outcome"] == "interrupted"


def test_what_was_missed_while_no_node_lived_is_told(up: Up, evenbeat: Evenbeat) -> None:
    node = up()
    evenbeat("add", "x", "--every", "1s", "--missed", "skip", "--", "noop")
    eventually(lambda: evenbeat("history", "x", "--json").json["runs"])
    stopped(node)
    gap = time.time()
    eventually(lambda: time.time() > gap + 2.5)
    up()
    skips = eventually(lambda: evenbeat("history", "x", "--skips", "--json").json["skips"])
    assert skips[-1]["reason"] == "missed while stopped"
    assert skips[-1]["times"] >= 2
    answer = evenbeat("why", "x", "--at", skips[-1]["first"], "--json").json["answer"]
    assert answer == "x did not run then: missed while stopped."
    assert "missed while stopped" in evenbeat("history", "x", "-n", "100").out


def test_a_terminal_shows_a_few_lines_and_what_is_worth_reading(database: Path, evenbeat: Evenbeat) -> None:
    evenbeat("add", "fails", "--every", "1s", "--shell", "--", "echo no luck; exit 3")
    terminal, other = pty.openpty()
    command = [sys.executable, "-m", "evenbeat", "up", "--workers", "1"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    node = subprocess.Popen(command, stdin=other, stdout=other, stderr=other, env=environment)
    os.close(other)
    reading = select.poll()
    reading.register(terminal, select.POLLIN)
    shown = ""
    deadline = time.monotonic() + PATIENCE
    while not ("fails failed with status 3: no luck" in shown and "Ctrl-C stops" in shown and "1 tasks" in shown):
        assert time.monotonic() < deadline, shown
        if reading.poll(100):
            shown += os.read(terminal, 65536).decode(errors="replace")
    node.send_signal(signal.SIGINT)
    assert node.wait(PATIENCE) == 0
    os.close(terminal)


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--workers", "-1"], "--workers: -1 is out of range"),
        (["--max-concurrent", "-1"], "--max-concurrent: -1 is out of range"),
        (["--for", "soon"], "--for"),
        (["nosuch.toml"], "nosuch.toml"),
    ],
)
def test_bad_options_start_nothing(evenbeat: Evenbeat, argv: list[str], problem: str) -> None:
    found = evenbeat("up", *argv)
    assert found.code == 2
    assert problem in found.err


def test_a_run_that_was_to_be_stopped_is_not_made_again_after_kill_9(up: Up, evenbeat: Evenbeat) -> None:
    node = up()
    evenbeat("add", "stubborn", "--every", "1d", "--shell", "--", "trap '' TERM; while :; do sleep 0.1; done")
    evenbeat("run", "stubborn")
    eventually(lambda: evenbeat("ls", "stubborn", "--json").json["tasks"][0]["running_since"])
    assert evenbeat("stop", "stubborn", "--reason", "wrong database").out == "stubborn: its run ends now\n"
    node.kill()
    node.wait()
    up()
    (run,) = eventually(lambda: evenbeat("history", "stubborn", "--json").json["runs"])
    assert (run["outcome"], "wrong database" in run["output"]) == ("cancelled", True)
    assert evenbeat("ls", "stubborn", "--json").json["tasks"][0]["running_since"] is None
