"""Nagios 4 as a contender: its configuration, and what its file of performance data says of runs."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from evenbeat.bench.peers.contract import CheckWork, RunRecords, records_of

PROGRAM: Final = Path("/usr/sbin/nagios4")
CHECKS_PER_HOST: Final = 100

_MAIN: Final = """\
log_file={folder}/nagios.log
cfg_file={folder}/objects.cfg
object_cache_file={folder}/objects.cache
status_file={folder}/status.dat
status_update_interval=60
lock_file={folder}/nagios.pid
temp_file={folder}/nagios.tmp
temp_path={folder}
check_result_path={folder}/spool
command_file={folder}/nagios.cmd
query_socket={folder}/nagios.qh
nagios_user=nagios
nagios_group=nagios
check_external_commands=0
use_syslog=0
retain_state_information=1
state_retention_file={folder}/retention.dat
retention_update_interval=60
use_retained_program_state=1
use_retained_scheduling_info=1
interval_length=1
service_inter_check_delay_method=s
service_interleave_factor=s
max_service_check_spread={spread}
max_concurrent_checks=0
enable_notifications=0
enable_event_handlers=0
enable_flap_detection=0
enable_environment_macros=0
use_large_installation_tweaks=1
check_for_updates=0
log_initial_states=0
execute_host_checks=0
illegal_macro_output_chars=`~$&|'"<>
process_performance_data=1
service_perfdata_file={folder}/perfdata
service_perfdata_file_mode=a
service_perfdata_file_template=$TIMET$ $SERVICELATENCY$
service_perfdata_file_processing_interval=0
"""
_OBJECTS: Final = """\
define timeperiod {
 timeperiod_name always
 alias always
 monday 00:00-24:00
 tuesday 00:00-24:00
 wednesday 00:00-24:00
 thursday 00:00-24:00
 friday 00:00-24:00
 saturday 00:00-24:00
 sunday 00:00-24:00
}
define contact {
 contact_name nobody
 host_notification_period always
 service_notification_period always
 host_notification_options n
 service_notification_options n
 host_notification_commands notify
 service_notification_commands notify
}
define command {
 command_name notify
 command_line /bin/true
}
"""


class Nagios:
    """Debian's nagios4-core: every setting that costs time and is not needed is off, its tweaks for size are on."""

    name: Final = "nagios"
    user_name: Final = "nagios"
    environment: Final[Mapping[str, str]] = {}

    def missing(self) -> str | None:
        return None if PROGRAM.exists() else "Nagios 4 is not installed: apt-get install nagios4-core"

    def version(self) -> str:
        words = subprocess.run([PROGRAM, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
        found = re.search(r"Nagios Core (\S+)", words.stdout)
        return f"Nagios {found[1]}" if found else "Nagios"

    def prepare(self, folder: Path, work: CheckWork) -> None:
        (folder / "spool").mkdir()
        # Minutes in which the first runs are done: as long as one interval, and the shortest it can be.
        spread = max(1, -(-work.every // 60))
        (folder / "nagios.cfg").write_text(_MAIN.format(folder=folder, spread=spread))
        with (folder / "objects.cfg").open("w") as out:
            out.writelines(_objects(work))

    def command(self, folder: Path) -> list[str]:
        return [str(PROGRAM), str(folder / "nagios.cfg")]

    def records(self, folder: Path) -> RunRecords:
        return records_of(list(_rows(folder / "perfdata")))


def _objects(work: CheckWork) -> Iterator[str]:
    yield _OBJECTS
    yield "define command {\n command_name plugin\n command_line " + " ".join(work.command)
    yield " $ARG1$\n}\n" if work.numbered else "\n}\n"
    for host in range(-(-work.checks // CHECKS_PER_HOST)):
        yield f"define host {{\n host_name host{host}\n active_checks_enabled 0\n max_check_attempts 3\n"
        yield " check_period always\n notification_period always\n contacts nobody\n}\n"
    for number in range(work.checks):
        command = f"plugin!{number}" if work.numbered else "plugin"
        yield f"define service {{\n host_name host{number // CHECKS_PER_HOST}\n service_description check{number}\n"
        yield f" check_command {command}\n check_interval {work.every}\n retry_interval {work.every}\n"
        yield " max_check_attempts 3\n check_period always\n notification_period always\n contacts nobody\n}\n"


def _rows(perfdata: Path) -> Iterator[tuple[float, float]]:
    """Second of the end and latency of each run; the last line may be cut off where Nagios was killed."""
    if not perfdata.exists():
        return
    for line in perfdata.read_text().split("\n")[:-1]:
        ended, late = line.split()
        yield float(ended), float(late)
