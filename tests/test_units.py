"""The units for systemd: hardened, understood by systemd, and shown in the documentation as they are."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from evenbeat.cli.service_unit import ServiceUnit

ROOT = Path(__file__).parents[1]
TEMPLATE = ROOT / "src" / "evenbeat" / "cli" / "evenbeat.service"
UNITS = sorted((ROOT / "deploy" / "systemd").iterdir())
PAGES = {"evenbeat.service": "service.md"}
"""All others are in cluster.md."""
HARDENED = {
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectControlGroups": "yes",
    "ProtectProc": "invisible",
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK",
    "RestrictNamespaces": "yes",
    "RestrictSUIDSGID": "yes",
    "SystemCallFilter": "@system-service",
    "SystemCallArchitectures": "native",
    "UMask": "0077",
}
WORST = 2.5
"""Of systemd's own measure, from 0 to 10; what is common in distributions has 9 and more."""
by_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")


def settings(unit: Path) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)=(.*)$", unit.read_text(), re.MULTILINE))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_is_hardened_and_says_what_tasks_may_need(unit: Path) -> None:
    said = settings(unit)
    assert {key: said.get(key) for key in HARDENED} == HARDENED
    assert said["User"].startswith("evenbeat")
    if "scheduler" not in unit.name:  # that one runs no tasks
        text = unit.read_text()
        assert said["StateDirectory"]
        for need in ("CAP_SETUID", "NoNewPrivileges=no", "ReadWritePaths=", "RestrictNamespaces=no", "UMask=0022"):
            assert need in text


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_the_documentation_shows_the_units_as_they_are(unit: Path) -> None:
    page = (ROOT / "docs" / "how-to" / PAGES.get(unit.name, "cluster.md")).read_text()
    assert f"```ini\n{unit.read_text()}```" in page


def test_the_unit_that_is_installed_is_the_one_that_is_shown() -> None:
    shown = (ROOT / "deploy" / "systemd" / "evenbeat.service").read_text()
    assert TEMPLATE.read_text() == shown
    checks, database = Path("/etc/evenbeat/checks.toml"), Path("/var/lib/evenbeat/evenbeat.db")
    unit = ServiceUnit("evenbeat", ["/opt/evenbeat/bin/evenbeat"], [checks], database, None, "evenbeat")
    assert unit.text() == shown


@by_systemd
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_a_unit_and_finds_it_safe(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text().replace("/opt/evenbeat/bin/evenbeat", "/bin/true")
    copy = tmp_path / unit.name
    copy.write_text(text)
    found = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--no-pager", str(copy)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unrecognized option" in found.stderr:
        pytest.skip("this systemd-analyze cannot look at files")
    level = re.search(r"exposure level for \S+: ([\d.]+)", found.stdout)
    assert level is not None, found.stderr
    assert float(level[1]) <= WORST
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    ours = [line for line in verified.stderr.splitlines() if unit.name.split("@")[0].split(".")[0] in line]
    assert not [line for line in ours if "Unknown" in line or "Failed to parse" in line or "ignoring" in line]
