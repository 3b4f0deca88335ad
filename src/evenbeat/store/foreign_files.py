"""Whose the files of a database are: what is in them is executed, so a file that somebody else put there is refused."""

import os
import pwd
import shlex
from collections.abc import Collection
from pathlib import Path
from typing import Final

from evenbeat.store.contract import StoreError

_SIDE_FILE_SUFFIXES: Final = ("-wal", "-shm", "-journal")
"""What SQLite puts beside a database, and takes into it when it is opened next."""


def trusted_users(database: Path) -> set[int]:
    """Root, ourselves, and the owner of the database, if there is one."""
    found = {0, os.geteuid()}
    if (owner := _owner(database.resolve())) is not None:
        found.add(owner)
    return found


def check_owned_by_us(database: Path) -> None:
    """Raise StoreError if a database, or what lies beside it, belongs to anybody but root and the user of this process:
    a node executes what is in it.
    """
    _must_belong(database, ("", *_SIDE_FILE_SUFFIXES), {0, os.geteuid()}, "a node would execute what is in it")


def check_owned_by_database_owner(database: Path) -> None:
    """The same of what lies beside a database that may be another user's: it is changed, and nothing is executed."""
    _must_belong(
        database, _SIDE_FILE_SUFFIXES, trusted_users(database), "SQLite would put what is in it into the database"
    )


def user_name(uid: int) -> str:
    """As people know it; the number if it has no name."""
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
