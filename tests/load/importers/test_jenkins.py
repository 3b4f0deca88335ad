from pathlib import Path

import pytest

from evenbeat.load.config import BadFileError, Config
from evenbeat.load.importers.jenkins import import_jenkins
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document
from evenbeat.model import Days, Hash, Job, Schedule
from evenbeat.when.cron import Cron
from evenbeat.when.cron_entry import parse_cron_entry, resolve_hashes
from evenbeat.when.hashing import JenkinsChooser
from evenbeat.when.schedule import compile_schedule

LIST = """
# jobs of the team
team/nightly: H H(1-4) * * *
team/nightly: H/30 H * * 1-5
plain : 0 4 1 * 1
TZ=Europe/Paris
mail: @daily
"""


WORKSPACES = "jobs ran in workspaces of their own; a task runs in the folder of the node, unless it has a `cwd`"


def job(spec: str, rest: str = "", builders: str = "") -> str:
    return (
        "<?xml version='1.1' encoding='UTF-8'?>\n<project>"
        f"<triggers><hudson.triggers.TimerTrigger><spec>{spec}</spec></hudson.triggers.TimerTrigger></triggers>"
        f"<builders>{builders}</builders>{rest}</project>"
    )


def shell(command: str) -> str:
    return f"<hudson.tasks.Shell><command>{command}</command></hudson.tasks.Shell>"


def imported(text: str, file: str = "jobs/folder/jobs/name/config.xml", zone: str = "UTC") -> tuple[Config, list[str]]:
    found = import_jenkins([(text, file)], zone)
    return parse_toml(write_document(found.document), "x.toml"), [w.message for w in found.warnings]


def resolved(config: Config) -> dict[str, str]:
    found = {}
    for task in config.tasks:
        cron = compile_schedule(task.schedule, task.name)
        assert isinstance(cron, Cron)
        found[task.name] = cron.resolved
    return found


def test_a_list_keeps_jenkins_times_its_rule_of_days_and_second_0() -> None:
    config, warned = imported(LIST, "list")
    schedules = {task.name: task.schedule for task in config.tasks}
    assert schedules["team/nightly"] == Schedule(cron="H H(1-4) * * *", hash=Hash.JENKINS, days=Days.AND, second=0)
    assert schedules["plain"] == Schedule(cron="0 4 1 * 1", hash=Hash.JENKINS, days=Days.AND, second=0)
    assert schedules["mail"].zone == "Europe/Paris"
    assert "a list says when, not what: the tasks are written disabled; give each task its command" in warned
    assert resolved(config)["team/nightly"] == "28 2 * * *"


def test_the_second_line_of_a_timer_goes_on_with_the_sequence_of_the_first() -> None:
    chooser = JenkinsChooser("team/nightly")
    chooser.below(60, 0)
    chooser.below(4, 1)
    minute, hour = chooser.below(30, 0), chooser.below(24, 1)
    config, warned = imported(LIST, "list")
    assert resolved(config)["team/nightly (2)"] == f"{minute},{minute + 30} {hour} * * 1-5"
    assert any("'H/30 H * * 1-5' is written as" in warning for warning in warned)


@pytest.mark.parametrize(
    "entry", ["H H * * *", "H/7 H(2-5) H * H", "@weekly", "H(0-9),H(30-39) * H/3 * *", "H/1 * * * *"]
)
def test_every_h_of_a_further_line_is_drawn_as_for_a_first_one(entry: str) -> None:
    expected = resolve_hashes(parse_cron_entry(entry), "x", Hash.JENKINS)
    config, _ = imported(f"x: 0 0 * * *\nx: {entry}\n", "list")
    again = next(task for task in config.tasks if task.name == "x (2)")
    assert resolve_hashes(parse_cron_entry(again.schedule.cron or ""), "y").fields == expected.fields


def test_a_job_is_named_by_its_folders_and_its_shell_step_is_the_command() -> None:
    spec = "# nightly\nTZ=Europe/London\nH 3 * * *"
    config, warned = imported(job(spec, builders=shell("make &amp;&amp; make install\necho done")))
    task = config.tasks[0]
    assert task.name == "folder/name"
    assert task.schedule.zone == "Europe/London"
    assert task.job == Job(command=("/bin/sh", "-xe", "-c", "make && make install\necho done"))
    assert task.enabled
    assert warned == [WORKSPACES]


def test_a_disabled_job_stays_disabled() -> None:
    config, _ = imported(job("H 3 * * *", "<disabled>true</disabled>", shell("x")))
    assert not config.tasks[0].enabled


@pytest.mark.parametrize("builders", ["", "<hudson.tasks.Maven><targets>x</targets></hudson.tasks.Maven>"])
def test_other_steps_are_named_and_leave_the_command_open(builders: str) -> None:
    config, warned = imported(job("H 3 * * *", builders=builders))
    assert config.tasks[0].job == Job(command=("noop",))
    assert not config.tasks[0].enabled
    assert "only shell steps become commands, found: " in warned[0]


def test_other_triggers_are_named() -> None:
    rest = "<x><hudson.triggers.SCMTrigger><spec>H * * * *</spec></hudson.triggers.SCMTrigger></x>"
    found = import_jenkins([(job("H 3 * * *", rest, shell("x")), "jobs/a/config.xml")])
    assert [str(one) for one in found.omissions] == ["jobs/a/config.xml:2:196: x: evenbeat has nothing like it"]
    found = import_jenkins([("<project/>", "jobs/a/config.xml")])
    assert not found.document["tasks"]
    assert [str(one) for one in found.omissions] == [
        "jobs/a/config.xml:1:1: a (project): neither a timer nor a job here starts it"
    ]


def test_a_pipeline_keeps_its_timer_among_its_properties() -> None:
    timer = "<hudson.triggers.TimerTrigger><spec>H 5 * * *</spec></hudson.triggers.TimerTrigger>"
    text = f"<flow-definition><properties><p><triggers>{timer}</triggers></p></properties></flow-definition>"
    assert imported(text)[0].tasks[0].schedule.cron == "H 5 * * *"


BOMB = '<!DOCTYPE a [<!ENTITY b "bbbbbbbb"><!ENTITY c "&b;&b;&b;">]><project>&c;</project>'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "list:1:1: <!DOCTYPE is not accepted in a config.xml"),
        ("<?xml version='1.1'?>\n<!doctype x>\n<a/>", "list:2:1: not XML: syntax error"),
        ("<project><a></project>", "list:1:15: not XML: mismatched tag"),
        ("<?xml version='1.1'?>\n<project>&b;</project>", "list:2:10: not XML: undefined entity"),
        ("x: H 25 * * *\n", "list:1:6: x: 25 is out of range"),
        ("x\n", "list:1:1: 'x' is not understood, accepted: name: H/15 * * * *"),
        ("TZ=Mars\n", "list:1:4: 'Mars' is not a time zone"),
        (f"{'n' * 257}: @daily\n", "a name of 257 characters"),
        (job("H 99 * * *"), "99 is out of range"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(BadFileError) as caught:
        import_jenkins([(text, "list")])
    assert message in str(caught.value)


def test_the_same_job_twice_is_refused(tmp_path: Path) -> None:
    text = job("@daily", builders=shell("x"))
    with pytest.raises(BadFileError, match="'a' is there twice"):
        import_jenkins([(text, "jobs/a/config.xml"), (text, "backup/jobs/a/config.xml")])
