"""Read a crontab as cron does: its times, its environment, its shell; every problem with line and column.

# evenbeat: spread           (above all entries) @daily is `H H * * *` and seconds are spread; else 00:00:00
# name: backup               (directly above an entry) the task's name; else it comes from the command
CRON_TZ=Europe/Paris
17 3 * * 1-5  backup.sh --full
@every 5m     py reports:refresh("daily", limit=3)
"""

import re
from typing import Final, NamedTuple

import msgspec

from evenbeat.load.config import BadFileError, Config, ConfigError, FilePosition, ParsedFile
from evenbeat.load.crontab_names import unique_names
from evenbeat.load.function_call import is_call, parse_call
from evenbeat.load.safe_text import name_error
from evenbeat.model import COMMAND_LIMIT, ENV_REFERENCE_PREFIXES, NAME_LIMIT, Invalid, Job, Schedule, Task
from evenbeat.when.duration import parse_duration
from evenbeat.when.schedule import compile_schedule
from evenbeat.when.zone import zone as zone_named

CLASSIC_ALIASES: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""When cron runs its aliases: all at once."""

MAX_ERRORS_SHOWN: Final = 100
_SETTING: Final = re.compile(r"""\s*(?P<name>[A-Za-z_]\w*|"[^"=]+"|'[^'=]+')\s*=\s*(?P<value>.*?)\s*""", re.ASCII)
_FIELDS: Final = re.compile(r"\s*(?P<fields>@every\s+\S+|@\S*|\S+(?:\s+\S+){4})(?:\s+(?P<rest>\S.*?))?\s*")
_USER: Final = re.compile(r"(?P<user>\S+)(?:\s+(?P<command>\S.*))?")
_DIRECTIVE: Final = re.compile(r"\s*#\s*(?P<key>evenbeat|name)\s*:\s*(?P<value>.*?)\s*", re.IGNORECASE)
_ZONES: Final = ("CRON_TZ", "TZ")
_IGNORED_SETTINGS: Final = {
    "MAILTO": "nothing is mailed; the output is kept with the run",
    "MAILFROM": "nothing is mailed",
    "CONTENT_TYPE": "nothing is mailed",
    "CONTENT_TRANSFER_ENCODING": "nothing is mailed",
    "RANDOM_DELAY": "there is no random delay; `# evenbeat: spread` or H spreads the load",
    "START_HOURS_RANGE": "it belongs to anacron",
}


class CrontabDialect(NamedTuple):
    """How to read a crontab, where its own comments do not say."""

    spread: bool = False
    system: bool = False
    """As /etc/crontab: a user before each command."""
    zone: str = "UTC"


class _CrontabEntry(NamedTuple):
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


def parse_crontab(text: str, file: str, manner: CrontabDialect | None = None) -> Config:
    """Parse the text of a crontab; raise BadFileError with every problem found."""
    return parse_crontab_file(text, file, manner).config


def parse_crontab_file(text: str, file: str, manner: CrontabDialect | None = None) -> ParsedFile:
    """Parse the text, and keep the positions of its values."""
    reader = _CrontabReader(file, manner or CrontabDialect())
    for number, line in enumerate(text.split("\n"), start=1):
        reader.read(number, line.rstrip("\r"))
    tasks = reader.tasks()
    if reader.errors:
        errors = sorted(reader.errors, key=lambda p: p.place or FilePosition(0, 0))
        raise BadFileError(errors[:MAX_ERRORS_SHOWN], max(len(errors) - MAX_ERRORS_SHOWN, 0))

    def place_of(path: tuple[str, ...], column: int | None) -> FilePosition | None:
        entry = tasks.get(path[1]) if path[0] == "tasks" else None
        if entry is None:
            return None
        return FilePosition(entry[0].line, entry[0].column + (column or 1) - 1)

    return ParsedFile(file, Config(tuple(t for _, t in tasks.values()), {}, {}, None), place_of, tuple(reader.warnings))


class _CrontabReader:
    """Reads line after line, then makes the tasks, whose names depend on all of them."""

    def __init__(self, file: str, manner: CrontabDialect) -> None:
        self.errors: list[ConfigError] = []
        self.warnings: list[ConfigError] = []
        self._file = file
        self._manner = manner
        self._zone = manner.zone
        self._env: dict[str, str] = {}
        self._name: tuple[str, FilePosition] | None = None
        self._entries: list[_CrontabEntry] = []

    def _refuse(self, line: int, column: int, problem: str) -> None:
        self.errors.append(ConfigError(self._file, FilePosition(line, column), problem))

    def _warn(self, line: int, column: int, problem: str) -> None:
        self.warnings.append(ConfigError(self._file, FilePosition(line, column), problem))

    # Lines

    def read(self, number: int, line: str) -> None:
        """Read one line."""
        stripped = line.strip()
        if stripped.startswith("#"):
            if directive := _DIRECTIVE.fullmatch(line):
                self._directive(number, directive)
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
        if not words or not set(words) <= {"spread", "system"}:
            self._refuse(number, column, f"{value[:64]!r} is not understood, accepted: spread, system")
        elif self._entries:
            self._refuse(number, column, "this belongs above the first entry")
        else:
            now = self._manner
            self._manner = now._replace(spread=now.spread or "spread" in words, system=now.system or "system" in words)

    def _setting(self, number: int, setting: "re.Match[str]") -> None:
        name, value = _unquoted(setting["name"]), _unquoted(setting["value"])
        column = setting.start("value") + 1
        if name in _ZONES:
            try:
                self._zone = zone_named(value).name
            except Invalid as e:
                self._refuse(number, column, e.problem)
        if name in _IGNORED_SETTINGS:
            if value:
                self._warn(number, column, f"{name} is not used: {_IGNORED_SETTINGS[name]}")
        elif name != "CRON_TZ":
            if value.startswith(ENV_REFERENCE_PREFIXES):
                kind = "variable" if value.startswith("env:") else "file"
                self._warn(number, column, f"the value will be read from the {kind} that it names, when a run starts")
            self._env = {**self._env, name: value}

    def _entry(self, number: int, line: str) -> None:
        name, self._name = (self._name[0] if self._name else None), None
        found = _FIELDS.fullmatch(line)
        start = len(line) - len(line.lstrip())
        if len(line) > COMMAND_LIMIT:
            self._refuse(number, 1, f"a line of {len(line)} characters, accepted: at most {COMMAND_LIMIT}")
            return
        if "\0" in line:
            self._refuse(number, line.index("\0") + 1, "a NUL, which no command can have")
            return
        if found is None:
            self._refuse(number, start + 1, "an entry is MINUTE HOUR DAY MONTH WEEKDAY COMMAND, or @daily COMMAND")
            return
        fields, column = found["fields"], found.start("fields") + 1
        command, command_column, user = found["rest"] or "", found.start("rest") + 1, None
        if self._manner.system and command:
            words = _USER.fullmatch(command)
            assert words is not None
            user, command = words["user"], words["command"] or ""
            command_column += words.start("command")
        if not command:
            missing = "a user and a command" if self._manner.system and user is None else "a command"
            self._refuse(number, len(line.rstrip()) + 1, f"{missing} should follow {fields!r}")
            return
        entry = _CrontabEntry(number, fields, column, command, command_column, name, user, self._env, self._zone)
        if (percent := re.search(r"(?<!\\)%", command)) is not None:
            self._refuse(
                number,
                command_column + percent.start(),
                "cron makes a % a line break, and what follows the command's input: write \\% for a percent sign, "
                "and put input into a script",
            )
        self._entries.append(entry)

    # Tasks

    def tasks(self) -> dict[str, tuple[_CrontabEntry, Task]]:
        """Every task by its name, with its entry."""
        names = unique_names([(e.name, e.fields, e.command) for e in self._entries])
        found: dict[str, tuple[_CrontabEntry, Task]] = {}
        for name, entry in zip(names, self._entries, strict=True):
            if name in found:
                other = found[name][0].line
                hint = "a line `# name: ...` above it tells them apart" if entry.name is None else "names are unique"
                self._refuse(entry.line, entry.column, f"{name!r} is the name of line {other} already; {hint}")
            schedule, job = self._schedule(entry, name), self._job(entry)
            if schedule is not None and job is not None:
                found[name] = (entry, Task(name, schedule, job))
                self._check(*found[name])
        return found

    def _check(self, entry: _CrontabEntry, task: Task) -> None:
        """Are all texts within their length limits?"""
        try:
            msgspec.convert(msgspec.to_builtins(task), Task)
        except msgspec.ValidationError as e:
            self._refuse(entry.line, entry.column, str(e))

    def _schedule(self, entry: _CrontabEntry, name: str) -> Schedule | None:
        spread = self._manner.spread
        words = entry.fields.split()
        try:
            if words[0].lower() == "@every":
                offset = entry.fields.rindex(words[-1]) if len(words) > 1 else len(entry.fields) + 1
                return self._every(words[1] if len(words) > 1 else "", entry, offset)
            text = entry.fields.lower() if entry.fields[0] == "@" else entry.fields
            cron = text if spread else CLASSIC_ALIASES.get(text, text)
            schedule = Schedule(cron=cron, zone=entry.zone, second=None if spread else 0)
            compile_schedule(schedule, name)
        except Invalid as e:
            field = e.place.rpartition("cron")[2].lstrip(", ")
            self._refuse(
                entry.line, entry.column + (e.column or 1) - 1, f"{field}: {e.problem}" if field else e.problem
            )
            return None
        return schedule

    def _every(self, text: str, entry: _CrontabEntry, offset: int) -> Schedule:
        try:
            return Schedule(every=parse_duration(text), zone=entry.zone)
        except Invalid as e:
            raise Invalid(e.problem, column=offset + (e.column or 1)) from None

    def _job(self, entry: _CrontabEntry) -> Job | None:
        line = entry.command.replace("\\%", "%")
        env, cwd = entry.env, entry.env.get("HOME") or None
        try:
            if is_call(line):
                return msgspec.structs.replace(parse_call(line), env=env, cwd=cwd, user=entry.user)
        except Invalid as e:
            self._refuse(entry.line, entry.command_column + (e.column or 1) - 1, e.problem)
            return None
        # cron gives the line to SHELL; ours is /bin/sh too, unless the crontab says otherwise.
        if env.get("SHELL", "/bin/sh") == "/bin/sh":
            return Job((line,), True, env=env, cwd=cwd, user=entry.user)  # noqa: FBT003
        return Job(command=(env["SHELL"], "-c", line), env=env, cwd=cwd, user=entry.user)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0] else text
