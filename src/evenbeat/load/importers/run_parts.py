"""Makes a task of each script that `run-parts` runs in a folder such as /etc/cron.daily."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from evenbeat.load.importers.report import ImportReport
from evenbeat.load.importers.source_files import files_in
from evenbeat.model import Job, Schedule, Task

USUAL_TIMES: Final = {
    "cron.hourly": "17 * * * *",
    "cron.daily": "25 6 * * *",
    "cron.weekly": "47 6 * * 7",
    "cron.monthly": "52 6 1 * *",
    "cron.yearly": "52 6 1 1 *",
}
"""Folders of scripts, and when Debian's /etc/crontab runs them."""
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
"""Names of scripts that run-parts runs."""
_RUN_PARTS: Final = re.compile(
    r"(?P<nice>\bnice(?:\s+-n\s*-?\d+|\s+-\d+)?\s+)?(?:/\S*/)?\brun-parts(?:\s+(?:--report|--verbose|-v|--lsbsysinit|--))*"
    r"\s+(?P<folder>/[^\s;|&)}'\"]+)"
)
_CHANGES_TO_ROOT: Final = re.compile(r"\bcd /\s*(?:&&|;)")
_STARTS_ANACRON: Final = re.compile(r"\banacron\b")


class ScriptFolder(NamedTuple):
    """A folder whose scripts become tasks."""

    name: str
    path: str
    scripts: tuple[str, ...]


def script_folder(path: Path, report: ImportReport) -> ScriptFolder:
    """A folder with the scripts in it that run-parts would run."""
    scripts = []
    for file in files_in(path):
        if why := _why_not_run(file):
            report.omit(str(file), None, file.name, why)
        else:
            scripts.append(file.name)
    return ScriptFolder(path.resolve().name, str(path.resolve()), tuple(scripts))


def _why_not_run(file: Path) -> str:
    if not _NAME.fullmatch(file.name):
        return "run-parts skips names with other characters than letters, digits, _ and -"
    try:
        mode = file.stat().st_mode
    except OSError as e:
        return e.strerror or str(e)
    if not stat.S_ISREG(mode):
        return "not a regular file"
    return "" if mode & 0o111 and os.access(file, os.R_OK) else "not executable, so run-parts skips it"


def folder_run_by(job: Job) -> tuple[str, str]:
    """The folder whose scripts a job runs, and what stands before run-parts; both empty if it runs none."""
    found = _RUN_PARTS.search(job.command[-1]) if job.command else None
    return ("", "") if found is None else (found["folder"].rstrip("/"), (found["nice"] or "").strip())


def leaves_to_anacron(job: Job) -> bool:
    """Does a job start anacron, or run only where there is none?"""
    return bool(job.command) and _STARTS_ANACRON.search(job.command[-1]) is not None


def tasks_of_folder(folder: ScriptFolder, runner: Task) -> Iterator[Task]:
    """A task for each script of the folder, at the times of the task that runs them now, one at a time."""
    path, nice = folder_run_by(runner.job)
    cwd = "/" if _CHANGES_TO_ROOT.search(runner.job.command[-1]) else runner.job.cwd
    for script in folder.scripts:
        command = (*nice.split(), f"{path or folder.path}/{script}")
        job = msgspec.structs.replace(runner.job, command=command, shell=False, cwd=cwd)
        yield msgspec.structs.replace(runner, name=f"{folder.name}/{script}", job=job, limit=f"run-parts {folder.name}")


def usual_runner(folder: ScriptFolder, zone: str) -> Task:
    """The task that would run such a folder where no crontab says when."""
    schedule = Schedule(cron=USUAL_TIMES[folder.name], zone=zone, second=0)
    return Task(folder.name, schedule, Job(("",), cwd="/", user="root"))
