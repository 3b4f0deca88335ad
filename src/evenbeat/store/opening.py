"""Which store a database is: an address of PostgreSQL, the path of an SQLite file, one in memory, or the user's own."""

import re
from pathlib import Path
from typing import Final

from evenbeat.model import Invalid
from evenbeat.store.contract import Store
from evenbeat.store.user_store import is_custom_store, open_custom_store

IN_MEMORY: Final = ":memory:"
"""Where a program may say which database: nowhere but in itself."""
_SCHEMES: Final = ("postgresql://", "postgres://")
_SECRETS: Final = re.compile(r"((?:^|[?&])(?:ssl)?password=)[^&]*", re.IGNORECASE)


def is_shared_database(database: str | Path) -> bool:
    """Whether several nodes may share it."""
    return str(database).startswith(_SCHEMES)


def without_password(database: str | Path) -> str:
    """As people may read it: without the password."""
    if not is_shared_database(database):
        return str(database)
    scheme, rest = str(database).split("://", 1)
    place, mark, options = rest.partition("?")
    # A password may hold anything but the last @ before the path; what follows it is shown.
    user, at, host = place.rpartition("@")
    hidden = _SECRETS.sub(r"\1...", mark + options)
    return f"{scheme}://{user.partition(':')[0]}{at}{host}{hidden}"


def check_driver() -> None:
    """Refuse PostgreSQL where its driver is not installed."""
    try:
        import psycopg  # noqa: F401, PLC0415 - only a cluster needs it
    except ImportError as e:
        raise Invalid(f"PostgreSQL needs a package that is not here: pip install 'evenbeat[cluster]' ({e})") from e


def open_store(database: str | Path, *, read_only: bool = False) -> Store:
    """The store of a database."""
    if is_custom_store(database):
        return open_custom_store(database, read_only=read_only)
    if str(database) == IN_MEMORY:
        from evenbeat.store.memory import MemoryStore  # noqa: PLC0415

        return MemoryStore()
    if is_shared_database(database):
        check_driver()
        from evenbeat.store.postgres.postgres_store import PostgresStore  # noqa: PLC0415 - only a cluster needs psycopg

        return PostgresStore(str(database), read_only=read_only)
    from evenbeat.store.sqlite.sqlite_store import SqliteStore  # noqa: PLC0415

    return SqliteStore(Path(database), read_only=read_only)
