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
"""Before the digest of a cookie's word in the store's settings."""
SESSION_LENGTH: Final = 12 * HOUR
"""How long a session lasts."""
MAX_SESSIONS: Final = 1_000
"""Sessions at the same time; the oldest of the token that has most gives way."""


class PageSession(Struct, frozen=True):
    """Stands for a token, as long as that is there."""

    token: str
    """The token's id: another token has another, also if it has the same name."""
    until: Instant
    life: str = ""
    """Which start of a node it is for; empty for all, where TLS says who answers."""


def decode_sessions(settings: dict[str, str]) -> dict[str, PageSession]:
    """Sessions by the digests of their words; one that cannot be read is as if it were not there."""
    found = {}
    for key, text in settings.items():
        try:
            found[key.removeprefix(SESSION_PREFIX)] = msgspec.json.decode(text, type=PageSession)
        except (msgspec.ValidationError, msgspec.DecodeError):
            continue
    return found


def start_session(desk: "TaskAdmin", digest: str, token: str, life: str) -> PageSession:
    """Keep a new one. Those that are over, or whose token is gone, are forgotten on this occasion."""
    with desk.locked():
        now, new = desk.now(), PageSession(token, Instant(desk.now() + SESSION_LENGTH), life)
        settings, tokens = desk.store.settings(SESSION_PREFIX), desk.store.settings(TOKEN_PREFIX)
        known = decode_sessions(settings)
        good = [d for d, kept in known.items() if now < kept.until and TOKEN_PREFIX + kept.token in tokens]
        good.sort(key=lambda d: known[d].until)
        while len(good) >= MAX_SESSIONS:
            # Not the oldest of all: whoever signs in again and again would sign out everybody else.
            ((most, _),) = Counter(known[d].token for d in good).most_common(1)
            good.remove(next(d for d in good if known[d].token == most))
        kept = {SESSION_PREFIX + d for d in good}
        dropped = dict.fromkeys(settings.keys() - kept)
        desk.store.set_settings({**dropped, SESSION_PREFIX + digest: msgspec.json.encode(new).decode()})
    return new


def end_session(desk: "TaskAdmin", digest: str) -> None:
    """Forget it."""
    desk.store.set_settings({SESSION_PREFIX + digest: None})
