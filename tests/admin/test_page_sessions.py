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


class House:
    """A desk whose clock is moved by hand, with two tokens."""

    def __init__(self) -> None:
        self.time = 1_800_000_000_000_000
        self.desk = TaskAdmin(MemoryStore(), lambda: Instant(self.time))
        self.ids = {}
        for name in ("ana", "bob"):
            new = create_api_token(name, "read", Instant(self.time))
            add_token(self.desk, new.id, new.token, "test")
            self.ids[name] = new.id

    def keep(self, digest: str, name: str = "ana") -> None:
        start_session(self.desk, digest, self.ids[name], "")

    @property
    def kept(self) -> set[str]:
        return set(decode_sessions(self.desk.store.settings(SESSION_PREFIX)))


@pytest.fixture
def house() -> House:
    return House()


def test_a_session_is_kept_for_twelve_hours_until_somebody_signs_out(house: House) -> None:
    house.keep("a")
    (kept,) = decode_sessions(house.desk.store.settings(SESSION_PREFIX)).values()
    assert (kept.token, kept.until) == (house.ids["ana"], house.time + SESSION_LENGTH)
    house.keep("b")
    end_session(house.desk, "a")
    assert house.kept == {"b"}
    end_session(house.desk, "a")


def test_sessions_that_are_over_or_without_their_token_are_forgotten_when_another_begins(house: House) -> None:
    house.keep("old")
    house.time += SESSION_LENGTH
    house.keep("hers")
    house.keep("his", "bob")
    assert house.kept == {"hers", "his"}
    remove_token(house.desk, "bob", "test")
    house.desk.store.set_settings({SESSION_PREFIX + "damaged": "{"})
    house.keep("new")
    assert house.kept == {"hers", "new"}
    assert SESSION_PREFIX + "damaged" not in house.desk.store.settings(SESSION_PREFIX)


def test_sessions_are_bounded_and_the_oldest_gives_way(house: House) -> None:
    for number in range(MAX_SESSIONS + 2):
        house.time += 1
        house.keep(str(number))
    assert house.kept == {str(number) for number in range(2, MAX_SESSIONS + 2)}
