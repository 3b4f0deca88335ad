"""The text for a person at a terminal who starts a node: a link that signs in to its page once."""

import shlex
from pathlib import Path

from evenbeat.admin.sign_in_links import link_code_digest, new_link_code, sign_in_url
from evenbeat.client.in_process import RunningNode, client_on_own_loop
from evenbeat.core.access_rules import SIGN_IN_LINK_LIFETIME
from evenbeat.model import Invalid
from evenbeat.store.contract import StoreError
from evenbeat.when.duration import spoken_duration


def sign_in_text(node: RunningNode, database: Path | str, page: str, who: str) -> str:
    """A one-time sign-in link. It is never logged or passed as an argument."""
    code, shown = new_link_code(), shlex.quote(str(database))
    try:
        made = client_on_own_loop(node, who).create_sign_in_link(link_code_digest(code), None)
    except (Invalid, StoreError):
        return f"Sign in at {page} with a token; `evenbeat token link NAME --db {shown}` makes a link."
    again = f"`evenbeat token link --db {shown}` makes another"
    lifetime = spoken_duration(SIGN_IN_LINK_LIFETIME)
    return f"Sign in: {sign_in_url(made.page, code)}\nThis link works once, for {lifetime}; {again}."
