"""Opens the store of a database: a PostgreSQL address, the path of an SQLite file, memory, or a store of the user."""

from pathlib import Path
from typing import Final

from evenbeat.model import Invalid
from evenbeat.store.addresses import is_shared_database
from evenbeat.store.contract import Store
from evenbeat.store.user_store import is_custom_store, open_custom_store

IN_MEMORY: Final = ":memory:"
"""What a program names as its database to keep everything in memory."""


def check_driver() -> None:
    """Refuse PostgreSQL if its driver is not installed."""
    try:
        import psycopg  # noqa: F401, PLC0415 - only a cluster needs it
    except ImportError as e:
        raise Invalid(f"PostgreSQL needs a package that is not installed: pip install 'evenbeat[cluster]' ({e})") from e


def open_store(database: str | Path, *, read_only: bool = False) -> Store:
    """Open the store of a database."""
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
