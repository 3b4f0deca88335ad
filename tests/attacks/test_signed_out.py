"""Whoever has a token, however little it may do, signs nobody else out."""

from evenbeat.admin.page_sessions import MOST, SESSIONS, keep_session, sessions_in
from evenbeat.admin.task_admin import Desk
from evenbeat.admin.tokens import add_token, new_token
from evenbeat.model import Instant
from evenbeat.store.memory import MemoryStore


def test_signing_in_again_and_again_ends_only_the_own_sessions() -> None:
    time = 1_800_000_000_000_000
    desk = Desk(MemoryStore(), lambda: Instant(time))
    ids = {}
    for name in ("ana", "mallory"):
        new = new_token(name, "read", Instant(time))
        add_token(desk, new.id, new.token, "test")
        ids[name] = new.id
    keep_session(desk, "hers", ids["ana"], "")
    for number in range(MOST + 10):
        time += 1
        keep_session(desk, str(number), ids["mallory"], "")
    kept = sessions_in(desk.store.settings(SESSIONS))
    assert len(kept) == MOST
    assert "hers" in kept
    assert str(MOST + 9) in kept
    assert "0" not in kept
