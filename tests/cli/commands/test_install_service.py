"""`evenbeat install-service`: one unit is written, hardened and understood by systemd; nothing else is done."""

import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import Evenbeat
from evenbeat.cli import service_unit
from evenbeat.cli.commands import install_service
from evenbeat.cli.service_unit import ServiceUnit

TASKS = '[tasks.a]\nevery = "1m"\ncommand = ["true"]\n'


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path


@pytest.fixture
def file(home: Path) -> str:
    file = home / "my tasks.toml"
    file.write_text(TASKS)
    return str(file)


@pytest.fixture
def as_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Root of a machine whose units are in a folder of the test, with evenbeat in /opt."""
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(service_unit, "SYSTEM_FOLDER", home / "system")
    monkeypatch.setattr(install_service, "HIDDEN_FROM_SYSTEM_UNIT", (Path("/home"), home / "root"))
    monkeypatch.setattr(install_service, "_command", lambda: ("/opt/evenbeat/bin/evenbeat",))
    return home / "system" / "evenbeat.service"


def test_a_unit_of_a_user_is_written_where_systemd_looks(evenbeat: Evenbeat, home: Path, file: str) -> None:
    done = evenbeat("install-service", file, "--user", "--listen", "8629")
    assert (done.code, done.err) == (0, "")
    unit = home / ".config/systemd/user/evenbeat.service"
    assert f"wrote {unit}" in done.out
    assert "systemctl --user enable --now evenbeat" in done.out
    assert f"rm {unit}" in done.out
    text = unit.read_text()
    database = home / ".local/state/evenbeat/evenbeat.db"
    assert f'up "{file}" --db {database} --listen 8629\n' in text
    assert "NoNewPrivileges=yes" in text
    assert "User=" not in text
    assert "CapabilityBoundingSet" not in text, "the manager of a user cannot set it: the service would not start"
    assert "WantedBy=default.target" in text
    assert database.parent.stat().st_mode & 0o777 == 0o700
    assert not database.exists()


def test_a_dry_run_prints_the_unit_and_writes_nothing(evenbeat: Evenbeat, home: Path, file: str) -> None:
    before = sorted(home.rglob("*"))
    done = evenbeat("install-service", file, "--user", "--dry-run")
    assert done.out.startswith("[Unit]\n")
    assert "would write" in done.err
    assert "undo:" in done.err
    assert sorted(home.rglob("*")) == before
    document = evenbeat("install-service", file, "--user", "--dry-run", "--json").json
    assert (document["written"], document["text"]) == (False, done.out)


def test_root_gets_a_unit_of_the_system_with_a_user_of_its_own(evenbeat: Evenbeat, as_root: Path, file: str) -> None:
    done = evenbeat("install-service", file, "--run-as", "nobody-here")
    assert done.code == 0, done.err
    text = as_root.read_text()
    assert "User=nobody-here\n" in text
    assert f'ExecStart=/opt/evenbeat/bin/evenbeat up "{file}" --db /var/lib/evenbeat/evenbeat.db\n' in text
    assert "useradd --system --home-dir /var/lib/evenbeat --shell /usr/sbin/nologin nobody-here" in done.out
    assert "userdel nobody-here" in done.out
    other = evenbeat("install-service", "--name", "second", "--run-as", "root").out
    assert "useradd" not in other
    assert "StateDirectory=second\n" in as_root.with_name("second.service").read_text()


def test_a_different_unit_is_not_replaced_unless_asked_for(evenbeat: Evenbeat, as_root: Path, file: str) -> None:
    as_root.parent.mkdir()
    as_root.write_text("[Unit]\n")
    refused = evenbeat("install-service", file)
    assert (refused.code, as_root.read_text()) == (2, "[Unit]\n")
    assert "--force replaces it" in refused.err
    assert evenbeat("install-service", file, "--force").code == 0
    assert evenbeat("install-service", file).code == 0, "the same again is no change"
    assert [path.name for path in as_root.parent.iterdir()] == ["evenbeat.service"]


@pytest.mark.usefixtures("as_root")
def test_what_the_service_would_not_see_or_not_be_is_refused(evenbeat: Evenbeat, home: Path, file: str) -> None:
    hidden = home / "root" / "tasks.toml"
    hidden.parent.mkdir()
    hidden.write_text(TASKS)
    broken = home / "broken.toml"
    broken.write_text("[tasks.a]\n")
    for argv, problem in (
        ([str(hidden)], "in a folder that the service does not see: put it into /etc/evenbeat"),
        ([str(home / "none.toml")], "none.toml"),
        ([str(broken)], "tasks.a"),
        ([file, "--db", "/srv/x.db"], "the service writes in /var/lib/evenbeat only"),
        ([file, "--db", "postgresql://h/d"], "that of a cluster"),
        ([file, "--listen", "nowhere"], "nowhere"),
        ([file, "--name", "../x"], "is no name of a service"),
        ([file, "--run-as", "x y"], "is no name of a user"),
        ([file, "--run-as", "ana", "--user"], "only root"),
    ):
        found = evenbeat("install-service", *argv)
        assert (found.code, problem in found.err) == (2, True), (argv, found.err)
    assert not (home / "system").exists()


def test_words_of_the_command_are_written_as_systemd_reads_them() -> None:
    odd = Path('/srv/50% "off" $HOME\\x.toml')
    unit = ServiceUnit("e", ["/opt/e"], [odd], Path("/var/lib/e/e.db"), None, "e")
    (line,) = [line for line in unit.text().splitlines() if line.startswith("ExecStart=")]
    assert line == r'ExecStart=/opt/e up "/srv/50%% \"off\" $$HOME\\x.toml" --db /var/lib/e/e.db'


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
@pytest.mark.parametrize("run_as", ["root", None])
def test_systemd_understands_what_is_written(home: Path, run_as: str | None) -> None:
    unit = ServiceUnit("evenbeat", ["/bin/true"], [Path("/etc/a b.toml")], home / "e.db", "8629", run_as)
    file = home / "evenbeat.service"
    file.write_text(unit.text())
    found = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(file)], capture_output=True, text=True, check=False
    )
    ours = [line for line in found.stderr.splitlines() if "evenbeat" in line]
    assert not [line for line in ours if "Unknown" in line or "Failed to parse" in line or "ignoring" in line], ours
