from pathlib import Path

import pytest

from conftest import Evenbeat
from evenbeat.load.toml import parse_toml


def test_a_crontab_keeps_midnight_and_second_0(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("@daily rotate\n30 2 * * 1 report.sh\n")
    result = evenbeat("import", "crontab", str(file), "--zone", "Europe/Paris")
    assert result.code == 0
    assert result.err.startswith("carried over: 2 tasks\n")
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
    assert "the zone of this machine; --zone Z takes others" in result.err


def test_nagios_objects_in_several_files_belong_together(evenbeat: Evenbeat, tmp_path: Path) -> None:
    hosts, commands = tmp_path / "hosts.cfg", tmp_path / "commands.cfg"
    hosts.write_text("define host {\nhost_name h\naddress 10.0.0.1\ncheck_command ping\nnotes x\n}\n")
    commands.write_text("define command {\ncommand_name ping\ncommand_line check_ping $HOSTADDRESS$\n}\n")
    result = evenbeat("import", "nagios", str(hosts), str(commands))
    assert parse_toml(result.out, "x").tasks[0].job.command == ("check_ping", "10.0.0.1")
    assert "notes of a host: it is for" in result.err
    assert all(f"# {line}\n" in result.out for line in result.err.splitlines()[1:])


def test_many_things_of_one_reason_are_folded_and_each_is_named(evenbeat: Evenbeat, tmp_path: Path) -> None:
    main = tmp_path / "nagios.cfg"
    settings = [f"some_setting_number_{i}" for i in range(60)]
    main.write_text("".join(f"{name}=1\n" for name in settings))
    result = evenbeat("import", "nagios", str(main))
    lines = result.err.splitlines()
    assert max(map(len, lines)) <= 160 + len("  ")
    assert f"  {main}: 60 times: it is about the program Nagios itself" in lines
    for i, name in enumerate(settings, start=1):
        assert f"the setting {name} (line {i})" in " ".join(line.strip() for line in lines)
    assert all(f"# {line}\n" in result.out for line in lines[1:])


def test_where_else_something_is_that_is_named_once_is_in_the_json(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "hosts.cfg"
    file.write_text("".join(f"define host {{\nhost_name {name}\nnotes x\n}}\n" for name in "abc"))
    (notes,) = [
        one
        for one in evenbeat("import", "nagios", str(file), "--json").json["not_carried_over"]
        if "notes" in one["what"]
    ]
    assert (notes["line"], [one["line"] for one in notes["also"]]) == (3, [7, 11])


def test_the_report_is_one_json_document(evenbeat: Evenbeat, tmp_path: Path) -> None:
    file = tmp_path / "crontab"
    file.write_text("MAILTO=ana\nMAILFROM=bo@example.org\n@daily rotate\n")
    report = evenbeat("import", "crontab", str(file), "--zone", "Europe/Paris", "--json").json
    assert (report["tasks"], report["checks"]) == (1, 0)
    assert parse_toml(report["toml"], "x").tasks[0].name == "rotate"
    assert [(one["file"], one["line"], one["column"]) for one in report["warnings"]] == [(str(file), 1, 8)]
    assert report["not_carried_over"] == [
        {
            "file": str(file),
            "line": 2,
            "column": 10,
            "what": "MAILFROM=bo@example.org",
            "why": "`sender` of a contact says from whom mails come",
        }
    ]


@pytest.mark.parametrize(("variable", "zone"), [("Asia/Tokyo", "Asia/Tokyo"), (":Europe/Rome", "Europe/Rome")])
def test_times_are_those_of_the_zone_of_this_machine(
    evenbeat: Evenbeat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, zone: str
) -> None:
    monkeypatch.setenv("TZ", variable)
    file = tmp_path / "crontab"
    file.write_text("@daily rotate\n")
    result = evenbeat("import", "crontab", str(file))
    assert parse_toml(result.out, "x").tasks[0].schedule.zone == zone
    assert f"times without a zone are those of {zone}" in result.err


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


def test_names_of_two_crontabs_are_told_apart_by_the_names_of_the_files(evenbeat: Evenbeat, tmp_path: Path) -> None:
    for name in ("shop", "wiki"):
        (tmp_path / name).write_text(f"@daily rotate {name}\n@weekly {name}-report\n# name: night\n@daily {name}.sh\n")
    result = evenbeat("import", "crontab", str(tmp_path))
    names = [task.name for task in parse_toml(result.out, "x").tasks]
    assert names == ["shop/rotate", "shop-report", "shop/night", "wiki/rotate", "wiki-report", "wiki/night"]


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
