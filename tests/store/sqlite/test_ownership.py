"""One database, one node: which process owns it, which is refused, and when it is free again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenbeat.model import Invalid
from evenbeat.store.sqlite.ownership import DatabaseInUse, DatabaseOwnership, is_node_running, socket_path
from evenbeat.store.sqlite.sqlite_store import SqliteStore

OWN = """
import sys, time
from pathlib import Path
from evenbeat.store.sqlite.ownership import DatabaseOwnership
with DatabaseOwnership(Path(sys.argv[1])):
    print("owned", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "a.db"


@pytest.fixture
def owner(database: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that owns the database."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWN, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "owned\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_node_is_refused_and_told_who_the_first_is(database: Path, owner: "subprocess.Popen[str]") -> None:
    assert is_node_running(database)
    with pytest.raises(DatabaseInUse, match=f"already running on .*a.db \\(process {owner.pid}\\); stop it"):
        DatabaseOwnership(database)


def test_a_node_that_is_killed_owns_nothing_any_more(database: Path, owner: "subprocess.Popen[str]") -> None:
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    assert not is_node_running(database)
    with DatabaseOwnership(database):
        assert is_node_running(database)


def test_who_leaves_in_order_lets_go(database: Path) -> None:
    with DatabaseOwnership(database):
        pass
    assert not is_node_running(database)
    with DatabaseOwnership(database):
        assert is_node_running(database)


def test_nobody_owns_a_database_that_never_had_a_node(database: Path) -> None:
    assert not is_node_running(database)
    assert not database.with_name("a.db.lock").exists()


def test_all_links_to_a_database_lead_to_the_same_owner(database: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(database)
    with DatabaseOwnership(database):
        assert is_node_running(link)
    assert socket_path(link) == socket_path(database)


def test_children_that_are_started_meanwhile_do_not_hold_on_to_it(database: Path) -> None:
    with DatabaseOwnership(database):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        assert not is_node_running(database)
    finally:
        child.kill()
        child.wait()


def test_a_place_that_cannot_be_written_is_a_refusal_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"nowhere/a\.db\.lock cannot be written: No such file"):
        DatabaseOwnership(tmp_path / "nowhere" / "a.db")


def test_a_name_too_long_for_a_socket_gets_a_short_one_of_its_own(tmp_path: Path) -> None:
    long, other = tmp_path / ("x" * 200), tmp_path / ("x" * 199 + "y")
    assert socket_path(long).parent == tmp_path
    assert len(socket_path(long).name) < 80
    assert socket_path(long) != socket_path(other)
    assert socket_path(tmp_path / "a.db").name == "a.db.sock"


class TestDeletedLock:
    """Deleting the lock file does not let a second node in."""

    def test_a_second_node_finds_the_database_locked(self, database: Path, tmp_path: Path) -> None:
        database.touch()
        command = [sys.executable, "-c", OWN, str(database)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "owned\n"
            (tmp_path / "a.db.lock").unlink()
            with pytest.raises(DatabaseInUse, match=r"though its lock file .*a\.db\.lock was deleted; stop it"):
                DatabaseOwnership(database)
            owner.communicate("")
        with DatabaseOwnership(database):
            assert is_node_running(database)

    def test_of_the_same_process_as_well_and_sqlite_keeps_its_locks(self, database: Path, tmp_path: Path) -> None:
        with DatabaseOwnership(database) as first:
            store = SqliteStore(database)
            first.hold_file()
            (tmp_path / "a.db.lock").unlink()
            with pytest.raises(DatabaseInUse, match="was deleted"):
                DatabaseOwnership(database)
            other = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('SELECT * FROM tasks').fetchall()"
            subprocess.run([sys.executable, "-c", other, str(database)], check=True)
            assert (tmp_path / "a.db-wal").exists(), "whoever is last deletes it, and that was not the other program"
            store.close()

    def test_the_owner_makes_it_anew(self, database: Path, tmp_path: Path) -> None:
        with DatabaseOwnership(database) as mine:
            (tmp_path / "a.db.lock").unlink()
            assert not is_node_running(database)
            mine.look()
            assert is_node_running(database)
            assert (tmp_path / "a.db.lock").read_text() == f"{os.getpid()}\n"
            mine.look()
        assert not is_node_running(database)


def test_the_lock_of_the_database_does_not_disturb_sqlite(database: Path) -> None:
    store = SqliteStore(database)
    store.close()
    with DatabaseOwnership(database):
        store = SqliteStore(database)
        store.set_settings({"a": "b"})
        reader = SqliteStore(database, read_only=True)
        assert reader.setting("a") == "b"
        reader.close()
        store.close()
