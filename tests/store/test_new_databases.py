"""A database that this version creates has nothing in it that a version before has run, and says so."""

from contextlib import closing
from pathlib import Path

from evenbeat.store.contract import ENVIRONMENT_TOLD
from evenbeat.store.memory import MemoryStore
from evenbeat.store.postgres.copy_from_sqlite import copy_sqlite
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.postgres_server import PostgresServer


def test_a_new_database_misses_no_variable_of_before(tmp_path: Path, postgres: PostgresServer) -> None:
    stores = MemoryStore(), SqliteStore(tmp_path / "new.db"), PostgresStore(postgres.create_database())
    for store in stores:
        with closing(store):
            assert store.setting(ENVIRONMENT_TOLD) == "1"


def test_a_copy_of_an_old_database_still_names_what_is_no_longer_passed(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    with closing(SqliteStore(tmp_path / "old.db")) as store:
        store.set_settings({ENVIRONMENT_TOLD: None})
    dsn = postgres.create_database()
    copy_sqlite(tmp_path / "old.db", dsn)
    with closing(PostgresStore(dsn)) as copied:
        assert copied.setting(ENVIRONMENT_TOLD) is None
