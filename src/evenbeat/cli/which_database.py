"""Which database or node a command is about, by `--db`, `--url` and the environment, and who gives it."""

import argparse
import getpass
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from evenbeat.client.contract import Client
from evenbeat.load.config import BadFileError
from evenbeat.model import Invalid
from evenbeat.store.addresses import is_shared_database
from evenbeat.store.contract import Store
from evenbeat.store.opening import IN_MEMORY, open_store
from evenbeat.store.sqlite.ownership import is_node_running
from evenbeat.store.user_store import is_custom_store

if TYPE_CHECKING:
    from evenbeat.client.node_or_database import DatabaseClient

_DEFAULT: Final = "evenbeat.db"


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
        from evenbeat.client.node_or_database import DatabaseClient  # noqa: PLC0415 - not every command has a database

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
    from evenbeat.client.node_or_database import open_client as connect  # noqa: PLC0415

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
