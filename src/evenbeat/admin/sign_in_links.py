"""Links to sign in with, each good once and for a few minutes: the database keeps only a digest of each code."""

import hashlib
import secrets
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from evenbeat.admin.tokens import GENERATED_TOKEN_NAME, TOKEN_PREFIX, decode_tokens
from evenbeat.core.access_rules import MAX_SIGN_IN_LINKS, is_good, link_expires
from evenbeat.model import Instant, Invalid
from evenbeat.store.contract import StoreError
from evenbeat.wire.replies import NewSignInLink

if TYPE_CHECKING:
    from evenbeat.admin.task_admin import TaskAdmin

LINK_PREFIX: Final = "link:"
"""Before the digest of a code in the store's settings."""


class SignInLink(Struct, frozen=True):
    """What is known of a link."""

    token: str
    """The id of the token that its session stands for."""
    expires: Instant


def new_link_code() -> str:
    """A secret of 256 bits: nobody can guess it, so a plain digest of it is safe to keep."""
    return secrets.token_urlsafe(32)


def link_code_digest(code: str) -> str:
    """What a code is recognised by."""
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()


def sign_in_url(page: str, code: str) -> str:
    """The link. What follows the # stays in the browser: no server, proxy or log sees it."""
    return f"{page}#/sign-in/{code}"


def create_sign_in_link(desk: "TaskAdmin", digest_: str, name: str | None, who: str, page: str) -> NewSignInLink:
    """Keep a new link for a token, by default for the one that the node has made."""
    if not page:
        raise Invalid("the node serves no page that a link could lead to: start it with --listen 8629")
    with desk.locked():
        id_, now = _find_token_id(desk, name), desk.now()
        token, expires = decode_tokens(desk.store.settings(TOKEN_PREFIX))[id_], link_expires(now)
        if token.is_over(now):
            another = f"`evenbeat token add NAME --role {token.role}` makes another"
            raise Invalid(f"the token {token.name} has expired; {another}")
        known = _stored_links(desk)
        good = sorted((key for key in known if is_good(known[key].expires, now)), key=lambda key: known[key].expires)
        dropped = known.keys() - set(
            good[len(good) - MAX_SIGN_IN_LINKS + 1 :] if len(good) >= MAX_SIGN_IN_LINKS else good
        )
        kept = msgspec.json.encode(SignInLink(id_, expires)).decode()
        desk.store.set_settings({**dict.fromkeys(dropped), LINK_PREFIX + digest_: kept})
        desk.audit(f"token {token.name}", "sign-in link created", who)
    return NewSignInLink(token.name, token.role, expires, page)


def _find_token_id(desk: "TaskAdmin", name: str | None) -> str:
    """The id of a token by its name."""
    known = {token.name: id_ for id_, token in decode_tokens(desk.store.settings(TOKEN_PREFIX)).items()}
    if (found := known.get(GENERATED_TOKEN_NAME if name is None else name)) is not None:
        return found
    if not known:
        raise Invalid("there is no token that a link could stand for: `evenbeat token add NAME --role admin` makes one")
    if name is None:
        raise Invalid(f"for which token? `evenbeat token link NAME`, one of: {', '.join(sorted(known)[:20])}")
    raise Invalid(f"there is no token {name!r}; `evenbeat token ls` lists them")


def use_sign_in_link(desk: "TaskAdmin", digest_: str, who: str) -> str:
    """The id of its token, once: from now on the link opens nothing. Empty if it was used, is too old, or never was."""
    with desk.locked():
        found = _stored_links(desk).get(LINK_PREFIX + digest_)
        if found is None:
            return ""
        desk.store.set_settings({LINK_PREFIX + digest_: None})
        token = decode_tokens(desk.store.settings(TOKEN_PREFIX)).get(found.token)
        if token is None or token.is_over(desk.now()) or not is_good(found.expires, desk.now()):
            return ""
        desk.audit(f"token {token.name}", "signed in by link", who)
        return found.token


def _stored_links(desk: "TaskAdmin") -> dict[str, SignInLink]:
    """All that were not used, by their keys."""
    try:
        return {
            key: msgspec.json.decode(text, type=SignInLink) for key, text in desk.store.settings(LINK_PREFIX).items()
        }
    except (msgspec.ValidationError, msgspec.DecodeError) as e:
        raise StoreError(f"a sign-in link in the database is damaged, so none is taken: {e}") from None
