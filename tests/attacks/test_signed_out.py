"""Whoever has a token, however little it may do, signs nobody else out."""

from evenbeat.admin.page_sessions import MAX_SESSIONS, SESSION_PREFIX, decode_sessions, start_session
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.tokens import add_token, create_api_token
from evenbeat.model import Instant
from evenbeat.store.memory import MemoryStore


def test_signing_in_again_and_again_ends_only_the_own_sessions() -> None:
    time = 1_800_000_000_000_000
    admin = TaskAdmin(MemoryStore(), lambda: Instant(time))
    ids = {}
    for name in ("ana", "mallory"):
        new = create_api_token(name, "read", Instant(time))
        add_token(admin, new.id, new.token, "test")
        ids[name] = new.id
    start_session(admin, "hers", ids["ana"], "")
    for number in range(MAX_SESSIONS + 10):
        time += 1
        start_session(admin, str(number), ids["mallory"], "")
    kept = decode_sessions(admin.store.settings(SESSION_PREFIX))
    assert len(kept) == MAX_SESSIONS
    assert "hers" in kept
    assert str(MAX_SESSIONS + 9) in kept
    assert "0" not in kept
