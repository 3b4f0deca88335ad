import os
import stat
from pathlib import Path

import pytest

from evenbeat.admin.sign_in_links import (
    LINK_PREFIX,
    create_sign_in_link,
    link_code_digest,
    new_link_code,
    sign_in_url,
    use_sign_in_link,
)
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tokens import (
    GENERATED_TOKEN_NAME,
    TOKEN_PREFIX,
    add_token,
    create_api_token,
    decode_tokens,
    remove_token,
    secret_matches,
    split_token,
)
from evenbeat.core.access_rules import MAX_SIGN_IN_LINKS, SIGN_IN_LINK_LIFETIME
from evenbeat.model import HOUR, Instant, Invalid
from evenbeat.node.process.listen import ListenAddress
from evenbeat.node.process.token_file import ensure_token, write_private_file
from evenbeat.store.contract import StoreError
from evenbeat.store.memory import MemoryStore
from evenbeat.store.sqlite.ownership import token_path

PAGE = "http://127.0.0.1:8629/"


class AdminWithTokens:
    """A task administration whose clock is moved by the test, with a token of each kind."""

    def __init__(self) -> None:
        self.time = 1_800_000_000_000_000
        self.admin = TaskAdmin(MemoryStore(), lambda: Instant(self.time))
        self.ids = {name: self._add(name) for name in (GENERATED_TOKEN_NAME, "ana")}

    def _add(self, name: str) -> str:
        new = create_api_token(
            name, "admin" if name == GENERATED_TOKEN_NAME else "read", Instant(self.time), Instant(self.time + HOUR)
        )
        add_token(self.admin, new.id, new.token, "test")
        return new.id

    def link(self, name: str | None = None) -> str:
        code = new_link_code()
        create_sign_in_link(self.admin, link_code_digest(code), name, "ana", PAGE)
        return code

    def use(self, code: str) -> str:
        return use_sign_in_link(self.admin, link_code_digest(code), "127.0.0.1")


@pytest.fixture
def tokens() -> AdminWithTokens:
    return AdminWithTokens()


def test_a_link_signs_in_once_with_the_token_it_was_made_for(tokens: AdminWithTokens) -> None:
    mine, hers = tokens.link(), tokens.link("ana")
    assert tokens.use(mine) == tokens.ids[GENERATED_TOKEN_NAME]
    assert tokens.use(mine) == ""
    assert tokens.use(hers) == tokens.ids["ana"]
    assert tokens.use(new_link_code()) == ""
    noted = [(change.name, change.action, change.who) for change in tokens.admin.store.changes(most=4)]
    assert noted == [
        ("token ana", "signed in by link", "127.0.0.1"),
        (f"token {GENERATED_TOKEN_NAME}", "signed in by link", "127.0.0.1"),
        ("token ana", "sign-in link created", "ana"),
        (f"token {GENERATED_TOKEN_NAME}", "sign-in link created", "ana"),
    ]


def test_of_a_code_only_a_digest_is_kept_and_its_link_has_it_behind_the_hash(tokens: AdminWithTokens) -> None:
    code = tokens.link()
    kept = tokens.admin.store.settings(LINK_PREFIX)
    assert code not in str(kept)
    assert len(code) == 43
    assert sign_in_url(PAGE, code) == f"http://127.0.0.1:8629/#/sign-in/{code}"


def test_a_link_is_too_old_after_ten_minutes_and_is_forgotten(tokens: AdminWithTokens) -> None:
    old, older = tokens.link(), tokens.link()
    tokens.time += SIGN_IN_LINK_LIFETIME - 1
    assert tokens.use(old)
    tokens.time += 1
    assert tokens.use(older) == ""
    tokens.link()
    assert len(tokens.admin.store.settings(LINK_PREFIX)) == 1


def test_links_are_bounded_and_the_oldest_gives_way(tokens: AdminWithTokens) -> None:
    codes = []
    for _ in range(MAX_SIGN_IN_LINKS + 3):
        codes.append(tokens.link())
        tokens.time += 1
    assert len(tokens.admin.store.settings(LINK_PREFIX)) == MAX_SIGN_IN_LINKS
    assert [tokens.use(code) == "" for code in codes[:4]] == [True, True, True, False]


def test_a_link_ends_with_its_token(tokens: AdminWithTokens) -> None:
    removed, expired = tokens.link("ana"), tokens.link()
    remove_token(tokens.admin, "ana", "test")
    assert tokens.use(removed) == ""
    tokens.time += HOUR
    assert tokens.use(expired) == ""
    with pytest.raises(Invalid, match="local-admin has expired"):
        tokens.link()


def test_what_no_link_can_stand_for_is_told_with_what_to_type(tokens: AdminWithTokens) -> None:
    with pytest.raises(Invalid, match="no token 'nobody'"):
        tokens.link("nobody")
    remove_token(tokens.admin, GENERATED_TOKEN_NAME, "test")
    with pytest.raises(Invalid, match=r"token link NAME`, one of: ana"):
        tokens.link()
    remove_token(tokens.admin, "ana", "test")
    with pytest.raises(Invalid, match="token add NAME --role admin"):
        tokens.link()
    with pytest.raises(Invalid, match="start it with --listen"):
        create_sign_in_link(tokens.admin, link_code_digest("x"), None, "ana", "")


def test_a_damaged_link_signs_nobody_in(tokens: AdminWithTokens) -> None:
    code = new_link_code()
    tokens.admin.store.set_settings({LINK_PREFIX + link_code_digest(code): "{"})
    with pytest.raises(StoreError, match="damaged"):
        tokens.use(code)


# The token that a node makes


def test_a_node_without_tokens_makes_one_in_a_file_of_its_own(tmp_path: Path) -> None:
    admin = TaskAdmin(MemoryStore(), lambda: Instant(0))
    database = tmp_path / "a.db"
    before = os.umask(0)
    try:
        path = ensure_token(admin, database, ListenAddress("127.0.0.1", 0))
    finally:
        os.umask(before)
    assert path == token_path(database) == tmp_path.resolve() / "a.db.token"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    ((id_, token),) = decode_tokens(admin.store.settings(TOKEN_PREFIX)).items()
    found = split_token(path.read_text().strip())
    assert found is not None
    assert found[0] == id_
    assert secret_matches(token, found[1])
    assert (token.name, token.role, token.expires) == (GENERATED_TOKEN_NAME, "admin", None)
    assert ensure_token(admin, database, ListenAddress("127.0.0.1", 0)) == path
    assert len(admin.store.settings(TOKEN_PREFIX)) == 1
    remove_token(admin, GENERATED_TOKEN_NAME, "test")
    old = path.read_text()
    assert ensure_token(admin, database, ListenAddress("127.0.0.1", 0)) == path
    assert path.read_text() != old


@pytest.mark.parametrize("listen", [ListenAddress("127.0.0.1", 0, is_open=True), ListenAddress("0.0.0.0", 0)])
def test_no_token_is_made_where_none_is_wanted(tmp_path: Path, listen: ListenAddress) -> None:
    admin = TaskAdmin(MemoryStore(), lambda: Instant(0))
    assert ensure_token(admin, tmp_path / "a.db", listen) is None
    assert admin.store.settings(TOKEN_PREFIX) == {}
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_token_neither_stops_the_node_nor_is_replaced(tmp_path: Path) -> None:
    admin = TaskAdmin(MemoryStore(), lambda: Instant(0))
    admin.store.set_settings({TOKEN_PREFIX + "AAAAAAAA": "{"})
    assert ensure_token(admin, tmp_path / "a.db", ListenAddress("127.0.0.1", 0)) is None
    assert admin.store.settings(TOKEN_PREFIX).keys() == {TOKEN_PREFIX + "AAAAAAAA"}


def test_the_token_is_written_through_no_link_and_into_nobody_elses_file(tmp_path: Path) -> None:
    target, path = tmp_path / "theirs", tmp_path / "a.db.token"
    target.write_text("before")
    path.symlink_to(target)
    admin = TaskAdmin(MemoryStore(), lambda: Instant(0))
    with pytest.raises(Invalid, match="remove it"):
        ensure_token(admin, tmp_path / "a.db", ListenAddress("127.0.0.1", 0))
    assert target.read_text() == "before"
    assert admin.store.settings(TOKEN_PREFIX) == {}
    path.unlink()
    path.mkdir()
    with pytest.raises(Invalid, match="remove it"):
        write_private_file(path, "x")
    path.rmdir()
    if os.geteuid() == 0:
        path.touch()
        os.chown(path, 65_534, 65_534)
        with pytest.raises(Invalid, match="remove it"):
            write_private_file(path, "x")
        path.unlink()
    path.write_text("an old one of ours")
    path.chmod(0o644)
    write_private_file(path, "new")
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {entry.name for entry in tmp_path.iterdir()} == {"theirs", "a.db.token"}
    with pytest.raises(Invalid, match="cannot be written"):
        write_private_file(tmp_path / "none" / "a.db.token", "x")
