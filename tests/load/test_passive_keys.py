"""`passive = true` in files and key by key."""

import pytest

from evenbeat.load.config import BadFileError
from evenbeat.load.flat import changed, flat, task_of
from evenbeat.load.toml import parse_toml
from evenbeat.model import HOUR, Job


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
        ('every = "1h"\ncommand = ["x"]', "4:1?1: checks.a.command: a passive check has no command"),
        ('every = "1h"\nfunction = "m:f"', "checks.a.function: a passive check has no function"),
        ('every = "1h"\nstart_at = "2027-01-01"', "checks.a.start_at: a passive check does not start"),
        ('cron = "@reboot"', "checks.a.cron: @reboot: a passive check needs times"),
    ],
)
def test_what_only_makes_sense_with_something_to_run_is_refused(keys: str, message: str) -> None:
    with pytest.raises(BadFileError, match=message):
        parse_toml(f"[checks.a]\npassive = true\n{keys}\n", "x.toml")


def test_one_key_turns_a_check_into_a_passive_one_and_back() -> None:
    before = task_of("a", {"every": "1h", "command": "a | b", "shell": True}, check=True)
    table = changed(flat(before), {"passive": True})
    assert table == {"every": "1h", "passive": True}
    passive = task_of("a", table, check=True)
    assert passive.passive
    assert changed(flat(passive), {"command": ["x"]}) == {"every": "1h", "command": ["x"]}
