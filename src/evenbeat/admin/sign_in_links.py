"""Sign-in links, each valid once and for a few minutes. The database stores only a digest of each code."""

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
"""Prefix of settings of the store, before the digest of a code."""


class SignInLink(Struct, frozen=True):
    """A stored link."""

    token: str
    """The id of the token that the session will belong to."""
    expires: Instant


def new_link_code() -> str:
    """A secret of 256 bits: nobody can guess it, so a plain digest of it is safe to keep."""
    return secrets.token_urlsafe(32)


def link_code_digest(code: str) -> str:
    """The digest by which a code is found."""
    return hashlib.sha256(code.encode(errors="replace")).hexdigest()


def sign_in_url(page: str, code: str) -> str:
    """The URL of a link. The part after # stays in the browser: no server, proxy or log sees it."""
    return f"{page}#/sign-in/{code}"


def create_sign_in_link(task_admin: "TaskAdmin", digest_: str, name: str | None, who: str, page: str) -> NewSignInLink:
    """Store a new link for a token, by default for the one that the node has created."""
    if not page:
        raise Invalid("the node serves no page that a link could lead to: start it with --listen 8629")
    with task_admin.locked():
        id_, now = _find_token_id(task_admin, name), task_admin.now()
        token, expires = decode_tokens(task_admin.store.settings(TOKEN_PREFIX))[id_], link_expires(now)
        if token.is_over(now):
            another = f"`evenbeat token add NAME --role {token.role}` makes another"
            raise Invalid(f"the token {token.name} has expired; {another}")
        known = _stored_links(task_admin)
        good = sorted((key for key in known if is_good(known[key].expires, now)), key=lambda key: known[key].expires)
        dropped = known.keys() - set(
            good[len(good) - MAX_SIGN_IN_LINKS + 1 :] if len(good) >= MAX_SIGN_IN_LINKS else good
        )
        kept = msgspec.json.encode(SignInLink(id_, expires)).decode()
        task_admin.store.set_settings({**dict.fromkeys(dropped), LINK_PREFIX + digest_: kept})
        task_admin.audit(f"token {token.name}", "sign-in link created", who)
    return NewSignInLink(token.name, token.role, expires, page)


def _find_token_id(task_admin: "TaskAdmin", name: str | None) -> str:
    """The id of a token by its name."""
    known = {token.name: id_ for id_, token in decode_tokens(task_admin.store.settings(TOKEN_PREFIX)).items()}
    if (found := known.get(GENERATED_TOKEN_NAME if name is None else name)) is not None:
        return found
    if not known:
        raise Invalid("there is no token that a link could stand for: `evenbeat token add NAME --role admin` makes one")
    if name is None:
        raise Invalid(f"for which token? `evenbeat token link NAME`, one of: {', '.join(sorted(known)[:20])}")
    raise Invalid(f"there is no token {name!r}; `evenbeat token ls` lists them")


def use_sign_in_link(task_admin: "TaskAdmin", digest_: str, who: str) -> str:
    """Use a link: the id of its token, once. Empty if the link was used, has expired, or never existed."""
    with task_admin.locked():
        found = _stored_links(task_admin).get(LINK_PREFIX + digest_)
        if found is None:
            return ""
        task_admin.store.set_settings({LINK_PREFIX + digest_: None})
        token = decode_tokens(task_admin.store.settings(TOKEN_PREFIX)).get(found.token)
        if token is None or token.is_over(task_admin.now()) or not is_good(found.expires, task_admin.now()):
            return ""
        task_admin.audit(f"token {token.name}", "signed in by link", who)
        return found.token


def _stored_links(task_admin: "TaskAdmin") -> dict[str, SignInLink]:
    """All unused links, by their keys."""
    try:
        settings = task_admin.store.settings(LINK_PREFIX)
        return {key: msgspec.json.decode(text, type=SignInLink) for key, text in settings.items()}
    except (msgspec.ValidationError, msgspec.DecodeError) as e:
        raise StoreError(f"a sign-in link in the database is damaged, so none is taken: {e}") from None
