import pytest

from evenbeat.admin.page_sessions import (
    MAX_SESSIONS,
    SESSION_LENGTH,
    SESSION_PREFIX,
    decode_sessions,
    end_session,
    start_session,
)
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tokens import add_token, create_api_token, remove_token
from evenbeat.model import Instant
from evenbeat.store.memory import MemoryStore


class AdminWithTokens:
    """A task administration whose clock is moved by the test, with two tokens."""

    def __init__(self) -> None:
        self.time = 1_800_000_000_000_000
        self.admin = TaskAdmin(MemoryStore(), lambda: Instant(self.time))
        self.ids = {}
        for name in ("ana", "bob"):
            new = create_api_token(name, "read", Instant(self.time))
            add_token(self.admin, new.id, new.token, "test")
            self.ids[name] = new.id

    def keep(self, digest: str, name: str = "ana") -> None:
        start_session(self.admin, digest, self.ids[name], "")

    @property
    def kept(self) -> set[str]:
        return set(decode_sessions(self.admin.store.settings(SESSION_PREFIX)))


@pytest.fixture
def tokens() -> AdminWithTokens:
    return AdminWithTokens()


def test_a_session_is_kept_for_twelve_hours_until_somebody_signs_out(tokens: AdminWithTokens) -> None:
    tokens.keep("a")
    (kept,) = decode_sessions(tokens.admin.store.settings(SESSION_PREFIX)).values()
    assert (kept.token, kept.until) == (tokens.ids["ana"], tokens.time + SESSION_LENGTH)
    tokens.keep("b")
    end_session(tokens.admin, "a")
    assert tokens.kept == {"b"}
    end_session(tokens.admin, "a")


def test_sessions_that_are_over_or_without_their_token_are_forgotten_when_another_begins(
    tokens: AdminWithTokens,
) -> None:
    tokens.keep("old")
    tokens.time += SESSION_LENGTH
    tokens.keep("hers")
    tokens.keep("his", "bob")
    assert tokens.kept == {"hers", "his"}
    remove_token(tokens.admin, "bob", "test")
    tokens.admin.store.set_settings({SESSION_PREFIX + "damaged": "{"})
    tokens.keep("new")
    assert tokens.kept == {"hers", "new"}
    assert SESSION_PREFIX + "damaged" not in tokens.admin.store.settings(SESSION_PREFIX)


def test_sessions_are_bounded_and_the_oldest_gives_way(tokens: AdminWithTokens) -> None:
    for number in range(MAX_SESSIONS + 2):
        tokens.time += 1
        tokens.keep(str(number))
    assert tokens.kept == {str(number) for number in range(2, MAX_SESSIONS + 2)}
