"""Tokens for the HTTP API, as the database keeps them: not the secret, only what it is recognised by."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec
from msgspec import Struct

from evenbeat.core.scope import Scope
from evenbeat.model import Instant, Invalid
from evenbeat.store.contract import Conflict, FieldChange, StoreError
from evenbeat.when.instant import format_instant
from evenbeat.when.zone import zone

if TYPE_CHECKING:
    from evenbeat.admin.task_admin import Desk

TOKENS: Final = "token:"
"""Before the id of a token in the store's settings."""
GENERATED: Final = "local-admin"
"""The name of the token that a node makes if it serves its page and has none."""
MOST_TOKENS: Final = 1_000
_MARK: Final = "evb_"
"""So that people and scanners of repositories know a token when they see one."""
_ID: Final = 8
_TEXT: Final = re.compile(r"evb_([\w-]{8})([\w-]{32})", re.ASCII)
_NAME: Final = re.compile(r"[\w.@:/+-]{1,64}", re.ASCII)

RoleName = Literal["read", "operate", "admin"]


class Token(Struct, frozen=True, omit_defaults=True):
    """What is known of a token."""

    name: str
    role: RoleName
    hash: str
    """Of its secret, by scrypt, in hexadecimal digits."""
    salt: str
    created: Instant
    expires: Instant | None = None
    owner: str | None = None
    labels: dict[str, str] = {}
    """Only tasks of this owner, with these labels."""

    @property
    def scope(self) -> Scope | None:
        """To what it is limited; None for nothing."""
        return Scope(self.owner, self.labels) if self.owner is not None or self.labels else None

    def is_over(self, now: Instant) -> bool:
        """Has its time passed?"""
        return self.expires is not None and now >= self.expires


class NewToken(NamedTuple):
    """A token as it is at its beginning, the only time that its text is known."""

    id: str
    text: str
    token: Token


def new_token(
    name: str, role: RoleName, now: Instant, expires: Instant | None = None, scope: Scope | None = None
) -> NewToken:
    """Draw one."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name!r} cannot name a token, accepted: up to 64 letters, digits and any of . _ - @ : / +")
    id_, secret, salt = secrets.token_urlsafe(6), secrets.token_urlsafe(24), secrets.token_bytes(16)
    owner, labels = (None, {}) if scope is None else (scope.owner, dict(scope.labels))
    token = Token(name, role, _hash(secret, salt).hex(), salt.hex(), now, expires, owner, labels)
    return NewToken(id_, f"{_MARK}{id_}{secret}", token)


def parts(text: str) -> tuple[str, str] | None:
    """The id and the secret of what may be a token; None if it cannot be one."""
    found = _TEXT.fullmatch(text)
    return (found[1], found[2]) if found else None


def matches(token: Token, secret: str) -> bool:
    """Is this its secret? Takes some 50 ms, whatever the answer."""
    return hmac.compare_digest(_hash(secret, bytes.fromhex(token.salt)), bytes.fromhex(token.hash))


def _hash(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)


def tokens_in(settings: Mapping[str, str]) -> dict[str, Token]:
    """Tokens by id. One that cannot be read is a StoreError: as if it were not there, a door might stand open."""
    try:
        return {key.removeprefix(TOKENS): msgspec.json.decode(text, type=Token) for key, text in settings.items()}
    except (msgspec.ValidationError, msgspec.DecodeError) as e:
        raise StoreError(f"a token in the database is damaged, so nobody is let in: {e}") from None


def add_token(desk: "Desk", id_: str, token: Token, who: str) -> None:
    """Keep it."""
    with desk.at_rest():
        known = tokens_in(desk.store.settings(TOKENS))
        if any(other.name == token.name for other in known.values()):
            raise Conflict(f"there is a token {token.name!r} already; `evenbeat token rm {token.name}` removes it")
        if len(known) >= MOST_TOKENS:
            raise Invalid(f"there are {len(known):,} tokens already, accepted: up to {MOST_TOKENS:,}; remove some")
        desk.store.set_settings({TOKENS + id_: msgspec.json.encode(token).decode()})
        limited = "" if token.scope is None else f", limited to {token.scope}"
        desk.note(f"token {token.name}", "created", who, f"{token.role}{limited}", _fields(None, token))


def remove_token(desk: "Desk", name: str, who: str) -> None:
    """Whoever has it is not let in any more, from a few seconds on."""
    with desk.at_rest():
        known = tokens_in(desk.store.settings(TOKENS))
        found = [id_ for id_, token in known.items() if token.name == name]
        if not found:
            raise Invalid(f"there is no token {name!r}; `evenbeat token ls` lists them")
        desk.store.set_settings(dict.fromkeys(TOKENS + id_ for id_ in found))
        desk.note(f"token {name}", "removed", who, fields=_fields(known[found[0]], None))


def _fields(old: Token | None, new: Token | None) -> list[FieldChange]:
    """What may be known of a token, for the audit."""
    before, after = ({} if token is None else _said(token) for token in (old, new))
    return [FieldChange(key, before.get(key), after.get(key)) for key in before | after]


def _said(token: Token) -> dict[str, str]:
    expires = {} if token.expires is None else {"expires": format_instant(token.expires, zone("UTC"))}
    limited = {} if token.scope is None else {"limited": str(token.scope)}
    return {"role": token.role, **expires, **limited}
