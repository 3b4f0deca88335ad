"""Who a caller is and what they may do: by a token or a session, or without one on a node started with --open."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from starlette.requests import Request

from evenbeat.admin.page_sessions import SESSION_PREFIX, PageSession, decode_sessions
from evenbeat.admin.sign_in_links import LINK_PREFIX, link_code_digest
from evenbeat.admin.tokens import TOKEN_PREFIX, decode_tokens, secret_matches, split_token
from evenbeat.api.auth.cookie_sessions import COOKIE_NAME, CookieSession, InMemorySessions
from evenbeat.api.auth.cookie_sessions import cookie_digest as session_digest
from evenbeat.api.auth.same_origin import SAFE_METHODS, require_same_origin
from evenbeat.api.auth.wrong_tokens import WrongTokenLimit
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.rate_limit import RateLimiter
from evenbeat.api.http.route import Role, address_of
from evenbeat.core.access_rules import needs_no_token
from evenbeat.core.scope import Scope
from evenbeat.node.process.listen import is_loopback
from evenbeat.store.contract import StoreError
from evenbeat.wire.requests import ApiToken, EndPageSession, StartPageSession, UseSignInLink

_TOKENS_MAX_AGE: Final = 2.0
"""Seconds after which the tokens are read again: the longest time that a removed token still works."""
_VERIFIED_MAX_AGE: Final = 60.0
"""Seconds after its last use for which a token is accepted without computing scrypt again."""
_MAX_VERIFIED: Final = 10_000
_MAX_SIGN_INS_AUDITED_PER_MINUTE: Final = 10
"""Sign-ins of one token from one address that are written to the audit in a minute."""
_PROXY_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_GRANT_KEY: Final = "evenbeat.admission"
"""The key in a request's scope of the grant that admitted it."""
_AUTHENTICATE_HEADER: Final = {"www-authenticate": 'Bearer realm="evenbeat"'}
_UNKNOWN_TOKEN: Final = "this token is not known here"  # noqa: S105
_EXPIRED_TOKEN: Final = "this token has expired"  # noqa: S105


class AuthenticatedCaller(NamedTuple):
    """The caller's name for the audit, and what they may do."""

    who: str
    role: Role
    scope: Scope | None = None
    """What the token is limited to; None for no limit."""


class _AccessGrant(NamedTuple):
    """What admitted a request: a token, directly or through a session. Neither means a node started with --open."""

    id: str = ""
    token: ApiToken | None = None
    session: str = ""
    """The content of the cookie."""


class _VerifiedToken(NamedTuple):
    id: str
    hash: str
    until: float


class TokenAuthenticator:
    """Authenticates callers, or says what they lack."""

    def __init__(
        self,
        context: ApiContext,
        host: str,
        port: int | None = None,
        node_start_id: str = "",
        *,
        is_secure: bool = False,
        is_open: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`host`, `port`: what the server listens on; `is_secure`: whether it speaks TLS itself.

        `node_start_id`: the start of the node that its sessions are valid for, empty for all: `admin.page_sessions`.
        `is_open`: every user of this machine is admitted without a token, as long as no token exists.
        """
        self.is_secure: Final = is_secure
        # Browsers send the cookies of a host to all its ports: nodes on one host must not mistake another's for theirs.
        self.cookie: Final = COOKIE_NAME if port is None else f"{COOKIE_NAME}_{port}"
        self._node_start_id = node_start_id
        self._may_be_open = is_open
        self.sessions: Final = InMemorySessions(now)
        self._context = context
        self._host = host
        self._now = now
        self._tokens: dict[str, ApiToken] = {}
        self._stored_sessions: dict[str, PageSession] = {}
        """Sessions in the database."""
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self._hashing = asyncio.Lock()
        self._remembered: OrderedDict[bytes, _VerifiedToken] = OrderedDict()
        self._wrong_tokens = WrongTokenLimit(now)
        self.noted_sign_ins: Final = RateLimiter(
            _MAX_SIGN_INS_AUDITED_PER_MINUTE, _MAX_SIGN_INS_AUDITED_PER_MINUTE / 60, now
        )

    async def authenticate(self, request: Request, role: Role) -> AuthenticatedCaller:
        """Identify the caller; raise HttpError if they may not do what needs this role."""
        request.scope["evenbeat.access"] = self  # for the routes of sessions
        if role is Role.ANYBODY:
            require_same_origin(request, self.is_secure)
            return AuthenticatedCaller(address_of(request), Role.ANYBODY)
        caller = await self.identify(request)
        if caller is None:
            detail = "a token is needed: Authorization: Bearer evb_...; `evenbeat token add NAME --role ROLE` makes one"
            raise HttpError(401, detail, headers=_AUTHENTICATE_HEADER)
        if caller.role < role:
            found, needed = caller.role.name.lower(), role.name.lower()
            raise HttpError(403, f"{caller.who} has the role {found}, and this needs {needed}", who=caller.who)
        return caller

    async def is_still_authorized(self, request: Request) -> bool:
        """Would this request still be admitted? Tokens expire or are removed, and sessions end."""
        grant: _AccessGrant | None = request.scope.get(_GRANT_KEY)
        if grant is None:
            return True  # a route that needs no role
        if grant.token is None:
            return await self.is_open()
        tokens = await self._known_tokens()
        if grant.session and self._session(grant.session) is None:
            return False
        token = tokens.get(grant.id)
        return token == grant.token and not grant.token.is_over(self._context.now())

    async def is_open(self) -> bool:
        """May every user of this machine do everything?"""
        if not self._may_be_open:
            return False
        has_tokens = bool(await self._known_tokens())
        return needs_no_token(is_open=True, is_loopback=is_loopback(self._host), has_tokens=has_tokens)

    async def identify(self, request: Request) -> AuthenticatedCaller | None:
        """Identify the caller by token or session; None without either. Raise HttpError if a token is wrong."""
        if await self.is_open():
            self.require_local(request)
            require_same_origin(request, self.is_secure)
            request.scope[_GRANT_KEY] = _AccessGrant()
            return AuthenticatedCaller(address_of(request), Role.ADMIN)
        if (header := request.headers.get("authorization")) is not None:
            scheme, _, text = header.partition(" ")
            if scheme.lower() != "bearer":
                raise HttpError(401, "accepted in Authorization: Bearer and a token", headers=_AUTHENTICATE_HEADER)
            id_, token = await self.verify_token(request, text.strip())
            request.scope[_GRANT_KEY] = _AccessGrant(id_, token)
            return _caller_of_token(token)
        return await self._identify_by_cookie(request)

    def require_local(self, request: Request) -> None:
        """Refuse a request that came through a proxy, or whose Host is another name: DNS rebinding looks like that."""
        for name in _PROXY_HEADERS:
            if name in request.headers:
                detail = "requests through a proxy need a token; `evenbeat token add NAME` makes the first one"
                raise HttpError(403, f"{name}: {detail}")
        name = _host_name(request.headers.get("host", ""))
        if name != self._host.lower() and not is_loopback(name):
            raise HttpError(403, f"Host {name!r}, accepted: localhost, a loopback address, or {self._host}")

    async def verify_token(self, request: Request, text: str) -> tuple[str, ApiToken]:
        """The id and record of a token, by its text; raise HttpError if it is unknown, or after too many wrong ones."""
        tokens = await self._known_tokens()
        digest = hashlib.sha256(text.encode(errors="replace")).digest()
        if (found := self._cached_token(digest, tokens)) is not None:
            return found
        id_, secret = split_token(text) or ("", "")
        token = tokens.get(id_)
        # Each existing token has a bucket of its own: guesses do not lock out its owner behind the same proxy.
        guessed = id_ if token else ""
        if token is None or token.is_over(self._context.now()):
            # No scrypt here: no secret makes an unknown or expired token valid.
            self._wrong_tokens.count(request, guessed)
            raise HttpError(401, _UNKNOWN_TOKEN if token is None else _EXPIRED_TOKEN, headers=_AUTHENTICATE_HEADER)
        async with self._hashing:  # of many concurrent requests with one token, only the first computes scrypt
            if (found := self._cached_token(digest, tokens)) is not None:
                return found
            self._wrong_tokens.count(request, guessed)
            if not await asyncio.to_thread(secret_matches, token, secret):
                raise HttpError(401, _UNKNOWN_TOKEN, headers=_AUTHENTICATE_HEADER)
            self._wrong_tokens.take_back(request, guessed)
        self._remembered[digest] = _VerifiedToken(id_, token.hash, self._now() + _VERIFIED_MAX_AGE)
        if len(self._remembered) > _MAX_VERIFIED:
            self._remembered.popitem(last=False)
        return id_, token

    async def redeem_link(self, request: Request, code: str) -> tuple[str, ApiToken]:
        """The id and record of the token behind an unused link; raise HttpError if the link was used or has expired."""
        key = link_code_digest(code)
        # Looked up before counting: wrong codes, which are counted, do not lock out the holder of a right one.
        is_known = LINK_PREFIX + key in await self._context.read_store(lambda store: store.settings(LINK_PREFIX))
        id_ = (await self._context.node.ask(UseSignInLink(key, address_of(request)))).token if is_known else ""
        token = (await self._known_tokens()).get(id_)
        if id_ and token is None:
            await self._read_anew()  # the token may be newer than our last read
            token = self._tokens.get(id_)
        if token is None:
            self._wrong_tokens.count(request, "link")
            detail = "this link has been used, or is too old; `evenbeat token link` makes another"
            raise HttpError(401, detail, headers=_AUTHENTICATE_HEADER)
        return id_, token

    def _cached_token(self, digest: bytes, tokens: dict[str, ApiToken]) -> tuple[str, ApiToken] | None:
        found = self._remembered.get(digest)
        if found is None:
            return None
        token = tokens.get(found.id)
        is_known = token is not None and token.hash == found.hash and not token.is_over(self._context.now())
        if token is None or not is_known or found.until <= self._now():
            del self._remembered[digest]
            return None
        self._remembered[digest] = found._replace(until=self._now() + _VERIFIED_MAX_AGE)
        self._remembered.move_to_end(digest)
        return found.id, token

    async def _identify_by_cookie(self, request: Request) -> AuthenticatedCaller | None:
        word = request.cookies.get(self.cookie, "")
        tokens = await self._known_tokens()
        session = self._session(word)
        if session is None:
            return None
        token = tokens.get(session.token)
        if token is None or token.hash != session.hash or token.is_over(self._context.now()):
            self.sessions.remove(word)
            return None
        if request.method not in SAFE_METHODS and request.headers.get("x-evenbeat") != "1":
            raise HttpError(403, "a change by a session needs the header X-Evenbeat: 1")
        require_same_origin(request, self.is_secure)
        request.scope[_GRANT_KEY] = _AccessGrant(session.token, token, word)
        return _caller_of_token(token)

    async def begin_session(self, id_: str, token: ApiToken) -> str:
        """Start a session for a token; the content of its cookie."""
        word = self.sessions.create(id_, token.hash)
        with suppress(StoreError):  # without a node the session lasts as long as this process
            await self._context.node.ask(StartPageSession(session_digest(word), id_, self._node_start_id))
            await self._read_anew()
            self.sessions.remove(word)  # so that signing out at another node ends it here too
        return word

    async def end_session(self, word: str) -> None:
        """Sign out."""
        self.sessions.remove(word)
        await self._read_anew()
        if self._stored_sessions.pop(session_digest(word), None) is not None:
            await self._context.node.ask(EndPageSession(session_digest(word)))

    def _session(self, word: str) -> CookieSession | None:
        """The session of a cookie, issued by this process or by an earlier one."""
        if (found := self.sessions.find(word)) is not None:
            return found
        stored = self._stored_sessions.get(session_digest(word)) if word else None
        token = None if stored is None else self._tokens.get(stored.token)
        if stored is None or token is None or stored.life != self._node_start_id or self._context.now() >= stored.until:
            return None
        return CookieSession(stored.token, token.hash, stored.until)

    async def _known_tokens(self) -> dict[str, ApiToken]:
        if self._is_fresh():
            return self._tokens
        async with self._reading:
            if not self._is_fresh():
                await self._read()
            return self._tokens

    async def _read_anew(self) -> None:
        async with self._reading:
            await self._read()

    async def _read(self) -> None:
        found = await self._context.read_store(
            lambda store: (store.settings(TOKEN_PREFIX), store.settings(SESSION_PREFIX))
        )
        self._tokens, self._stored_sessions = decode_tokens(found[0]), decode_sessions(found[1])
        self._read_at = self._now()

    def _is_fresh(self) -> bool:
        return self._read_at is not None and self._now() - self._read_at < _TOKENS_MAX_AGE


def _host_name(host: str) -> str:
    """The host of a Host header, without the port."""
    if host.startswith("["):
        return host[: host.find("]") + 1].strip("[]").lower()
    return host.partition(":")[0].lower()


def _caller_of_token(token: ApiToken) -> AuthenticatedCaller:
    return AuthenticatedCaller(token.name, Role[token.role.upper()], token.scope)
