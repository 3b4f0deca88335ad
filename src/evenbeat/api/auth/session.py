"""Sessions of the page: a token or a link is given once, and a cookie that no script can read stands for it."""

import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec
from msgspec import Meta, Struct
from starlette.responses import Response

from evenbeat.admin import page_sessions
from evenbeat.api.http.route import Call, Role, Route, address_of
from evenbeat.model import SECOND, Invalid
from evenbeat.store.contract import StoreError
from evenbeat.wire.requests import ApiToken, RecordSignIn

if TYPE_CHECKING:
    from evenbeat.api.auth.access import TokenAuthenticator

COOKIE_NAME: Final = "evenbeat_session"
_log: Final = logging.getLogger("evenbeat.api")
SESSION_SECONDS: Final = page_sessions.SESSION_LENGTH // SECOND
"""Seconds that a session lasts."""
MAX_SESSIONS: Final = page_sessions.MAX_SESSIONS


class CookieSession(NamedTuple):
    """Stands for a token, as long as that is the same."""

    token: str
    """The token's id ..."""
    hash: str
    """... and what it was recognised by."""
    until: float


class InMemorySessions:
    """Those that began while there was no node that could keep them: they end with the api process."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._sessions: OrderedDict[str, CookieSession] = OrderedDict()

    def create(self, token: str, hash_: str) -> str:
        """A new one; what to put into the cookie."""
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
    """What a session is found by: how long that takes tells nothing of the words there are."""
    return hashlib.sha256(word.encode(errors="replace")).hexdigest()


class Credentials(Struct, forbid_unknown_fields=True):
    """What somebody shows to be let in."""

    token: Annotated[str, Meta(max_length=200)]


class LinkCode(Struct, forbid_unknown_fields=True):
    """What a link has behind its #."""

    code: Annotated[str, Meta(max_length=200)]


class Standing(Struct):
    """What the one who asks may do."""

    role: str | None
    """read, operate or admin; null for nothing yet."""
    needs_token: bool
    """Is a token needed before anything else?"""


async def _sign_in(call: Call) -> Response:
    access, request = _authenticator(call), call.request
    if await access.is_open():
        access.require_local(request)
        return _session_response(Standing("admin", needs_token=False))
    id_, token = await access.verify_token(request, call.body.token)
    await _audit_sign_in(call, token.name)
    return await _response_with_cookie(call, id_, token)


async def _audit_sign_in(call: Call, name: str) -> None:
    """For the audit, some a minute of each token and address; nobody is kept out because it cannot be written."""
    address = address_of(call.request)
    if _authenticator(call).noted_sign_ins.take_token(f"{address} {name}"):
        return
    try:
        await call.context.ask_node(RecordSignIn(name, address))
    except (StoreError, Invalid) as e:
        _log.warning("a sign-in is not in the audit: %s", e, extra={"action": "audit_failed", "who": name})


async def _sign_in_by_link(call: Call) -> Response:
    access, request = _authenticator(call), call.request
    if await access.is_open():
        access.require_local(request)
        return _session_response(Standing("admin", needs_token=False))
    id_, token = await access.redeem_link(request, call.body.code)
    return await _response_with_cookie(call, id_, token)


async def _response_with_cookie(call: Call, id_: str, token: ApiToken) -> Response:
    access, request = _authenticator(call), call.request
    response = _session_response(Standing(token.role, needs_token=False))
    # A proxy that speaks TLS for us is known by what the browser says it sees.
    is_secure = access.is_secure or request.headers.get("origin", "").startswith("https://")
    response.set_cookie(
        access.cookie,
        await access.begin_session(id_, token),
        max_age=SESSION_SECONDS,
        path="/",
        secure=is_secure,
        httponly=True,
        samesite="strict",
    )
    return response


async def _read_session(call: Call) -> Standing:
    caller = await _authenticator(call).identify(call.request)
    if caller is None:
        return Standing(None, needs_token=True)
    return Standing(caller.role.name.lower(), needs_token=False)


async def _sign_out(call: Call) -> Response:
    access = _authenticator(call)
    if word := call.request.cookies.get(access.cookie):
        await access.end_session(word)
    response = Response(status_code=204)
    response.delete_cookie(access.cookie, path="/", httponly=True, samesite="strict")
    return response


def _authenticator(call: Call) -> "TokenAuthenticator":
    access: TokenAuthenticator = call.request.scope["evenbeat.access"]
    return access


def _session_response(standing: Standing) -> Response:
    return Response(msgspec.json.encode(standing), media_type="application/json")


ROUTES: Final = (
    Route(
        "GET",
        "/v1/session",
        Role.ANYBODY,
        _read_session,
        "What the one who asks may do, and whether a token is needed.",
        Standing,
        "Session",
    ),
    Route(
        "POST",
        "/v1/session",
        Role.ANYBODY,
        _sign_in,
        "Begin a session: a token for a cookie, as the page does it.",
        Standing,
        "Session",
        body=Credentials,
        problems=(413, 415),
    ),
    Route(
        "POST",
        "/v1/session/link",
        Role.ANYBODY,
        _sign_in_by_link,
        "Begin a session by a link of `evenbeat token link`, which works once.",
        Standing,
        "Session",
        body=LinkCode,
        problems=(413, 415),
    ),
    Route(
        "DELETE", "/v1/session", Role.ANYBODY, _sign_out, "End the session of the cookie.", None, "Session", status=204
    ),
)
"""What others add to the application."""
