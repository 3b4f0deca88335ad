from pathlib import Path

from live_node import LiveNode
from waiting import eventually

from evenbeat.node.process.followed_files import FollowedFiles, file_states
from evenbeat.store.sqlite.sqlite_store import SqliteStore


def followed(*files: Path) -> FollowedFiles:
    return FollowedFiles(files, file_states(files))


def test_a_file_that_stays_as_it_is_has_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("@daily a\n")
    files = followed(file, tmp_path / "none")
    assert [files.have_changed() for _ in range(3)] == [False] * 3


def test_a_change_counts_once_when_the_file_is_at_rest(tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("@daily a\n")
    files = followed(file)
    file.write_text("@daily b and\n")
    assert not files.have_changed(), "it may not be written to its end"
    file.write_text("@daily b and more\n")
    assert not files.have_changed()
    assert [files.have_changed() for _ in range(3)] == [True, False, False]


def test_a_change_between_reading_and_the_first_look_counts_and_so_do_replacing_and_removing(tmp_path: Path) -> None:
    file, other = tmp_path / "crontab", tmp_path / "other"
    for path in (file, other):
        path.write_text("@daily a\n")
    files = followed(file)
    other.rename(file)
    assert [files.have_changed() for _ in range(3)] == [False, True, False]
    file.unlink()
    assert [files.have_changed() for _ in range(3)] == [False, True, False]


def names(database: Path) -> set[str]:
    store = SqliteStore(database, read_only=True)
    try:
        return {entry.task.name for entry in store.entries()}
    finally:
        store.close()


def test_a_node_that_follows_a_crontab_has_its_tasks_and_a_mistake_in_it_changes_nothing(tmp_path: Path) -> None:
    database, file = tmp_path / "a.db", tmp_path / "crontab"
    file.write_text("@daily first\n")
    with LiveNode(database, files=(file,), followed=file_states([file])) as node:
        file.write_text("@daily first\n@hourly second\n")
        eventually(lambda: names(database) == {"first", "second"})
        file.write_text("@dayly first\n")
        eventually(lambda: "'@dayly' is not an alias" in node.node.files_error)
        assert names(database) == {"first", "second"}
        file.write_text("@hourly second\n")
        eventually(lambda: names(database) == {"second"})
        eventually(lambda: node.node.files_error == "")
