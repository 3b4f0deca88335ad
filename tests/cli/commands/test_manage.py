"""Tasks are added, changed, listed and removed on a database that no node is running on."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import Evenbeat
from evenbeat.cli.arguments import KEY_OPTIONS, STATES
from evenbeat.cli.typed_values import parse_value
from evenbeat.clock.node_clock import Clock
from evenbeat.load.task_keys import TASK_KEYS
from evenbeat.model import HOUR, RunKind
from evenbeat.store.contract import COMPUTED_FILTER_STATES, FOREVER, NEVER, Batch, Claim, ProgressRecord, RunStart
from evenbeat.store.contract import FILTER_STATES as STATES_OF_THE_STORE
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import a_claim, a_finish


@pytest.fixture(autouse=True)
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tasks.db"
    monkeypatch.setenv("EVENBEAT_DB", str(path))
    return path


def listed(evenbeat: Evenbeat, *argv: str) -> list[str]:
    return [task["name"] for task in evenbeat("ls", *argv, "--json").json["tasks"]]


def definition(evenbeat: Evenbeat, name: str) -> Any:
    return evenbeat("show", name, "--json").json["task"]


class TestAdd:
    def test_a_task_is_added_with_its_keys(self, evenbeat: Evenbeat) -> None:
        keys = ["--every", "5m", "--phase", "10s", "--label", "team=web", "--timebox", "30s", "--priority", "3"]
        found = evenbeat("add", "beat", *keys, "--json", "--", "echo", "--every", "1s")
        assert found.json == {"created": ["beat"], "changed": [], "removed": [], "unchanged": 0}
        assert definition(evenbeat, "beat") == {
            "every": "5m",
            "phase": "10s",
            "labels": {"team": "web"},
            "timebox": "30s",
            "priority": 3,
            "command": ["echo", "--every", "1s"],
        }

    def test_a_second_dash_dash_belongs_to_the_command(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--every", "5m", "--", "a", "--", "b")
        assert definition(evenbeat, "x")["command"] == ["a", "--", "b"]

    def test_a_line_for_the_shell(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--cron", "@daily", "--shell", "--", "a | b")
        assert definition(evenbeat, "x") == {"cron": "@daily", "command": "a | b", "shell": True}

    def test_a_function_with_its_arguments(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--every", "1h", "--function", "m:f", "--arg", "5", "--arg", "a b", "--kwarg", "k=true")
        assert {k: v for k, v in definition(evenbeat, "x").items() if k not in ("every", "phase")} == {
            "function": "m:f",
            "args": [5, "a b"],
            "kwargs": {"k": True},
        }

    def test_a_check_has_its_variables_and_may_be_disabled(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--check", "--every", "1m", "--env", "A=5", "--disabled", "--owner", "ana", "--", "true")
        found = evenbeat("show", "x", "--json").json
        assert (found["check"], found["enabled"], found["owner"]) == (True, False, "ana")
        assert found["task"]["env"] == {"A": "5"}

    def test_what_a_file_would_refuse_is_refused_with_every_problem(self, evenbeat: Evenbeat, database: Path) -> None:
        found = evenbeat("add", "x", "--every", "5x", "--timebox", "q", "--", "true")
        assert found.code == 2
        assert "every, column 2: 'x' is not a unit" in found.err
        assert "timebox, column 1: 'q' is not a number with a unit" in found.err
        assert not database.exists()

    @pytest.mark.parametrize(
        ("argv", "problem"),
        [
            (["x", "--", "true"], "exactly one of every, cron, calendar, at, after, after_failure; found none"),
            (["x", "--every", "5m"], "there is nothing to run"),
            (["x", "--every", "5m", "--period", "p", "--", "true"], "there is no period 'p'"),
            (["x", "--every", "5m", "--limit", "l", "--", "true"], "there is no limit 'l'"),
            (["x", "--every", "5m", "--label", "team", "--", "true"], "--label: 'team' is not K=V"),
            (["x", "--every", "5m", "--function", "m:f", "--", "true"], "found both"),
        ],
    )
    def test_a_slip_is_explained(self, evenbeat: Evenbeat, argv: list[str], problem: str) -> None:
        found = evenbeat("add", *argv)
        assert (found.code, found.out) == (2, "")
        assert problem in found.err

    def test_a_name_is_taken_once(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--every", "5m", "--", "true")
        found = evenbeat("add", "x", "--every", "5m", "--", "true")
        assert found.code == 2
        assert "x" in found.err

    def test_every_option_is_a_key_of_files_and_every_simple_key_an_option(self) -> None:
        special = {
            "command",
            "shell",
            "args",
            "kwargs",
            "env",
            "labels",
            "enabled",
            "passive",
            "depends",
            "depends_any",
            "after",
            "after_failure",
            "notify",
        }
        assert {key for key, _, _ in KEY_OPTIONS} == set(TASK_KEYS) - special


class TestSet:
    def test_keys_change_and_others_stay(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--every", "5m", "--phase", "7s", "--timebox", "1m", "--label", "a=b", "--", "true")
        assert evenbeat("set", "x", "timebox=2m", "labels.c=d", "priority=5").code == 0
        found = definition(evenbeat, "x")
        assert (found["timebox"], found["labels"], found["priority"]) == ("2m", {"a": "b", "c": "d"}, 5)
        assert (found["every"], found["phase"]) == ("5m", "7s")

    def test_an_empty_value_is_the_default(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--every", "5m", "--timebox", "1m", "--", "true")
        evenbeat("set", "x", "timebox=")
        assert "timebox" not in definition(evenbeat, "x")

    def test_one_kind_of_schedule_replaces_the_other(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--every", "5m", "--spread", "hash", "--", "true")
        evenbeat("set", "x", "cron=0 3 * * *")
        assert definition(evenbeat, "x") == {"cron": "0 3 * * *", "command": ["true"]}

    def test_the_version_counts_changes_and_no_change_is_none(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--every", "5m", "--", "true")
        assert evenbeat("set", "x", "priority=1", "--json").json["changed"] == ["x"]
        assert evenbeat("set", "x", "priority=1", "--json").json["unchanged"] == 1
        assert evenbeat("show", "x", "--json").json["version"] == 2

    @pytest.mark.parametrize(
        ("change", "problem"),
        [
            ("every=", "exactly one of every"),
            ("every", "'every' is not KEY=VALUE"),
            ("nope=1", "'nope' is not a key here"),
            ("missed=never", "'never' is not a choice, accepted: once, skip, all"),
            ("command=echo hi", "one text, accepted: a list of words"),
        ],
    )
    def test_a_slip_changes_nothing(self, evenbeat: Evenbeat, change: str, problem: str) -> None:
        evenbeat("add", "x", "--every", "5m", "--", "true")
        found = evenbeat("set", "x", "priority=9", change)
        assert found.code == 2
        assert problem in found.err
        assert "priority" not in definition(evenbeat, "x")

    def test_a_name_like_it_is_suggested(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "report", "--every", "5m", "--", "true")
        found = evenbeat("set", "reprot", "priority=1")
        assert found.code == 2
        assert "did you mean 'report'?" in found.err


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("true", True),
        ('["a", "b"]', ["a", "b"]),
        ('{ a = "b" }', {"a": "b"}),
        ('"5"', "5"),
        ("5m", "5m"),
        ("a b", "a b"),
        ("1\nb = 2", "1\nb = 2"),
        ("0 3 * * *", "0 3 * * *"),
    ],
)
def test_values_are_those_of_files_and_words_are_texts(text: str, value: object) -> None:
    assert parse_value(text) == value


class TestSelecting:
    @pytest.fixture(autouse=True)
    def tasks(self, evenbeat: Evenbeat) -> None:
        for name, owner, team in (("web-1", "ana", "web"), ("web-2", "bo", "web"), ("db-1", "ana", "db")):
            evenbeat("add", name, "--every", "5m", "--owner", owner, "--label", f"team={team}", "--", "true")

    def test_by_name_pattern_owner_and_label(self, evenbeat: Evenbeat) -> None:
        assert listed(evenbeat) == ["db-1", "web-1", "web-2"]
        assert listed(evenbeat, "web-*") == ["web-1", "web-2"]
        assert listed(evenbeat, "web-1", "db-?") == ["db-1", "web-1"]
        assert listed(evenbeat, "--owner", "ana", "--label", "team=web") == ["web-1"]

    def test_an_id_is_as_good_as_a_name(self, evenbeat: Evenbeat) -> None:
        id_ = evenbeat("show", "db-1", "--json").json["id"]
        assert listed(evenbeat, id_) == ["db-1"]
        assert evenbeat("show", id_, "--json").json["name"] == "db-1"

    def test_no_task_of_a_name_is_a_no_and_no_task_in_a_state_is_just_none(self, evenbeat: Evenbeat) -> None:
        assert evenbeat("ls", "nobody").code == 1
        assert evenbeat("ls", "--state", "critical").code == 0

    def test_a_table_for_people(self, evenbeat: Evenbeat) -> None:
        heading, first, *_ = evenbeat("ls").out.splitlines()
        assert re.split("  +", heading) == ["name", "state", "would run", "expected by", "last", "schedule", "output"]
        name, state, due, by, *rest = re.split("  +", first)
        assert (name, state, rest) == ("db-1", "new", ["-", "every 5m"])
        assert due.startswith("in ")
        assert by.startswith("in ")

    def test_the_last_column_is_what_the_last_run_said(self, evenbeat: Evenbeat, database: Path) -> None:
        evenbeat("add", "a", "--check", "--every", "5m", "--", "true")
        store = SqliteStore(database)
        for name, output in (("a", "\nOK - 3 rows | rows=3\nmore"), ("web-1", "sent | received")):
            entry = store.find(name)
            assert entry is not None
            store.record(Batch(claims=[a_claim(entry.number)])).result()
            store.record(Batch(finishes=[a_finish(entry.number, output=output)])).result()
        store.close()
        said = [re.split("  +", line)[-1] for line in evenbeat("ls").out.splitlines()]
        assert (said[0], said[1], said[3]) == ("output", "OK - 3 rows", "sent | received")

    def test_the_last_column_of_a_failed_job_is_its_last_line(self, evenbeat: Evenbeat, database: Path) -> None:
        evenbeat("add", "job", "--every", "5m", "--", "true")
        store = SqliteStore(database)
        entry = store.find("job")
        assert entry is not None
        store.record(Batch(claims=[a_claim(entry.number)])).result()
        failed = a_finish(entry.number, output="begins\nno space left\n", outcome="failed")
        store.record(Batch(finishes=[failed])).result()
        store.close()
        assert re.split("  +", evenbeat("ls", "job").out.splitlines()[1])[-1] == "no space left"

    def test_paused_tasks_are_disabled_until_resumed(self, evenbeat: Evenbeat) -> None:
        assert evenbeat("pause", "web-*", "--json").json["changed"] == ["web-1", "web-2"]
        assert listed(evenbeat, "--state", "disabled") == ["web-1", "web-2"]
        assert "does not run: it is paused" in evenbeat("why", "web-1").out
        assert evenbeat("resume", "--owner", "bo", "--json").json["changed"] == ["web-2"]
        assert listed(evenbeat, "--state", "disabled") == ["web-1"]

    def test_what_is_removed_is_gone(self, evenbeat: Evenbeat) -> None:
        assert evenbeat("rm", "web-1", "--json").json["removed"] == ["web-1"]
        assert evenbeat("rm", "--owner", "ana", "--json").json["removed"] == ["db-1"]
        assert listed(evenbeat) == ["web-2"]

    @pytest.mark.parametrize("command", ["rm", "pause", "resume"])
    def test_nobody_means_everything_by_saying_nothing(self, evenbeat: Evenbeat, command: str) -> None:
        assert evenbeat(command).code == 2
        assert len(listed(evenbeat)) == 3

    def test_one_wrong_name_and_nothing_is_removed(self, evenbeat: Evenbeat) -> None:
        found = evenbeat("rm", "web-1", "web-3")
        assert found.code == 2
        assert "there is no task 'web-3'" in found.err
        assert len(listed(evenbeat)) == 3

    def test_the_states_are_those_of_the_store(self) -> None:
        assert STATES == STATES_OF_THE_STORE + COMPUTED_FILTER_STATES


class TestApply:
    def test_a_file_owns_its_tasks(self, evenbeat: Evenbeat, tmp_path: Path) -> None:
        file = tmp_path / "a.toml"
        file.write_text('[tasks.a]\nevery = "5m"\ncommand = ["true"]\n[tasks.b]\nevery = "5m"\ncommand = ["true"]\n')
        assert evenbeat("apply", str(file), "--json").json["created"] == ["a", "b"]
        file.write_text('[tasks.a]\nevery = "10m"\ncommand = ["true"]\n')
        found = evenbeat("apply", str(file), "--json").json
        assert (found["changed"], found["removed"]) == (["a"], ["b"])

    def test_a_bad_file_changes_nothing(self, evenbeat: Evenbeat, tmp_path: Path, database: Path) -> None:
        file = tmp_path / "a.toml"
        file.write_text('[tasks.a]\nevery = "5x"\ncommand = ["true"]\n')
        found = evenbeat("apply", str(file))
        assert found.code == 2
        assert f"{file}:2:" in found.err

    def test_to_change_a_task_of_a_file_is_told_to_be_temporary(self, evenbeat: Evenbeat, tmp_path: Path) -> None:
        file = tmp_path / "a.toml"
        file.write_text('[tasks.a]\nevery = "5m"\ncommand = ["true"]\n')
        evenbeat("apply", str(file))
        assert f"a comes from {file}" in evenbeat("set", "a", "priority=1").err


class TestWithoutNode:
    @pytest.fixture(autouse=True)
    def task(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "x", "--every", "5m", "--", "true")

    def test_status_says_so(self, evenbeat: Evenbeat) -> None:
        found = evenbeat("status", "--json")
        assert found.code == 1
        assert (found.json["live"], found.json["tasks"], found.json["pending"]) == (False, 1, None)
        assert "no node is running" in evenbeat("status").out

    @pytest.mark.parametrize("argv", [("run", "x"), ("reload",)])
    def test_what_needs_a_node_says_how_to_start_one(self, evenbeat: Evenbeat, argv: tuple[str, ...]) -> None:
        found = evenbeat(*argv)
        assert found.code == 2
        assert "evenbeat up" in found.err

    def test_why_says_so_too(self, evenbeat: Evenbeat) -> None:
        found = evenbeat("why", "x", "--json").json
        assert found["answer"] == "x does not run: no node is running on this database."
        assert found["reasons"][0] == "its schedule is every 5m"

    def test_history_is_empty(self, evenbeat: Evenbeat) -> None:
        assert evenbeat("history", "--json").json == {"runs": [], "skips": []}
        assert evenbeat("history", "x").out == "nothing yet\n"

    def test_history_since_a_time_has_nothing_older(self, evenbeat: Evenbeat, database: Path) -> None:
        store = SqliteStore(database)
        entry = store.find("x")
        assert entry is not None
        now = Clock().now()
        for i in reversed(range(30)):
            claimed = now - (i + 1) * HOUR // 10
            store.record(Batch(claims=[a_claim(entry.number, claimed, RunKind.FORCED)])).result()
            store.record(Batch(finishes=[a_finish(entry.number, claimed)])).result()
        store.close()
        assert len(evenbeat("history", "x", "--json").json["runs"]) == 20
        assert len(evenbeat("history", "x", "--since", "2h33m", "--json").json["runs"]) == 25
        assert len(evenbeat("history", "x", "--since", "2h33m", "-n", "3", "--json").json["runs"]) == 3
        found = evenbeat("history", "--since", "bah")
        assert (found.code, found.err[:48]) == (2, "evenbeat history: --since: 'bah' is neither a du")

    def test_a_list_of_nothing_says_what_may_have_been_meant(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "http web01", "--every", "1m", "--", "true")
        assert "no task matches 'htp*'; did you mean 'http*'?" in evenbeat("ls", "htp*").err
        assert "no task matches 'http web1'; did you mean 'http web01'?" in evenbeat("ls", "http web1").err
        assert "no task matches '*zzz*', 'qqq'\n" in evenbeat("ls", "*zzz*", "qqq").err
        assert evenbeat("ls", "htp*").code == 1
        for command in ("pause", "resume", "rm", "ack"):
            found = evenbeat(command, "htp*")
            assert found.code == 1
            assert f"evenbeat {command}: no task matches 'htp*'; did you mean 'http*'?" in found.err
        assert "no task matches" not in evenbeat("ack", "http*").err
        assert "no task matches" not in evenbeat("rm", "http*", "--owner", "nobody").err

    def test_advice_can_be_typed_as_it_stands(self, evenbeat: Evenbeat) -> None:
        evenbeat("add", "it's web01", "--every", "1m", "--", "true")
        evenbeat("pause", "it's web01")
        (advice,) = [line for line in evenbeat("why", "it's web01").out.splitlines() if "resume" in line]
        command = advice.split("`")[1]
        assert shlex.split(command) == ["evenbeat", "resume", "it's web01"]

    def test_a_list_says_that_nothing_runs(self, evenbeat: Evenbeat) -> None:
        found = evenbeat("ls")
        assert "no node is running: tasks do not run" in found.err
        assert "would run" in found.out.splitlines()[0]
        assert "expected by" in found.out.splitlines()[0]
        document = evenbeat("ls", "--json")
        assert document.json["live"] is False
        assert "no node is running" in document.err, "for people; the document is for programs"

    def test_a_task_says_when_it_would_run(self, evenbeat: Evenbeat) -> None:
        found = evenbeat("show", "x")
        assert "no node is running; would run " in found.out
        assert "result expected by " in found.out
        assert evenbeat("show", "x", "--json").json["live"] is False

    def test_tasks_can_be_listed_by_what_depends_on_the_time(self, evenbeat: Evenbeat, database: Path) -> None:
        evenbeat("add", "resting", "--every", "5m", "--", "true")
        evenbeat("pause", "resting")
        assert listed(evenbeat, "--state", "paused") == ["resting"]
        assert listed(evenbeat, "--state", "problem") == []
        assert listed(evenbeat, "--state", "late") == []
        store = SqliteStore(database)
        entry = store.find("x")
        assert entry is not None
        before = Clock().now() - 2 * HOUR
        standing = ProgressRecord(entry.number, before, FOREVER, 0, NEVER, NEVER)
        store.record(Batch(standings=[standing])).result()
        store.close()
        assert listed(evenbeat, "--state", "late") == ["x"]
        assert listed(evenbeat, "--state", "stale") == ["x"]
        (task,) = evenbeat("ls", "--state", "stale", "--json").json["tasks"]
        assert (task["late"], task["stale"]) == (True, True)
        assert task["expected_by"] < task["changed"]
        assert "new, stale" in evenbeat("ls").out
        assert evenbeat("pause", "--state", "stale", "--json").json["changed"] == ["x"]
        assert listed(evenbeat, "--state", "stale") == []

    def test_a_run_that_is_claimed_ahead_has_not_started(self, evenbeat: Evenbeat, database: Path) -> None:
        store = SqliteStore(database)
        entry = store.find("x")
        assert entry is not None
        due = 1_800_000_000_000_000
        store.record(Batch(claims=[Claim(entry.number, due, 0, RunKind.GRID, due - 99_000, due, FOREVER, 0)])).result()
        line = evenbeat("history", "x").out
        assert "claimed" in line
        assert "-0.099" not in line
        assert "was claimed" in evenbeat("show", "x").out
        store.record(Batch(starts=[RunStart(entry.number, due + 2_000)])).result()
        store.close()
        line = evenbeat("history", "x").out
        assert "+0.002 s" in line
        assert "runs" in line

    def test_a_backup_is_a_database_and_replaces_nothing(self, evenbeat: Evenbeat, tmp_path: Path) -> None:
        copy = tmp_path / "copy.db"
        assert evenbeat("backup", str(copy), "--json").json["file"] == str(copy)
        assert listed(evenbeat, "--db", str(copy)) == ["x"]
        assert evenbeat("backup", str(copy)).code == 2

    def test_show_prints_what_a_file_would_say(self, evenbeat: Evenbeat) -> None:
        evenbeat("set", "x", "phase=3s")
        out = evenbeat("show", "x").out
        assert '  [tasks.x]\n  every = "5m"\n  phase = "3s"\n  command = ["true"]\n' in out


@pytest.mark.parametrize("command", ["ls", "status", "history", "reload"])
def test_a_database_that_is_not_there_is_not_made_by_a_question(
    evenbeat: Evenbeat, database: Path, command: str
) -> None:
    found = evenbeat(command)
    assert found.code == 2
    assert f"there is no database {database}" in found.err
    assert not database.exists()


def test_people_who_change_things_at_the_same_time_wait_for_each_other(evenbeat: Evenbeat) -> None:
    names = ["a", "b", "c", "d"]
    command = [sys.executable, "-m", "evenbeat", "add"]
    at_once = [subprocess.Popen([*command, name, "--every", "5m", "--", "true"]) for name in names]
    assert [process.wait() for process in at_once] == [0, 0, 0, 0]
    assert listed(evenbeat) == names


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from evenbeat.cli.main import main\n"
        "try: main(['up', '--help'])\nexcept SystemExit: pass\n"
        "heavy = [m for m in ('numpy', 'rich', 'asyncio', 'sqlite3') if m in sys.modules]\n"
        "import json; print(json.dumps(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []
