from pathlib import Path

import pytest

from conftest import Evenbeat
from evenbeat.load.toml import parse_toml


def test_a_crontab_keeps_midnight_and_second_0(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("@daily rotate\n30 2 * * 1 report.sh\n")
    result = evenbeat("import", "crontab", str(file), "--zone", "Europe/Paris")
    assert result.code == 0
    assert result.err == ""
    tasks = {task.name: task.schedule for task in parse_toml(result.out, "x").tasks}
    assert (tasks["rotate"].cron, tasks["rotate"].second, tasks["rotate"].zone) == ("0 0 * * *", 0, "Europe/Paris")
    assert tasks["report"].second == 0


def test_a_crontab_can_be_told_to_spread(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("@daily root rotate\n")
    task = parse_toml(evenbeat("import", "crontab", str(file), "--spread", "--system").out, "x").tasks[0]
    assert (task.schedule.cron, task.schedule.second) == ("@daily", None)
    assert task.job.user == "root"


def test_jenkins_jobs_keep_their_slots(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "list"
    file.write_text("team/nightly: H H(1-4) * * *\n")
    result = evenbeat("import", "jenkins", str(file))
    for line in ('hash = "jenkins"', 'days = "and"', "second = 0"):
        assert line in result.out
    assert "give each task its command" in result.err
    assert "--zone Z takes them as another's" in result.err


def test_nagios_objects_in_several_files_belong_together(evenbeat: Evenbeat, tmp_path: Path) -> None:
    hosts, commands = tmp_path / "hosts.cfg", tmp_path / "commands.cfg"
    hosts.write_text("define host {\nhost_name h\naddress 10.0.0.1\ncheck_command ping\nnotes x\n}\n")
    commands.write_text("define command {\ncommand_name ping\ncommand_line check_ping $HOSTADDRESS$\n}\n")
    result = evenbeat("import", "nagios", str(hosts), str(commands))
    assert parse_toml(result.out, "x").tasks[0].job.command == ("check_ping", "10.0.0.1")
    assert "not imported: host.notes (1)" in result.err
    assert "# " + result.err.splitlines()[0] in result.out


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("jenkins", "team/nightly: H H(1-4) * * *\n"),
        ("crontab", "PATH=/bin\n@daily rotate\n@reboot py m:f(1)\n"),
        (
            "nagios",
            "define host {\nhost_name h\ncheck_command unknown\n}\n"
            "define service {\nhost_name h\nservice_description p\n"
            "active_checks_enabled 0\ncheck_freshness 1\nfreshness_threshold 60\nmax_check_attempts 3\n}\n",
        ),
    ],
)
def test_what_is_imported_passes_every_validation(evenbeat: Evenbeat, tmp_path: Path, kind: str, text: str) -> None:
    old, new = tmp_path / "old", tmp_path / "new.toml"
    old.write_text(text)
    new.write_text(evenbeat("import", kind, str(old)).out)
    checked = evenbeat("check-config", str(new), "--json").json
    assert checked["errors"] == []
    assert checked["tasks"] > 0
    assert evenbeat("apply", str(new), "--db", str(tmp_path / "a.db")).code == 0


def test_two_crontabs_with_one_name_are_refused(evenbeat: Evenbeat, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("@daily rotate\n")
    result = evenbeat("import", "crontab", str(tmp_path / "a"), str(tmp_path / "b"))
    assert result.code == 2
    assert "the name 'rotate' is taken by a task of" in result.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["crontab", "/nowhere"], "/nowhere: No such file"),
        (["crontab", "/nowhere", "--zone", "Mars"], "--zone: 'Mars' is not a time zone"),
        (["nagios", "/nowhere", "--spread"], "--spread: only for crontabs, not for nagios"),
        (["jenkins", "/nowhere", "--system"], "--system: only for crontabs"),
        (["cfengine", "/nowhere"], "invalid choice"),
    ],
)
def test_bad_input_exits_2(evenbeat: Evenbeat, argv: list[str], message: str) -> None:
    result = evenbeat("import", *argv)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err


def test_every_problem_of_a_file_is_told(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("@dayly x\n0 25 * * * y\n")
    result = evenbeat("import", "crontab", str(file))
    assert result.code == 2
    assert f"{file}:1:1: '@dayly' is not an alias" in result.err
    assert f"{file}:2:3: field 2: 25 is out of range" in result.err
