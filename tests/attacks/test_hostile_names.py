"""Names that cannot be addressed, or that read as another name, are refused by every path; old ones can be removed."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from hypothesis import example, given
from hypothesis import strategies as st
from live_node import LiveNode

from conftest import Evenbeat
from evenbeat.api.http.context import ApiContext
from evenbeat.app import App
from evenbeat.load.config import BadFileError
from evenbeat.load.crontab import parse_crontab
from evenbeat.load.importers.jenkins import import_jenkins
from evenbeat.load.importers.nagios import import_nagios
from evenbeat.load.safe_text import escaped_line, escaped_text, name_error, safe_json, safe_name, text_error
from evenbeat.model import Invalid
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_task

CONTROL = [
    "a\0b",
    "\x1b[2J",
    "a\nb",
    "a\rb",
    "\x7f",
    "a\x9b31m",
    "a\u202eb",
    "a\u2066b",
    "a\u200eb",
    "a\u2028b",
    "\u061ca",
]
"""Refused in every short text."""
UNADDRESSABLE = [".", "..", " a", "a ", "a\u00a0"]
"""Refused in names that stand in addresses."""
GOOD = [
    "a",
    "gw/ping",
    "a b",
    "...",
    ".a",
    "/",
    "ä",
    "日本",
    "a*",
    "100%",
    "a?b#c",
    "\u200b",
    "👩\u200d🚀",
    "a\\b",
    "x" * 256,
]
KEYS: dict[str, Any] = {"every": "1d", "command": ["noop"]}


@pytest.mark.parametrize("text", CONTROL)
def test_control_characters_and_marks_of_direction_are_refused(text: str) -> None:
    assert "accepted: no control characters" in text_error(text)
    assert name_error(text) == text_error(text)
    # Neither the refusal nor what becomes of it has such a character.
    assert not text_error(text_error(text))
    assert not name_error(safe_name(text))


@pytest.mark.parametrize("name", UNADDRESSABLE)
def test_names_that_mean_something_else_in_an_address_are_refused(name: str) -> None:
    assert text_error(name) == ""
    assert "accepted" in name_error(name)
    assert not name_error(safe_name(name))


@pytest.mark.parametrize("name", GOOD)
def test_other_names_are_accepted_and_can_be_addressed(api: ApiClient, name: str) -> None:
    assert name_error(name) == ""
    assert safe_name(name) == name
    where = api.post("/v1/tasks", json={"name": name, **KEYS}).headers["location"]
    assert api.get(where).json()["name"] == name
    assert api.ask("DELETE", f"/v1/tasks/{quote(name, safe='')}").status_code == 204


@given(st.text(st.characters(exclude_categories=[])))
@example("\ud800")
def test_no_text_that_is_shown_commands_a_terminal(text: str) -> None:
    assert text_error(escaped_line(text)) == ""
    assert text_error(escaped_text(text).replace("\n", "").replace("\t", "")) == ""
    assert escaped_text(escaped_text(text)) == escaped_text(text)
    assert not name_error(safe_name(text))
    if not text_error(text):
        assert escaped_line(text) == text


@given(st.recursive(st.text(st.characters(exclude_categories=[])), st.lists))
def test_json_that_commands_no_terminal_is_the_same_document(document: object) -> None:
    text = safe_json(json.dumps(document, ensure_ascii=False))
    assert text_error(text) == ""
    assert json.loads(text) == document


@pytest.mark.parametrize("name", [*CONTROL, *UNADDRESSABLE])
def test_a_file_is_refused_with_line_and_column(evenbeat: Evenbeat, tmp_path: Path, name: str) -> None:
    file = tmp_path / "x.toml"
    header = json.dumps(name).replace("\\u007f", "\\u007F")
    file.write_text(
        f'[tasks.fine]\nevery = "1d"\ncommand = ["noop"]\n\n[tasks.{header}]\nevery = "1d"\ncommand = ["noop"]\n'
    )
    for argv in (["check-config", str(file)], ["apply", str(file), "--db", str(tmp_path / "x.db")]):
        found = evenbeat(*argv)
        assert found.code in (1, 2)
        assert "x.toml:5:" in found.out + found.err
        assert "the name: " in found.out + found.err


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[periods."a\\u0000b"]\n', "x.toml:1:"),
        ('[periods.".."]\n', "x.toml:1:"),
        ('[limits]\n".." = 3\n', "x.toml:2:"),
        ('[limits]\n"a\\u202eb" = 3\n', "x.toml:2:"),
        ('[tasks.t]\nevery = "1d"\ncommand = ["noop"]\nlabels = { team = "a\\u001bb" }\n', "x.toml:4:"),
        ('[tasks.t]\nevery = "1d"\ncommand = ["noop"]\nlabels = { "a\\nb" = "c" }\n', "x.toml:4:"),
        ('[tasks.t]\nevery = "1d"\ncommand = ["noop"]\npool = "a\\u007Fb"\n', "x.toml:4:"),
        ('[tasks.t]\nevery = "1d"\ncommand = ["noop"]\nenv = { "a\\u001bb" = "c" }\n', "x.toml:4:"),
    ],
)
def test_so_are_periods_limits_labels_pools_and_variables(
    evenbeat: Evenbeat, tmp_path: Path, text: str, where: str
) -> None:
    file = tmp_path / "x.toml"
    file.write_text(text)
    found = evenbeat("check-config", str(file))
    assert where in found.out + found.err
    assert "accepted" in found.out + found.err


@pytest.mark.parametrize("name", [*CONTROL, *UNADDRESSABLE])
def test_the_api_refuses_with_a_pointer(api: ApiClient, name: str) -> None:
    api.post("/v1/tasks", json={"name": "known", **KEYS})
    for answer in (
        api.post("/v1/tasks", json={"name": name, **KEYS}),
        api.ask("PUT", "/v1/tasks/known", json={"name": name, **KEYS}),
        api.ask("PATCH", "/v1/tasks/known", json={"name": name}),
    ):
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "/name"), answer.text
    validated = api.post("/v1/validate", json={"name": name, **KEYS}).json()
    assert [error["pointer"] for error in validated["errors"]] == ["/name"]
    applied = api.post("/v1/apply", json={"owners": {"ci": {"tasks": {name: KEYS}}}})
    assert (applied.status_code, len(applied.json()["errors"])) == (422, 1)
    if name not in (".", ".."):
        assert api.ask("PUT", f"/v1/periods/{quote(name, safe='')}", json={}).status_code == 422


@pytest.mark.parametrize("text", CONTROL)
def test_the_api_refuses_owners_and_labels(api: ApiClient, text: str) -> None:
    owner = api.post("/v1/tasks", params={"owner": text}, json={"name": "x", **KEYS})
    assert (owner.status_code, owner.json()["errors"][0]["pointer"]) == (422, "/query/owner")
    owner = api.post("/v1/apply", json={"owners": {text: {"tasks": {"x": KEYS}}}})
    assert owner.status_code == 422
    labels = api.post("/v1/tasks", json={"name": "x", **KEYS, "labels": {"team": text}})
    assert (labels.status_code, labels.json()["errors"][0]["pointer"]) == (422, "/labels/team")
    assert api.get("/v1/tasks/x").status_code == 404


@pytest.mark.parametrize("name", ["\x1b[2J", "a\u202eb", "..", " a"])
def test_the_command_line_and_python_refuse_them(evenbeat: Evenbeat, tmp_path: Path, name: str) -> None:
    database = tmp_path / "x.db"
    found = evenbeat("add", name, "--every", "1d", "--db", str(database), "--", "noop")
    assert (found.code, found.out) == (2, "")
    assert "the name: " in found.err
    app = App(str(database))
    with pytest.raises(Invalid, match="the name: "):
        app.create(name, **KEYS)
    with pytest.raises(Invalid, match="owner: "):
        app.create("x", owner="a\x1bb", **KEYS)
    app.create("x", **KEYS)
    found = evenbeat("worker", "--queue", "nats://127.0.0.1:1", "--pool", "a\x1bb")
    assert found.code == 2
    assert "--pool: " in found.err


def test_a_name_of_a_crontab_is_refused_where_it_stands() -> None:
    with pytest.raises(BadFileError, match=r"x:2:9: the name: .*U\+001B"):
        parse_crontab("# hello\n# name: a\x1bb\n@daily true\n", "x")


def test_imports_report_or_rename(tmp_path: Path) -> None:
    nagios = "define host {\n  host_name a\u202eb\n  check_command x\n}\n"
    with pytest.raises(BadFileError, match=r"x:2:3: host_name: .*U\+202E"):
        import_nagios([(nagios, "x")], "UTC")
    folder = tmp_path / "jobs" / "a\x1bb"
    folder.mkdir(parents=True)
    xml = (
        "<project><triggers><hudson.triggers.TimerTrigger><spec>H 3 * * *</spec></hudson.triggers.TimerTrigger>"
        "</triggers>"
        "<builders><hudson.tasks.Shell><command>true</command></hudson.tasks.Shell></builders></project>"
    )
    imported = import_jenkins([(xml, str(folder / "config.xml"))], "UTC")
    assert list(imported.document["tasks"]) == ["a-b"]
    assert "H" not in imported.document["tasks"]["a-b"]["cron"], "the times are those that Jenkins had for the old name"
    assert any("becomes the task 'a-b'" in str(warning) for warning in imported.warnings)


@pytest.mark.parametrize("name", ["a\0b", "..", "\x1b[2J", " a "])
def test_an_old_database_with_such_a_name_opens_and_the_task_can_be_paused_renamed_and_removed(
    evenbeat: Evenbeat, tmp_path: Path, name: str
) -> None:
    database = tmp_path / "x.db"
    store = SqliteStore(database)
    (entry,) = store.create([a_task(name)], "me", T0)
    store.close()
    with LiveNode(database, grace=0.1) as node:
        context = ApiContext(database)
        api = ApiClient(context, RoleNameAuthenticator())
        listed = api.get("/v1/tasks").json()["tasks"]
        assert [task["name"] for task in listed] == [name]
        paused = api.post(f"/v1/tasks/{entry.id}/pause")
        assert paused.status_code == 200
        assert api.get(paused.headers["location"]).json()["id"] == entry.id, "also if no address can have its name"
        kept = api.ask("PATCH", f"/v1/tasks/{entry.id}", json={"timebox": "5s"})
        assert kept.json()["errors"][0]["pointer"] == "/name"
        assert api.ask("PATCH", f"/v1/tasks/{entry.id}", json={"name": "good"}).status_code == 200
        api.close()
        context.close()
        assert node.node.status().tasks == 1
    assert evenbeat("rm", entry.id, "--db", str(database)).code == 0
    assert evenbeat("ls", "--json", "--db", str(database)).json["tasks"] == []
