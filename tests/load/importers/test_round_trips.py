"""Import, check-config, apply, run: what was moved here works as it stands, without an edit by hand."""

import os
from pathlib import Path

import pytest
from import_accounting import copy_of_corpus
from live_node import LiveNode
from waiting import eventually

from conftest import Evenbeat
from evenbeat.model import Outcome

IS_ROOT = os.geteuid() == 0


def moved_in(
    evenbeat: Evenbeat, tmp_path: Path, system: str, *paths: Path, secrets: Path | None = None
) -> tuple[Path, list[str]]:
    """A database with the imported tasks, and their names."""
    file, database = tmp_path / f"{system}.toml", tmp_path / f"{system}.db"
    options = () if secrets is None else ("--secrets", str(secrets))
    result = evenbeat("import", system, *map(str, paths), *options)
    assert result.code == 0, result.err
    file.write_text(result.out)
    checked = evenbeat("check-config", str(file), "--json").json
    assert checked["errors"] == []
    applied = evenbeat("apply", str(file), "--db", str(database), "--json")
    assert applied.code == 0, applied.err
    created: list[str] = applied.json["created"]
    assert len(created) == checked["tasks"]
    return database, created


def outcomes(database: Path, names: list[str]) -> dict[str, Outcome | None]:
    with LiveNode(database, workers=2) as node:
        with node.client() as client:
            client.run_now(names, wait=True)
        return {name: node.runs(name)[0].outcome for name in names}


def test_a_personal_crontab(evenbeat: Evenbeat, tmp_path: Path) -> None:
    root = copy_of_corpus("crontab", tmp_path)
    database, names = moved_in(evenbeat, tmp_path, "crontab", root / "home" / "crontab")
    assert set(outcomes(database, names).values()) == {Outcome.SUCCEEDED}
    assert (root / "out/mail").read_text() == "Subject: all is well\n\n50% of the disk is used\n\n"
    assert (root / "out/home").read_text() == "packed\n"


@pytest.mark.skipif(not IS_ROOT, reason="only root can run a system crontab")
def test_a_system_with_its_folders_and_anacron(evenbeat: Evenbeat, tmp_path: Path) -> None:
    root = copy_of_corpus("crontab", tmp_path)
    database, names = moved_in(evenbeat, tmp_path, "crontab", root / "etc")
    scripts = [name for name in names if name.startswith("cron.") and name != "cron.monthly"]
    assert set(outcomes(database, [*scripts, "echo", "mirror.sync"]).values()) == {Outcome.SUCCEEDED}
    assert sorted((root / "out/daily").read_text().split()) == ["logrotate", "man-db"]
    assert (root / "out/weekly").read_text() == "week\n"
    assert (root / "out/raid").read_text() == "raid check\n"


@pytest.mark.skipif(not IS_ROOT, reason="a service in the corpus has User=root")
def test_timers_of_systemd(evenbeat: Evenbeat, tmp_path: Path) -> None:
    root = copy_of_corpus("systemd", tmp_path)
    folders = ("etc/systemd/system", "lib/systemd/system", "home/.config/systemd/user")
    paths = [root / folder for folder in folders]
    database, names = moved_in(evenbeat, tmp_path, "systemd", *paths, secrets=tmp_path / "secrets")
    enabled = [name for name in names if name not in ("old", "orphan", "poll", "notify@restic.service")]
    assert set(outcomes(database, enabled).values()) == {Outcome.SUCCEEDED}
    lines = (root / "out/record").read_text().splitlines()
    own = "keep=7 password=correct horse tag=from the file umask=0077"
    assert [line for line in lines if "tag=from" in line or line == "done"] == [
        f"unlock now {own}",
        f"backup --exclude-file={root}/etc/default/excludes of home --tag from the file"
        f" --keep weekly 4 $HOME 100% {own}",
        f"check ${{TAG}} {own}",
        "done",
        f"cleanup {own}",
    ]
    assert (root / "out/notes").read_text() == f"--into={root}/home/notes\n"


def test_jobs_of_jenkins(evenbeat: Evenbeat, tmp_path: Path) -> None:
    root = copy_of_corpus("jenkins", tmp_path)
    database, _ = moved_in(evenbeat, tmp_path, "jenkins", root, secrets=tmp_path / "secrets")
    names = ["nightly-backup", "team/report", "team/report (2)", "tools"]
    with LiveNode(database, workers=2) as node:
        with node.client() as client:
            ended = client.run_now(names, wait=True)
        assert {run.outcome for run in ended} == {Outcome.SUCCEEDED}
        eventually((root / "out/cleanup").exists)  # after nightly-backup
        eventually(lambda: len((root / "out/report").read_text().splitlines()) == 3)
    backup = "nightly-backup to vault one in incremental\nit's python, dry run false\ncolour $'\\E[0m' "
    assert (root / "out/backup").read_text() == backup
    assert sorted((root / "out/report").read_text().splitlines()) == [
        *("report for ", "report for all", "report for board"),
    ]
    eventually(lambda: (root / "out/cleanup").read_text() == "cleaned berlin with battery staple\n")
    assert (root / "out/tools").read_text() == "perl -e\nawk\n"
