"""`evenbeat token`: access to the API. The secret of a token or a sign-in link is shown once, on stdout only."""

import argparse
import sys
from typing import TYPE_CHECKING

from evenbeat.admin.sign_in_links import link_code_digest, new_link_code, sign_in_url
from evenbeat.admin.tokens import TOKEN_PREFIX, create_api_token, decode_tokens
from evenbeat.cli.output.common import console, duration_option, now, print_json
from evenbeat.cli.task_selection import key_value_options
from evenbeat.cli.which_database import open_database_client, open_store_read_only
from evenbeat.core.access_rules import SIGN_IN_LINK_LIFETIME
from evenbeat.core.scope import Scope
from evenbeat.model import MAX_EVERY, SECOND, Instant, Invalid
from evenbeat.when.duration import spoken_duration
from evenbeat.when.instant import format_instant, spoken_instant
from evenbeat.when.zone import zone

if TYPE_CHECKING:
    from evenbeat.wire.requests import ApiToken


def run_command(args: argparse.Namespace) -> int:
    """Add, list or remove tokens, or make a sign-in link; exit 0."""
    match args.action:
        case "add":
            _add(args, _name(args))
        case "rm":
            _remove(args, _name(args))
        case "link":
            _link(args)
        case _:
            _list(args)
    return 0


def _name(args: argparse.Namespace) -> str:
    if not args.name:
        raise Invalid(f"which token? `evenbeat token {args.action} NAME`")
    name: str = args.name
    return name


def _add(args: argparse.Namespace, name: str) -> None:
    if args.role is None:
        raise Invalid("which role? --role read, operate or admin")
    expires = None if args.expires is None else Instant(now() + _length(args.expires))
    labels = key_value_options(args.label or (), "--label")
    scope = Scope(args.owner, labels) if args.owner is not None or labels else None
    new = create_api_token(name, args.role, now(), expires, scope)
    with open_database_client(args, new=True) as client:
        client.add_token(new)
    if args.json:
        print_json({**_document(new.token), "token": new.text})
        return
    print(new.text)
    print(f"This is the token {name}. It is not shown again, so keep it safe.", file=sys.stderr)


def _length(text: str) -> int:
    length = duration_option(text, "--expires")
    if not SECOND <= length <= MAX_EVERY:
        raise Invalid(f"{text} is out of range, accepted: 1s to 3653d", place="--expires")
    return length


def _remove(args: argparse.Namespace, name: str) -> None:
    with open_database_client(args) as client:
        client.remove_token(name)
    if args.json:
        print_json({"removed": name})
    else:
        print(f"removed {name}")
    with open_store_read_only(args) as store:
        is_last = not store.settings(TOKEN_PREFIX)
    if is_last:
        print("That was the last token. `evenbeat token add NAME --role admin` makes another.", file=sys.stderr)


def _link(args: argparse.Namespace) -> None:
    code = new_link_code()
    with open_database_client(args) as client:
        made = client.create_sign_in_link(link_code_digest(code), args.name)
    link = sign_in_url(made.page, code)
    if args.json:
        expires = format_instant(made.expires, zone("UTC"))
        print_json({"link": link, "token": made.token, "role": made.role, "expires": expires})
        return
    print(link)
    about = f"Signs a browser in with the token {made.token} ({made.role})"
    print(f"{about}; works once, for {spoken_duration(SIGN_IN_LINK_LIFETIME)}.", file=sys.stderr)


def _list(args: argparse.Namespace) -> None:
    if args.name:
        raise Invalid("`evenbeat token ls` lists all tokens, and takes no name")
    with open_store_read_only(args) as store:
        tokens = sorted(decode_tokens(store.settings(TOKEN_PREFIX)).values(), key=lambda token: token.name)
    if args.json:
        print_json({"tokens": [_document(token) for token in tokens]})
        return
    if not tokens:
        print("no tokens: nobody can use the API; `evenbeat token add NAME --role admin` makes one")
    out, width = console(), max((len(token.name) for token in tokens), default=0)
    for token in tokens:
        limited = "" if token.scope is None else f", limited to {token.scope}"
        out.print(f"{token.name:{width}}  {token.role:7}  {_lifetime_text(token)}{limited}", markup=False)


def _lifetime_text(token: "ApiToken") -> str:
    if token.expires is None:
        return "until it is removed"
    word = "expired" if token.is_over(now()) else "until"
    return f"{word} {spoken_instant(token.expires, zone('UTC'))} UTC"


def _document(token: "ApiToken") -> dict[str, object]:
    utc = zone("UTC")
    expires = None if token.expires is None else format_instant(token.expires, utc)
    return {
        "name": token.name,
        "role": token.role,
        "created": format_instant(token.created, utc),
        "expires": expires,
        "owner": token.owner,
        "labels": token.labels,
    }
