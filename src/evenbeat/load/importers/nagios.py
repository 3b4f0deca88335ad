"""Converts Nagios objects to checks: one table for each service, whatever the number of its hosts.

What cannot be converted becomes a warning; a check that would behave differently is written disabled.
"""

import re
import shlex
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import structs

from evenbeat.load.config import BadFileError, ConfigError
from evenbeat.load.importers.nagios_objects import NAME_DIRECTIVES, NagiosObject, NagiosObjects
from evenbeat.load.importers.nagios_period import dates_period_name, periods_of
from evenbeat.load.placeholders import (
    HOST_NAME_VARIABLE,
    fill_host_variables,
    host_variable,
    host_variables_in,
    to_placeholders,
)
from evenbeat.load.write_toml import ConfigDocument, ImportResult, period_table
from evenbeat.model import MAX_EVERY, MIN_EVERY, SECOND, Period
from evenbeat.when.duration import format_duration

_USED_DIRECTIVES: Final = frozenset(
    (
        *("use", "name", "register", "host_name", "hostgroup_name", "hostgroups", "service_description", "address"),
        *("alias", "check_command", "check_interval", "normal_check_interval", "retry_interval"),
        *("retry_check_interval", "max_check_attempts", "check_period", "active_checks_enabled"),
        *("check_freshness", "freshness_threshold"),
    )
)
_SETTINGS: Final = re.compile(r"interval_length|\$USER\d+\$")
_MACRO: Final = re.compile(r"\$(\w*)\$")
_SHELL_CHARACTERS: Final = re.compile(r"[|&;<>`$(){}*?~!^\[\]\\#]")
_RANGE: Final = re.compile(r"\[\d+-\d+\]")


class _NagiosCheck(NamedTuple):
    """A check that hosts share, with gaps for what differs by host."""

    title: str
    table: dict[str, Any]


def import_nagios(texts: Sequence[tuple[str, str]], zone: str = "UTC") -> ImportResult:
    """Import (text, file) pairs that belong together; raise BadFileError if they are not Nagios objects."""
    objects = NagiosObjects()
    for text, file in texts:
        objects.read(text, file)
    reader = _NagiosReader(objects, zone, texts[0][1])
    document = reader.document()
    if objects.errors:
        raise BadFileError(objects.errors)
    return ImportResult(document, reader.warnings)


class _NagiosReader:
    def __init__(self, objects: NagiosObjects, zone: str, file: str) -> None:
        self.warnings: list[ConfigError] = []
        self._objects = objects
        self._zone = zone
        self._file = file
        self._unit = _number(objects.settings.get("interval_length", "60")) or 60.0
        self._hosts = self._named("host")
        self._services = objects.of("service")
        self._commands = {name: one.get("command_line") for name, one in self._named("command").items()}
        self._groups = self._members()
        self._periods: dict[str, Period] = {}
        self._checks: dict[str, dict[str, Any]] = {}
        self._names: set[str] = set()

    def document(self) -> ConfigDocument:
        timeperiods = self._named("timeperiod")
        for timeperiod in timeperiods.values():
            for found in periods_of(timeperiod, self._zone):
                if isinstance(found, str):
                    self._warn(timeperiod, found)
                else:
                    self._periods[found[0]] = found[1]
        self._exclude(timeperiods)
        self._add_host_checks()
        for service in self._services:
            self._add_service(service)
        self._warn_of_unused()
        periods = {name: period_table(period) for name, period in self._periods.items()}
        return {"periods": periods, "checks": self._checks}

    def _named(self, kind: str) -> dict[str, NagiosObject]:
        found: dict[str, NagiosObject] = {}
        for one in self._objects.of(kind):
            name = one.get(NAME_DIRECTIVES[kind])
            if name in found:
                self._warn(one, f"{kind} {name!r} is defined twice: the first is imported")
            found.setdefault(name, one)
        return found

    def _warn(self, about: NagiosObject | None, warning: str) -> None:
        place = about.place if about else None
        self.warnings.append(ConfigError(about.file if about else self._file, place, warning))

    def _exclude(self, timeperiods: Mapping[str, NagiosObject]) -> None:
        """Convert exclusions between periods, except unknown and circular ones."""
        taken: dict[str, list[str]] = {name: [] for name in timeperiods}

        def reaches(start: str, end: str) -> bool:
            return start == end or any(reaches(inner, end) for inner in taken[start])

        for name, timeperiod in timeperiods.items():
            for other in timeperiod.words("exclude") if name in self._periods else ():
                if other not in self._periods or reaches(other, name):
                    why = "there is no such period here" if other not in self._periods else "in a circle"
                    self._warn(timeperiod, f"period {name!r}: that it excludes {other!r} is not imported: {why}")
                    continue
                taken[name].append(other)
                for part in (name, dates_period_name(name)):
                    if part in self._periods:
                        period = self._periods[part]
                        self._periods[part] = structs.replace(period, exclude=(*period.exclude, other))

    # Which hosts have which checks

    def _members(self) -> dict[str, set[str]]:
        found = self._named("hostgroup")
        groups = {name: set(self._chosen(o.words("members"), self._hosts)) for name, o in found.items()}
        for name, host in self._hosts.items():
            for group in host.words("hostgroups"):
                groups.setdefault(group, set()).add(name)
        # Groups of groups: as many rounds as groups reach the deepest, and a circle ends too.
        for _ in found:
            for name, group_ in found.items():
                for inner in group_.words("hostgroup_members"):
                    groups[name] |= groups.get(inner, set())
        return groups

    @staticmethod
    def _chosen(words: Sequence[str], known: Mapping[str, object]) -> Iterator[str]:
        """`a, b`, `*` and `!c`."""
        left_out = {word[1:].strip() for word in words if word.startswith("!")}
        for word in words:
            for name in known if word == "*" else (word,):
                if not name.startswith("!") and name not in left_out:
                    yield name

    def _hosts_of(self, service: NagiosObject) -> list[str]:
        words = service.words("host_name")
        groups = service.words("hostgroup_name")
        names = dict.fromkeys(self._chosen(words, self._hosts))
        for group in self._chosen(groups, self._groups):
            if group not in self._groups:
                self._warn(
                    service, f"service {service.get('service_description')!r}: no hostgroup {group!r} is defined"
                )
            names |= dict.fromkeys(sorted(self._groups.get(group, ())))
        not_wanted = {w[1:].strip() for w in words if w.startswith("!")}
        for group in groups:
            not_wanted |= self._groups.get(group[1:].strip(), set()) if group.startswith("!") else set()
        for name in names:
            if name not in self._hosts:
                self._warn(service, f"service {service.get('service_description')!r}: no host {name!r} is defined")
        return [name for name in names if name in self._hosts and name not in not_wanted]

    # Checks

    def _add_host_checks(self) -> None:
        alike: dict[str, tuple[_NagiosCheck, list[str]]] = {}
        for name, host in self._hosts.items():
            if "check_command" not in host.values and host.get("active_checks_enabled", "1") != "0":
                self._warn(host, f"host {name!r} has no check_command: no check of its own is imported")
                continue
            table = self._table(host, f"host {name!r}", ("5", "1"), {"host": HOST_NAME_VARIABLE})
            if table is not None:
                check = _NagiosCheck(HOST_NAME_VARIABLE, table)
                alike.setdefault(repr(sorted(table.items())), (check, []))[1].append(name)
        for check, hosts in alike.values():
            self._write(check, hosts)

    def _add_service(self, service: NagiosObject) -> None:
        description = service.get("service_description")
        hosts = self._hosts_of(service)
        if not hosts:
            self._warn(service, f"service {description!r} has no hosts here: not imported")
            return
        labels = {"host": HOST_NAME_VARIABLE, "service": description}
        table = self._table(service, f"service {description!r}", ("", ""), labels)
        if table is not None:
            self._write(_NagiosCheck(f"{HOST_NAME_VARIABLE}/{description}", table), hosts)

    def _table(
        self, one: NagiosObject, what: str, defaults: tuple[str, str], labels: dict[str, str]
    ) -> dict[str, Any] | None:
        every = self._duration(one, ("check_interval", "normal_check_interval"), defaults[0])
        active = one.get("active_checks_enabled", "1") != "0"
        if not active:
            every = int((_number(one.get("freshness_threshold")) or 0) * SECOND)
            if one.get("check_freshness") != "1" or not every:
                self._warn(one, f"{what} is passive and has no freshness_threshold: not imported")
                return None
        if not every:
            self._warn(one, f"{what} has no check_interval above 0, so it is never due: not imported")
            return None
        if not MIN_EVERY <= every <= MAX_EVERY:
            every = min(max(every, MIN_EVERY), MAX_EVERY)
            self._warn(one, f"{what}: the interval is out of range, it becomes {format_duration(every)}")
        table: dict[str, Any] = {"every": format_duration(every)} | ({} if active else {"passive": True})
        if active and (retry := self._duration(one, ("retry_interval", "retry_check_interval"), defaults[1])):
            table["retry"] = format_duration(retry)
        attempts = _number(one.get("max_check_attempts"))
        if attempts:
            table["attempts"] = min(max(int(attempts), 1), 255)
        table |= {"labels": labels}
        # The command of a passive one is what Nagios runs when no result came in time, and we do too.
        runs = active or one.get("check_command")
        doubts = [*self._add_period(one, table), *(self._add_command(one, table, labels) if runs else ())]
        if doubts:
            table["enabled"] = False
            self._warn(one, f"{what} is written disabled: {'; '.join(doubts)}")
        return table

    def _duration(self, one: NagiosObject, names: tuple[str, ...], default: str) -> int:
        text = next((one.get(name) for name in names if name in one.values), default)
        return int((_number(text) or 0) * self._unit * SECOND)

    def _add_period(self, one: NagiosObject, table: dict[str, Any]) -> Iterator[str]:
        if name := one.get("check_period"):
            if name in self._periods:
                table["period"] = name
            else:
                yield f"there is no period {name!r} here"

    def _add_command(self, one: NagiosObject, table: dict[str, Any], labels: Mapping[str, str]) -> Iterator[str]:
        name, *args = (p.replace("\\!", "!") for p in re.split(r"(?<!\\)!", one.get("check_command")))
        if name not in self._commands:
            table["command"] = ["noop"]  # for a check that is disabled until it has one
            yield f"the command {name!r} is not defined in these files"
            return
        unknown: list[str] = []

        def value(macro: "re.Match[str]") -> str:
            found = self._macro(macro[1], one, labels.get("service", ""))
            if found is None:
                unknown.append(macro[0])
            return macro[0] if found is None else found

        # Arguments have macros of their own.
        line = _MACRO.sub(lambda m: args[int(m[1][3:]) - 1] if _is_given(m[1], args) else m[0], self._commands[name])
        line = _MACRO.sub(value, line).strip()
        if unknown:
            yield f"nothing is known of {', '.join(dict.fromkeys(unknown))}"
        plain = fill_host_variables(line, defaultdict(lambda: "x"))
        try:
            words = shlex.split(line)
        except ValueError:
            words = []
        if words and not _SHELL_CHARACTERS.search(plain):
            table["command"] = words
        else:
            table |= {"command": line, "shell": True}

    def _macro(self, name: str, one: NagiosObject, service: str) -> str | None:
        """The value of a macro; None if it is unknown."""
        if name.startswith("ARG"):
            return ""  # one that the check does not give
        if name == "":
            return "$"
        if name.startswith("_SERVICE"):
            return self._custom(one, name[8:])
        if name.startswith("_HOST"):
            return host_variable(f"host._{name[5:].lower()}")
        of_host = {"HOSTNAME": "host", "HOSTADDRESS": "host.address", "HOSTALIAS": "host.alias"}
        if name in of_host:
            return host_variable(of_host[name])
        return service if name == "SERVICEDESC" else self._objects.settings.get(f"${name}$")

    @staticmethod
    def _custom(one: NagiosObject, name: str) -> str | None:
        values = {key.upper(): value.text for key, value in one.values.items() if key.startswith("_")}
        return values.get(f"_{name.upper()}")

    def _variable_value(self, what: str, host: str) -> str:
        if what == "host":
            return host
        attribute = what.removeprefix("host.")
        one = self._hosts[host]
        if attribute.startswith("_"):
            return self._custom(one, attribute[1:]) or ""
        return one.get(attribute) or host  # Nagios takes the name where there is no address and no alias

    # Writing

    def _write(self, check: _NagiosCheck, hosts: list[str]) -> None:
        hosts = [host for host in hosts if self._is_new(fill_host_variables(check.title, {"host": host}))]
        attributes = sorted(host_variables_in([check.title, check.table]) - {"host"})
        filled = {host: {a: self._variable_value(a, host) for a in attributes} for host in hosts}
        odd = any(_RANGE.search(host) for host in hosts) or not all(v for f in filled.values() for v in f.values())
        if len(hosts) < 2 or odd:
            for host in hosts:
                values = {"host": host, **filled[host]}
                self._checks[fill_host_variables(check.title, values)] = fill_host_variables(check.table, values)
            return
        key = "host"
        while (title := to_placeholders(check.title, key)) in self._checks:
            # Another service of this name, on other hosts: the tables need different titles.
            key = f"host{int(key[4:] or 1) + 1}"
        names = {a: a.partition(".")[2].lstrip("_") for a in attributes}
        for_: Any = {h: {names[a]: text for a, text in filled[h].items()} for h in hosts} if attributes else hosts
        self._checks[title] = {"for": {key: for_}, **to_placeholders(check.table, key)}

    def _is_new(self, name: str) -> bool:
        if name in self._names:
            self._warn(None, f"{name!r} is defined twice: the first is imported")
            return False
        self._names.add(name)
        return True

    def _warn_of_unused(self) -> None:
        for kind, count in sorted(self._objects.kinds().items()):
            if kind not in NAME_DIRECTIVES:
                self._warn(None, f"not imported: {count} x define {kind}")
        left = Counter(
            f"{one.kind}.{name}"
            for one in (*self._hosts.values(), *self._services)
            for name in one.values
            if name not in _USED_DIRECTIVES and not name.startswith("_")
        )
        if left:
            counted = ", ".join(f"{name} ({count})" for name, count in sorted(left.items()))
            self._warn(None, f"not imported: {counted}")
        if settings := sorted(s for s in self._objects.settings if not _SETTINGS.fullmatch(s)):
            self._warn(None, f"settings not imported: {', '.join(settings)}")


def _is_given(name: str, args: Sequence[str]) -> bool:
    return re.fullmatch(r"ARG[1-9]\d?", name) is not None and int(name[3:]) <= len(args)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None
