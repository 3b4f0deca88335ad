"""Connects to PostgreSQL, applies migrations, and explains PostgreSQL's errors to people."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict

from evenbeat.store.addresses import without_password
from evenbeat.store.cluster_contract import LeaseLost
from evenbeat.store.contract import ContradictoryBatch, StoreError
from evenbeat.store.postgres.statements import migrations, query
from evenbeat.store.postgres.text import TextDumper

# The store reports broken connections itself; the messages of the driver stay available in its logger.
logging.getLogger("psycopg").addHandler(logging.NullHandler())

Connection = psycopg.Connection[tuple[Any, ...]]

OLDEST_SERVER: Final = 150000
"""The oldest version that is tested."""
_LOOKS: Final = 3
"""How often to look whether a pooler gives two connections the same one of the server: it may do so by chance."""
_DAYS: Final = 3
"""Tables for runs are created this many days ahead."""
_DEFAULTS: Final = {
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
    "tcp_user_timeout": "5000",
    "application_name": "evenbeat",
}
LOCK_TIMEOUT: Final = "10s"
_SETTINGS: Final = {
    "search_path": "evenbeat",
    "idle_in_transaction_session_timeout": "3s",
    "lock_timeout": LOCK_TIMEOUT,
    "statement_timeout": "60s",
    "default_transaction_isolation": "read committed",
    "jit": "off",
}
"""A client that stops in the middle of a transaction must not block others. Set after connecting: a pooler may ignore
settings in the address, or refuse them."""
_BY_KEY: Final = {
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""For recording, which always reads few rows of large tables by their keys: the planner would read whole tables."""
_POOLER: Final = (
    "a pooler in transaction or statement mode (PgBouncer, pgcat ...) is not supported: it lets clients share a "
    "connection of PostgreSQL, while LISTEN, locks and settings need one each. Connect to PostgreSQL directly, or to a "
    "pool with pool_mode = session"
)

_REFUSED: Final = "startup parameter"
_ADVICE: Final = {
    _REFUSED: "a pooler refuses a part of the address: leave `options` out of it, or let the pooler ignore it",
    "26000": _POOLER,
    "42P05": _POOLER,
    "28P01": "the server refuses the password: check the address, PGPASSWORD or ~/.pgpass",
    "28000": "the server refuses the connection: check the user in the address, and pg_hba.conf",
    "3D000": "there is no such database: create it with `createdb`",
    "42501": "the user of the address may not do this: it must own the schema evenbeat, or be allowed to create it",
    "53100": "the disk of the server is full: nothing that was recorded is lost; make room, and it goes on by itself",
    "53300": "the server has no connection left: raise max_connections, or close others; it goes on by itself",
    "25006": "the server is read-only, as a standby is: the address must be that of the primary",
    "55P03": "another session holds a lock on evenbeat's tables: end that session, and it goes on by itself",
    "57014": "the server took longer than a minute: see pg_stat_activity for what it is doing",
    "57P03": "the server is starting or stopping: it goes on by itself when that is done",
}
_ADVICE_BY_WORDS: Final = (
    ("password authentication failed", "28P01"),
    ("no password supplied", "28P01"),
    ("no pg_hba.conf entry", "28000"),
    ("does not exist", "3D000"),
    ("too many clients", "53300"),
    ("remaining connection slots", "53300"),
    ("the database system is", "57P03"),
    ("unsupported startup parameter", _REFUSED),
)
"""Errors before a connection exists have no code."""
_GONE: Final = "the server cannot be reached: is it running, is the address right? It goes on by itself when it answers"


class PostgresAddress:
    """The address of the database. Its text never contains the password."""

    def __init__(self, dsn: str) -> None:
        try:
            given = {key: str(value) for key, value in conninfo_to_dict(dsn).items() if value is not None}
        except psycopg.Error:
            # The message of psycopg may quote the password.
            raise StoreError(
                f"{without_password(dsn)}: this is no address of a PostgreSQL database, accepted: "
                "postgresql://user@host:port/database"
            ) from None
        self._password = given.get("password", "")
        self._given = {**_DEFAULTS, **given}
        self._shown = without_password(dsn)

    def __str__(self) -> str:
        return self._shown

    def connect(self, *, by_key: bool = False) -> Connection:
        """Open a connection; raise StoreError if that fails."""
        settings = _SETTINGS | _BY_KEY if by_key else _SETTINGS
        try:
            connection = psycopg.connect(autocommit=True, **self._given)  # type: ignore[arg-type]
        except psycopg.Error as e:
            raise self.explain(e) from None
        try:
            connection.execute(query("set_up"), (list(settings), list(settings.values())))
        except psycopg.Error as e:
            connection.close()
            raise self.explain(e) from None
        connection.adapters.register_dumper(str, TextDumper)
        connection.prepared_max = 200
        return connection

    def explain(self, error: psycopg.Error) -> StoreError:
        """Turn an error of PostgreSQL into one for the person who must act."""
        code = error.sqlstate
        message = str(error.diag.message_primary or error).strip().replace("\n", " ")
        if self._password:
            message = message.replace(self._password, "...")
        if code == "EB001":
            return ContradictoryBatch(message)
        if code == "EB002":
            return LeaseLost(f"{self}: {message}")
        if code is None:
            code = next((known for words, known in _ADVICE_BY_WORDS if words in message), None)
        advice = _ADVICE.get(code or "")
        if advice is None and is_lost(error):
            advice = _GONE
        return StoreError(f"{self}: {advice} ({message})" if advice else f"{self}: {message}")

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of PostgreSQL into StoreErrors."""
        try:
            yield
        except psycopg.Error as e:
            raise self.explain(e) from e


def is_lost(error: psycopg.Error) -> bool:
    """Whether the connection failed, not the statement."""
    code = error.sqlstate
    if code is None:
        return isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
    return code in ("57P01", "57P02", "57P03", "57P05", "25P03", "25P04") or code.startswith("08")


def schema_version(connection: Connection) -> int:
    """The version of the schema; 0 if there is none yet."""
    (is_there,) = _row(connection, query("has_version"))
    return int(_row(connection, query("version_number"))[0]) if is_there else 0


def prepare(address: PostgresAddress) -> tuple[int, int]:
    """Bring the schema up to date; raise StoreError if it is newer than us. Its version before and after."""
    with address.connect() as connection, address.explained():
        _check_server(address, connection)
        known = migrations()
        before = schema_version(connection)
        check_version(address, before, exactly=False)
        if before < len(known):
            with connection.transaction():
                connection.execute(query("lock_migrations"))
                connection.execute("SET LOCAL statement_timeout = 0")
                # Read again under the lock: another node may have migrated the schema.
                before = schema_version(connection)
                check_version(address, before, exactly=False)
                connection.execute(query("create_schema"))
                connection.execute(query("create_version"))
                for script in known[before:]:
                    connection.execute(script)
                if not before:
                    connection.execute(query("begin_settings"))
                connection.execute(query("forget_version"))
                connection.execute(query("set_version"), (len(known),))
        ensure_day_tables(connection)
        return before, len(known)


def ensure_day_tables(connection: Connection, now: int | None = None) -> None:
    """Create the tables for the runs of the next days. Without them, runs go to the default table."""
    if now is None:
        if not _row(connection, query("missing_days"))[0]:
            return
        (now,) = _row(connection, query("clock"))
    assert now is not None
    try:
        with connection.transaction():
            connection.execute(query("lock_briefly"))
            connection.execute(query("ensure_days"), (now, _DAYS))
    except psycopg.errors.LockNotAvailable:
        # Another session is using these tables; this is called again.
        return


def check_readable(address: PostgresAddress) -> None:
    """Refuse a schema that is not up to date, before anything is read."""
    with address.connect() as connection, address.explained():
        _check_server(address, connection)
        check_version(address, schema_version(connection), exactly=True)


def _check_server(address: PostgresAddress, connection: Connection) -> None:
    _check_sessions(address, connection)
    encoding, number = _row(connection, query("encoding"))
    if number < OLDEST_SERVER:
        raise StoreError(
            f"{address}: PostgreSQL {number // 10000} is too old, accepted: {OLDEST_SERVER // 10000} and newer"
        )
    if encoding != "UTF8":
        raise StoreError(f"{address}: the encoding of the database is {encoding}, accepted: UTF8; create another one")


def _check_sessions(address: PostgresAddress, connection: Connection) -> None:
    """Refuse a pooler that lets two open connections share one of the server."""
    with address.connect() as other:
        for _ in range(_LOOKS):
            mine, others = (_row(one, query("backend"))[0] for one in (connection, other))
            if mine == others:
                raise StoreError(f"{address}: {_POOLER}")


def check_version(address: PostgresAddress, found: int, *, exactly: bool) -> None:
    """Refuse a schema that this program does not know."""
    known = len(migrations())
    if found > known:
        raise StoreError(
            f"{address}: written by a newer evenbeat (schema {found}, this program knows {known}); it was left as it "
            "is. Upgrade evenbeat"
        )
    if exactly and found < known:
        what = "it holds no data of evenbeat yet" if not found else f"written by an older evenbeat (schema {found})"
        raise StoreError(f"{address}: {what}: `evenbeat migrate --db ...` brings it up to date")


def _row(connection: Connection, statement: str) -> tuple[Any, ...]:
    row = connection.execute(statement).fetchone()
    assert row is not None
    return row
