"""Converts an anacrontab: jobs that run once in so many days, at the hours when anacron may start them."""

import re
from typing import Final, NamedTuple

from evenbeat.load.config import ConfigError, FilePosition
from evenbeat.load.crontab_mail import ONLY_FAILURES_ARE_MAILED, contact_of_mailto
from evenbeat.load.importers.report import ImportReport
from evenbeat.load.safe_text import safe_name
from evenbeat.model import (
    COMMAND_LIMIT,
    DAY,
    MAX_EVERY,
    NAME_LIMIT,
    Contact,
    Invalid,
    Job,
    NotifyContact,
    Period,
    Schedule,
    Task,
)

_JOB: Final = re.compile(r"\s*(?P<period>@\w+|\d{1,5})\s+(?P<delay>\d{1,6})\s+(?P<id>[^\s=]+)\s+(?P<command>\S.*?)\s*")
_SETTING: Final = re.compile(r"""\s*(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>.*?)\s*""", re.ASCII)
_HOURS: Final = re.compile(r"(\d{1,2})\s*-\s*(\d{1,2})")
_DAYS: Final = {"1": "* * *", "@daily": "* * *", "7": "* * 0", "@weekly": "* * 0"} | {
    "@monthly": "1 * *",
    "@yearly": "1 1 *",
    "@annually": "1 1 *",
}
"""The rest of a cron entry behind minute and hour."""
_START: Final = (7, 30)
"""Hour and minute when Debian starts anacron, where no hours are given."""


class AnacronJob(NamedTuple):
    """A task made of a line, and where that stands."""

    task: Task
    file: str
    place: FilePosition
    line: str


class Anacrontab:
    """The jobs of one file, with the contact and the period that they need."""

    def __init__(self, text: str, file: str, zone: str, report: ImportReport) -> None:
        self.jobs: list[AnacronJob] = []
        self.errors: list[ConfigError] = []
        self.contacts: dict[str, Contact] = {}
        self.periods: dict[str, Period] = {}
        self._file = file
        self._zone = zone
        self._report = report
        self._env: dict[str, str] = {}
        self._mailto = ""
        self._period: str | None = None
        self._start = _START
        self._random_delay = 0
        self._comments: list[int] = []
        for number, line in enumerate(text.split("\n"), start=1):
            self._read(number, line.rstrip("\r"))
        report.omit_comments(file, self._comments)

    def _read(self, number: int, line: str) -> None:
        place = FilePosition(number, len(line) - len(line.lstrip()) + 1)
        if line.lstrip().startswith("#"):
            self._comments.append(number)
            return
        if not line.strip():
            return
        if len(line) > COMMAND_LIMIT or "\0" in line:
            problem = (
                "a NUL" if "\0" in line else f"a line of {len(line)} characters, accepted: at most {COMMAND_LIMIT}"
            )
            self.errors.append(ConfigError(self._file, place, problem))
        elif found := _JOB.fullmatch(line):
            self._job(found, line.strip(), place)
        elif found := _SETTING.fullmatch(line):
            self._setting(found["name"], found["value"].strip("\"'"), place)
        else:
            problem = "a line of an anacrontab is PERIOD DELAY NAME COMMAND"
            self.errors.append(ConfigError(self._file, place, problem))

    def _setting(self, name: str, value: str, place: FilePosition) -> None:
        if name == "MAILTO":
            self._set_mailto(value, place)
        elif name == "START_HOURS_RANGE":
            hours = _HOURS.fullmatch(value)
            if hours is None or not 0 <= int(hours[1]) < int(hours[2]) <= 24:
                self._report.omit(self._file, place, f"{name}={value}", "not a range of hours such as 3-22")
                return
            self._start = (int(hours[1]), 0)
            self._period = f"anacron {hours[1]}-{hours[2]}"
            self.periods[self._period] = Period((f"{int(hours[1]):02}:00-{int(hours[2]):02}:00",), zone=self._zone)
        elif name == "RANDOM_DELAY" and value.isdigit() and value.isascii() and len(value) < 6:
            self._random_delay = int(value)
        elif name == "NO_MAIL_OUTPUT":
            self._report.omit(self._file, place, f"{name}={value}", "the output of runs that succeed is never mailed")
        else:
            if self.jobs and self.jobs[-1].task.job.env is self._env:
                self._env = self._env.copy()  # those above keep theirs
            self._env[name] = value

    def _set_mailto(self, value: str, place: FilePosition) -> None:
        try:
            found = contact_of_mailto(value)
        except Invalid as e:
            self._report.omit(self._file, place, f"MAILTO={value}", e.problem)
            return
        self._mailto = ""
        if found is not None:
            self._mailto, self.contacts[found[0]] = found
            self._report.warn(self._file, place, ONLY_FAILURES_ARE_MAILED)

    def _job(self, found: "re.Match[str]", line: str, place: FilePosition) -> None:
        schedule = self._schedule(found["period"], int(found["delay"]), place)
        cwd = self._env.get("HOME") or "/"
        if schedule is None:
            return
        shell = self._env.get("SHELL", "/bin/sh")
        command = (found["command"],) if shell == "/bin/sh" else (shell, "-c", found["command"])
        job = Job(command, shell == "/bin/sh", env=self._env, cwd=cwd, user="root")
        notify = (NotifyContact(self._mailto),) if self._mailto else ()
        name = safe_name(found["id"])[:NAME_LIMIT]
        task = Task(name, schedule, job, period=self._period, notify=notify)
        self.jobs.append(AnacronJob(task, self._file, place, line))

    def _schedule(self, period: str, delay: int, place: FilePosition) -> Schedule | None:
        """The times at which anacron would find the job due, on a machine that is always on."""
        days = period.lstrip("0") or "0"
        if days in _DAYS:
            minutes = self._start[0] * 60 + self._start[1] + delay
            hour, minute = minutes // 60 % 24, minutes % 60
            last = min(minute + self._random_delay, 59)
            first = f"H({minute}-{last})" if last > minute else str(minute)
            cron = f"{first} {hour} {_DAYS[days]}"
            return Schedule(cron=cron, zone=self._zone, second=None if last > minute else 0)
        if not days.isdigit() or not 1 <= int(days) * DAY <= MAX_EVERY:
            accepted = "accepted: a number of days, @daily, @weekly, @monthly, @yearly"
            self.errors.append(ConfigError(self._file, place, f"{period!r} is not a period, {accepted}"))
            return None
        text = f"every {days} days, at a time that evenbeat chooses, not {days} days after the last run"
        self._report.warn(self._file, place, text)
        return Schedule(every=int(days) * DAY, zone=self._zone)


def is_anacrontab(lines: list[str]) -> bool:
    """Do these lines look like an anacrontab: PERIOD DELAY NAME COMMAND?"""
    entries = [
        line for line in lines if line.strip() and not line.lstrip().startswith("#") and not _SETTING.fullmatch(line)
    ]
    names = [found["id"] if (found := _JOB.fullmatch(line)) else "*" for line in entries]
    return bool(names) and all(name[0].isalpha() for name in names)
