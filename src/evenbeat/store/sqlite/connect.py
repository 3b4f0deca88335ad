"""Opens SQLite files: refuses those of other programs, applies migrations, and explains SQLite's errors to people.

Only SQLite may open a database file: POSIX locks belong to the process, and closing any descriptor of the file would
release the locks of all SQLite connections of this process.
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
from evenbeat.store.sqlite.statements import Migration, migrations, query

APPLICATION_ID: Final = 0x65766274
"""The letters evbt. SQLite files name in this place the program that they belong to."""
_PATIENCE: Final = 5.0
"""Seconds to wait for another program that writes to the file, such as the sqlite3 shell."""
_PAGE: Final = 1024
"""Bytes. A run changes one random page, that of its task, and whole pages are written, twice: with the usual 4096 bytes
that was 8.4 kB per run instead of 3.3."""
_WAL_LIMIT: Final = 32 << 20
_WRITER_CACHE: Final = 16_000
_READER_CACHE: Final = 4_000
"""KiB of pages in the cache of a connection."""

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
    """Turn an error of SQLite into one for the person who must act.

    SQLite's own messages quote names from the file, which may not be UTF-8.
    """
    code = getattr(error, "sqlite_errorcode", None)
    if isinstance(error, UnicodeDecodeError) or (code is None and "decode to UTF-8" in str(error)):
        code = sqlite3.SQLITE_CORRUPT  # the store itself writes only UTF-8
    code = None if code is None else code & 0xFF
    advice = None if code is None else _ADVICE.get(code)
    kind = DatabaseDamaged if code in _HOPELESS else DatabaseLocked if code in _BUSY else StoreError
    return kind(f"{path}: {advice} ({error})" if advice else f"{path}: {error}")


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite into StoreErrors."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as e:
        raise explain(path, e) from e


def prepare(path: Path, durability: str) -> None:
    """Create the file or migrate it; if it belongs to another program, raise StoreError and leave it alone."""
    known = migrations()
    with explained(path):
        _check_header(path, len(known))
        _check_empty(path)
        check_owned_by_database_owner(path)
        _keep_to_owner(path)
        with closing(_connect(f"{path.absolute().as_uri()}?mode=rwc")) as connection:
            if not path.stat().st_size:
                begin_file(connection)
            begin_log(connection)
            _tune(connection, durability, _WRITER_CACHE)
            migrate(connection, path, known)


def begin_file(connection: sqlite3.Connection) -> None:
    """Write the header. In one transaction, so that a file with any content names its program, whatever dies when."""
    connection.execute(f"PRAGMA page_size = {_PAGE}")
    connection.execute("BEGIN")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # `give_back` works only if it was set first; it writes
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("COMMIT")


def _keep_to_owner(path: Path) -> None:
    """Let only its owner open the database: definitions and outputs may hold secrets.

    SQLite gives its log and the index of the log the mode of the main file. If this process may not create the file,
    SQLite reports why.
    """
    whole = path.resolve()  # a link may lead to a file that does not exist yet
    with suppress(OSError):
        create_private(whole)
    for suffix in ("", "-wal", "-shm"):
        make_private(whole.with_name(whole.name + suffix))


def _check_empty(path: Path) -> None:
    """Log that an empty file becomes a new database: it may have been a database before."""
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
    """Whether the file can be locked for writing within this many seconds; also True if it does not exist yet."""
    if not path.exists() or not path.stat().st_size:
        return True
    with explained(path):
        _check_header(path, len(migrations()))
        with closing(_connect(f"{path.absolute().as_uri()}?mode=rw", patience)) as connection:
            try:
                connection.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError as e:
                if e.sqlite_errorcode & 0xFF not in _BUSY:
                    raise
                return False
            connection.execute("ROLLBACK")
    return True


def begin_log(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode. If two processes do so at once, SQLite refuses one of them without waiting."""
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
    """Open a connection that writes."""
    with explained(path), _closed_on_failure(_connect(f"{path.absolute().as_uri()}?mode=rw")) as connection:
        _tune(connection, durability, _WRITER_CACHE)
        _version(connection)  # the first read opens the log too
        return connection


def connect_reader(path: Path, known: int) -> sqlite3.Connection:
    """Open a connection that only reads."""
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
    """Refuse a file of another program, and one that is not up to date, before anything is read."""
    if not path.exists():
        raise StoreError(f"{path}: there is no such file")
    known = len(migrations())
    with explained(path):
        _check_header(path, known)
        _undo_interrupted_load(path)
    connect_reader(path, known).close()


def _undo_interrupted_load(path: Path) -> None:
    """Roll back what a process that died has left, see `sqlite.first_load`: a connection that only reads cannot."""
    if _has_journal(path):
        with closing(_connect(f"{path.absolute().as_uri()}?mode=rw")) as connection:
            _version(connection)


def _has_journal(path: Path) -> bool:
    whole = path.resolve()
    journal = whole.with_name(whole.name + "-journal")
    return journal.exists() and journal.stat().st_size > 0


def _connect(uri: str, patience: float = _PATIENCE) -> sqlite3.Connection:
    # A connection is used by several threads, one at a time.
    return sqlite3.connect(
        uri, uri=True, timeout=patience, isolation_level=None, check_same_thread=False, cached_statements=256
    )


def _tune(connection: sqlite3.Connection, durability: str, cache: int) -> None:
    # In WAL mode, NORMAL survives the death of the process and FULL also that of the machine.
    connection.execute(f"PRAGMA synchronous = {'FULL' if durability == 'full' else 'NORMAL'}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{cache}")
    # A statement of many rows keeps its undo data in memory: otherwise it would write a file each time.
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute("PRAGMA wal_autocheckpoint = 0")  # see sqlite.checkpoint
    connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT}")


def connect_untouched(path: Path) -> sqlite3.Connection:
    """Open a connection that reads the main file as it is: without locks, without its log, and without recovery."""
    return _connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1")


def _check_header(path: Path, known: int) -> None:
    """Read the header without changing the file: SQLite would recover a file as it opens it, also another program's."""
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
        # After a power loss in the middle of a checkpoint the main file is whole only together with its log, and in the
        # middle of a first load together with its journal.
        log = path.with_name(path.name + "-wal")
        mode = "rw" if _has_journal(path) else "ro"
        if mode == "ro" and (not log.exists() or not log.stat().st_size):
            raise
        whose, version = _read_header(_connect(f"{path.absolute().as_uri()}?mode={mode}"))
    if whose != APPLICATION_ID:
        raise StoreError(
            f"{path}: this SQLite file belongs to another program; it was left as it is. Choose another file, or, "
            "if it was evenbeat's, go on with a backup of it"
        )
    _check_version(path, version, known, exactly=False)


def _read_header(connection: sqlite3.Connection) -> tuple[int, int]:
    """The id of the program that the file belongs to, and the version of its schema."""
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
    """Apply missing migrations, each as a whole or not at all; raise StoreError if the file is too new."""
    while True:
        # Read under the lock: another process may be migrating the same file.
        connection.execute("BEGIN IMMEDIATE")
        try:
            version = _version(connection)
            _check_version(path, version, len(known), exactly=False)
            if version == len(known):
                return
            for statement in known[version].statements:
                connection.execute(statement)
            if not version:
                connection.execute(query("begin_settings"))
            connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
