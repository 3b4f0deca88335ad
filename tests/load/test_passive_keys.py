"""`passive = true` in files and key by key."""

import pytest

from evenbeat.load.config import BadFileError
from evenbeat.load.task_tables import change_table, task_from_table, task_to_table
from evenbeat.load.toml import parse_toml
from evenbeat.model import HOUR, Job, WhenMissing


def test_a_passive_task_is_a_check_wherever_it_stands() -> None:
    config = parse_toml(
        '[defaults]\ncommand = ["x"]\n[checks.a]\npassive = true\nevery = "1h"\ngrace = "1h"\n'
        '[tasks.b]\npassive = true\ncron = "H 2 * * *"\n[tasks.c]\nevery = "1h"\n',
        "x.toml",
    )
    a, b, c = config.tasks
    assert [(task.passive, task.check) for task in (a, b, c)] == [(True, True), (True, True), (False, False)]
    assert (a.grace, a.job, b.job) == (HOUR, Job(), Job()), "a default command is for those who run something"
    assert c.job.command == ("x",)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('every = "1h"\nstart_at = "2027-01-01"', "checks.a.start_at: a passive check does not start"),
        ('cron = "@reboot"', "checks.a.cron: @reboot: a passive check needs times"),
    ],
)
def test_what_only_makes_sense_with_something_to_run_is_refused(keys: str, message: str) -> None:
    with pytest.raises(BadFileError, match=message):
        parse_toml(f"[checks.a]\npassive = true\n{keys}\n", "x.toml")


@pytest.mark.parametrize("work", [{"command": ["x"]}, {"command": "a | b", "shell": True}, {"function": "m:f"}])
def test_a_passive_check_may_have_something_to_run_when_a_result_is_missing(work: dict[str, object]) -> None:
    task = task_from_table("a", {"passive": True, "every": "1h", **work}, check=False)
    assert (task.passive, task.check) == (True, True)
    assert task.job.command or task.job.function
    assert task_from_table("a", task_to_table(task), check=True) == task


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({"passive": True}, {"passive": True, "command": "a | b", "shell": True}),
        ({"passive": True, "command": None, "shell": None}, {"passive": True}),
        ({"passive": True, "function": "m:f"}, {"passive": True, "function": "m:f"}),
        (
            {"when_missing": "unknown", "passive": True},
            {"when_missing": "unknown", "passive": True, "command": "a | b", "shell": True},
        ),
    ],
)
def test_a_key_turns_a_check_into_a_passive_one(changes: dict[str, object], after: dict[str, object]) -> None:
    before = task_from_table("a", {"every": "1h", "command": "a | b", "shell": True}, check=True)
    assert change_table(task_to_table(before), changes) == {"every": "1h", **after}


@pytest.mark.parametrize(
    ("changes", "after"),
    [
        ({"command": ["x"]}, {"passive": True, "when_missing": "warning", "command": ["x"]}),
        ({"command": ["x"], "passive": None}, {"command": ["x"]}),
        ({"command": ["x"], "passive": False}, {"command": ["x"], "passive": False}),
        ({"every": "2h"}, {"passive": True, "when_missing": "warning", "every": "2h"}),
    ],
)
def test_it_stays_passive_until_that_is_taken_away(changes: dict[str, object], after: dict[str, object]) -> None:
    before = task_from_table("a", {"every": "1h", "passive": True, "when_missing": "warning"}, check=True)
    assert change_table(task_to_table(before), changes) == {"every": "1h", **after}


def test_what_a_passive_check_runs_goes_with_its_template_as_a_whole() -> None:
    config = parse_toml(
        '[defaults]\nwhen_missing = "unknown"\nevery = "1h"\n'
        '[templates.asked]\npassive = true\ncommand = ["x"]\n'
        '[checks.a]\nuse = "asked"\n'
        '[checks.b]\nuse = "asked"\npassive = true\n'
        '[checks.c]\nuse = "asked"\ncommand = ["y"]\n'
        '[checks.d]\nuse = "asked"\npassive = true\ncommand = ["y"]\n',
        "x.toml",
    )
    found = {task.name: (task.passive, task.job.command, task.when_missing) for task in config.tasks}
    unknown = WhenMissing.UNKNOWN
    assert found == {
        "a": (True, ("x",), unknown),
        "b": (True, (), unknown),
        "c": (False, ("y",), WhenMissing.CRITICAL),
        "d": (True, ("y",), unknown),
    }


def test_passive_and_active_tables_with_the_same_keys_take_what_suits_each() -> None:
    config = parse_toml(
        '[defaults]\ncommand = ["x"]\n[checks.a]\npassive = true\nevery = "1h"\n'
        '[checks.b]\npassive = false\nevery = "1h"\n',
        "x.toml",
    )
    assert [task.job.command for task in config.tasks] == [(), ("x",)]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ('command = ["x"]\nwhen_missing = "unknown"', "a.when_missing: `when_missing` belongs to passive checks"),
        ('passive = true\nwhen_missing = "ok"', "4:17: checks.a.when_missing: "),
    ],
)
def test_when_missing_is_refused_where_it_says_nothing(keys: str, message: str) -> None:
    with pytest.raises(BadFileError, match=message):
        parse_toml(f'[checks.a]\nevery = "1h"\n{keys}\n', "x.toml")
