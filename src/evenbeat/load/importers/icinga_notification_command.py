"""Converts a NotificationCommand of Icinga 2 to the command of a contact.

What is known of a user is written out; what is known of a problem becomes the variable that a contact's command gets.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

from evenbeat.load.importers.icinga_macros import MACRO, is_function
from evenbeat.load.importers.icinga_objects import IcingaObject, as_text
from evenbeat.load.importers.icinga_report import IcingaReport
from evenbeat.load.importers.nagios_command import command_words, fill_by_quotes
from evenbeat.load.importers.secret_values import SecretFiles, sounds_secret

_VARIABLES: Final = {
    "address": "HOSTADDRESS",
    "host.address": "HOSTADDRESS",
    "host.name": "HOSTNAME",
    "host.display_name": "HOSTDISPLAYNAME",
    "host.state": "HOSTSTATE",
    "host.state_id": "HOSTSTATEID",
    "host.output": "HOSTOUTPUT",
    "host.perfdata": "HOSTPERFDATA",
    "host.state_type": "HOSTSTATETYPE",
    "host.duration_sec": "HOSTDURATIONSEC",
    "service.duration_sec": "SERVICEDURATIONSEC",
    "service.name": "SERVICEDESC",
    "service.display_name": "SERVICEDISPLAYNAME",
    "service.state": "SERVICESTATE",
    "service.state_id": "SERVICESTATEID",
    "service.output": "SERVICEOUTPUT",
    "service.perfdata": "SERVICEPERFDATA",
    "service.state_type": "SERVICESTATETYPE",
    "notification.type": "NOTIFICATIONTYPE",
    "notification.author": "NOTIFICATIONAUTHOR",
    "notification.comment": "NOTIFICATIONCOMMENT",
    "icinga.long_date_time": "LONGDATETIME",
    "icinga.short_date_time": "SHORTDATETIME",
    "icinga.date": "DATE",
    "icinga.time": "TIME",
    "icinga.timet": "TIMET",
}
_QUOTED: Final = {"": '"%s"', '"': "%s", "'": "'\"%s\"'"}
"""What a shell reads as one word, within these quotes."""
_MAX_DEPTH: Final = 15


class CommandOfContacts:
    """Converts commands, and reports what of them is not known."""

    def __init__(self, secrets: SecretFiles, report: IcingaReport) -> None:
        self._secrets = secrets
        self._report = report

    def mails(self, command: IcingaObject) -> bool:
        """Does it send mails to the address of the user?"""
        return self.uses(command, "email")

    def uses(self, command: IcingaObject, attribute: str) -> bool:
        """Does it have this attribute of the user?"""
        names = (f"${attribute}$", f"$user.{attribute}$")
        return any(name in text for text in _texts([command.attributes.get(k) for k in _WHERE]) for name in names)

    def words(self, command: IcingaObject, notification: IcingaObject, user: IcingaObject) -> list[str]:
        """The words of the contact's command."""
        values = _Values(self, command, notification, user)
        line = command.attributes.get("command")
        if isinstance(line, str):
            text = fill_by_quotes(line, MACRO, lambda m, quote: values.in_shell(m[1], quote))
        else:
            text = " ".join(values.word(word) for word in (line if isinstance(line, list) else []))
        for key, said in _in_order(command.table("arguments")):
            text += "".join(f" {word}" for word in self._argument(key, said, command, values))
        if names := [*command.table("env")]:
            assigned = [f"{name}={values.word(command.table('env')[name])}" for name in names if _NAME.fullmatch(name)]
            text = " ".join([*(["env"] if assigned else []), *assigned, text])
        return command_words(text.strip()) or ["/bin/false"]

    def _argument(self, key: str, said: Any, command: IcingaObject, values: "_Values") -> Iterator[str]:
        table = said if isinstance(said, dict) and not is_function(said) else {"value": said}
        value = table.get("value")
        if is_function(value) or is_function(table.get("set_if")) or isinstance(value, list | dict):
            self.omit(
                command, f"argument {key} of the command {command.name!r}", "a function or a list says what it is"
            )
            return
        if "set_if" in table and (given := values.plain(as_text(table["set_if"]))) in ("", "false", "0"):
            if given == "":
                what = f"argument {key} of the command {command.name!r}"
                self.omit(command, what, "whether it is given is known with the problem only")
            return
        name = table["key"] if isinstance(table.get("key"), str) else key
        if table.get("skip_key") is not True:
            yield shlex.quote(name)
        is_literal = isinstance(value, str) and not MACRO.search(value)
        if is_literal and sounds_secret(key.strip("-").replace("-", "_")):
            yield f'"{self.secret(key.strip("-"), str(value))}"'
        elif value is not None:
            yield values.word(value)

    def omit(self, command: IcingaObject, what: str, why: str) -> None:
        """Something of a command is not carried over."""
        self._report.omit_of(command, what, why)

    def secret(self, name: str, text: str) -> str:
        """How a shell reads a secret."""
        return f"$(cat {shlex.quote(self._secrets.path(self._secrets.add(name, text)))})"


_WHERE: Final = ("command", "arguments", "env", "vars")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Values:
    """The macros of one command, for one user and notification."""

    def __init__(
        self, owner: CommandOfContacts, command: IcingaObject, notification: IcingaObject, user: IcingaObject
    ) -> None:
        self._owner = owner
        self._command = command
        self._objects = {"user": user, "notification": notification, "command": command}

    def word(self, value: Any) -> str:
        """A value as one word of a line for a shell."""
        text = as_text(value)
        parts, at = [], 0
        for macro in MACRO.finditer(text):
            parts += [shlex.quote(text[at : macro.start()])] if macro.start() > at else []
            parts.append(self.in_shell(macro[1], ""))
            at = macro.end()
        parts += [shlex.quote(text[at:])] if at < len(text) or not parts else []
        return "".join(parts)

    def in_shell(self, name: str, quote: str, depth: int = 0) -> str:
        """A macro in a line for a shell, within these quotes."""
        if name == "":
            return "$"
        if name in _VARIABLES:
            return _QUOTED[quote] % f"${{NAGIOS_{_VARIABLES[name]}}}"
        value = self._value(name)
        if value is None or is_function(value) or depth > _MAX_DEPTH:
            why = "a contact's command does not get it: it is empty"
            self._owner.omit(self._command, f"${name}$ in the command {self._command.name!r}", why)
            return '""' if not quote else ""
        text = as_text(value)
        if text and sounds_secret(name.rpartition(".")[2]) and not MACRO.search(text):
            return _QUOTED[quote] % self._owner.secret(name.rpartition(".")[2], text)
        inner = [
            self.in_shell(part, quote, depth + 1) if i % 2 else _plain(part, quote)
            for i, part in enumerate(MACRO.split(text))
            if part or i % 2
        ]
        return "".join(inner) or ('""' if not quote else "")

    def plain(self, text: str) -> str:
        """A text with what is known of its macros."""
        return MACRO.sub(lambda m: as_text(self._value(m[1])), text)

    def _value(self, name: str) -> Any:
        which, dot, rest = name.partition(".")
        for kind, one in self._objects.items():
            if dot and kind != which:
                continue
            path = rest if dot else name
            if not dot and name in one.table("vars"):
                return one.table("vars")[name]
            if path.startswith("vars."):
                value: Any = one.attributes
                for key in path.split("."):
                    value = value.get(key) if isinstance(value, dict) else None
                return value
            value = one.attributes.get(path)
            if isinstance(value, str | int | float):
                return value
        return None


def _plain(text: str, quote: str) -> str:
    if quote == "'":
        return text.replace("'", "'\\''")
    if quote == '"':
        return re.sub(r'([\\"$`])', r"\\\1", text)
    return shlex.quote(text)


def _in_order(arguments: dict[str, Any]) -> list[tuple[str, Any]]:
    def order(said: Any) -> float:
        found = said.get("order") if isinstance(said, dict) else 0
        return float(found) if isinstance(found, int | float) else 0

    return sorted(sorted(arguments.items()), key=lambda item: order(item[1]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)
