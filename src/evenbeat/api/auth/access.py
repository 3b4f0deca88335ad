"""Who may do what: who shows a token or has a session; everybody on this machine only if the node was started so."""

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request

from evenbeat.admin.page_sessions import SESSION_PREFIX, PageSession, decode_sessions
from evenbeat.admin.sign_in_links import LINK_PREFIX, link_code_digest
from evenbeat.admin.tokens import TOKEN_PREFIX, decode_tokens, secret_matches, split_token
from evenbeat.api.auth.session import COOKIE_NAME, CookieSession, InMemorySessions
from evenbeat.api.auth.session import cookie_digest as session_digest
from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.errors import HttpError
from evenbeat.api.http.rate_limit import RateLimiter, client_network
from evenbeat.api.http.route import Role, address_of
from evenbeat.core.access_rules import needs_no_token
from evenbeat.core.scope import Scope
from evenbeat.node.process.listen import is_loopback
from evenbeat.store.contract import StoreError
from evenbeat.wire.requests import ApiToken, EndPageSession, StartPageSession, UseSignInLink

_TOKENS_MAX_AGE: Final = 2.0
"""Seconds after which the tokens are read again: so long a removed one may still work."""
_VERIFIED_MAX_AGE: Final = 60.0
"""Seconds after its last use that a token is known again without the work of scrypt."""
_MAX_VERIFIED: Final = 10_000
_MAX_FAILURES_PER_MINUTE: Final = 10
"""Wrong tokens from one address in a minute."""
_MAX_SIGN_INS_AUDITED_PER_MINUTE: Final = 10
"""Sign-ins of one token from one address in a minute that the audit has."""
_SAFE_METHODS: Final = ("GET", "HEAD", "OPTIONS")
_PROXY_HEADERS: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_GRANT_KEY: Final = "evenbeat.admission"
"""Where a request has what it was let in with."""
_AUTHENTICATE_HEADER: Final = {"www-authenticate": 'Bearer realm="evenbeat"'}
_UNKNOWN_TOKEN: Final = "this token is not known here"  # noqa: S105
_EXPIRED_TOKEN: Final = "this token has expired"  # noqa: S105


class AuthenticatedCaller(NamedTuple):
    """Who asks, for the audit, and what they may do."""

    who: str
    role: Role
    scope: Scope | None = None
    """To what the token is limited."""


class _AccessGrant(NamedTuple):
    """What somebody was let in with: a token, maybe by way of a session; without both by an open door."""

    id: str = ""
    token: ApiToken | None = None
    session: str = ""
    """What is in the cookie."""


class _VerifiedToken(NamedTuple):
    id: str
    hash: str
    until: float


class TokenAuthenticator:
    """Lets callers in, or says what they lack."""

    def __init__(
        self,
        house: ApiContext,
        host: str,
        port: int | None = None,
        life: str = "",
        *,
        is_secure: bool = False,
        is_open: bool = False,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`host`, `port`: what the server listens on; `is_secure`: whether it speaks TLS itself.

        `life`: for which start of the node its sessions are good, empty for all: see `node.page_session`.
        `is_open`: every user of this machine is let in without a token, as long as there are none.
        """
        self.is_secure: Final = is_secure
        # Browsers send the cookies of a host to all its ports: nodes beside each other must not take one for theirs.
        self.cookie: Final = COOKIE_NAME if port is None else f"{COOKIE_NAME}_{port}"
        self._node_start_id = life
        self._may_be_open = is_open
        self.sessions: Final = InMemorySessions(now)
        self._house = house
        self._host = host
        self._now = now
        self._tokens: dict[str, ApiToken] = {}
        self._stored_sessions: dict[str, PageSession] = {}
        """Sessions that the database has."""
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self._hashing = asyncio.Lock()
        self._remembered: OrderedDict[bytes, _VerifiedToken] = OrderedDict()
        self._failures = RateLimiter(_MAX_FAILURES_PER_MINUTE, _MAX_FAILURES_PER_MINUTE / 60, now)
        self.noted_sign_ins: Final = RateLimiter(
            _MAX_SIGN_INS_AUDITED_PER_MINUTE, _MAX_SIGN_INS_AUDITED_PER_MINUTE / 60, now
        )

    async def authenticate(self, request: Request, role: Role) -> AuthenticatedCaller:
        """Who it is; raise Problem if they may not do what needs this role."""
        request.scope["evenbeat.access"] = self  # for the routes of sessions
        if role is Role.ANYBODY:
            _require_same_origin(request, self.is_secure)
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
        """Is what a request was let in with still good? Tokens are removed and expire, sessions and open doors end."""
        held: _AccessGrant | None = request.scope.get(_GRANT_KEY)
        if held is None:
            return True  # what everybody may do
        if held.token is None:
            return await self.is_open()
        tokens = await self._known_tokens()
        if held.session and self._session(held.session) is None:
            return False
        token = tokens.get(held.id)
        return token == held.token and not held.token.is_over(self._house.now())

    async def is_open(self) -> bool:
        """May everybody on this machine do everything?"""
        if not self._may_be_open:
            return False
        has_tokens = bool(await self._known_tokens())
        return needs_no_token(is_open=True, is_loopback=is_loopback(self._host), has_tokens=has_tokens)

    async def identify(self, request: Request) -> AuthenticatedCaller | None:
        """Who it is, None if they do not say; raise Problem if what they say is wrong."""
        if await self.is_open():
            self.require_local(request)
            _require_same_origin(request, self.is_secure)
            request.scope[_GRANT_KEY] = _AccessGrant()
            return AuthenticatedCaller(address_of(request), Role.ADMIN)
        if (said := request.headers.get("authorization")) is not None:
            scheme, _, text = said.partition(" ")
            if scheme.lower() != "bearer":
                raise HttpError(401, "accepted in Authorization: Bearer and a token", headers=_AUTHENTICATE_HEADER)
            id_, token = await self.verify_token(request, text.strip())
            request.scope[_GRANT_KEY] = _AccessGrant(id_, token)
            return _caller_of_token(token)
        return await self._identify_by_cookie(request)

    def require_local(self, request: Request) -> None:
        """Is it meant for this machine, and from it? A page of somebody else's may have its own name lead to us."""
        for name in _PROXY_HEADERS:
            if name in request.headers:
                detail = "what comes through a proxy needs a token; `evenbeat token add NAME` makes the first one"
                raise HttpError(403, f"{name}: {detail}")
        name = _host_name(request.headers.get("host", ""))
        if name != self._host.lower() and not is_loopback(name):
            raise HttpError(403, f"Host {name!r}, accepted: localhost, a loopback address, or {self._host}")

    async def verify_token(self, request: Request, text: str) -> tuple[str, ApiToken]:
        """A token, and its id, by its text; raise Problem if it is none of ours, or too many were not."""
        tokens = await self._known_tokens()
        digest = hashlib.sha256(text.encode(errors="replace")).digest()
        if (found := self._cached_token(digest, tokens)) is not None:
            return found
        id_, secret = split_token(text) or ("", "")
        token = tokens.get(id_)
        # Of tokens that exist, one bucket each: whoever guesses does not shut out who knows, behind the same proxy.
        key = f"{client_network(address_of(request))} {id_ if token else ''}"
        if token is None or token.is_over(self._house.now()):
            # Without the work of scrypt: nothing that is said with it can let anybody in.
            self._count_failure(key)
            raise HttpError(401, _UNKNOWN_TOKEN if token is None else _EXPIRED_TOKEN, headers=_AUTHENTICATE_HEADER)
        async with self._hashing:  # of many who ask at once, one does the work
            if (found := self._cached_token(digest, tokens)) is not None:
                return found
            self._count_failure(key)
            if not await asyncio.to_thread(secret_matches, token, secret):
                raise HttpError(401, _UNKNOWN_TOKEN, headers=_AUTHENTICATE_HEADER)
            self._failures.give_back(key)
        self._remembered[digest] = _VerifiedToken(id_, token.hash, self._now() + _VERIFIED_MAX_AGE)
        if len(self._remembered) > _MAX_VERIFIED:
            self._remembered.popitem(last=False)
        return id_, token

    async def redeem_link(self, request: Request, code: str) -> tuple[str, ApiToken]:
        """The token of a link that nobody has used yet, and its id; raise Problem if the link is not good any more."""
        key = link_code_digest(code)
        # Looked for first: whoever tries wrong ones, which are counted, does not shut out who has a right one.
        is_known = LINK_PREFIX + key in await self._house.read_store(lambda store: store.settings(LINK_PREFIX))
        id_ = (await self._house.ask_node(UseSignInLink(key, address_of(request)))).token if is_known else ""
        token = (await self._known_tokens()).get(id_)
        if id_ and token is None:
            await self._read_anew()  # a token that is newer than our last look
            token = self._tokens.get(id_)
        if token is None:
            self._count_failure(f"{client_network(address_of(request))} link")
            detail = "this link has been used, or is too old; `evenbeat token link` makes another"
            raise HttpError(401, detail, headers=_AUTHENTICATE_HEADER)
        return id_, token

    def _cached_token(self, digest: bytes, tokens: dict[str, ApiToken]) -> tuple[str, ApiToken] | None:
        found = self._remembered.get(digest)
        if found is None:
            return None
        token = tokens.get(found.id)
        is_known = token is not None and token.hash == found.hash and not token.is_over(self._house.now())
        if token is None or not is_known or found.until <= self._now():
            del self._remembered[digest]
            return None
        self._remembered[digest] = found._replace(until=self._now() + _VERIFIED_MAX_AGE)
        self._remembered.move_to_end(digest)
        return found.id, token

    def _count_failure(self, key: str) -> None:
        if seconds := self._failures.take_token(key):
            detail = f"too many wrong tokens; try again in {seconds} s"
            raise HttpError(429, detail, headers={"retry-after": str(seconds)})

    async def _identify_by_cookie(self, request: Request) -> AuthenticatedCaller | None:
        word = request.cookies.get(self.cookie, "")
        tokens = await self._known_tokens()
        session = self._session(word)
        if session is None:
            return None
        token = tokens.get(session.token)
        if token is None or token.hash != session.hash or token.is_over(self._house.now()):
            self.sessions.remove(word)
            return None
        if request.method not in _SAFE_METHODS and request.headers.get("x-evenbeat") != "1":
            raise HttpError(403, "a change by a session needs the header X-Evenbeat: 1")
        _require_same_origin(request, self.is_secure)
        request.scope[_GRANT_KEY] = _AccessGrant(session.token, token, word)
        return _caller_of_token(token)

    async def begin_session(self, id_: str, token: ApiToken) -> str:
        """What to put into a cookie that stands for a token from now on."""
        word = self.sessions.create(id_, token.hash)
        with suppress(StoreError):  # without a node it lasts as long as this process
            await self._house.ask_node(StartPageSession(session_digest(word), id_, self._node_start_id))
            await self._read_anew()
            self.sessions.remove(word)  # so that it ends here too if somebody signs out at another node
        return word

    async def end_session(self, word: str) -> None:
        """Somebody signs out."""
        self.sessions.remove(word)
        await self._read_anew()
        if self._stored_sessions.pop(session_digest(word), None) is not None:
            await self._house.ask_node(EndPageSession(session_digest(word)))

    def _session(self, word: str) -> CookieSession | None:
        """What a cookie stands for that this process has given, or one before it."""
        if (found := self.sessions.find(word)) is not None:
            return found
        kept = self._stored_sessions.get(session_digest(word)) if word else None
        token = None if kept is None else self._tokens.get(kept.token)
        if kept is None or token is None or kept.life != self._node_start_id or self._house.now() >= kept.until:
            return None
        return CookieSession(kept.token, token.hash, kept.until)

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
        found = await self._house.read_store(
            lambda store: (store.settings(TOKEN_PREFIX), store.settings(SESSION_PREFIX))
        )
        self._tokens, self._stored_sessions = decode_tokens(found[0]), decode_sessions(found[1])
        self._read_at = self._now()

    def _is_fresh(self) -> bool:
        return self._read_at is not None and self._now() - self._read_at < _TOKENS_MAX_AGE


def _require_same_origin(request: Request, is_secure: bool) -> None:  # noqa: FBT001
    """What changes something comes from our own page, or from no page at all."""
    if request.method in _SAFE_METHODS:
        return
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise HttpError(403, "this comes from a page of somebody else's")
    origin = request.headers.get("origin")
    if origin is None:
        return
    parsed = urlsplit(origin)
    schemes = ("https",) if is_secure else ("http", "https")
    if parsed.scheme not in schemes or parsed.netloc.lower() != request.headers.get("host", "").lower():
        raise HttpError(403, "this comes from a page of somebody else's: its Origin is not where it was sent")


def _host_name(host: str) -> str:
    """Of a Host header, without the port."""
    if host.startswith("["):
        return host[: host.find("]") + 1].strip("[]").lower()
    return host.partition(":")[0].lower()


def _caller_of_token(token: ApiToken) -> AuthenticatedCaller:
    return AuthenticatedCaller(token.name, Role[token.role.upper()], token.scope)
