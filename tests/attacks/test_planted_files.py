"""Another user puts files where a node of root's will look for its own: a database, its log, its lock, its socket."""

import asyncio
import os
import socket
import sqlite3
import stat
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from evenbeat.client.socket import SocketBackend
from evenbeat.model import Invalid
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_node import run_node
from evenbeat.store.contract import StoreError
from evenbeat.store.sqlite.ownership import DatabaseOwnership, socket_path
from evenbeat.store.sqlite.sqlite_store import SqliteStore

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like /tmp."""
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


def as_nobody(*words: str) -> None:
    subprocess.run(words, user=NOBODY, group=NOBODY, extra_groups=[], check=True)


@as_root
@pytest.mark.parametrize("mode", [0o600, 0o666])
def test_no_node_executes_what_a_database_of_another_user_says(shared: Path, mode: int) -> None:
    database = shared / "evenbeat.db"
    SqliteStore(database).close()
    os.chown(database, NOBODY, NOBODY)
    database.chmod(mode)
    with pytest.raises(StoreError, match=r"belongs to .*, and a node would execute what is in it: start it as "):
        asyncio.run(run_node(database, NodeOptions()))
    assert not (shared / "evenbeat.db.lock").exists()
    elsewhere = shared / "link.db"
    elsewhere.symlink_to(database)
    with pytest.raises(StoreError, match="belongs to"):
        asyncio.run(run_node(elsewhere, NodeOptions()))


@as_root
@pytest.mark.parametrize("suffix", ["-wal", "-shm", "-journal"])
def test_a_log_of_another_user_gets_into_no_database(shared: Path, suffix: str) -> None:
    database = shared / "evenbeat.db"
    SqliteStore(database).close()
    planted = shared / f"evenbeat.db{suffix}"
    planted.unlink(missing_ok=True)
    as_nobody("touch", str(planted))
    for attempt in (lambda: SqliteStore(database), lambda: asyncio.run(run_node(database, NodeOptions()))):
        with pytest.raises(StoreError, match=rf"evenbeat\.db{suffix} belongs to .*: remove it"):
            attempt()


@as_root
def test_the_log_that_sqlite_itself_made_is_taken(shared: Path) -> None:
    """Root may change the database of a service; SQLite gives the log to its owner then."""
    database = shared / "evenbeat.db"
    SqliteStore(database).close()
    os.chown(database, NOBODY, NOBODY)
    with closing(SqliteStore(database)), closing(SqliteStore(database)):
        pass
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (0,)


@pytest.mark.parametrize("make", [os.symlink, os.link])
def test_a_lock_that_is_another_file_of_ours_is_left_alone(tmp_path: Path, make: object) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data")
    precious.chmod(0o644)
    assert callable(make)
    make(precious, tmp_path / "x.db.lock")
    with pytest.raises(Invalid, match=r"x\.db\.lock is the lock file of the node, and it is .*: remove it"):
        DatabaseOwnership(tmp_path / "x.db")
    assert (precious.read_text(), stat.S_IMODE(precious.stat().st_mode)) == ("data", 0o644)


def test_a_lock_that_is_a_pipe_stops_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.db.lock")
    with pytest.raises(Invalid, match="no regular file"):
        DatabaseOwnership(tmp_path / "x.db")


@as_root
def test_a_socket_of_another_user_is_sent_nothing(shared: Path) -> None:
    database = shared / "evenbeat.db"
    SqliteStore(database).close()
    path = socket_path(database)
    ready, notify = os.pipe()
    pid = os.fork()
    if pid == 0:  # the impostor: our modules are loaded already, which another user may not be able to do
        try:
            os.setgroups([])
            os.setresgid(NOBODY, NOBODY, NOBODY)
            os.setresuid(NOBODY, NOBODY, NOBODY)
            listening = socket.socket(socket.AF_UNIX)
            listening.bind(str(path))
            listening.listen()
            path.chmod(0o777)
            os.write(notify, b"x")
            connection, _ = listening.accept()
            os._exit(3 if connection.recv(1_000) else 0)
        finally:
            os._exit(1)
    os.close(notify)
    assert os.read(ready, 1) == b"x"
    os.close(ready)
    with pytest.raises(StoreError, match="nothing was sent there"):
        SocketBackend(database)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
