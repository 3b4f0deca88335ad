"""`evenbeat notifications`, `unack`, and the words of `downtime`: on a database whose node has stopped."""

import json
from pathlib import Path

import pytest
from notification_seeds import seed_notifications

from evenbeat.cli.main import main
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.documents import NotificationDocument


@pytest.fixture(autouse=True)
def _database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "evenbeat.db"
    monkeypatch.setenv("EVENBEAT_DB", str(path))
    store = SqliteStore(path)
    assert seed_notifications(store) == (1, 2)
    store.close()


def run(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    assert main(list(argv)) == code
    read = capsys.readouterr()
    return read.err if code else read.out


def test_every_decision_is_listed_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "notifications").splitlines()
    assert [line.split("  ", 1)[1].split(", by ")[0] for line in lines] == [
        "web  problem 1: ops was told that it is over",
        "web  problem 1: boss was not told: over before it was sent",
        "db  problem 2: ops was told of the problem",
        "web  problem 1: ops was told of the problem",
    ]
    found = json.loads(run(capsys, "notifications", "web", "--json"))
    assert not found["more"]
    assert [list(one) for one in found["notifications"]] == [list(NotificationDocument.__struct_fields__)] * 3
    over, unsent, sent = found["notifications"]
    assert (over["decision"], over["item"], over["message"], over["delivery"]) == ("sent", "recovery", 2, "waiting")
    assert (unsent["decision"], unsent["reason"], unsent["message"]) == ("suppressed", "over before it was sent", None)
    assert (sent["task"], sent["problem"], sent["delivery"], sent["error"]) == ("web", 1, "delivered", "")
    assert "S3CRET" not in json.dumps(found)


def test_they_are_selected_and_limited(capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(run(capsys, "notifications", "-n", "1", "--contact", "boss", "--json"))
    assert ([one["contact"] for one in found["notifications"]], found["more"]) == (["boss"], False)
    assert "and more; --limit shows more than 2" in run(capsys, "notifications", "-n", "2")
    assert run(capsys, "notifications", "--since", "2150-01-01") == "nothing was decided about any contact\n"
    assert run(capsys, "notifications", "web", "--contact", "eva") == "nothing was decided about any contact\n"
    assert "there is no task 'wbe'" in run(capsys, "notifications", "wbe", code=2)


def test_what_was_decided_about_a_removed_task_is_still_listed(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "rm", "web")
    assert len(run(capsys, "notifications", "web").splitlines()) >= 3


def test_unack_takes_back_what_ack_said(capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "ack", "db", "-m", "mine")
    assert run(capsys, "unack", "db") == "withdrawn: problem 2 of db\n"
    assert run(capsys, "unack", "--id", "2", code=1).startswith("evenbeat unack: ")
    run(capsys, "ack", "db")
    assert json.loads(run(capsys, "ack", "db", "--withdraw", "--json")) == {"ids": [2], "tasks": ["db"]}
    assert json.loads(run(capsys, "problems", "db", "--json"))["problems"][0]["acknowledged"] is None


@pytest.mark.parametrize(("to", "ls", "rm"), [("--to", "ls", "rm"), ("--until", "list", "end")])
def test_both_words_of_downtime(capsys: pytest.CaptureFixture[str], to: str, ls: str, rm: str) -> None:
    arguments = ["--from", "2150-01-01", to, "2150-02-01", "--json"]
    made = json.loads(run(capsys, "downtime", "add", "db", *arguments))
    assert made["until"] == "2150-02-01T00:00:00+00:00"
    assert json.loads(run(capsys, "downtime", ls, "--json")) == {"downtimes": [made]}
    assert json.loads(run(capsys, "downtime", rm, made["id"], "--json"))["id"] == made["id"]


def test_problems_say_whether_they_are_in_downtime(capsys: pytest.CaptureFixture[str]) -> None:
    (before,) = json.loads(run(capsys, "problems", "db", "--json"))["problems"]
    run(capsys, "downtime", "add", "db", "--for", "1h")
    (after,) = json.loads(run(capsys, "problems", "db", "--json"))["problems"]
    assert (before["in_downtime"], before.get("downtime")) == (False, None)
    assert (after["in_downtime"], after["downtime"]) == (True, True)
