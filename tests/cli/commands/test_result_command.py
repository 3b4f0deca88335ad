"""Results and tokens from the command line, with a node and without one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from live_node import LiveNode

from conftest import Evenbeat
from evenbeat.client.socket import SocketBackend
from evenbeat.wire.requests import HeartbeatSignal, SendHeartbeat


@pytest.fixture(scope="module")
def live_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNode]:
    with LiveNode(tmp_path_factory.mktemp("node") / "a.db") as node:
        yield node


@pytest.fixture
def live(live_node: LiveNode, monkeypatch: pytest.MonkeyPatch, evenbeat: Evenbeat) -> Iterator[LiveNode]:
    """A node with a passive check."""
    monkeypatch.setenv("EVENBEAT_DB", str(live_node.database))
    assert evenbeat("add", "backup", "--passive", "--cron", "0 2 * * *", "--grace", "1h").code == 0
    yield live_node
    evenbeat("rm", "backup")


def shown(evenbeat: Evenbeat, name: str = "backup") -> Any:
    return evenbeat("show", name, "--json").json


@pytest.mark.usefixtures("live")
class TestWithANode:
    def test_a_result_is_told_and_shown(self, evenbeat: Evenbeat) -> None:
        found = evenbeat("result", "backup", "critical", "disk full | free=0B")
        assert (found.code, found.out) == (0, "backup is CRITICAL\n")
        document = shown(evenbeat)
        assert (document["check"], document["state"], document["output"]) == (True, "critical", "disk full | free=0B")
        assert [run["kind"] for run in document["runs"]] == ["told"]
        found = evenbeat("result", "backup", "0", "--json")
        assert found.json == {"task": "backup", "state": "ok", "hard": True, "attempt": 1, "newest": True}

    def test_one_of_another_time_may_be_older(self, evenbeat: Evenbeat) -> None:
        evenbeat("result", "backup", "ok", "--ttl", "10m")
        found = evenbeat("result", "backup", "unknown", "--at", "2020-01-01T00:00")
        assert found.out == "backup is still OK: a newer result was known\n"

    @pytest.mark.parametrize(
        ("argv", "message"),
        [
            (("backup", "fine"), "'fine' is not a status, accepted: ok, warning, critical, unknown, or 0 to 3"),
            (("backup", "4"), "'4' is not a status"),
            (("back", "0"), "there is no task 'back'; did you mean 'backup'?"),
            (("backup", "0", "--ttl", "x"), "--ttl"),
            (("backup", "0", "--at", "2100-01-01"), "at: a result of "),
        ],
    )
    def test_what_cannot_be_told_is_bad_input(self, evenbeat: Evenbeat, argv: tuple[str, ...], message: str) -> None:
        found = evenbeat("result", *argv)
        assert found.code == 2
        assert message in found.err
        assert shown(evenbeat)["runs"] == []

    def test_show_why_and_history_know_that_it_does_not_run(self, evenbeat: Evenbeat) -> None:
        why = evenbeat("why", "backup").out
        assert "its results are submitted externally, and the next is expected on " in why
        assert "it becomes CRITICAL if none is submitted by " in why
        assert "no result has been submitted yet" in why
        evenbeat("result", "backup", "warning", "slow")
        assert "the last result was submitted" in evenbeat("why", "backup").out
        text = evenbeat("show", "backup").out
        assert "passive check" in text
        assert "next result expected" in text
        assert "WARNING" in evenbeat("history", "backup").out
        assert "backup" in evenbeat("ls").out
        when = shown(evenbeat)["runs"][0]["claimed"]
        assert "did not run then, but a result was submitted" in evenbeat("why", "backup", "--at", when).out

    def test_it_cannot_be_run(self, evenbeat: Evenbeat) -> None:
        found = evenbeat("run", "backup")
        assert found.code == 2
        assert "'backup' is a passive check: it has nothing to run" in found.err

    def test_with_a_command_it_can_be_run_and_is_when_no_result_came(self, evenbeat: Evenbeat) -> None:
        keys = ("--passive", "--every", "1h", "--when-missing", "warning")
        assert evenbeat("add", "disk", *keys, "--", "echo", "fine").code == 0
        assert "its command is run if none is submitted by " in evenbeat("why", "disk").out
        assert evenbeat("run", "disk", "--wait").code == 0
        document = json.loads(evenbeat("show", "disk", "--json").out)
        assert (document["state"], document["output"], document["task"]["passive"]) == ("ok", "fine\n", True)
        assert evenbeat("set", "disk", "command=").code == 0
        assert "it becomes WARNING if none is submitted by " in evenbeat("why", "disk").out
        assert evenbeat("rm", "disk").code == 0

    def test_a_token_is_told_once_and_taken_away(self, evenbeat: Evenbeat, live: LiveNode) -> None:
        token = evenbeat("heartbeat", "backup").out.strip()
        client = SocketBackend(live.database)
        taken = client.ask(SendHeartbeat(token, HeartbeatSignal.SUCCESS, "curl")).taken
        client.close()
        assert taken is not None
        assert taken.task == "backup"
        assert "no node serves the API here" in evenbeat("heartbeat", "backup", "--test").err
        assert evenbeat("heartbeat", "backup", "--drop", "--json").json == {"task": "backup", "token": None}
        assert evenbeat("heartbeat", "backup", "--drop").code == 2


def test_without_a_node_there_is_nobody_to_tell(
    evenbeat: Evenbeat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_DB", str(tmp_path / "a.db"))
    evenbeat("add", "backup", "--passive", "--every", "1h")
    found = evenbeat("result", "backup", "ok")
    assert found.code == 2
    assert "no node is running on" in found.err
    assert "evenbeat up" in found.err


def test_passive_checks_make_no_load(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    passive = "".join(f'[checks.p{i}]\npassive = true\nevery = "10s"\n' for i in range(50))
    file.write_text(f'[tasks.a]\nevery = "10s"\nphase = "5s"\n{passive}')
    assert evenbeat("simulate", str(file), "--for", "10m", "--json").json["runs"] == 60
    loads = json.loads(evenbeat("spread", str(file), "--for", "10m", "--json").out)
    assert loads["strategies"]["even"]["mean"] == pytest.approx(0.1)
