"""Rules of access to the HTTP API: access without a token, the first token of a node, the life of sign-in links."""

from enum import Enum
from typing import Final

from evenbeat.model import MINUTE, Instant

SIGN_IN_LINK_LIFETIME: Final = 10 * MINUTE
"""Long enough to open a browser; a link that is found in a scrollback later opens nothing."""
MAX_SIGN_IN_LINKS: Final = 100
"""Unused links at the same time; the oldest gives way."""


class FirstToken(Enum):
    """What a node does about its first token before it serves its API."""

    NOT_NEEDED = 1
    MAKE = 2
    """It makes one, in a file that only its own user can read."""
    ASK = 3
    """It does not start, and says which command makes one."""


def first_token(*, has_tokens: bool, is_open: bool, is_loopback: bool, is_cluster: bool) -> FirstToken:
    """Only a single node that serves its own machine makes a token: nodes of a cluster share no file, and an operator
    who serves other machines decides who gets in.
    """
    if has_tokens or is_open:
        return FirstToken.NOT_NEEDED
    return FirstToken.MAKE if is_loopback and not is_cluster else FirstToken.ASK


def needs_no_token(*, is_open: bool, is_loopback: bool, has_tokens: bool) -> bool:
    """May every user of this machine do everything? Only if the node was started so, and while it has no tokens."""
    return is_open and is_loopback and not has_tokens


def why_not_open(*, is_loopback: bool, is_root: bool) -> str:
    """Why a node may not let all users of its machine in without a token, and what to do instead; empty if it may."""
    instead = "leave --open out: a token is made, and a link to sign in with"
    if not is_loopback:
        return f"it lets in who has no token, so it is for a loopback address such as 127.0.0.1 only; {instead}"
    if is_root:
        risk = "as root it would let every user of this machine run commands as root"
        return f"{risk}; start it as another user, or {instead}"
    return ""


def link_expires(now: Instant) -> Instant:
    """When a sign-in link that is made now stops working."""
    return Instant(now + SIGN_IN_LINK_LIFETIME)


def is_good(expires: Instant, now: Instant) -> bool:
    """Does a link that expires then still work?"""
    return now < expires
