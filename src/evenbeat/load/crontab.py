"""Read a crontab as cron does: its times, its environment, its shell; every problem with line and column.

# evenbeat: spread           (above all entries) @daily is `H H * * *` and seconds are spread; else 00:00:00
# evenbeat: system           (above all entries) a user before each command, as in /etc/crontab; personal: none
# name: backup               (directly above an entry) the task's name; else it comes from the command
CRON_TZ=Europe/Paris
17 3 * * 1-5  backup.sh --full
@every 5m     py reports:refresh("daily", limit=3)
"""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from evenbeat.load.config import BadFileError, Config, ConfigError, FilePosition, ParsedFile
from evenbeat.load.crontab_command import bare_percent, job_of_line, split_input
from evenbeat.load.crontab_dialect import CrontabDialect, has_users, owner_of
from evenbeat.load.crontab_mail import ONLY_FAILURES_ARE_MAILED, contact_of_mailto
from evenbeat.load.crontab_names import UnnamedEntry, possible_names, unique_names
from evenbeat.load.crontab_times import NEVER_DUE, crontab_schedule
from evenbeat.load.safe_text import name_error
from evenbeat.model import (
    COMMAND_LIMIT,
    ENV_REFERENCE_PREFIXES,
    NAME_LIMIT,
    Contact,
    Invalid,
    Job,
    NotifyContact,
    Schedule,
    Task,
)
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.zone import zone as zone_named

MAX_ERRORS_SHOWN: Final = 100
_SETTING: Final = re.compile(r"""\s*(?P<name>[A-Za-z_]\w*|"[^"=]+"|'[^'=]+')\s*=\s*(?P<value>.*?)\s*""", re.ASCII)
_FIELDS: Final = re.compile(r"\s*(?P<fields>@every\s+\S+|@\S*|\S+(?:\s+\S+){4})(?:\s+(?P<rest>\S.*?))?\s*")
_USER: Final = re.compile(r"(?P<user>\S+)(?:\s+(?P<command>\S.*))?")
_DIRECTIVE: Final = re.compile(r"\s*#\s*(?P<key>evenbeat|name)\s*:\s*(?P<value>.*?)\s*", re.IGNORECASE)
_FLAGS: Final = re.compile(r"(?P<flags>(?:-[nqs]+\s+)+)(?P<command>\S.*)")
"""Flags of BSD's cron before a command."""
_IGNORED_SETTINGS: Final = {
    "MAILFROM": "`sender` of a contact says from whom mails come",
    "CONTENT_TYPE": "mails are plain text",
    "CONTENT_TRANSFER_ENCODING": "mails are plain text",
    "RANDOM_DELAY": "there is no random delay; `# evenbeat: spread` or H spreads the load",
    "START_HOURS_RANGE": "it belongs to anacron",
}


class UnusedText(NamedTuple):
    """Something of a crontab that has no effect here."""

    place: FilePosition
    text: str
    """As the file has it."""
    name: str
    """How a warning calls it."""
    why: str


class CrontabEntry(NamedTuple):
    """One entry, with all that counts for it."""

    line: int
    fields: str
    column: int
    """Where the fields begin."""
    command: str
    command_column: int
    name: str | None
    user: str | None
    env: dict[str, str]
    zone: str
    mailto: str
    """The name of the contact that MAILTO stands for; empty if nobody is mailed."""


def parse_crontab(text: str, file: str, manner: CrontabDialect | None = None) -> Config:
    """Parse the text of a crontab; raise BadFileError with every problem found."""
    return parse_crontab_file(text, file, manner).config


def parse_crontab_file(text: str, file: str, manner: CrontabDialect | None = None) -> ParsedFile:
    """Parse the text, and keep the positions of its values."""
    reader = CrontabReader(file, manner or CrontabDialect())
    reader.read_text(text)
    names = reader.names()
    tasks = reader.tasks(names)
    reader.raise_errors()

    def place_of(path: tuple[str | int, ...], column: int | None) -> FilePosition | None:
        entry = tasks.get(str(path[1])) if path[0] == "tasks" else None
        if entry is None:
            return None
        return FilePosition(entry[0].line, entry[0].column + (column or 1) - 1)

    notified = {one.to for _, task in tasks.values() for one in task.notify}
    contacts = {name: contact for name, contact in reader.contacts.items() if name in notified}
    made = reader.names_from_commands(names)
    config = Config(tuple(t for _, t in tasks.values()), {}, {}, None, contacts, names_from_commands=made)
    ignored = [ConfigError(file, one.place, f"{one.name} is not used: {one.why}") for one in reader.unused]
    warnings = sorted([*reader.warnings, *ignored], key=lambda one: one.place or FilePosition(0, 0))
    return ParsedFile(file, config, place_of, tuple(warnings))


class CrontabReader:
    """Reads line after line, then makes the tasks, whose names depend on all of them."""

    def __init__(self, file: str, manner: CrontabDialect) -> None:
        self.file = file
        self.errors: list[ConfigError] = []
        self.warnings: list[ConfigError] = []
        self.unused: list[UnusedText] = []
        self.contacts: dict[str, Contact] = {}
        """What MAILTO stands for, by name."""
        self.entries: list[CrontabEntry] = []
        self.never_due: list[tuple[CrontabEntry, str]] = []
        """Entries that are refused because no date is like that, and why."""
        self.comments: dict[int, str] = {}
        """By their lines; without those that say something to evenbeat."""
        self._file = file
        self._manner = manner
        self.mailto_was_set = False
        self._mailto = ""
        self._zone = manner.zone
        self._env: dict[str, str] = {}
        self._name: tuple[str, FilePosition] | None = None
        self._owner = owner_of(file)

    def _refuse(self, line: int, column: int, problem: str) -> None:
        self.errors.append(ConfigError(self._file, FilePosition(line, column), problem))

    def _warn(self, line: int, column: int, problem: str) -> None:
        self.warnings.append(ConfigError(self._file, FilePosition(line, column), problem))

    def raise_errors(self) -> None:
        """Raise all errors, if there are any."""
        if self.errors:
            errors = sorted(self.errors, key=lambda p: p.place or FilePosition(0, 0))
            raise BadFileError(errors[:MAX_ERRORS_SHOWN], max(len(errors) - MAX_ERRORS_SHOWN, 0))

    # Lines

    def read_text(self, text: str) -> None:
        """Read all lines of a text."""
        for number, line in enumerate(text.split("\n"), start=1):
            self._read(number, line.rstrip("\r"))
        self._split_users()

    def _read(self, number: int, line: str) -> None:
        stripped = line.strip()
        if stripped.startswith("#"):
            if directive := _DIRECTIVE.fullmatch(line):
                self._directive(number, directive)
            else:
                self.comments[number] = stripped
            return
        if stripped and (setting := _SETTING.fullmatch(line)):
            self._setting(number, setting)
        elif stripped:
            self._entry(number, line)
        if self._name is not None:
            self._warn(*self._name[1], "this names nothing: `# name:` belongs directly above an entry")
            self._name = None

    def _directive(self, number: int, directive: "re.Match[str]") -> None:
        column, value = directive.start("value") + 1, directive["value"]
        if directive["key"].lower() == "name":
            if not 1 <= len(value) <= NAME_LIMIT:
                self._refuse(number, column, f"a name of {len(value)} characters, accepted: 1 to {NAME_LIMIT}")
            elif problem := name_error(value):
                self._refuse(number, column, f"the name: {problem}")
            else:
                self._name = (value, FilePosition(number, column))
            return
        words = value.lower().split()
        if not words or not set(words) <= {"spread", "system", "personal"} or {"system", "personal"} <= set(words):
            self._refuse(number, column, f"{value[:64]!r} is not understood, accepted: spread, system, personal")
        elif self.entries:
            self._refuse(number, column, "this belongs above the first entry")
        else:
            now = self._manner
            system = now.system if now.system is not None or words == ["spread"] else "system" in words
            self._manner = now._replace(spread=now.spread or "spread" in words, system=system)

    def _setting(self, number: int, setting: "re.Match[str]") -> None:
        name, value = _unquoted(setting["name"]), _unquoted(setting["value"])
        column = setting.start("value") + 1
        if name == "CRON_TZ":
            try:
                self._zone = zone_named(value).name
            except Invalid as e:
                self._refuse(number, column, e.problem)
        elif name == "MAILTO":
            self._mailto = self._contact_of(number, column, value)
        elif name in _IGNORED_SETTINGS:
            if value:
                place = FilePosition(number, column)
                self.unused.append(UnusedText(place, setting[0].strip(), name, _IGNORED_SETTINGS[name]))
        else:
            if name == "TZ" and value != self._zone:
                self._warn(
                    number,
                    column,
                    f"TZ is for commands, as in cron: times are those of {self._zone}; CRON_TZ sets their zone",
                )
            if value.startswith(ENV_REFERENCE_PREFIXES):
                kind = "variable" if value.startswith("env:") else "file"
                self._warn(number, column, f"the value will be read from the {kind} that it names, when a run starts")
            if self.entries and self.entries[-1].env is self._env:
                self._env = self._env.copy()  # those above keep theirs
            self._env[name] = value

    def _contact_of(self, line: int, column: int, mailto: str) -> str:
        """The contact for a MAILTO; empty if there is none."""
        self.mailto_was_set = True
        try:
            found = contact_of_mailto(mailto)
        except Invalid as e:
            self.unused.append(UnusedText(FilePosition(line, column), f"MAILTO={mailto}", "MAILTO", e.problem))
            return ""
        if found is None:
            return ""
        name, self.contacts[found[0]] = found
        self._warn(line, column, ONLY_FAILURES_ARE_MAILED)
        return name

    def _entry(self, number: int, line: str) -> None:
        name, self._name = (self._name[0] if self._name else None), None
        start = len(line) - len(line.lstrip())
        if len(line) > COMMAND_LIMIT:
            self._refuse(number, 1, f"a line of {len(line)} characters, accepted: at most {COMMAND_LIMIT}")
            return
        if "\0" in line:
            self._refuse(number, line.index("\0") + 1, "a NUL, which no command can have")
            return
        if line[start] == "-" and line[start + 1 : start + 2] not in ("", " ", "\t"):
            why = "every run is recorded with its task, none in syslog"
            self.unused.append(UnusedText(FilePosition(number, start + 1), "-", "the - before the minute", why))
            line = f"{line[:start]} {line[start + 1 :]}"
        found = _FIELDS.fullmatch(line)
        if found is None:
            self._refuse(number, start + 1, "an entry is MINUTE HOUR DAY MONTH WEEKDAY COMMAND, or @daily COMMAND")
            return
        fields, column = found["fields"], found.start("fields") + 1
        if not found["rest"]:
            missing = "a user and a command" if self._manner.system else "a command"
            self._refuse(number, len(line.rstrip()) + 1, f"{missing} should follow {fields!r}")
            return
        command, command_column = found["rest"], found.start("rest") + 1
        self.entries.append(
            CrontabEntry(
                number, fields, column, command, command_column, name, self._owner, self._env, self._zone, self._mailto
            )
        )

    def _split_users(self) -> None:
        """Take the user off each command of a system crontab."""
        if self._manner.system is None and self._owner is None:
            words = [_USER.fullmatch(entry.command) for entry in self.entries]
            first_words = [(word["user"], word["command"] is not None) for word in words if word is not None]
            is_system, guess = has_users(self.file, list(self.comments.values()), first_words)
            self._manner = self._manner._replace(system=is_system)
            if guess:
                text = f"read as a user before each command: {guess}"
                hint = "; `# evenbeat: personal` above all entries says otherwise"
                self._warn(self.entries[0].line, self.entries[0].command_column, text + hint)
        self.entries = [entry for entry in map(self._without_prefix, self.entries) if entry is not None]

    def _without_prefix(self, entry: CrontabEntry) -> CrontabEntry | None:
        """The entry without the user and the flags before its command."""
        if self._manner.system:
            words = _USER.fullmatch(entry.command)
            assert words is not None
            if words["command"] is None:
                end = entry.command_column + len(entry.command)
                self._refuse(entry.line, end, f"a command should follow {entry.fields!r} and the user")
                return None
            column = entry.command_column + words.start("command")
            entry = entry._replace(user=words["user"], command=words["command"], command_column=column)
        if flags := _FLAGS.fullmatch(entry.command):
            why = "a run that succeeds is never mailed, every run is recorded, and no task overlaps itself"
            place, text = FilePosition(entry.line, entry.command_column), flags["flags"].strip()
            self.unused.append(UnusedText(place, text, text, why))
            column = entry.command_column + flags.start("command")
            entry = entry._replace(command=flags["command"], command_column=column)
        return entry

    # Tasks

    def names(self) -> list[str]:
        """A name for each entry, unique within this file unless given ones are not."""
        return unique_names([_unnamed(entry) for entry in self.entries], self.file)

    def names_from_commands(self, names: Sequence[str]) -> dict[str, tuple[str, ...]]:
        """Of those of these names that come from commands: all that their entries could have."""
        pairs = zip(names, self.entries, strict=True)
        return {name: possible_names(_unnamed(entry), self.file) for name, entry in pairs if entry.name is None}

    def tasks(self, names: Sequence[str]) -> dict[str, tuple[CrontabEntry, Task]]:
        """Every task by its name, with its entry."""
        found: dict[str, tuple[CrontabEntry, Task]] = {}
        for name, entry in zip(names, self.entries, strict=True):
            if name in found:
                other = found[name][0].line
                hint = "a line `# name: ...` above it tells them apart" if entry.name is None else "names are unique"
                self._refuse(entry.line, entry.column, f"{name!r} is the name of line {other} already; {hint}")
            schedule, job = self._schedule(entry, name), self._job(entry)
            if schedule is not None and job is not None:
                notify = (NotifyContact(entry.mailto),) if entry.mailto else ()
                found[name] = (entry, Task(name, schedule, job, notify=notify))
                self._check(*found[name])
        return found

    def _check(self, entry: CrontabEntry, task: Task) -> None:
        """Are all texts within their length limits?"""
        try:
            msgspec.convert(msgspec.to_builtins(task), Task)
        except msgspec.ValidationError as e:
            self._refuse(entry.line, entry.column, str(e))

    def _schedule(self, entry: CrontabEntry, name: str) -> Schedule | None:
        try:
            schedule = crontab_schedule(entry.fields, entry.zone, spread=self._manner.spread)
            if schedule.cron is not None:
                compile_schedule(schedule, name)
        except Invalid as e:
            field = e.place.rpartition("cron")[2].lstrip(", ")
            problem = f"{field}: {e.problem}" if field else e.problem
            if e.problem.startswith(NEVER_DUE):
                self.never_due.append((entry, problem))
            self._refuse(entry.line, entry.column + (e.column or 1) - 1, problem)
            return None
        return schedule

    def _job(self, entry: CrontabEntry) -> Job | None:
        if percent := bare_percent(entry.command):
            text = "as in cron, the command ends at this % and its input begins: write \\% for a percent sign"
            self._warn(entry.line, entry.command_column + percent - 1, text)
        try:
            return job_of_line(entry.command, entry.env, entry.user)
        except Invalid as e:
            self._refuse(entry.line, entry.command_column + (e.column or 1) - 1, e.problem)
            return None


def _unnamed(entry: CrontabEntry) -> UnnamedEntry:
    command, given = split_input(entry.command)
    return UnnamedEntry(f"{entry.fields} {entry.user or ''} {given}", command, entry.name)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text
