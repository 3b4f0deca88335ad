"""A node is killed while a one-off, or a run with own arguments, waits or runs: it is made once, or said why not."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from killed_node import KilledNode
from sample_functions import append_line
from waiting import eventually

from evenbeat.app import App

DELAY = 2
"""Seconds until one-offs are due."""


@pytest.fixture
def killed(tmp_path: Path) -> Iterator[KilledNode]:
    node = KilledNode(tmp_path)
    node.start()
    yield node
    node.kill()


def restart_when_due(killed: KilledNode, due: float) -> None:
    killed.kill()
    eventually(lambda: time.time() > due, "it is due")
    killed.start()


def restart_once_more(killed: KilledNode) -> None:
    """After this, what would run again has done so: the new node has run something that was asked for later."""
    killed.kill()
    killed.start()
    killed.ask("add", "last", "--at", "2099-01-01", "--", "true")
    killed.ask("run", "last", "--wait")


def test_one_offs_whose_time_passes_while_no_node_runs_run_once(killed: KilledNode) -> None:
    killed.ask("add", "job", "--at", f"+{DELAY}s", "--shell", "--", f"echo command >> {killed.log}")
    later = App(str(killed.database)).later(append_line, [str(killed.log), "function"], DELAY)
    restart_when_due(killed, time.time() + DELAY)
    eventually(lambda: len(killed.lines()) >= 2, "both have run")
    restart_once_more(killed)
    assert sorted(killed.lines()) == ["command", "function"]
    assert [outcome for _, _, outcome in killed.runs() + killed.runs(later.name)] == ["succeeded"] * 2


@pytest.mark.parametrize("missed", ["once", "skip"])
def test_a_one_off_that_runs_is_lost_and_made_up_for_as_missed_says(killed: KilledNode, missed: str) -> None:
    line = f"echo ran >> {killed.log}; while [ ! -e {killed.gate} ]; do sleep 0.1; done"
    killed.ask("add", "job", "--at", "+1s", "--missed", missed, "--shell", "--", line)
    eventually(killed.lines, "it runs")
    killed.kill()
    killed.gate.touch()
    killed.start()
    if missed == "once":
        eventually(lambda: [outcome for _, _, outcome in killed.runs()][1:] == ["succeeded"], "it is made up for")
    restart_once_more(killed)
    made_up = [("catch-up", None, "succeeded")] if missed == "once" else []
    assert killed.runs() == [("grid", None, "lost"), *made_up]
    assert killed.lines() == ["ran"] * len(killed.runs())
    assert [p["cause"] for p in killed.ask("problems")["problems"]] == ["failed"] * (missed == "skip")


def test_a_run_with_arguments_of_its_own_that_waits_is_made_once_with_them(killed: KilledNode) -> None:
    line = f'echo "${{WORD:-plain}}$1" >> {killed.log}; while [ ! -e {killed.gate} ]; do sleep 0.1; done'
    killed.ask("add", "job", "--at", "2099-01-01", "--", "sh", "-c", line, "job")
    killed.ask("run", "job")
    eventually(killed.lines, "it runs")
    killed.ask("run", "job", "--arg", "a=1", "--env", "WORD=own")
    killed.kill()
    killed.gate.touch()
    killed.start()
    eventually(lambda: len(killed.runs()) == 2 and killed.runs()[-1][2] == "succeeded", "the one that waited has run")
    restart_once_more(killed)
    assert killed.lines() == ["plain", "owna=1"]
    assert killed.runs() == [("forced", None, "lost"), ("forced", None, "succeeded")]
