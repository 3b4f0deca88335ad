"""Shared by the commands that manage tasks: which database or node, which user, and which tasks are selected."""

import argparse
import getpass
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.text import Text

from evenbeat.cli.output.common import SafeConsole, print_json
from evenbeat.client.contract import Client
from evenbeat.load.config import BadFileError
from evenbeat.model import Entry, Invalid
from evenbeat.store.addresses import is_shared_database
from evenbeat.store.contract import Filter, Store
from evenbeat.store.opening import IN_MEMORY, open_store
from evenbeat.store.sqlite.ownership import is_node_running
from evenbeat.store.user_store import is_custom_store

if TYPE_CHECKING:
    from evenbeat.client.database import DatabaseClient
    from evenbeat.wire.replies import ChangeResult, Names

MAX_PROBLEM_ID: Final = 10**18
_DEFAULT: Final = "evenbeat.db"
_WILDCARDS: Final = ("*", "?")


def database_option(args: argparse.Namespace) -> Path | str:
    """`--db PATH` or an address, or EVENBEAT_DB."""
    database = args.db or os.environ.get("EVENBEAT_DB") or _DEFAULT
    if database == IN_MEMORY:
        raise Invalid(f'a database in memory is for a program: App("{IN_MEMORY}"); accepted: a file, or an address')
    return database if is_shared_database(database) else Path(database)


def url_option(args: argparse.Namespace) -> str | None:
    """`--url URL`, or EVENBEAT_URL; None if a database is meant."""
    if args.db:
        return None
    url, path = os.environ.get("EVENBEAT_URL"), os.environ.get("EVENBEAT_DB")
    if not hasattr(args, "url"):
        if url and not path:
            raise Invalid("this cannot be done over HTTP, and EVENBEAT_URL is set: give --db")
        return None
    if args.url is not None:
        return str(args.url)
    if url and path:
        raise Invalid("EVENBEAT_URL and EVENBEAT_DB are both set; --url or --db says which is meant")
    return url or None


def user_name() -> str:
    """The person at the keyboard, for the audit and as the owner of what they add."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # a container may run as a user without a name


@contextmanager
def open_client(args: argparse.Namespace, *, new: bool = False) -> Iterator[Client]:
    """A client of a database, with or without a node, or of a node by URL; `new` if the database may not exist."""
    url = url_option(args)
    client: Client
    if url is None:
        from evenbeat.client.database import DatabaseClient  # noqa: PLC0415 - not every command has a database

        client = DatabaseClient(database_option(args) if new else _existing_database(args), user_name())
    else:
        from evenbeat.client.http import HttpClient  # noqa: PLC0415 - a database needs no TLS
        from evenbeat.client.http_connection import ApiConnection  # noqa: PLC0415

        token, authority = os.environ.get("EVENBEAT_TOKEN", ""), args.ca_file or os.environ.get("EVENBEAT_CA")
        client = HttpClient(ApiConnection(url, token, authority or None))
    with _bad_file_as_invalid(), closing(client):
        yield client


@contextmanager
def open_store_read_only(args: argparse.Namespace) -> Iterator[Store]:
    """The store itself, for questions; a node may be running on it."""
    path = _existing_database(args)
    store = open_store(path, read_only=True)
    try:
        yield store
    finally:
        store.close()


@contextmanager
def open_database_client(args: argparse.Namespace, *, new: bool = False) -> Iterator["DatabaseClient"]:
    """A client of a database, for what is never done over HTTP; `new` if it may not exist yet."""
    from evenbeat.client.database import open_client as connect  # noqa: PLC0415

    url_option(args)
    path = database_option(args) if new else _existing_database(args)
    with _bad_file_as_invalid(), connect(path, user_name()) as client:
        yield client


@contextmanager
def _bad_file_as_invalid() -> Iterator[None]:
    try:
        yield
    except BadFileError as e:
        raise Invalid(str(e)) from None


def _existing_database(args: argparse.Namespace) -> Path | str:
    url_option(args)
    path = database_option(args)
    if isinstance(path, Path) and not path.exists() and not is_node_running(path) and not is_custom_store(path):
        raise Invalid(f"there is no database {path}; `evenbeat up` and `evenbeat add` make one, --db names another")
    return path


def require_task(client: Client, name: str) -> Entry:
    """A task by name; raise Invalid, with a similar name, if it does not exist."""
    entry = client.find(name)
    if entry is None:
        raise Invalid(f"there is no task {name!r}{_similar_name(client, name)}")
    return entry


def _similar_name(client: Client, name: str) -> str:
    like = get_close_matches(name, client.names(), n=1)
    return f"; did you mean {like[0]!r}?" if like else ""


def task_filter(args: argparse.Namespace) -> Filter:
    """The tasks that the options select."""
    return Filter(
        names=tuple(args.names), owner=args.owner, labels=key_value_options(args.label, "--label"), state=args.state
    )


def required_task_filter(args: argparse.Namespace, client: Client) -> Filter:
    """The tasks that a change is about: it takes an option or a name to mean any, and every plain name must exist."""
    for name in args.names:
        if not is_pattern(name):
            require_task(client, name)
    return task_filter(args)


def require_selection(args: argparse.Namespace) -> None:
    """Refuse a change that names no tasks, before anything is asked."""
    if not args.names and args.owner is None and not args.label and args.state is None:
        raise Invalid("which tasks? Give names or patterns, --owner, --label or --state; '*' means all")


def is_pattern(name: str) -> bool:
    """Does it contain wildcards?"""
    return any(sign in name for sign in _WILDCARDS)


def key_value_options(texts: Sequence[str], option: str) -> dict[str, str]:
    """K=V options."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise Invalid(f"{text!r} is not K=V", place=option)
        found[key] = value
    return found


@contextmanager
def show_progress(doing: str) -> Iterator[None]:
    """On a terminal: show what is being done while it takes long."""
    err = SafeConsole(stderr=True)
    if not err.is_terminal:
        yield
        return
    with err.status(Text(f"{doing} ...")):
        yield


def print_changes(args: argparse.Namespace, changed: "ChangeResult | Names") -> None:
    """Print what was created, changed and removed."""
    for notice in changed.notices:
        print(f"evenbeat {args.command}: {notice}", file=sys.stderr)
    kinds = {
        "created": _task_names(changed.created),
        "changed": _task_names(changed.changed),
        "removed": _task_names(changed.removed),
    }
    if args.json:
        print_json({**kinds, "unchanged": changed.unchanged})
        return
    for word, names in kinds.items():
        if len(names) == 1:
            print(f"{word} {names[0]}")
    parts = [f"{len(names):,} {word}" for word, names in kinds.items() if len(names) > 1]
    if changed.unchanged:
        parts.append(f"{changed.unchanged:,} unchanged")
    if parts:
        print(", ".join(parts))
    elif not any(kinds.values()):
        print("periods, limits or settings changed" if changed.settings else "nothing changed")


def _task_names(things: Sequence[Entry | str]) -> list[str]:
    return [thing if isinstance(thing, str) else thing.task.name for thing in things]
