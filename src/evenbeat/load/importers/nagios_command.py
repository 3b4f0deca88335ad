"""Converts a notification command of Nagios: its macros become the variables that a contact's command gets."""

import re
import shlex
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

_MACRO: Final = re.compile(r"\$(\w*)\$")
SHELL_CHARACTERS: Final = re.compile(r"[|&;<>`$(){}*?~!^\[\]\\#]")
_KNOWN: Final = re.compile(
    r"NOTIFICATION(TYPE|RECIPIENTS|AUTHOR|COMMENT)|(LONG|SHORT)?DATE(TIME)?|TIMET?"
    r"|HOST(NAME|ALIAS|DISPLAYNAME|ADDRESS|INFOURL)|SERVICE(DESC|DISPLAYNAME)"
    r"|(HOST|SERVICE)(STATE(ID|TYPE)?|OUTPUT|PERFDATA|DURATION(SEC)?|PROBLEMID|NOTIFICATIONID|ACK(AUTHOR|COMMENT))"
    r"|LONG(HOST|SERVICE)OUTPUT|LAST(HOST|SERVICE)(STATE(CHANGE|ID)?|PROBLEMID)|_(HOST|SERVICE)\w+"
)
"""The macros that a contact's command gets as variables NAGIOS_...."""


class ShellLine(NamedTuple):
    """A command line for a shell, and what of it is not known."""

    text: str
    unknown: tuple[str, ...]
    """Macros that will be empty."""


def shell_line(line: str, values: Mapping[str, str]) -> ShellLine:
    """The line with these values of macros in it, and references to variables in place of the other macros."""
    unknown = dict[str, None]()

    def fill(macro: "re.Match[str]", quote: str) -> str:
        name = macro[1]
        if name == "":
            return "$"
        if name in values:
            return values[name]
        if not _KNOWN.fullmatch(name):
            unknown[macro[0]] = None
        return {"": '"${NAGIOS_%s}"', '"': "${NAGIOS_%s}", "'": "'\"${NAGIOS_%s}\"'"}[quote] % name

    return ShellLine(fill_by_quotes(line, _MACRO, fill).strip(), tuple(unknown))


def fill_by_quotes(line: str, pattern: "re.Pattern[str]", fill: Callable[["re.Match[str]", str], str]) -> str:
    """A line for a shell, with what the pattern matches filled by a function that gets the quote around it, or ""."""
    found, quote, at = [], "", 0
    while at < len(line):
        if match := pattern.match(line, at):
            found.append(fill(match, quote))
            at = match.end()
            continue
        sign = line[at]
        escaped = sign == "\\" and quote != "'" and at + 1 < len(line)
        if sign in "'\"" and quote in ("", sign):
            quote = "" if quote else sign
        found.append(line[at : at + 2] if escaped else sign)
        at += 2 if escaped else 1
    return "".join(found)


def command_words(line: str) -> list[str]:
    """The words of a command that runs this line: without a shell where none is needed."""
    if not SHELL_CHARACTERS.search(line):
        try:
            return shlex.split(line)
        except ValueError:
            pass
    return ["/bin/sh", "-c", line]


def for_hosts_and_services(hosts: str, services: str) -> str:
    """One line that does the one for problems of hosts, the other for those of services."""
    if hosts == services or not hosts or not services:
        only = "" if hosts == services else "-n" if services else "-z"
        line = services or hosts
        return f'if [ {only} "${{NAGIOS_SERVICEDESC}}" ]; then {line}; fi' if only else line
    return f'if [ -n "${{NAGIOS_SERVICEDESC}}" ]; then {services}; else {hosts}; fi'
