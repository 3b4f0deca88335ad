"""Sessions of the page that only this api process knows. A random cookie stands for a token."""

import hashlib
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from evenbeat.admin import page_sessions
from evenbeat.model import SECOND

COOKIE_NAME: Final = "evenbeat_session"
SESSION_SECONDS: Final = page_sessions.SESSION_LENGTH // SECOND
"""Seconds that a session lasts."""
MAX_SESSIONS: Final = page_sessions.MAX_SESSIONS


class CookieSession(NamedTuple):
    """A session of a token; it ends when the token is replaced."""

    token: str
    """The token's id."""
    hash: str
    """The token's hash when the session began."""
    until: float


class InMemorySessions:
    """Sessions that began while no node could store them: they end with the api process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sessions: OrderedDict[str, CookieSession] = OrderedDict()

    def create(self, token: str, hash_: str) -> str:
        """Start a session; the content of its cookie."""
        word = secrets.token_urlsafe(32)
        self._sessions[cookie_digest(word)] = CookieSession(token, hash_, self._now() + SESSION_SECONDS)
        if len(self._sessions) > MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return word

    def find(self, word: str) -> CookieSession | None:
        """The session of a cookie."""
        session = self._sessions.get(cookie_digest(word))
        if session is not None and session.until <= self._now():
            self.remove(word)
            return None
        return session

    def remove(self, word: str) -> None:
        self._sessions.pop(cookie_digest(word), None)


def cookie_digest(word: str) -> str:
    """The key of a session: a digest, so that the duration of a lookup reveals nothing about existing cookies."""
    return hashlib.sha256(word.encode(errors="replace")).hexdigest()
