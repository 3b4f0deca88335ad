"""Converts a service of systemd to the job of a task: its commands, user, folder, variables and time limit."""

import re
import shlex
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from evenbeat.load.importers.report import ImportReport
from evenbeat.load.importers.secret_values import SecretFiles, sounds_secret
from evenbeat.load.importers.systemd_command import (
    ServiceCommand,
    fill_specifiers,
    plain_text,
    service_commands,
    split_words,
    unit_specifiers,
)
from evenbeat.load.importers.systemd_times import parse_span
from evenbeat.load.importers.systemd_units import Directive, Unit, home_of_user_unit, is_of_user
from evenbeat.model import COMMAND_LIMIT, HOME_FOLDER, MAX_EVERY, SECOND, Invalid, Job

PLACEHOLDER: Final = Job(command=("noop",))
"""For a task whose command cannot be known; it is disabled."""
YES: Final = ("yes", "true", "1", "on", "y", "t")
_TYPES: Final = ("oneshot", "simple", "exec", "idle")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_STATUS_NAMES: Final = (
    *("USAGE", "DATAERR", "NOINPUT", "NOUSER", "NOHOST", "UNAVAILABLE", "SOFTWARE", "OSERR", "OSFILE", "CANTCREAT"),
    *("IOERR", "TEMPFAIL", "PROTOCOL", "NOPERM", "CONFIG"),
)
_SYSEXITS: Final = {name: 64 + i for i, name in enumerate(_STATUS_NAMES)}
_CLASSES: Final = {"none": "0", "realtime": "1", "best-effort": "2", "idle": "3"} | {sign: sign for sign in "0123"}
_READ_VARIABLES: Final = """\
while IFS= read -r line || [ -n "$line" ]; do
  case $line in
    [A-Za-z_]*=\\"*\\" | [A-Za-z_]*=\\'*\\') value=${{line#*=?}}; export "${{line%%=*}}=${{value%?}}" ;;
    [A-Za-z_]*=*) export "$line" ;;
  esac
done <{file}"""
"""Takes variables out of a file without evaluating anything, as systemd does."""


class ServiceJob(NamedTuple):
    """What a service does."""

    job: Job
    timebox: int | None
    retries: Mapping[str, Any]
    """Keys of a task that tries again after a failure."""
    doubts: tuple[str, ...]
    """Why it would not do the same here; it is written disabled then."""


class ServiceReader:
    """Reads one service; everything that it does not take of the unit is left for the report."""

    def __init__(self, unit: Unit, report: ImportReport, secrets: SecretFiles) -> None:
        self._unit = unit
        self._report = report
        self._secrets = secrets
        self._home_of_user = home_of_user_unit(unit.file)
        self._doubts: list[str] = []

    def job(self) -> ServiceJob:
        """Everything together."""
        unit = self._unit
        user = unit.take_last("Service", "User")
        name = self._filled(user, {"i": unit.instance, "%": "%"}) if user else None
        self._user = name
        self._specifiers = unit_specifiers(unit.stem, "service", unit.file, name)
        if home := self._home_of_user or ("/root" if name in (None, "root") else ""):
            self._specifiers["h"] = home
        kind = unit.take_last("Service", "Type")
        if kind and kind.value not in _TYPES:
            self._doubts.append(f"Type={kind.value}: what is left when its first process ends would be ended too")
        remains = unit.take_last("Service", "RemainAfterExit")
        if remains and remains.value.lower() in YES:
            self._omit(remains, "a run is over when its process ends, and the next one starts at its time")
        for one in unit.take("Service", "DynamicUser"):
            if one.value.lower() in YES:
                self._doubts.append("DynamicUser: it would run as the user of the node, who may do more")
        group = unit.take_last("Service", "Group")
        if group and group.value != name:
            self._omit(group, "a run has the groups of its user")
        env = self._environment()
        command = self._command()
        timebox = self._timebox(is_oneshot=kind is not None and kind.value == "oneshot")
        folder = self._folder()
        job = PLACEHOLDER
        if command is not None:
            job = Job(command if isinstance(command, tuple) else (command,), isinstance(command, str))
            job = msgspec.structs.replace(job, env=env, cwd=folder, user=name)
        return ServiceJob(job, timebox, self._retries(), tuple(self._doubts))

    def _omit(self, one: Directive, why: str) -> None:
        self._report.omit(one.file, one.place, str(one), why)

    def _warn(self, one: Directive, message: str) -> None:
        self._report.warn(one.file, one.place, message)

    def _filled(self, one: Directive, specifiers: Mapping[str, str]) -> str:
        try:
            return plain_text(one.value, specifiers)
        except Invalid as e:
            self._doubts.append(f"{one}: {e.problem}")
            return one.value.replace("%", "")

    # Surroundings

    def _folder(self) -> str | None:
        one = self._unit.take_last("Service", "WorkingDirectory")
        if one is None:
            return HOME_FOLDER if is_of_user(self._unit.file) else "/"
        if one.value.startswith("-"):
            self._warn(one, "a folder that is not there fails the run")
        path = one.value.lstrip("-")
        if path in ("%h", HOME_FOLDER):
            return HOME_FOLDER
        return self._filled(one._replace(value=path), self._specifiers)

    def _environment(self) -> dict[str, str]:
        env: dict[str, str] = {}
        for one in self._unit.take("Service", "Environment"):
            try:
                pairs = [fill_specifiers(word, self._specifiers).partition("=") for word in split_words(one.value)]
            except Invalid as e:
                self._doubts.append(f"{one}: {e.problem}")
                continue
            for name, sign, value in pairs:
                if not sign or not _VARIABLE.fullmatch(name) or "\0" in value or "\ue000" in value:
                    self._omit(one, f"{name[:64]!r} is not NAME=value")
                elif len(value) > COMMAND_LIMIT:
                    self._omit(one, f"longer than {COMMAND_LIMIT} characters")
                elif sounds_secret(name, value):
                    env[name] = self._secrets.reference(self._secrets.add(f"{self._unit.stem}-{name}", value))
                else:
                    env[name] = value
        return env

    def _timebox(self, *, is_oneshot: bool) -> int | None:
        """How long the commands may take: of a oneshot until they have started, else while they run."""
        found = []
        for keys, counts in ((("TimeoutStartSec", "TimeoutSec"), is_oneshot), (("RuntimeMaxSec",), not is_oneshot)):
            one = self._unit.take_last("Service", *keys)
            if one is None:
                continue
            try:
                span = parse_span(one.value)
            except Invalid as e:
                self._omit(one, e.problem)
                continue
            if not counts:
                kind = "oneshot" if is_oneshot else "service that is no oneshot"
                self._omit(one, f"of a {kind} it does not limit how long the commands run")
            elif span and span <= MAX_EVERY:
                found.append(span)
        return min(found, default=None)

    def _retries(self) -> dict[str, int]:
        """How often a run that failed is started again, and after which time."""
        restart = self._unit.take_last("Service", "Restart")
        if restart is None or restart.value == "no":
            return {}
        if restart.value not in ("on-failure", "on-abnormal", "always"):
            self._omit(restart, "a run that failed waits for its next time")
            return {}
        if restart.value != "on-failure":
            self._warn(restart, f"{restart}: a run is started again only after a failure")
        spans = {"RestartSec": SECOND // 10, "StartLimitIntervalSec": 10 * SECOND}
        for key, section in (("RestartSec", "Service"), ("StartLimitIntervalSec", "Unit")):
            if one := self._unit.take_last(section, key):
                try:
                    spans[key] = parse_span(one.value) or 0
                except Invalid as e:
                    self._omit(one, e.problem)
        burst = self._unit.take_last("Unit", "StartLimitBurst")
        starts = int(burst.value) if burst and re.fullmatch("[0-9]{1,6}", burst.value) else 5
        pause = min(max(spans["RestartSec"], SECOND), MAX_EVERY)
        # Starts that are further apart than the limit's interval allows are never too many.
        is_limited = 0 < starts * spans["RestartSec"] < spans["StartLimitIntervalSec"]
        retries = min(max(starts - 1, 1), 100) if is_limited else 100
        return {"retries": retries, "backoff": pause, "backoff_max": pause}

    # Commands

    def _command(self) -> tuple[str, ...] | str | None:
        """The words of a command, or lines for a shell."""
        commands = {
            key: self._commands(key)
            for key in ("ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecStop", "ExecStopPost")
        }
        before = [*self._umask(), *self._files_of_variables()]
        nice = self._niceness()
        accepted = self._accepted_statuses()
        if not commands["ExecStart"]:
            self._doubts.append("it has no ExecStart=")
            return None
        others = [one for key, found in commands.items() if key != "ExecStart" for one in found]
        main = commands["ExecStart"]
        if len(main) == 1 and not (others or before or accepted) and main[0].words and "-" not in main[0].prefixes:
            return (*nice, *main[0].words)
        prefix = "".join(f"{word} " for word in nice)
        lines = ["set -e", *before]
        if at_end := commands["ExecStopPost"]:
            lines.append(f"trap {shlex.quote('; '.join(one.line for one in at_end))} EXIT")
        lines += [f"{prefix}{one.line} || exit 0" for one in commands["ExecCondition"]]
        lines += [_line(one, prefix) for one in commands["ExecStartPre"]]
        lines += [_line(one, prefix, accepted) for one in main]
        lines += [_line(one, prefix) for key in ("ExecStartPost", "ExecStop") for one in commands[key]]
        return "\n".join([*lines, ""])

    def _commands(self, key: str) -> list[ServiceCommand]:
        found: list[ServiceCommand] = []
        for one in self._unit.take("Service", key):
            if len(one.value) > COMMAND_LIMIT or "\0" in one.value:
                self._doubts.append(f"{key}= is longer than {COMMAND_LIMIT} characters, or has a NUL")
                continue
            try:
                commands = service_commands(one.value, self._specifiers)
            except Invalid as e:
                self._doubts.append(f"{one}: {e.problem}")
                continue
            for command in commands:
                if "@" in command.prefixes:
                    self._omit(one, "the program gets its own name as its first word, not another one")
                if set("+!|") & set(command.prefixes) and self._user not in (None, "root"):
                    self._doubts.append(f"{one}: all commands would run as {self._user}")
            found += commands
        return found

    def _umask(self) -> list[str]:
        one = self._unit.take_last("Service", "UMask")
        if one is None:
            return []
        if not re.fullmatch(r"[0-7]{1,4}", one.value):
            self._omit(one, "not an octal mask")
            return []
        return [f"umask {one.value}"]

    def _files_of_variables(self) -> list[str]:
        found = []
        for one in self._unit.take("Service", "EnvironmentFile"):
            try:
                path = plain_text(one.value.removeprefix("-"), self._specifiers)
            except Invalid as e:
                self._doubts.append(f"{one}: {e.problem}")
                continue
            file = shlex.quote(path)
            lines = _READ_VARIABLES.format(file=file)
            found.append(f"if [ -e {file} ]; then\n{lines}\nfi" if one.value.startswith("-") else lines)
            self._warn(one, f"{path} is read when a run starts, by the user of the run")
        return found

    def _niceness(self) -> list[str]:
        words = []
        if nice := self._unit.take_last("Service", "Nice"):
            if re.fullmatch(r"-?\d{1,2}", nice.value):
                words += ["nice", "-n", nice.value]
            else:
                self._omit(nice, "not a number")
        kind = self._unit.take_last("Service", "IOSchedulingClass")
        level = self._unit.take_last("Service", "IOSchedulingPriority")
        if kind and kind.value in _CLASSES:
            words += ["ionice", "-c", _CLASSES[kind.value]]
            if level and _CLASSES[kind.value] in ("1", "2") and re.fullmatch("[0-7]", level.value):
                words += ["-n", level.value]
            elif level:
                self._omit(level, "the class has no priorities")
        elif kind or level:
            one = kind or level
            assert one is not None
            self._omit(one, "there is no class of this name" if kind else "it belongs to IOSchedulingClass=")
        return words

    def _accepted_statuses(self) -> list[str]:
        codes = []
        for one in self._unit.take("Service", "SuccessExitStatus"):
            for word in one.value.split():
                if (word.isdigit() and word.isascii() and int(word) < 256) or word in _SYSEXITS:
                    codes.append(str(_SYSEXITS.get(word, word)))
                else:
                    self._omit(one, f"{word}: only exit statuses are taken as success, no signals")
        return codes


def _line(command: ServiceCommand, prefix: str, accepted: "list[str] | None" = None) -> str:
    line = f"{prefix}{command.line}"
    if "-" in command.prefixes:
        return f"{line} || true"
    if accepted:
        return f"{line} || case $? in {'|'.join(accepted)}) ;; *) exit $? ;; esac"
    return line
