import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Evenbeat
from evenbeat.admin.tokens import TOKEN_PREFIX, decode_tokens, secret_matches, split_token
from evenbeat.client.node_or_database import connect_to_live_node
from evenbeat.store.sqlite.sqlite_store import SqliteStore


@pytest.fixture(params=["alone", "beside a node"])
def database(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """All of this is the same with and without a node."""
    path = tmp_path / "a.db"
    monkeypatch.setenv("EVENBEAT_DB", str(path))
    if request.param == "alone":
        yield path
        return
    node = subprocess.Popen([sys.executable, "-m", "evenbeat", "up", "--workers", "1"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while (client := connect_to_live_node(path)) is None:
        assert time.monotonic() < deadline, "the node does not come up"
        time.sleep(0.02)
    client.close()
    yield path
    node.kill()
    node.wait()


def kept(database: Path) -> dict[str, str]:
    store = SqliteStore(database, read_only=True)
    try:
        return store.settings(TOKEN_PREFIX)
    finally:
        store.close()


def test_a_token_is_made_shown_once_listed_and_removed(evenbeat: Evenbeat, database: Path) -> None:
    made = evenbeat("token", "add", "ci", "--role", "operate", "--expires", "90d")
    assert made.code == 0
    text = made.out.strip()
    found = split_token(text)
    assert found is not None
    id_, secret = found
    assert made.out == f"{text}\n"
    assert text not in made.err
    assert secret_matches(decode_tokens(kept(database))[id_], secret)

    listed = evenbeat("token", "ls", "--json")
    (token,) = listed.json["tokens"]
    assert (token["name"], token["role"]) == ("ci", "operate")
    assert token["expires"] > token["created"]
    shown = evenbeat("token", "ls")
    assert "ci" in shown.out
    assert "operate" in shown.out
    for secret_part in (secret, id_):
        assert secret_part not in listed.out + shown.out

    assert evenbeat("token", "rm", "ci").out == "removed ci\n"
    assert kept(database) == {}
    assert evenbeat("token", "rm", "ci").code == 2


def test_what_is_wrong_makes_no_token(evenbeat: Evenbeat, database: Path) -> None:
    assert evenbeat("token", "add", "ci", "--role", "read", "--json").json["role"] == "read"
    before = kept(database)
    for argv, problem in (
        (["add", "ci", "--role", "admin"], "there is a token 'ci' already"),
        (["add", "x"], "--role read, operate or admin"),
        (["add", "--role", "read"], "token add NAME"),
        (["add", "x", "--role", "root"], "invalid choice"),
        (["add", "a b", "--role", "read"], "cannot name a token"),
        (["add", "x", "--role", "read", "--expires", "0s"], "--expires: 0s is out of range"),
        (["add", "x", "--role", "read", "--expires", "soon"], "--expires"),
        (["rm"], "token rm NAME"),
        (["rm", "nobody"], "there is no token 'nobody'"),
        (["ls", "x"], "takes no name"),
    ):
        found = evenbeat("token", *argv)
        assert (found.code, found.out) == (2, ""), argv
        assert problem in found.err
    assert kept(database) == before


def test_a_link_needs_a_node_with_a_page(evenbeat: Evenbeat, database: Path) -> None:
    assert evenbeat("token", "add", "local-admin", "--role", "admin").code == 0
    found = evenbeat("token", "link")
    assert (found.code, found.out) == (2, "")
    assert "--listen 8629" in found.err


def test_removing_the_last_token_says_how_to_make_another(evenbeat: Evenbeat, database: Path) -> None:
    for name in ("ana", "bob"):
        assert evenbeat("token", "add", name, "--role", "admin").code == 0
    assert evenbeat("token", "rm", "ana").err == ""
    last = evenbeat("token", "rm", "bob")
    assert (last.code, last.out) == (0, "removed bob\n")
    assert "`evenbeat token add NAME --role admin` makes another" in last.err


def test_without_tokens_ls_says_what_that_means(evenbeat: Evenbeat, database: Path) -> None:
    if not database.exists():
        SqliteStore(database).close()
    assert "nobody can use the API; `evenbeat token add NAME" in evenbeat("token", "ls").out
    assert json.loads(evenbeat("token", "ls", "--json").out) == {"tokens": []}
