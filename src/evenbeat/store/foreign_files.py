"""Refuses database files of other users: a node executes what is in them, so another user must not provide them."""

import os
import pwd
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Final

from evenbeat.store.contract import StoreError

_SIDE_FILE_SUFFIXES: Final = ("-wal", "-shm", "-journal")
"""Files that SQLite puts beside a database, and whose content it moves into the database at the next opening."""


def trusted_users(database: Path) -> set[int]:
    """Root, the user of this process, and the owner of the database, if it exists."""
    found = {0, os.geteuid()}
    if (owner := _owner(database.resolve())) is not None:
        found.add(owner)
    return found


def check_owned_by_us(database: Path) -> None:
    """Raise StoreError if a database, or a file beside it, is not owned by root or the user of this process.

    A node executes what is in it.
    """
    _must_belong(database, ("", *_SIDE_FILE_SUFFIXES), {0, os.geteuid()}, "a node would execute what is in it")


def check_owned_by_database_owner(database: Path) -> None:
    """Raise StoreError if a file beside a database is not owned by one of `trusted_users`.

    The database itself may be another user's: it is changed, but nothing in it is executed.
    """
    _must_belong(
        database, _SIDE_FILE_SUFFIXES, trusted_users(database), "SQLite would put what is in it into the database"
    )


def user_name(uid: int) -> str:
    """The name of a user; the number if there is no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _must_belong(database: Path, suffixes: Collection[str], trusted: Collection[int], danger: str) -> None:
    whole = database.resolve()
    for path in (whole.with_name(whole.name + suffix) for suffix in suffixes):
        owner = _owner(path)
        if owner is not None and owner not in trusted:
            name, me = user_name(owner), user_name(os.geteuid())
            way = f"start it as {name}, or use another --db" if path == whole else "remove it"
            chown = f"`chown {me} {shlex.quote(str(path))}` if you trust it"
            raise StoreError(f"{path} belongs to {name}, and {danger}: {way}; {chown}")


def _owner(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except OSError:
        return None
