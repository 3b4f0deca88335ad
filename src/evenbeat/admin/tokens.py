"""Tokens for the HTTP API as the database stores them: a hash, never the secret."""

import hashlib
import hmac
import re
import secrets
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from evenbeat.core.scope import Scope
from evenbeat.model import Instant, Invalid
from evenbeat.store.contract import Conflict, FieldChange, StoreError
from evenbeat.when.instant import format_instant
from evenbeat.when.zone import zone
from evenbeat.wire.requests import ApiToken, RoleName

if TYPE_CHECKING:
    from evenbeat.admin.task_admin import TaskAdmin

TOKEN_PREFIX: Final = "token:"  # noqa: S105
"""Prefix of settings of the store, before the id of a token."""
GENERATED_TOKEN_NAME: Final = "local-admin"  # noqa: S105
"""The name of the token that a node creates if it serves the page and there is none."""
MAX_TOKENS: Final = 1_000
_TOKEN_TEXT_PREFIX: Final = "evb_"  # noqa: S105
"""Lets people and secret scanners recognise a token."""
_ID_BYTES: Final = 8
_TEXT: Final = re.compile(r"evb_([\w-]{8})([\w-]{32})", re.ASCII)
_NAME: Final = re.compile(r"[\w.@:/+-]{1,64}", re.ASCII)


class NewApiToken(NamedTuple):
    """A newly created token, with its text, which is known only now."""

    id: str
    text: str
    token: ApiToken


def create_api_token(
    name: str, role: RoleName, now: Instant, expires: Instant | None = None, scope: Scope | None = None
) -> NewApiToken:
    """Create a token."""
    if not _NAME.fullmatch(name):
        raise Invalid(f"{name!r} cannot name a token, accepted: up to 64 letters, digits and any of . _ - @ : / +")
    id_, secret, salt = secrets.token_urlsafe(6), secrets.token_urlsafe(24), secrets.token_bytes(16)
    owner, labels = (None, {}) if scope is None else (scope.owner, dict(scope.labels))
    token = ApiToken(name, role, _hash(secret, salt).hex(), salt.hex(), now, expires, owner, labels)
    return NewApiToken(id_, f"{_TOKEN_TEXT_PREFIX}{id_}{secret}", token)


def split_token(text: str) -> tuple[str, str] | None:
    """The id and secret of a token's text; None if it has another form."""
    found = _TEXT.fullmatch(text)
    return (found[1], found[2]) if found else None


def secret_matches(token: ApiToken, secret: str) -> bool:
    """Does the secret match? Takes about 50 ms either way."""
    return hmac.compare_digest(_hash(secret, bytes.fromhex(token.salt)), bytes.fromhex(token.hash))


def _hash(secret: str, salt: bytes) -> bytes:
    return hashlib.scrypt(secret.encode(), salt=salt, n=2**14, r=8, p=1, dklen=32)


def decode_tokens(settings: Mapping[str, str]) -> dict[str, ApiToken]:
    """Tokens by id. An unreadable one raises StoreError: without any token, --open might admit everyone."""
    try:
        return {
            key.removeprefix(TOKEN_PREFIX): msgspec.json.decode(text, type=ApiToken) for key, text in settings.items()
        }
    except (msgspec.ValidationError, msgspec.DecodeError) as e:
        raise StoreError(f"a token in the database is damaged, so no token is accepted: {e}") from None


def add_token(task_admin: "TaskAdmin", id_: str, token: ApiToken, who: str) -> None:
    """Store a token."""
    with task_admin.locked():
        known = decode_tokens(task_admin.store.settings(TOKEN_PREFIX))
        if any(other.name == token.name for other in known.values()):
            raise Conflict(
                f"there is a token {token.name!r} already; `evenbeat token rm {shlex.quote(token.name)}` removes it"
            )
        if len(known) >= MAX_TOKENS:
            raise Invalid(f"there are {len(known):,} tokens already, accepted: up to {MAX_TOKENS:,}; remove some")
        task_admin.store.set_settings({TOKEN_PREFIX + id_: msgspec.json.encode(token).decode()})
        limited = "" if token.scope is None else f", limited to {token.scope}"
        task_admin.audit(f"token {token.name}", "created", who, f"{token.role}{limited}", _audit_fields(None, token))


def remove_token(task_admin: "TaskAdmin", name: str, who: str) -> None:
    """Remove a token; within a few seconds it is refused."""
    with task_admin.locked():
        known = decode_tokens(task_admin.store.settings(TOKEN_PREFIX))
        found = [id_ for id_, token in known.items() if token.name == name]
        if not found:
            raise Invalid(f"there is no token {name!r}; `evenbeat token ls` lists them")
        task_admin.store.set_settings(dict.fromkeys(TOKEN_PREFIX + id_ for id_ in found))
        task_admin.audit(f"token {name}", "removed", who, fields=_audit_fields(known[found[0]], None))


def _audit_fields(old: ApiToken | None, new: ApiToken | None) -> list[FieldChange]:
    """The public facts of a token, for the audit."""
    before, after = ({} if token is None else _audit_values(token) for token in (old, new))
    return [FieldChange(key, before.get(key), after.get(key)) for key in before | after]


def _audit_values(token: ApiToken) -> dict[str, str]:
    expires = {} if token.expires is None else {"expires": format_instant(token.expires, zone("UTC"))}
    limited = {} if token.scope is None else {"limited": str(token.scope)}
    return {"role": token.role, **expires, **limited}
