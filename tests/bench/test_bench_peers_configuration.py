import subprocess
from pathlib import Path

import pytest

from evenbeat.bench.peers.contract import CheckWork, Scheduler
from evenbeat.bench.peers.evenbeat_node import EvenbeatNode
from evenbeat.bench.peers.icinga import Icinga
from evenbeat.bench.peers.nagios import PROGRAM, Nagios
from evenbeat.bench.peers.running import folder_for, hand_over, user_to_run_as
from evenbeat.load.files import load_file

WORK = CheckWork(250, 30, ("/usr/lib/nagios/plugins/check_dummy", "0"))


@pytest.mark.parametrize("scheduler", [Nagios(), Icinga(), EvenbeatNode()], ids=lambda s: str(s.name))
def test_no_placeholder_is_left_in_a_configuration(tmp_path: Path, scheduler: Scheduler) -> None:
    scheduler.prepare(tmp_path, WORK)
    texts = [file.read_text() for file in tmp_path.iterdir() if file.is_file()]
    assert texts
    assert all("{folder}" not in text for text in texts)
    assert any("check_dummy" in text for text in texts)


def test_nagios_gets_every_check_on_hosts_of_a_hundred(tmp_path: Path) -> None:
    Nagios().prepare(tmp_path, WORK)
    text = (tmp_path / "objects.cfg").read_text()
    assert text.count("define service {") == 250
    assert text.count("define host {") == 3
    assert text.count(" check_interval 30\n") == 250
    assert " host_name host2\n service_description check249\n" in text


def test_nagios_passes_on_the_number_of_a_check(tmp_path: Path) -> None:
    Nagios().prepare(tmp_path, WORK._replace(numbered=True))
    text = (tmp_path / "objects.cfg").read_text()
    assert "command_line /usr/lib/nagios/plugins/check_dummy 0 $ARG1$\n" in text
    assert " check_command plugin!249\n" in text


@pytest.mark.skipif(Nagios().missing() is not None, reason=Nagios().missing() or "")
@pytest.mark.parametrize("numbered", [False, True])
def test_nagios_accepts_its_configuration_without_a_warning(numbered: bool) -> None:
    with folder_for(Nagios.user_name) as folder:
        Nagios().prepare(folder, WORK._replace(numbered=numbered))
        hand_over(folder, Nagios.user_name)
        user = user_to_run_as(Nagios.user_name)
        command = [str(PROGRAM), "-v", str(folder / "nagios.cfg")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, user=user and user.pw_uid)
    assert "Total Warnings: 0" in done.stdout
    assert "Total Errors:   0" in done.stdout


def test_icinga_passes_on_the_number_of_a_check(tmp_path: Path) -> None:
    Icinga().prepare(tmp_path, WORK._replace(numbered=True))
    text = (tmp_path / "icinga2.conf").read_text()
    assert '["/usr/lib/nagios/plugins/check_dummy","0","$service.vars.number$"]' in text
    assert "range(250)" in text
    assert "check_interval = 30s" in text


def test_evenbeat_gets_every_check(tmp_path: Path) -> None:
    EvenbeatNode().prepare(tmp_path, WORK._replace(numbered=True))
    tasks = load_file(tmp_path / "work.toml").tasks
    assert len(tasks) == 250
    jobs = [task.job.command for task in tasks if task.job is not None]
    assert jobs[0] == ("/usr/lib/nagios/plugins/check_dummy", "0", "0")
    assert all(task.check for task in tasks)


def test_nagios_records_when_runs_ended_and_how_late_they_were(tmp_path: Path) -> None:
    (tmp_path / "perfdata").write_text("1795098394 0.000\n1795098395 0.356\n17950")
    records = Nagios().records(tmp_path)
    assert records.ended.tolist() == [1795098394.0, 1795098395.0]
    assert records.late.tolist() == [0.0, 0.356]


def test_icinga_records_in_several_files(tmp_path: Path) -> None:
    (tmp_path / "perfdata").mkdir()
    (tmp_path / "perfdata" / "service.1795098396").write_text("1795098395 0.017025\n")
    (tmp_path / "perfdata" / "service.now").write_text("1795098397 0.000401\n1795098398 0.0")
    (tmp_path / "perfdata" / "host.now").write_text("")
    records = Icinga().records(tmp_path)
    assert sorted(records.ended.tolist()) == [1795098395.0, 1795098397.0]
    assert sorted(records.late.tolist()) == [0.000401, 0.017025]


def test_a_contender_that_recorded_nothing_has_no_runs(tmp_path: Path) -> None:
    assert len(Nagios().records(tmp_path).ended) == 0
