"""Opening an SQLite file: ours or refused, brought up to date by migrations; and what its errors mean to people.

The bytes of a database file are read by SQLite only, never by opening the file ourselves: POSIX locks belong to the
process, and closing any descriptor of the file would release the locks of all SQLite connections of this process.
"""

import logging
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from evenbeat.store.contract import DatabaseDamaged, DatabaseLocked, StoreError
from evenbeat.store.foreign_files import check_owned_by_database_owner
from evenbeat.store.private_files import create_private, make_private
from evenbeat.store.sqlite.statements import Migration, migrations

APPLICATION_ID: Final = 0x65766274
"""The letters evbt, in the place where SQLite files say whose they are."""
_PATIENCE: Final = 5.0
"""Seconds to wait for another program that writes to the file, such as a shell."""
_PAGE: Final = 1024
"""Bytes. A run changes one page at random, that of its task, and what is written are whole pages, twice: with the
usual 4096 it was 8.4 kB per run instead of 3.3."""
_WAL_LIMIT: Final = 32 << 20
_WRITER_CACHE: Final = 32_000
_READER_CACHE: Final = 4_000
"""KiB of pages in memory, per connection."""

DAMAGED_ADVICE: Final = (
    "the file is damaged and was left as it is: stop the node, move the file aside together with its -wal and -shm, "
    "and put a backup in its place; or save what `.recover` of the sqlite3 program still finds"
)
LOCKED_ADVICE: Final = (
    "another program has locked the file: close that program. A running node then goes on by itself, any other command "
    "has to be repeated"
)
_log: Final = logging.getLogger("evenbeat.store")
_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_HOPELESS: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full: nothing that was recorded is lost; make room, and it goes on by itself",
    sqlite3.SQLITE_READONLY: "the file or its folder cannot be written: look at their owner and mode",
    sqlite3.SQLITE_BUSY: LOCKED_ADVICE,
    sqlite3.SQLITE_LOCKED: LOCKED_ADVICE,
    sqlite3.SQLITE_CORRUPT: DAMAGED_ADVICE,
    sqlite3.SQLITE_NOTADB: "this is not an evenbeat database; it was left as it is. Choose another file, or, if it was "
    "one, go on with a backup of it",
    sqlite3.SQLITE_IOERR: "the disk does not read or write: see the system's log; nothing that was recorded is lost",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened: look at its folder, its owner and its mode",
}


def explain(path: Path, error: sqlite3.Error | UnicodeDecodeError) -> StoreError:
    """An error of SQLite's, for the person who must act. Its own messages quote names in the file, in UTF-8 or not."""
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, UnicodeDecodeError) or (code is None and "decode to UTF-8" in str(error)):
        code = sqlite3.SQLITE_CORRUPT  # what we write is UTF-8
    code = None if code is None else code & 0xFF
    advice = None if code is None else _ADVICE.get(code)
    kind = DatabaseDamaged if code in _HOPELESS else DatabaseLocked if code in _BUSY else StoreError
    return kind(f"{path}: {advice} ({error})" if advice else f"{path}: {error}")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Errors of SQLite's become StoreErrors."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as e:
        raise explain(path, e) from e


def prepare(path: Path, durability: str) -> None:
    """Create the file or bring it up to date; raise StoreError, and leave it alone, if it is not for us."""
    known = migrations()
    with explained(path):
        _look_at_header(path, len(known))
        _look_at_empty(path)
        check_owned_by_database_owner(path)
        _keep_to_owner(path)
        with closing(_connect(f"{path.absolute().as_uri()}?mode=rwc")) as connection:
            if not path.stat().st_size:
                # Before anything else, so that a file with any content says whose it is.
                connection.execute(f"PRAGMA page_size = {_PAGE}")
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            _begin_log(connection)
            _tune(connection, durability, _WRITER_CACHE)
            migrate(connection, path, known)


def _keep_to_owner(path: Path) -> None:
    """Only its owner can open the database: definitions and outputs may hold secrets.

    SQLite gives its log and the index of that the mode of the main file. Should that not be ours to create, SQLite
    says why.
    """
    whole = path.resolve()  # a link may lead to where no file is yet
    with suppress(OSError):
        create_private(whole)
    for suffix in ("", "-wal", "-shm"):
        make_private(whole.with_name(whole.name + suffix))


def _look_at_empty(path: Path) -> None:
    """An empty file is taken for a new database, but not in silence: there may have been one."""
    if not path.exists() or path.stat().st_size:
        return
    whole = path.resolve()
    log = whole.with_name(whole.name + "-wal")
    if log.exists() and log.stat().st_size:
        # SQLite would delete it.
        raise DatabaseDamaged(
            f"{path}: the file is empty, though its log {log.name} is not: both were left as they are. Put a backup in "
            "their place, or, for a new database, remove both"
        )
    _log.warning("%s is an empty file; it becomes a new database", path, extra={"action": "empty_database"})


def is_writable(path: Path, patience: float) -> bool:
    """Whether, within so many seconds, no other program writes to the file; or there is none yet."""
    if not path.exists() or not path.stat().st_size:
        return True
    with explained(path):
        _look_at_header(path, len(migrations()))
        with closing(_connect(f"{path.absolute().as_uri()}?mode=rw", patience)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as e:
                if e.sqlite_errorcode & 0xFF not in _BUSY:
                    raise
                return False
            connection.execute("ROLLBACK")
    return True


def _begin_log(connection: sqlite3.Connection) -> None:
    """WAL mode. Of two that begin it at once SQLite turns one away without any patience."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as e:
            if e.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


def connect_writer(path: Path, durability: str) -> sqlite3.Connection:
    """The one connection that writes."""
    with explained(path), _closed_on_failure(_connect(f"{path.absolute().as_uri()}?mode=rw")) as connection:
        _tune(connection, durability, _WRITER_CACHE)
        _version(connection)  # the first look opens the log too
        return connection


def connect_reader(path: Path, known: int) -> sqlite3.Connection:
    """One of those that read."""
    with explained(path), _closed_on_failure(_connect(f"{path.absolute().as_uri()}?mode=ro")) as connection:
        connection.execute(f"PRAGMA cache_size = -{_READER_CACHE}")
        _check_version(path, _version(connection), known, exactly=True)
        return connection


@contextmanager
def _closed_on_failure(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    try:
        yield connection
    except BaseException:
        connection.close()
        raise


def check_readable(path: Path) -> None:
    """Refuse what is not ours, or is not up to date, before anything is read."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such file")
    known = len(migrations())
    with explained(path):
        _look_at_header(path, known)
    connect_reader(path, known).close()


def _connect(uri: str, patience: float = _PATIENCE) -> sqlite3.Connection:
    # Connections go from thread to thread, one at a time.
    return sqlite3.connect(
        uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=False, cached_statements=256
    )


def _tune(connection: sqlite3.Connection, durability: str, cache: int) -> None:
    # In WAL mode, NORMAL survives the death of the process and FULL also that of the machine.
    connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{cache}")
    # What a statement of many rows may have to undo is kept in memory: a file would be written for each of them.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # see sqlite_checkpoint
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")


def connect_untouched(path: Path) -> sqlite3.Connection:
    """To read the main file as it is: without locks, without its log, and without tidying it up."""
    return _connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1")


def _look_at_header(path: Path, known: int) -> None:
    """Untouched: SQLite would tidy up a file as it opens it, and another program's is not ours to touch."""
    try:
        if not path.parent.is_dir():
            raise StoreError(f"{path}: there is no folder {path.parent}; create it first")
        if not path.exists() or not path.stat().st_size:
            return
        if not path.is_file():
            raise StoreError(f"{path}: this is not a file; choose another name")
    except OSError as e:
        raise StoreError(f"{path}: the file cannot be read: {e.strerror}") from e
    try:
        whose, version = _read_header(connect_untouched(path))
    except sqlite3.DatabaseError:
        # After a power loss in the middle of a checkpoint the main file is whole only together with its log.
        log = path.with_name(path.name + "-wal")
        if not log.exists() or not log.stat().st_size:
            raise
        whose, version = _read_header(_connect(f"{path.absolute().as_uri()}?mode=ro"))
    if whose != APPLICATION_ID:
        raise StoreError(
            f"{path}: this SQLite file belongs to another program; it was left as it is. Choose another file, or, "
            "if it was evenbeat's, go on with a backup of it"
        )
    _check_version(path, version, known, exactly=False)


def _read_header(connection: sqlite3.Connection) -> tuple[int, int]:
    """Whose it is, and of which version."""
    with closing(connection):
        (whose,) = connection.execute("PRAGMA application_id").fetchone()
        return int(whose), _version(connection)


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _check_version(path: Path, found: int, known: int, *, exactly: bool) -> None:
    if found > known:
        raise StoreError(
            f"{path}: written by a newer evenbeat (schema {found}, this program knows {known}); it was left as it is. "
            "Upgrade evenbeat, or go on with a backup of before"
        )
    if exactly and found < known:
        raise StoreError(
            f"{path}: written by an older evenbeat (schema {found}, this program needs {known}): "
            "start a node on it once, which brings it up to date"
        )


def migrate(connection: sqlite3.Connection, path: Path, known: list[Migration]) -> None:
    """Apply what is missing, each step as a whole or not at all; raise StoreError if the file is newer than us."""
    while True:
        # Asked with the lock in hand: another program may be doing the same.
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)
            _check_version(path, version, len(known), exactly=False)
            if version == len(known):
                return
            for statement in known[version].statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
