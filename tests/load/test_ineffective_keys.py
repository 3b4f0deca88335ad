"""A key that has no effect on its task is refused, not ignored; only defaults may say what is not for all."""

from pathlib import Path

import pytest

from conftest import Evenbeat
from evenbeat.load.config import BadFileError
from evenbeat.load.task_tables import change_table, task_from_table
from evenbeat.load.toml import parse_toml
from evenbeat.model import SECOND, Invalid

EVERY, RUN = 'every = "5m"\n', 'command = ["x"]\n'
CASES = [
    (
        f"[tasks.a]\n{EVERY}{RUN}attempts = 2\n",
        "a.toml:4:12: tasks.a.attempts: `attempts` has no effect",
    ),
    (
        f"[tasks.a]\n{EVERY}{RUN}retry = 2\n",
        "a.toml:4:9: tasks.a.retry: `retry` has no effect here",
    ),
    (f"[checks.a]\n{EVERY}{RUN}catch_up = 2\n", "a.toml:4:12: checks.a.catch_up: `catch_up` has no effect here"),
    (f"[checks.a]\n{EVERY}passive = true\nweight = 2\n", "a.toml:4:10: checks.a.weight: `weight` has no effect here"),
    (
        f'[tasks.a]\nat = "2099-01-01"\n{RUN}tolerance = 2\n',
        "a.toml:4:13: tasks.a.tolerance: `tolerance` has no effect",
    ),
    (f'[tasks.a]\ncron = "@reboot"\n{RUN}backlog = "each"\n', "a.toml:4:12: tasks.a.backlog: `backlog` has no effect"),
    (f'[checks.a]\n{EVERY}passive = true\nuser = "x"\n', "a.toml:4:9: checks.a.user: `user` has no effect here"),
    (
        f'[templates.t]\nretry = 9\n[tasks.a]\nuse = "t"\n{EVERY}{RUN}',
        "a.toml:2:9: templates.t.retry: `retry` has no effect",
    ),
    (
        f"[tasks.a]\n{EVERY}{RUN}retry = 2\n",
        "a.toml:4:9: tasks.a.retry: `retry` has no effect here: it belongs to checks; a task that tries again after a "
        "failure has `retries` and `backoff`",
    ),
    (
        f"[checks.a]\n{EVERY}{RUN}retries = 2\n",
        "a.toml:4:11: checks.a.retries: `retries` has no effect here: it belongs to tasks; a check has `retry` and "
        "`attempts`",
    ),
    (
        f"[tasks.a]\n{EVERY}{RUN}backoff = 2\n",
        "a.toml:4:11: tasks.a.backoff: `backoff` has no effect here: the task does not try again",
    ),
    (
        f'[tasks.a]\n{EVERY}{RUN}retries = 1\nretry_on = ["OSError"]\n',
        "a.toml:5:12: tasks.a.retry_on: `retry_on` has no effect here: a command ends with an exit code",
    ),
    (
        f'[tasks.a]\ncron = "@shutdown"\n{RUN}retries = 1\n',
        "a.toml:4:11: tasks.a.retries: `retries` has no effect here: a run at the stop of the node",
    ),
]


@pytest.mark.parametrize(("text", "words"), CASES)
def test_it_is_refused_where_it_stands(text: str, words: str) -> None:
    with pytest.raises(BadFileError) as refused:
        parse_toml(text, "a.toml")
    assert str(refused.value).startswith(words)


def test_default_retries_are_for_tasks_alone() -> None:
    text = '[defaults]\nretries = 2\nbackoff = "1s"\nbackoff_max = "5s"\nretry_on = ["OSError"]\nattempts = 5\n'
    text += f'[tasks.a]\n{EVERY}function = "m:f"\n[checks.b]\n{EVERY}{RUN}[tasks.c]\n{EVERY}{RUN}'
    a, b, c = sorted(parse_toml(text, "a.toml").tasks, key=lambda task: task.name)
    assert (a.retries, a.backoff, a.backoff_max, a.retry_on) == (2, SECOND, 5 * SECOND, ("OSError",))
    assert (b.retries, b.backoff, b.attempts) == (None, None, 5)
    assert (c.retries, c.retry_on) == (2, ())


def test_defaults_are_for_those_they_suit() -> None:
    text = '[defaults]\nattempts = 2\ncatch_up = 9\ncwd = "/"\nuser = "nobody"\n'
    text += f'[tasks.a]\n{EVERY}function = "m:f"\n[checks.b]\n{EVERY}{RUN}'
    a, b = sorted(parse_toml(text, "a.toml").tasks, key=lambda task: task.name)
    assert (a.attempts, b.attempts) == (task_from_table("a", {"every": 1}, check=False).attempts, 2)
    assert (a.job.cwd, a.job.user) == (b.job.cwd, b.job.user) == ("/", "nobody"), "functions too"


def test_who_edits_by_hand_hears_the_same() -> None:
    with pytest.raises(Invalid, match="attempts: `attempts` has no effect here: it belongs to checks"):
        task_from_table("a", {"every": "5m", "command": ["x"], "attempts": 2}, check=False)
    before = {"every": "5m", "command": ["x"], "missed": "all", "catch_up": "2h"}
    assert "catch_up" not in change_table(before, {"missed": "once"}), "a key goes with the one that it belongs to"
    assert "catch_up" not in change_table(before, {"missed": None})
    assert change_table(before, {"priority": 1})["catch_up"] == "2h"


NOTHING = '[checks.n]\nevery = "2s"\n[tasks.bad]\nevery = "5x"\n[tasks.m]\nevery = "1m"\n'


def test_every_path_says_all_of_it_with_the_same_words(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(NOTHING)
    words = [
        f"{file}:1:2: checks.n: there is nothing to run, say `command`, `function` or `passive = true`",
        f"{file}:4:11: tasks.bad.every: ",
        f"{file}:5:2: tasks.m: there is nothing to run, say `command`, `function` or `passive = true`",
    ]
    database = str(tmp_path / "a.db")
    said = evenbeat("check-config", str(file), "--json").json["errors"]
    assert [line.startswith(start) for line, start in zip(said, words, strict=True)] == [True] * 3
    for command in ("apply", "up"):
        found = evenbeat(command, str(file), "--db", database)
        assert found.code == 2
        assert all(line in found.err for line in said)


def test_what_does_not_fit_between_files_is_said_by_every_path(evenbeat: Evenbeat, tmp_path: Path) -> None:
    a, b = tmp_path / "a.toml", tmp_path / "b.toml"
    a.write_text(f"[limits]\ndb = 4\n[node]\nkeep = 60\n[tasks.x]\n{EVERY}{RUN}")
    b.write_text(f'[limits]\ndb = 5\n[node]\nkeep = 61\n[tasks.x]\n{EVERY}{RUN}limit = "bd"\n')
    said = evenbeat("check-config", str(a), str(b), "--json").json["errors"]
    assert [line.removeprefix(f"{b}:") for line in said] == [
        f"2:6: limits.db: 5 here, 4 in {a}",
        f"4:8: node.keep: 1m1s here, 1m in {a}",
        f"5:2: the name 'x' is taken by a task of {a}; names are unique",
        "8:10: there is no limit 'bd', known: db",
    ]
    for command in ("apply", "up"):
        found = evenbeat(command, str(a), str(b), "--db", str(tmp_path / "a.db"))
        assert (found.code, [line for line in said if line not in found.err]) == (2, [])
