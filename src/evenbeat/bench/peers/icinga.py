"""Icinga 2 as a contender: its configuration, and what its writer of performance data says of runs."""

import grp
import os
import pwd
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from evenbeat.bench.peers.contract import CheckWork, RunRecords, records_of
from evenbeat.bench.peers.nagios import CHECKS_PER_HOST
from evenbeat.bench.peers.running import user_to_run_as

PROGRAM: Final = Path("/usr/sbin/icinga2")
_FOLDERS: Final = {
    "DataDir": "data",
    "LogDir": "log",
    "CacheDir": "cache",
    "SpoolDir": "spool",
    "InitRunDir": "run",
}

_CONFIG: Final = """\
library "checker"
library "perfdata"
object CheckerComponent "checker" {{ }}
object PerfdataWriter "records" {{
  service_perfdata_path = "{folder}/perfdata/service"
  service_temp_path = "{folder}/perfdata/service.now"
  host_perfdata_path = "{folder}/perfdata/host"
  host_temp_path = "{folder}/perfdata/host.now"
  rotation_interval = 2s
  service_format_template = "$service.last_check$ $service.latency$"
}}
object CheckCommand "nothing" {{ command = [ "/bin/true" ] }}
object CheckCommand "plugin" {{ command = {words} }}
for (number in range({hosts})) {{
  object Host "host" + number {{
    check_command = "nothing"
    enable_active_checks = false
  }}
}}
for (number in range({checks})) {{
  object Service "check" + number use (number) {{
    host_name = "host" + Math.floor(number / {checks_per_host})
    check_command = "plugin"
    vars.number = number
    check_interval = {every}s
    retry_interval = {every}s
    enable_notifications = false
    enable_flapping = false
    enable_event_handler = false
  }}
}}
"""


class Icinga:
    """Debian's icinga2-bin: only the checker, and the writer that records runs."""

    name: Final = "icinga"
    user_name: Final = "nagios"

    @property
    def environment(self) -> Mapping[str, str]:
        user, group = _user_and_group(self.user_name)
        return {"ICINGA2_USER": user, "ICINGA2_GROUP": group}

    def missing(self) -> str | None:
        return None if PROGRAM.exists() else "Icinga 2 is not installed: apt-get install icinga2-bin"

    def version(self) -> str:
        words = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
        found = re.search(r"version: r?([0-9.]+)", words.stdout)
        return f"Icinga {found[1]}" if found else "Icinga"

    def prepare(self, folder: Path, work: CheckWork) -> None:
        for name in (*_FOLDERS.values(), "perfdata"):
            (folder / name).mkdir()
        words = [*work.command, "$service.vars.number$"] if work.numbered else [*work.command]
        config = _CONFIG.format(
            folder=folder,
            words=msgspec.json.encode(words).decode(),
            hosts=-(-work.checks // CHECKS_PER_HOST),
            checks=work.checks,
            checks_per_host=CHECKS_PER_HOST,
            every=work.every,
        )
        (folder / "icinga2.conf").write_text(config)

    def command(self, folder: Path) -> list[str]:
        constants = {name: str(folder / below) for name, below in _FOLDERS.items()}
        user, group = _user_and_group(self.user_name)
        constants |= {"NodeName": "bench", "RunAsUser": user, "RunAsGroup": group}
        defined = [word for name, value in constants.items() for word in ("-D", f"{name}={value}")]
        return [str(PROGRAM), "daemon", "-c", str(folder / "icinga2.conf"), *defined]

    def records(self, folder: Path) -> RunRecords:
        rows: list[tuple[float, float]] = []
        for file in (folder / "perfdata").glob("service*"):
            # The last line may be cut off where Icinga was killed.
            rows += [_row(line) for line in file.read_text().split("\n")[:-1]]
        return records_of(rows)


def _user_and_group(user_name: str) -> tuple[str, str]:
    """Names of whom Icinga runs as: it refuses to be anybody else."""
    user = user_to_run_as(user_name) or pwd.getpwuid(os.geteuid())
    return user.pw_name, grp.getgrgid(user.pw_gid).gr_name


def _row(line: str) -> tuple[float, float]:
    """Second of the end and latency of a run."""
    ended, late = line.split()
    return float(ended), float(late)
