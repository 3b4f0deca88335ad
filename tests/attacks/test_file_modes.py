"""Another user of the machine reads none of our files, whatever umask a node is started with."""

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from waiting import eventually

from evenbeat.child_processes.process_table import SessionLeader
from evenbeat.child_processes.worker_records import WorkerRecordFile
from evenbeat.store.private_files import create_private, make_private
from evenbeat.store.sqlite.ownership import DatabaseOwnership, runtime_folder, socket_path
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_task

NOBODY = 65534
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@contextmanager
def umask(value: int) -> Iterator[None]:
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def open_to_others(folder: Path) -> dict[str, str]:
    """Whatever in a folder group or others may do anything with, and its mode."""
    modes = {str(path.relative_to(folder)): path.lstat().st_mode for path in folder.rglob("*")}
    return {name: stat.filemode(mode) for name, mode in modes.items() if mode & 0o077}


def command(*words: str, folder: Path, mask: int) -> subprocess.Popen[str]:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "EVENBEAT_DB": str(folder / "x.db")}
    return subprocess.Popen(
        [sys.executable, "-m", "evenbeat", *words],
        env=environment,
        umask=mask,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("mask", [0, 0o022])
def test_every_file_of_a_live_node_is_its_owners_alone(tmp_path: Path, mask: int) -> None:
    database = tmp_path / "x.db"
    node = command("up", "--listen", "127.0.0.1:0", folder=tmp_path, mask=mask)
    try:
        eventually(lambda: socket_path(database).exists() or node.poll() is not None)
        for words in (
            ["add", "t", "--every", "1h", "--env", "S=secret", "--", "true"],
            ["backup", f"{tmp_path}/copy.db"],
        ):
            asked = command(*words, folder=tmp_path, mask=mask)
            assert asked.wait() == 0, asked.communicate()[0]
            asked.communicate()
        eventually((tmp_path / "x.db.workers").exists)
        names = {path.name for path in tmp_path.iterdir()}
        assert {
            "x.db",
            "x.db-wal",
            "x.db-shm",
            "x.db.lock",
            "x.db.sock",
            "x.db.workers",
            "x.db.token",
            "copy.db",
        } <= names
        assert open_to_others(tmp_path) == {}
    finally:
        node.terminate()
        said = node.communicate()[0]
    assert node.returncode == 0, said
    assert open_to_others(tmp_path) == {}


@pytest.mark.parametrize("mask", [0, 0o022, 0o777])
def test_the_owner_can_use_every_file_and_nobody_else_can(
    tmp_path: Path, mask: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    database = tmp_path / "x.db"
    with umask(mask), DatabaseOwnership(database):
        store = SqliteStore(database)
        store.create([a_task("t")], "me", T0)
        store.backup(tmp_path / "copy.db")
        records = WorkerRecordFile(tmp_path / "x.workers")
        records.add(SessionLeader(1, 1))
        folder = runtime_folder()
        found = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        store.close()
    files = ("x.db", "x.db-wal", "x.db-shm", "x.db.lock", "x.workers", "copy.db")
    assert found == {folder.name: 0o700} | dict.fromkeys(files, 0o600)


@pytest.mark.parametrize("mode", [0o644, 0o666, 0o660, 0o604])
def test_a_database_that_others_could_open_is_closed_to_them_when_it_is_opened(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.db"
    before = SqliteStore(path)
    before.create([a_task("t")], "me", T0)
    files = [path, tmp_path / "x.db-wal", tmp_path / "x.db-shm"]
    for file in files:
        file.chmod(mode)
    with caplog.at_level(logging.WARNING):
        after = SqliteStore(path)
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 3
    assert f"other users could open {path} (mode {mode:04o})" in caplog.text
    # Looking at the mode has not released the locks of SQLite, which belong to the process.
    after.create([a_task("u")], "me", T0)
    assert {entry.task.name for entry in before.entries()} == {"t", "u"}
    before.close()
    after.close()


def test_the_mode_of_a_file_that_a_link_leads_to_is_changed_and_a_new_one_is_private(tmp_path: Path) -> None:
    (tmp_path / "to").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "to" / "x.db")
    with umask(0):
        SqliteStore(link).close()
    assert link.is_symlink()
    assert open_to_others(tmp_path / "to") == {}


def test_a_file_that_is_private_is_not_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    SqliteStore(tmp_path / "x.db").close()
    SqliteStore(tmp_path / "x.db").close()
    make_private(tmp_path / "there is none")
    assert caplog.text == ""


def test_a_private_file_replaces_nothing_and_follows_no_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        create_private(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


@as_root
def test_a_database_of_another_user_is_named_loudly(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "x.db"
    SqliteStore(path).close()
    os.chown(path, NOBODY, NOBODY)
    path.chmod(0o644)
    make_private(path)
    assert "only its owner can change that: the owner should run `chmod go-rwx" in caplog.text
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


@as_root
def test_another_user_can_neither_read_the_database_nor_keep_a_node_from_starting(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    tmp_path.chmod(0o777)
    database = tmp_path / "x.db"
    with umask(0):
        DatabaseOwnership(database).close()
        store = SqliteStore(database)
        store.create([a_task("t")], "me", T0)
    names = [str(path) for path in tmp_path.iterdir()]
    # Whoever can open a file can also lock it.
    attack = ["/bin/sh", "-c", 'for name; do head -c 1 "$name" && echo "opened $name"; done; true', "sh", *names]
    done = subprocess.run(
        attack, user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True, text=True, check=True
    )
    store.close()
    assert len(names) >= 4
    assert done.stdout == ""
    assert done.stderr.count("Permission denied") == len(names)
