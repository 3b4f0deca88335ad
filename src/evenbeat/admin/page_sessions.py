"""Sessions of the page, as the database keeps them: they outlive the api process that began them, but not their token.

Without TLS they do not outlive the node either. While it is stopped, another user of the machine can take its port, and
the browser sends its cookie there.
"""

from collections import Counter
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from evenbeat.admin.tokens import TOKEN_PREFIX
from evenbeat.model import HOUR, Instant

if TYPE_CHECKING:
    from evenbeat.admin.task_admin import TaskAdmin

SESSION_PREFIX: Final = "session:"
"""Prefix of settings of the store, before the digest of a cookie."""
SESSION_LENGTH: Final = 12 * HOUR
"""The lifetime of a session."""
MAX_SESSIONS: Final = 1_000
"""Maximum number of sessions. Beyond it, the oldest session of the token with the most sessions is dropped."""


class PageSession(Struct, frozen=True):
    """A session of a token; it ends when the token is removed."""

    token: str
    """The token's id: a new token of the same name has another id."""
    until: Instant
    life: str = ""
    """The start of the node that it is valid for; empty for all, as TLS proves which server answers."""


def decode_sessions(settings: dict[str, str]) -> dict[str, PageSession]:
    """Sessions by the digests of their cookies; unreadable ones are skipped."""
    found = {}
    for key, text in settings.items():
        try:
            found[key.removeprefix(SESSION_PREFIX)] = msgspec.json.decode(text, type=PageSession)
        except (msgspec.ValidationError, msgspec.DecodeError):
            continue
    return found


def start_session(task_admin: "TaskAdmin", digest: str, token: str, life: str) -> PageSession:
    """Store a new session, and delete those that have expired or whose token is gone."""
    with task_admin.locked():
        now, new = task_admin.now(), PageSession(token, Instant(task_admin.now() + SESSION_LENGTH), life)
        settings, tokens = task_admin.store.settings(SESSION_PREFIX), task_admin.store.settings(TOKEN_PREFIX)
        known = decode_sessions(settings)
        good = [d for d, kept in known.items() if now < kept.until and TOKEN_PREFIX + kept.token in tokens]
        good.sort(key=lambda d: known[d].until)
        while len(good) >= MAX_SESSIONS:
            # Not the oldest of all: frequent sign-ins with one token would end the sessions of others.
            ((most, _),) = Counter(known[d].token for d in good).most_common(1)
            good.remove(next(d for d in good if known[d].token == most))
        kept = {SESSION_PREFIX + d for d in good}
        dropped = dict.fromkeys(settings.keys() - kept)
        task_admin.store.set_settings({**dropped, SESSION_PREFIX + digest: msgspec.json.encode(new).decode()})
    return new


def end_session(task_admin: "TaskAdmin", digest: str) -> None:
    """Delete a session."""
    task_admin.store.set_settings({SESSION_PREFIX + digest: None})
