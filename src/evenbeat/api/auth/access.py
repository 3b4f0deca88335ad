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

from evenbeat.admin.page_sessions import SESSIONS, PageSession, sessions_in
from evenbeat.admin.sign_in_links import LINKS, digest
from evenbeat.admin.tokens import TOKENS, Token, matches, parts, tokens_in
from evenbeat.api.auth.session import COOKIE, Session, Sessions
from evenbeat.api.auth.session import digest as session_digest
from evenbeat.api.http.context import House
from evenbeat.api.http.errors import Problem
from evenbeat.api.http.rate_limit import Buckets, address_key
from evenbeat.api.http.route import Role, address_of
from evenbeat.core.access_rules import needs_no_token
from evenbeat.core.scope import Scope
from evenbeat.node.process.listen import is_loopback
from evenbeat.store.contract import StoreError
from evenbeat.wire.requests import EndSession, KeepSession, UseLink

_FRESH: Final = 2.0
"""Seconds after which the tokens are read again: so long a removed one may still work."""
_REMEMBERED: Final = 60.0
"""Seconds after its last use that a token is known again without the work of scrypt."""
_MOST_REMEMBERED: Final = 10_000
_FAILURES: Final = 10
"""Wrong tokens from one address in a minute."""
_NOTED: Final = 10
"""Sign-ins of one token from one address in a minute that the audit has."""
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_FORWARDED: Final = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
_ADMISSION: Final = "evenbeat.admission"
"""Where a request has what it was let in with."""
_ASKS: Final = {"www-authenticate": 'Bearer realm="evenbeat"'}
_UNKNOWN: Final = "this token is not known here"
_EXPIRED: Final = "this token has expired"


class Caller(NamedTuple):
    """Who asks, for the audit, and what they may do."""

    who: str
    role: Role
    scope: Scope | None = None
    """To what the token is limited."""


class _Admission(NamedTuple):
    """What somebody was let in with: a token, maybe by way of a session; without both by an open door."""

    id: str = ""
    token: Token | None = None
    session: str = ""
    """What is in the cookie."""


class _Remembered(NamedTuple):
    id: str
    hash: str
    until: float


class Access:
    """Lets callers in, or says what they lack."""

    def __init__(
        self,
        house: House,
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
        self.cookie: Final = COOKIE if port is None else f"{COOKIE}_{port}"
        self._life = life
        self._may_be_open = is_open
        self.sessions: Final = Sessions(now)
        self._house = house
        self._host = host
        self._now = now
        self._tokens: dict[str, Token] = {}
        self._kept: dict[str, PageSession] = {}
        """Sessions that the database has."""
        self._read_at: float | None = None
        self._reading = asyncio.Lock()
        self._hashing = asyncio.Lock()
        self._remembered: OrderedDict[bytes, _Remembered] = OrderedDict()
        self._failures = Buckets(_FAILURES, _FAILURES / 60, now)
        self.noted_sign_ins: Final = Buckets(_NOTED, _NOTED / 60, now)

    async def admit(self, request: Request, role: Role) -> Caller:
        """Who it is; raise Problem if they may not do what needs this role."""
        request.scope["evenbeat.access"] = self  # for the routes of sessions
        if role is Role.ANYBODY:
            _must_be_same_origin(request, self.is_secure)
            return Caller(address_of(request), Role.ANYBODY)
        caller = await self.known(request)
        if caller is None:
            detail = "a token is needed: Authorization: Bearer evb_...; `evenbeat token add NAME --role ROLE` makes one"
            raise Problem(401, detail, headers=_ASKS)
        if caller.role < role:
            found, needed = caller.role.name.lower(), role.name.lower()
            raise Problem(403, f"{caller.who} has the role {found}, and this needs {needed}", who=caller.who)
        return caller

    async def still_admits(self, request: Request) -> bool:
        """Is what a request was let in with still good? Tokens are removed and expire, sessions and open doors end."""
        held: _Admission | None = request.scope.get(_ADMISSION)
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

    async def known(self, request: Request) -> Caller | None:
        """Who it is, None if they do not say; raise Problem if what they say is wrong."""
        if await self.is_open():
            self.must_be_local(request)
            _must_be_same_origin(request, self.is_secure)
            request.scope[_ADMISSION] = _Admission()
            return Caller(address_of(request), Role.ADMIN)
        if (said := request.headers.get("authorization")) is not None:
            scheme, _, text = said.partition(" ")
            if scheme.lower() != "bearer":
                raise Problem(401, "accepted in Authorization: Bearer and a token", headers=_ASKS)
            id_, token = await self.verified(request, text.strip())
            request.scope[_ADMISSION] = _Admission(id_, token)
            return _caller(token)
        return await self._of_session(request)

    def must_be_local(self, request: Request) -> None:
        """Is it meant for this machine, and from it? A page of somebody else's may have its own name lead to us."""
        for name in _FORWARDED:
            if name in request.headers:
                detail = "what comes through a proxy needs a token; `evenbeat token add NAME` makes the first one"
                raise Problem(403, f"{name}: {detail}")
        name = _name_in(request.headers.get("host", ""))
        if name != self._host.lower() and not is_loopback(name):
            raise Problem(403, f"Host {name!r}, accepted: localhost, a loopback address, or {self._host}")

    async def verified(self, request: Request, text: str) -> tuple[str, Token]:
        """A token, and its id, by its text; raise Problem if it is none of ours, or too many were not."""
        tokens = await self._known_tokens()
        digest = hashlib.sha256(text.encode(errors="replace")).digest()
        if (found := self._recalled(digest, tokens)) is not None:
            return found
        id_, secret = parts(text) or ("", "")
        token = tokens.get(id_)
        # Of tokens that exist, one bucket each: whoever guesses does not shut out who knows, behind the same proxy.
        key = f"{address_key(address_of(request))} {id_ if token else ''}"
        if token is None or token.is_over(self._house.now()):
            # Without the work of scrypt: nothing that is said with it can let anybody in.
            self._may_fail(key)
            raise Problem(401, _UNKNOWN if token is None else _EXPIRED, headers=_ASKS)
        async with self._hashing:  # of many who ask at once, one does the work
            if (found := self._recalled(digest, tokens)) is not None:
                return found
            self._may_fail(key)
            if not await asyncio.to_thread(matches, token, secret):
                raise Problem(401, _UNKNOWN, headers=_ASKS)
            self._failures.give_back(key)
        self._remembered[digest] = _Remembered(id_, token.hash, self._now() + _REMEMBERED)
        if len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return id_, token

    async def signed_in_by_link(self, request: Request, code: str) -> tuple[str, Token]:
        """The token of a link that nobody has used yet, and its id; raise Problem if the link is not good any more."""
        key = digest(code)
        # Looked for first: whoever tries wrong ones, which are counted, does not shut out who has a right one.
        is_known = LINKS + key in await self._house.read(lambda store: store.settings(LINKS))
        id_ = (await self._house.ask(UseLink(key, address_of(request)))).token if is_known else ""
        token = (await self._known_tokens()).get(id_)
        if id_ and token is None:
            await self._read_anew()  # a token that is newer than our last look
            token = self._tokens.get(id_)
        if token is None:
            self._may_fail(f"{address_key(address_of(request))} link")
            detail = "this link has been used, or is too old; `evenbeat token link` makes another"
            raise Problem(401, detail, headers=_ASKS)
        return id_, token

    def _recalled(self, digest: bytes, tokens: dict[str, Token]) -> tuple[str, Token] | None:
        found = self._remembered.get(digest)
        if found is None:
            return None
        token = tokens.get(found.id)
        is_known = token is not None and token.hash == found.hash and not token.is_over(self._house.now())
        if token is None or not is_known or found.until <= self._now():
            del self._remembered[digest]
            return None
        self._remembered[digest] = found._replace(until=self._now() + _REMEMBERED)
        self._remembered.move_to_end(digest)
        return found.id, token

    def _may_fail(self, key: str) -> None:
        if seconds := self._failures.take(key):
            detail = f"too many wrong tokens; try again in {seconds} s"
            raise Problem(429, detail, headers={"retry-after": str(seconds)})

    async def _of_session(self, request: Request) -> Caller | None:
        word = request.cookies.get(self.cookie, "")
        tokens = await self._known_tokens()
        session = self._session(word)
        if session is None:
            return None
        token = tokens.get(session.token)
        if token is None or token.hash != session.hash or token.is_over(self._house.now()):
            self.sessions.close(word)
            return None
        if request.method not in _SAFE and request.headers.get("x-evenbeat") != "1":
            raise Problem(403, "a change by a session needs the header X-Evenbeat: 1")
        _must_be_same_origin(request, self.is_secure)
        request.scope[_ADMISSION] = _Admission(session.token, token, word)
        return _caller(token)

    async def begin_session(self, id_: str, token: Token) -> str:
        """What to put into a cookie that stands for a token from now on."""
        word = self.sessions.open(id_, token.hash)
        with suppress(StoreError):  # without a node it lasts as long as this process
            await self._house.ask(KeepSession(session_digest(word), id_, self._life))
            await self._read_anew()
            self.sessions.close(word)  # so that it ends here too if somebody signs out at another node
        return word

    async def end_session(self, word: str) -> None:
        """Somebody signs out."""
        self.sessions.close(word)
        await self._read_anew()
        if self._kept.pop(session_digest(word), None) is not None:
            await self._house.ask(EndSession(session_digest(word)))

    def _session(self, word: str) -> Session | None:
        """What a cookie stands for that this process has given, or one before it."""
        if (found := self.sessions.find(word)) is not None:
            return found
        kept = self._kept.get(session_digest(word)) if word else None
        token = None if kept is None else self._tokens.get(kept.token)
        if kept is None or token is None or kept.life != self._life or self._house.now() >= kept.until:
            return None
        return Session(kept.token, token.hash, kept.until)

    async def _known_tokens(self) -> dict[str, Token]:
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
        found = await self._house.read(lambda store: (store.settings(TOKENS), store.settings(SESSIONS)))
        self._tokens, self._kept = tokens_in(found[0]), sessions_in(found[1])
        self._read_at = self._now()

    def _is_fresh(self) -> bool:
        return self._read_at is not None and self._now() - self._read_at < _FRESH


def _must_be_same_origin(request: Request, is_secure: bool) -> None:  # noqa: FBT001
    """What changes something comes from our own page, or from no page at all."""
    if request.method in _SAFE:
        return
    if request.headers.get("sec-fetch-site", "none") not in ("same-origin", "none"):
        raise Problem(403, "this comes from a page of somebody else's")
    origin = request.headers.get("origin")
    if origin is None:
        return
    parsed = urlsplit(origin)
    schemes = ("https",) if is_secure else ("http", "https")
    if parsed.scheme not in schemes or parsed.netloc.lower() != request.headers.get("host", "").lower():
        raise Problem(403, "this comes from a page of somebody else's: its Origin is not where it was sent")


def _name_in(host: str) -> str:
    """Of a Host header, without the port."""
    if host.startswith("["):
        return host[: host.find("]") + 1].strip("[]").lower()
    return host.partition(":")[0].lower()


def _caller(token: Token) -> Caller:
    return Caller(token.name, Role[token.role.upper()], token.scope)
