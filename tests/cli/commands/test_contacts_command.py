"""`evenbeat contacts`: listed, defined, removed and tested; without a node and with one that reaches real receivers."""

from pathlib import Path

import pytest
from live_node import LiveNode
from message_receivers import HttpReceiver, SmtpReceiver

from conftest import Evenbeat


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "a.db"
    monkeypatch.setenv("EVENBEAT_DB", str(path))
    return path


@pytest.mark.usefixtures("database")
class TestWithoutANode:
    def test_a_contact_is_defined_in_a_new_database_changed_key_by_key_and_removed(self, evenbeat: Evenbeat) -> None:
        assert evenbeat("contacts", "set", "ops", "email=ops@example.org", "states=critical").out == "created ops\n"
        assert evenbeat("contacts", "set", "ops", 'email=["a@b.example", "c@d.example"]', "states=").code == 0
        (found,) = evenbeat("contacts", "--json").json["contacts"]
        assert found == {
            "name": "ops",
            "owner": "api",
            "places": [
                {"kind": "email", "shown": "a@b.example, c@d.example", "blocked": False}
                | {"failing": False, "latest": None}
            ],
            "period": None,
            "states": [],
            "per_hour": 60,
            "tasks": 0,
            "definition": {"email": ["a@b.example", "c@d.example"]},
        }
        assert evenbeat("contacts", "rm", "ops").out == "removed ops\n"
        assert evenbeat("contacts").out.startswith("no contacts: nobody is notified")

    def test_they_are_listed_with_their_places_without_secrets_and_their_uses(self, evenbeat: Evenbeat) -> None:
        made = evenbeat("contacts", "set", "boss", "send=slack://S3CRET/x", 'command=["notify", "S3CRET"]')
        assert "send: every user of this machine can read this URL" in made.err
        assert "S3CRET" not in made.err
        assert evenbeat("contacts", "set", "mail", "email=a@b.example", "smtp=smtp://localhost:2525").err == ""
        password = evenbeat("contacts", "set", "mail", "smtp=smtps://me:S3CRET@mail.example")
        assert "smtp: every user of this machine can read this URL" in password.err
        assert evenbeat("contacts", "rm", "mail").code == 0
        assert evenbeat("contacts", "set", "ops", "webhook=env:HOOK", "secret=env:KEY").err == ""
        for name, more in (("a", ()), ("b", ("--notify", '{ to = "boss", after = "30m" }'))):
            assert evenbeat("add", name, "--every", "1m", "--notify", "ops", *more, "--", "true").code == 0
        listed = evenbeat("contacts").out
        assert [line.split() for line in listed.splitlines()[1:]] == [
            ["boss", "send", "slack://...,", "command", "notify", "all", "problems", "1", "task"],
            ["ops", "webhook", "env:HOOK", "all", "problems", "2", "tasks"],
        ]

    @pytest.mark.parametrize(
        ("argv", "problem"),
        [
            (("set", "ops"), "KEY=VALUE"),
            (("set",), "which contact?"),
            (("set", "ops", "email"), "'email' is not KEY=VALUE"),
            (("set", "ops", "email=x"), "email.0: 'x' is not a mail address"),
            (("set", "ops", "emial=a@b"), "'emial' is not a key here"),
            (("set", "ops", "period=nights"), "a contact without a place"),
            (("rm", "ops"), "there is no"),
            (("rm", "ops", "boss=1"), "takes one name"),
            (("ls", "ops"), "takes no name"),
            (("tst", "ops"), "'tst' is none of ls, show, set, rm, test"),
            (("ops",), "there is no"),
            (("show",), "which contact?"),
            (("test", "ops"), "there is no database"),
        ],
    )
    def test_what_is_wrong_is_refused(self, evenbeat: Evenbeat, argv: tuple[str, ...], problem: str) -> None:
        result = evenbeat("contacts", *argv)
        assert (result.code, problem in result.err) == (2, True), result.err

    def test_a_contact_that_a_task_names_stays(self, evenbeat: Evenbeat) -> None:
        evenbeat("contacts", "set", "ops", "email=ops@example.org")
        evenbeat("add", "a", "--every", "1m", "--notify", "ops", "--repeat", "4h", "--gather", "10s", "--", "true")
        assert "the contact 'ops' cannot go: the task 'a' of " in evenbeat("contacts", "rm", "ops").err
        task = evenbeat("show", "a", "--json").json["task"]
        assert (task["notify"], task["repeat"], task["gather"]) == (["ops"], "4h", "10s")
        assert "there is no contact 'opps', did you mean 'ops'?" in evenbeat("set", "a", "notify=opps").err
        assert evenbeat("set", "a", "notify=").code == 0
        assert evenbeat("contacts", "rm", "ops").code == 0

    def test_a_test_takes_a_node(self, evenbeat: Evenbeat, database: Path) -> None:
        evenbeat("contacts", "set", "ops", "email=ops@example.org")
        tested = evenbeat("contacts", "test", "ops")
        assert (tested.code, tested.err) == (
            2,
            f"evenbeat contacts: no node is running on {database}; `evenbeat up --db {database}` starts one\n",
        )

    def test_a_contact_of_a_file_says_that_the_file_wins(self, evenbeat: Evenbeat, tmp_path: Path) -> None:
        file = tmp_path / "a.toml"
        file.write_text('[contacts.ops]\nemail = "ops@example.org"\n')
        assert evenbeat("apply", str(file)).out == "contacts, periods, limits or settings changed\n"
        changed = evenbeat("contacts", "set", "ops", "per_hour=5")
        assert f"ops comes from {file}: your change is overwritten when that file is next applied" in changed.err


def test_a_test_message_goes_to_every_place_and_its_fate_is_told(
    evenbeat: Evenbeat, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SmtpReceiver() as mail, HttpReceiver() as web:
        monkeypatch.setenv("TEST_HOOK", web.url("ok"))
        with LiveNode(database, grace=0.1):
            smtp = f"smtp=smtp://127.0.0.1:{mail.port}"
            evenbeat("contacts", "set", "ops", "email=ops@example.org", smtp, "webhook=env:TEST_HOOK")
            file = database.parent / "node.toml"
            file.write_text('[node]\npage = "https://evenbeat.example.org/"\n')
            evenbeat("apply", str(file))
            fine = evenbeat("contacts", "test", "ops")
            assert fine.code == 0, fine
            assert [line.partition(":")[0] for line in fine.out.splitlines()] == [
                "webhook env",
                "email ops@example.org",
            ]
            assert fine.out.count("delivered") == 2
            assert (len(web.wait_for(1)), len(mail.wait_for(1))) == (1, 1)
            document = web.wait_for(1)[0].document
            assert (document["test"], document["link"]) == (True, "https://evenbeat.example.org/")
            evenbeat("contacts", "set", "ops", "webhook=http://127.0.0.1:1/S3CRET")
            half = evenbeat("contacts", "test", "ops", "--json")
            assert half.code == 1
            assert [(place["kind"], place["delivered"]) for place in half.json["places"]] == [
                ("webhook", False),
                ("email", True),
            ]
            assert half.json["places"][0]["error"]
            assert "S3CRET" not in half.out
            assert evenbeat("contacts", "test", "nobody").err == "evenbeat contacts: there is no contact 'nobody'\n"
            tested = evenbeat("audit", "contact ops", "--json").json["changes"][0]
            assert (tested["action"], tested["name"]) == ("tested", "contact ops")
