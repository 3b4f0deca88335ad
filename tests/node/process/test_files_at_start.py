"""A node comes back, and a file of it is broken meanwhile: it goes on with what was last applied, and says so."""

from pathlib import Path

import pytest
from live_node import LiveNode

from evenbeat.client.node_or_database import connect_to_live_node
from evenbeat.load.config import BadFileError
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import Invalid
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.wire.requests import GetStatus

GOOD = '[node]\nmax_concurrent = 7\n[tasks.a]\nevery = "1h"\ncommand = ["noop"]\n'
BROKEN = "[tasks.a\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "a.toml"
    path.write_text(GOOD)
    return path


def status_files(node: LiveNode) -> str:
    backend = connect_to_live_node(node.database)
    assert backend is not None
    status = backend.ask(GetStatus()).status
    backend.close()
    assert status is not None
    return status.files


def test_a_node_comes_back_with_what_was_last_applied_of_a_file_that_is_broken_now(tmp_path: Path, file: Path) -> None:
    database = tmp_path / "x.db"
    with LiveNode(database, files=(file,)) as node:
        assert status_files(node) == "ok"
    file.write_text(BROKEN)
    with LiveNode(database, files=(file,)) as node:
        assert f"{file}:1:" in status_files(node)
        assert node.node.status().tasks == 1
        assert node.node.status().slots == 7
        file.write_text(GOOD)
        with node.client() as client:
            client.apply([])
        assert status_files(node) == "ok"


def test_a_file_that_is_gone_is_like_a_broken_one(tmp_path: Path, file: Path) -> None:
    with LiveNode(tmp_path / "x.db", files=(file,)):
        pass
    file.unlink()
    with LiveNode(tmp_path / "x.db", files=(file,)) as node:
        assert str(file) in status_files(node)
        assert node.node.status().tasks == 1


def test_a_reload_that_fails_is_seen_until_one_succeeds(tmp_path: Path, file: Path) -> None:
    with LiveNode(tmp_path / "x.db", files=(file,)) as node:
        file.write_text(BROKEN)
        with node.client() as client:
            with pytest.raises(Invalid):
                client.apply([])
            assert f"{file}:1:" in status_files(node)
            file.write_text(GOOD)
            client.apply([file])
        assert status_files(node) == "ok"


def test_another_file_that_cannot_be_applied_is_no_problem_of_the_node(tmp_path: Path, file: Path) -> None:
    other = tmp_path / "other.toml"
    other.write_text(BROKEN)
    with LiveNode(tmp_path / "x.db", files=(file,)) as node:
        with node.client() as client, pytest.raises(Invalid):
            client.apply([other])
        assert status_files(node) == "ok"


def test_a_file_of_which_nothing_was_ever_applied_is_refused(tmp_path: Path, file: Path) -> None:
    new = tmp_path / "new.toml"
    new.write_text(BROKEN)
    with pytest.raises(BadFileError), LiveNode(tmp_path / "x.db", files=(new,)):
        pass
    with LiveNode(tmp_path / "x.db", files=(file,)):
        pass
    with pytest.raises(BadFileError), LiveNode(tmp_path / "x.db", files=(file, new)):
        pass
    store = SqliteStore(tmp_path / "x.db", read_only=True)
    assert store.count() == 1
    store.close()


def test_strict_refuses_what_is_broken_now(tmp_path: Path, file: Path) -> None:
    with LiveNode(tmp_path / "x.db", files=(file,)):
        pass
    file.write_text(BROKEN)
    with pytest.raises(BadFileError, match=r"a\.toml:1:"), LiveNode(tmp_path / "x.db", files=(file,), is_strict=True):
        pass


def test_a_task_gets_the_same_phase_whether_its_node_has_just_applied_the_file_or_was_started_again(
    tmp_path: Path,
) -> None:
    file = tmp_path / "many.toml"
    file.write_text('[checks."c{i}"]\nfor.i = ["[01-20]"]\nevery = "1h"\ncommand = ["true"]\n')

    def phases(database: Path, starts: int) -> dict[str, int | None]:
        for _ in range(starts - 1):
            with LiveNode(database, files=(file,)):
                pass
        with LiveNode(database, files=(file,)) as node, node.client() as client:
            for name, every in (("c01", "2h"), ("c02", "30m"), ("c01", "1h"), ("c01", "2h")):
                client.set(name, task_from_table(name, {"every": every, "command": ["true"]}, check=True))
            client.add([task_from_table("later", {"every": "2h", "command": ["true"]}, check=True)], "ana")
        store = SqliteStore(database, read_only=True)
        try:
            return {entry.task.name: entry.task.schedule.phase for entry in store.entries()}
        finally:
            store.close()

    assert phases(tmp_path / "a.db", 1) == phases(tmp_path / "b.db", 2)
