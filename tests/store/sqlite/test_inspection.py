"""A database file that is deleted, replaced, overwritten or damaged while it is open: the store reports it."""

import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from queue import SimpleQueue

import pytest
from waiting import PATIENCE

from evenbeat.store.contract import DatabaseDamaged
from evenbeat.store.sqlite import checkpoint as sqlite_checkpoint
from evenbeat.store.sqlite import inspection as sqlite_inspect
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_task

GROW = """
WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 300)
INSERT INTO more SELECT randomblob(3000) FROM count
"""


class Watched:
    """A store with an inspector that does not pause."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = SqliteStore(path)
        self.create("first", 300)
        self.reports: SimpleQueue[DatabaseDamaged | None] = SimpleQueue()
        self.store.inspect(self.reports.put)

    def create(self, name: str, count: int = 1) -> None:
        self.store.create([a_task(f"{name}{i}") for i in range(count)], "me", T0)

    def finds(self, words: str = "") -> None:
        """Wait until it says so. While a file is being copied, it is empty, and so on."""
        while not re.search(words, str(self.reports.get(timeout=PATIENCE))):
            pass

    def looks(self, times: int = 5) -> None:
        """Wait until it has looked so often."""
        inspector = self.store._inspector
        assert inspector is not None
        before = inspector.looks
        while inspector.looks < before + times:
            assert inspector._thread.is_alive()

    def checkpoints(self) -> None:
        """Have everything moved to the main file, and the log begun anew."""
        writer = self.store.writer
        before = set(writer.stamps.known)
        while before & set(writer.stamps.known):
            self.store.set_settings({"x": "y"})
        # None is under way or asked for any more: one beside what a test does to the file would undo part of that.
        writer.changes.submit(lambda _: None).result()
        wanted = writer._checkpoints._is_wanted
        is_idle = vars(wanted)["_cond"]._waiters  # the thread is among them while it waits to be asked
        while len(writer.stamps.known) > 1 or wanted.is_set() or not is_idle:
            if len(writer.stamps.known) > 1:
                wanted.set()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(sqlite_inspect, "_LOOK", 0.01)
    monkeypatch.setattr(sqlite_inspect, "_PAUSE", 0.0)
    monkeypatch.setattr(sqlite_checkpoint, "_CHANGES", 0)
    made = Watched(tmp_path / "x.db")
    made.checkpoints()
    yield made
    made.store.close()


def overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def delete(path: Path) -> None:
    path.unlink()


def replace(path: Path) -> None:
    shutil.copy(path, path.with_name("other"))
    path.with_name("other").rename(path)


def delete_log(path: Path) -> None:
    path.with_name("x.db-wal").unlink()


def delete_index(path: Path) -> None:
    path.with_name("x.db-shm").unlink()


def put_another_in_its_place(path: Path) -> None:
    other = path.with_name("other.db")
    SqliteStore(other).close()
    shutil.copyfile(other, path)


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def spoil_pages(path: Path) -> None:
    for at in range(20 * 1024, path.stat().st_size, 1024):
        overwrite(path, at, b"\xee" * 64)


def spoil_header(path: Path) -> None:
    overwrite(path, 0, b"\0" * 100)


def test_a_file_that_is_deleted_while_a_table_is_checked_was_deleted(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = sqlite_inspect.check_tables

    def check_late(path: Path, schema: int, tables: list[str] | None = None) -> DatabaseDamaged | None:
        path.unlink(missing_ok=True)
        return check(path, schema, tables) or DatabaseDamaged("it cannot be opened")

    monkeypatch.setattr(sqlite_inspect, "check_tables", check_late)
    assert "the file was deleted or moved away" in str(watched.reports.get(timeout=PATIENCE))


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (delete, r"x\.db: the file was deleted or moved away"),
        (replace, r"x\.db: the file was replaced"),
        (delete_log, r"x\.db-wal: the file was (deleted|replaced)"),
        (delete_index, r"x\.db-shm: the file was (deleted|replaced)"),
        (put_another_in_its_place, r"x\.db(-wal)?: (?!the file was emptied)"),
        (truncate, r"x\.db: (the file is damaged|the disk does not read)"),
        (empty, r"x\.db(-wal)?: "),
        (spoil_pages, r"x\.db: the file is damaged.*backup"),
        (spoil_header, r"x\.db: this is not an evenbeat database"),
    ],
)
def test_what_happens_to_the_file_is_found_and_nothing_is_kept_any_more(
    watched: Watched, how: Callable[[Path], None], words: str
) -> None:
    how(watched.path)
    watched.finds(words)
    with pytest.raises(DatabaseDamaged):
        watched.create("more")
    with pytest.raises(DatabaseDamaged):
        watched.store.count()


def test_nothing_is_said_to_be_kept_in_the_moment_before_it_is_found(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    delete(tmp_path / "x.db")
    with pytest.raises(DatabaseDamaged, match="deleted or moved away"):
        store.create([a_task("a")], "me", T0)
    store.close()


def test_an_old_copy_over_the_file_is_found_though_it_is_whole(watched: Watched, tmp_path: Path) -> None:
    watched.store.backup(tmp_path / "backup.db")
    watched.create("since")
    watched.checkpoints()
    stamps = watched.store.writer.stamps
    # A last checkpoint may be under way and write into the copy, which is then no old copy: until it is one.
    while "another program has overwritten the file, perhaps with an old copy" not in str(stamps.problem()):
        shutil.copyfile(tmp_path / "backup.db", watched.path)
    watched.finds()  # that it is empty, or damaged: in the midst of a copy, it is


def test_a_checkpoint_that_a_reader_holds_up_is_no_damage(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "x.db")
    writer = store.writer
    with closing(sqlite3.connect(tmp_path / "x.db")) as moving, closing(sqlite3.connect(tmp_path / "x.db")) as reader:

        def commit(statement: str) -> None:
            writer.changes.submit(lambda connection: connection.execute(statement).fetchall()).result()

        def checkpoint() -> DatabaseDamaged | None:
            writer.changes.submit(writer.stamps.issue).result()
            writer.stamps.checkpoint(moving, "PRAGMA wal_checkpoint(PASSIVE)")
            return writer.stamps.problem()

        commit("CREATE TABLE more (x)")
        assert checkpoint() is None
        commit(GROW)
        reader.execute("BEGIN").execute("SELECT count(*) FROM more").fetchall()
        commit("UPDATE more SET x = randomblob(3000)")
        # The first page says how long the file is, and is moved; the pages at its end are not.
        assert checkpoint() is None
        reader.execute("ROLLBACK")
        assert checkpoint() is None
    store.close()


def test_a_file_that_comes_back_is_used_again(watched: Watched) -> None:
    aside = watched.path.with_name("aside")
    watched.path.rename(aside)
    watched.finds()
    aside.rename(watched.path)
    assert watched.reports.get(timeout=PATIENCE) is None
    watched.create("more")
    assert watched.store.count() == 301


def test_another_program_that_uses_the_file_as_one_should_does_no_harm(watched: Watched) -> None:
    watched.create("more", 50)
    with closing(sqlite3.connect(watched.path, isolation_level=None)) as other:
        other.execute("PRAGMA wal_checkpoint(PASSIVE)")
        other.execute("UPDATE tasks SET changed = changed + 1")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        watched.looks()
        other.execute("VACUUM")
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        watched.looks()
    watched.create("most", 50)
    watched.looks()
    assert watched.reports.empty()


def test_a_wrong_stamp_counts_only_in_a_file_that_has_stopped_changing(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program that has compacted the file moves the new content to it: a large one takes a while."""
    writer = watched.store.writer
    is_moving = True

    def sizes(inspector: sqlite_inspect.FileInspector) -> tuple[int, int, int]:
        return 1024, inspector.looks if is_moving else 0, 0

    monkeypatch.setattr(sqlite_inspect.FileInspector, "_sizes", sizes)
    known, writer.stamps.known[:] = list(writer.stamps.known), ["of another file"]
    watched.looks()
    assert watched.reports.empty()
    is_moving = False
    watched.finds("another program has overwritten the file")
    writer.stamps.known[:] = known


def test_our_own_checkpoints_are_never_taken_for_damage(watched: Watched) -> None:
    for i in range(150):
        watched.create(f"more{i}.", 20)
    watched.looks()
    assert watched.reports.empty()


def test_a_file_that_was_replaced_is_left_alone_when_the_store_is_closed(watched: Watched) -> None:
    other = watched.path.with_name("other.db")
    SqliteStore(other).close()
    other.rename(watched.path)
    for suffix in ("-wal", "-shm"):
        log = watched.path.with_name(f"x.db{suffix}")
        log.unlink()
        log.write_bytes(b"whose?")
    watched.finds()
    before = watched.path.read_bytes()
    watched.store.close()
    assert watched.path.read_bytes() == before
    assert watched.path.with_name("x.db-wal").read_bytes() == b"whose?"


def test_all_tables_are_checked_in_turn_also_if_nobody_writes(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: SimpleQueue[str] = SimpleQueue()
    check = sqlite_inspect.check_tables

    def noted(path: Path, schema: int, tables: list[str] | None = None) -> DatabaseDamaged | None:
        for table in tables or []:
            checked.put(table)
        return check(path, schema, tables)

    monkeypatch.setattr(sqlite_inspect, "check_tables", noted)
    seen = {checked.get(timeout=PATIENCE) for _ in range(40)}
    assert seen >= {"tasks", "progress", "claims", "plain_runs", "notable_runs", "skips", "changes", "settings"}
