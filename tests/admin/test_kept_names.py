"""A crontab that stays the source of truth: whatever lines come, go or move, a line that stays keeps its task."""

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from live_node import LiveNode
from msgspec.structs import replace
from waiting import eventually

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.load.crontab import parse_crontab
from evenbeat.load.crontab_names import UnnamedEntry, possible_names
from evenbeat.model import Entry, Instant, Invalid
from evenbeat.node.process.followed_files import file_states
from evenbeat.store.memory import MemoryStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore

ECHO = "@every 20s echo one"
LINES = (
    ECHO,
    "@every 30s echo two",
    "@every 30s echo two three",
    "@hourly echo two",
    "@hourly echo",
    "@every 40s cd /srv && ./manage.py clear",
    "@every 40s cd /srv && ./manage.py clear --all",
    "@every 40s cd /srv && ./manage.py clear --old",
    "@every 40s cd /srv && ./manage.py mail",
    "@every 1m  manage-clear",
    "@every 1m  echo-two",
    "5 4 * * *  mysqldump -pone a",
    "5 4 * * *  mysqldump -ptwo a",
    "5 5 * * *  mysqldump -ptwo a",
)


class FollowedCrontab:
    """A crontab that is applied again whenever it has changed."""

    def __init__(self, folder: Path) -> None:
        self.store = MemoryStore()
        self.admin = TaskAdmin(self.store, lambda: Instant(0))
        self.file = folder / "crontab"

    def write(self, *lines: str) -> dict[str, Entry]:
        """Apply these lines; the tasks by their lines."""
        self.file.write_text("\n".join(lines) + "\n")
        self.admin.apply([self.file], "reload")
        return {line: entry for line in lines for entry in self.entries() if is_of(line, entry)}

    def entries(self) -> list[Entry]:
        return list(self.store.entries())

    def names(self) -> list[str]:
        return [entry.task.name for entry in self.entries()]


def is_of(line: str, entry: Entry) -> bool:
    if line.startswith("#") or "=" in line.split(maxsplit=1)[0]:
        return False
    (task,) = parse_crontab(line, "crontab").tasks
    schedule = replace(entry.task.schedule, phase=None)
    return (entry.task.job, schedule) == (task.job, task.schedule)


def test_a_line_that_comes_leaves_the_names_of_the_others(tmp_path: Path) -> None:
    crontab = FollowedCrontab(tmp_path)
    before = crontab.write(ECHO)[ECHO]
    assert before.task.name == "echo"
    after = crontab.write(ECHO, "@every 30s echo two")
    assert after[ECHO] == before
    assert after["@every 30s echo two"].task.name == "echo-two"
    prepended = crontab.write("@every 30s echo zero", "@every 30s echo two", ECHO)
    assert prepended[ECHO] == before
    assert crontab.names() == ["echo", "echo-two", "echo-zero"]
    left = crontab.write("@every 30s echo two")
    assert left["@every 30s echo two"] == after["@every 30s echo two"], "nor does a name get shorter"


def test_an_edited_line_is_the_same_task(tmp_path: Path) -> None:
    crontab = FollowedCrontab(tmp_path)
    before = crontab.write(ECHO, "@every 30s echo two")
    moved = crontab.write("@hourly echo one", "@every 30s echo two")["@hourly echo one"]
    assert (moved.number, moved.task.name) == (before[ECHO].number, "echo-one"), "another time"
    crontab.write("PATH=/opt/bin", "@hourly echo one", "@every 30s echo two")
    assert crontab.admin.find_or_raise("echo-one").number == moved.number, "another variable"
    crontab.write("@hourly echo one more", "@every 30s echo two")
    assert crontab.admin.find_or_raise("echo-one").number == moved.number, "another command"


def test_names_of_before_stay_whatever_names_are_made_now(tmp_path: Path) -> None:
    crontab = FollowedCrontab(tmp_path)
    line = "9,39 * * * * [ -x /x ] && if [ ! -d /run ]; then /usr/lib/php/sessionclean; fi"
    before = crontab.write("# name: fi", line)[line]
    assert crontab.write("@daily sessionclean", line)[line] == before


def test_a_name_that_a_line_gives_counts_before_one_that_was_made(tmp_path: Path) -> None:
    crontab = FollowedCrontab(tmp_path)
    crontab.write(ECHO)
    after = crontab.write(ECHO, "# name: echo", "@hourly echo two")
    assert after["@hourly echo two"].task.name == "echo"
    assert after[ECHO].task.name == "echo-one"


def test_a_refusal_has_the_place_of_the_line_whatever_name_its_task_gets(tmp_path: Path) -> None:
    crontab = FollowedCrontab(tmp_path)
    crontab.write(ECHO, "@every 30s echo two")
    (name,) = possible_names(UnnamedEntry("@daily ", "echo-two"))[1:2]  # as another task has the shorter one
    other = tmp_path / "other.toml"
    other.write_text(f'[tasks.{name}]\nevery = "1m"\ncommand = ["true"]\n')
    crontab.admin.apply([other], "ana")
    with pytest.raises(Invalid, match=rf"crontab:2:1: .*{name}"):
        crontab.write("@every 30s echo two", "@daily echo-two")


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(LINES), unique=True), min_size=2, max_size=6))
def test_a_line_that_stays_keeps_its_task_through_all_edits(
    tmp_path_factory: pytest.TempPathFactory, versions: list[list[str]]
) -> None:
    crontab = FollowedCrontab(tmp_path_factory.mktemp("followed"))
    known: dict[str, Entry] = {}
    for lines in versions:
        now = crontab.write(*lines)
        assert now.keys() == set(lines)
        assert len(crontab.entries()) == len(lines)
        for line in known.keys() & now.keys():
            assert now[line] == known[line]
        known = now


def test_a_node_that_follows_a_crontab_keeps_ids_phases_and_histories(tmp_path: Path) -> None:
    database, file = tmp_path / "a.db", tmp_path / "crontab"

    def entries() -> dict[str, Entry]:
        store = SqliteStore(database, read_only=True)
        try:
            return {entry.task.job.command[0]: entry for entry in store.entries()}
        finally:
            store.close()

    file.write_text("@every 1h echo one\n")
    with LiveNode(database, files=(file,), followed=file_states([file])) as node:
        with node.client() as client:
            client.run_now(["echo"], wait=True)
        before = entries()["echo one"]
        for lines in (
            ("@every 1h echo one", "@every 2h echo two"),
            ("@every 3h echo zero", "@every 2h echo two", "@every 1h echo one"),
            ("@every 1h echo one", "@every 3h echo zero"),
        ):
            file.write_text("\n".join(lines) + "\n")
            commands = {line.partition("h ")[2] for line in lines}
            eventually(partial(lambda wanted: wanted == entries().keys(), commands))
            assert entries()["echo one"] == before
            assert len(node.runs("echo")) == 1
    with LiveNode(database, files=(file,), followed=file_states([file])) as node:
        assert entries()["echo one"] == before
        assert len(node.runs("echo")) == 1
