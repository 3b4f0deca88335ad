"""Converts Nagios objects to checks: one table for all services that are alike, whatever the number of their hosts.

What cannot be converted is reported; a check that would behave differently is written disabled.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import structs

from evenbeat.load.config import BadFileError
from evenbeat.load.importers.check_dependencies import CheckDependencies
from evenbeat.load.importers.host_tables import HostTables
from evenbeat.load.importers.label_values import add_group_labels, add_label
from evenbeat.load.importers.nagios_check_command import CheckCommands, custom_variable
from evenbeat.load.importers.nagios_contacts import NagiosContacts
from evenbeat.load.importers.nagios_dependencies import dependencies_of
from evenbeat.load.importers.nagios_downtimes import downtime_tables
from evenbeat.load.importers.nagios_groups import NagiosGroups
from evenbeat.load.importers.nagios_objects import NAME_DIRECTIVES, DirectiveValue, NagiosObject, NagiosObjects
from evenbeat.load.importers.nagios_period import periods_of
from evenbeat.load.importers.nagios_report import NagiosReport
from evenbeat.load.importers.report import ImportResult
from evenbeat.load.importers.secret_values import SecretFiles, sounds_secret
from evenbeat.load.placeholders import HOST_NAME_VARIABLE, fill_host_variables, host_variable, host_variables_in
from evenbeat.load.write_toml import ConfigDocument, period_table
from evenbeat.model import DAY, MAX_EVERY, MIN_EVERY, MINUTE, SECOND, Invalid, Period
from evenbeat.when.duration import format_duration
from evenbeat.when.zone import zone as zone_named

_NEVER_EXPECTED: Final = 365 * DAY
"""The interval of a passive check whose results nobody misses in Nagios."""
_NO_INTERVAL: Final = 5 * MINUTE
"""That of a check which is never due, and so written disabled: Nagios' default."""
_OF_FRESHNESS: Final = ("check_freshness", "freshness_threshold")
_OWN_LABELS: Final = frozenset({"host", "service", "address", "alias", "display_name"})
_DEFAULT_TIMEOUT: Final = "60"


class _NagiosService(NamedTuple):
    """A service that is imported, with gaps for what differs by host, and its hosts."""

    title: str
    table: dict[str, Any]
    hosts: list[str]
    source: NagiosObject
    description: str


def import_nagios(texts: Sequence[tuple[str, str]], zone: str = "UTC", secrets_folder: str = "secrets") -> ImportResult:
    """Import (text, file) pairs that belong together; raise BadFileError if they are not Nagios objects."""
    objects = NagiosObjects()
    for text, file in texts:
        objects.read(text, file)
    reader = _NagiosReader(objects, zone, texts[0][1], secrets_folder)
    document = reader.document()
    if objects.errors:
        raise BadFileError(objects.errors)
    return reader.report.result(document)._replace(secrets=reader.secrets.contents)


class _NagiosReader:
    def __init__(self, objects: NagiosObjects, zone: str, file: str, secrets_folder: str) -> None:
        self.report = NagiosReport(file)
        self.secrets = SecretFiles(secrets_folder)
        self._objects = objects
        self._zone = self._zone_of_all(zone)
        self._unit = _number(objects.setting("interval_length", "60")) or 60.0
        self._hosts = self._named("host")
        self._services = objects.of("service")
        commands = {name: one.get("command_line") for name, one in self._named("command").items()}
        self._commands = CheckCommands(objects, commands, self._hosts, self.secrets)
        self._groups = NagiosGroups(
            self._hosts,
            self._named("hostgroup"),
            self._named("servicegroup"),
            self.report,
            has_patterns=objects.setting("use_regexp_matching") == "1",
        )
        self._periods: dict[str, Period] = {}
        self._contacts = NagiosContacts(
            objects, self._named, commands, self._commands, self._unit, self._groups, self.report
        )
        self._dependencies: dict[str, CheckDependencies] = {}
        self._tables = HostTables()

    def _zone_of_all(self, zone: str) -> str:
        """The zone of the main file, or else the one that is assumed."""
        said = self._objects.setting("use_timezone").lstrip(":")
        try:
            return zone_named(said).name if said else zone
        except Invalid as e:
            self.report.omit_of(self._objects.settings["use_timezone"], f"use_timezone {said}", e.problem)
            return zone

    def document(self) -> ConfigDocument:
        """The sections of the file."""
        timeperiods = self._named("timeperiod")
        for timeperiod in timeperiods.values():
            taken = {*timeperiods, *self._periods}
            self._periods |= periods_of(timeperiod, self._zone, taken, self.report)
        self._exclude(timeperiods)
        self._contacts.use_periods(self._periods, timeperiods.keys())
        hosts_of = [(service, self._hosts_of(service)) for service in self._services]
        self._groups.use_services(hosts_of)
        tables = self._host_tables()
        services = [self._service(service, hosts) for service, hosts in hosts_of if hosts]
        self._dependencies = dependencies_of(
            self._objects,
            self._hosts,
            tables,
            {self._name_of(one.title, host): (one.source, host) for one in services for host in one.hosts},
            self._groups,
            self.report,
        )
        for name, table in tables.items():
            self._write(
                HOST_NAME_VARIABLE, table | self._keys_of_dependencies(name, name, table), name, self._hosts[name]
            )
        for one in services:
            self._write_service(one)
        self._contacts.warn_of_differences()
        self.report.omit_unused(self._objects)
        self._omit_unused_commands()
        contacts = {"contacts": self._contacts.tables} if self._contacts.tables else {}
        checks = {(host, one.description) for one in services for host in one.hosts}
        checks |= {(host, "") for host in (*tables, *(host for host, _ in checks))}
        tables_of = downtime_tables(self._objects.status_blocks, checks, self.report)
        downtimes = {str(i): table for i, table in enumerate(tables_of)}
        periods = {name: period_table(period) for name, period in self._periods.items()}
        some = {"downtimes": downtimes} if downtimes else {}
        return {"periods": periods, **contacts, **some, "checks": self._tables.tables()}

    def _named(self, kind: str) -> dict[str, NagiosObject]:
        found: dict[str, NagiosObject] = {}
        for one in self._objects.of(kind):
            name = one.get(NAME_DIRECTIVES[kind])
            if name in found:
                self.report.omit_of(one, f"{kind} {name!r}", "it is defined twice: the first one is carried over")
            found.setdefault(name, one)
        return found

    def _exclude(self, timeperiods: Mapping[str, NagiosObject]) -> None:
        """Convert exclusions between periods, except unknown and circular ones."""
        taken: dict[str, list[str]] = {name: [] for name in timeperiods}

        def reaches(start: str, end: str) -> bool:
            seen, ahead = {start}, [start]
            while ahead:
                new = set(taken[ahead.pop()]) - seen
                seen |= new
                ahead += new
            return end in seen

        for name, timeperiod in timeperiods.items():
            for other in timeperiod.words("exclude") if name in self._periods else ():
                if other not in self._periods or reaches(other, name):
                    why = "there is no such period here" if other not in self._periods else "in a circle"
                    self.report.omit_of(timeperiod.values["exclude"], f"period {name!r}: exclude {other}", why)
                    continue
                taken[name].append(other)
                for part in (name, *self._periods[name].include):
                    period = self._periods[part]
                    self._periods[part] = structs.replace(period, exclude=(*period.exclude, other))

    # Checks

    def _hosts_of(self, service: NagiosObject) -> list[str]:
        description = service.get("service_description")
        hosts = self._groups.hosts_named(service, what=f"service {description!r}")
        if not hosts:
            self.report.omit_of(service, f"service {description!r}", "it has no hosts here")
        return hosts

    def _host_tables(self) -> dict[str, dict[str, Any]]:
        """The check of each host that has one."""
        tables = {}
        for name, host in self._hosts.items():
            if "check_command" not in host.values and host.get("active_checks_enabled", "1") != "0":
                self.report.omit_of(host, f"host {name!r}", "it has no check_command, so it has no check of its own")
                continue
            table = self._table(host, f"host {name!r}", "", self._host_labels(name, host))
            table |= self._contacts.keys_for("host", host, host, "")
            tables[name] = table
        return tables

    def _service(self, service: NagiosObject, hosts: list[str]) -> _NagiosService:
        description = service.get("service_description")
        table = self._table(service, f"service {description!r}", description, {})
        return _NagiosService(f"{HOST_NAME_VARIABLE}/{description}", table, hosts, service, description)

    def _write_service(self, one: _NagiosService) -> None:
        """Services take contacts and labels from their hosts."""
        for host in one.hosts:
            labels = self._service_labels(host, one)
            keys = self._contacts.keys_for("service", one.source, self._hosts[host], one.description)
            keys |= self._keys_of_dependencies(self._name_of(one.title, host), host, one.table)
            self._write(one.title, {**one.table, "labels": labels, **keys}, host, one.source)

    def _write(self, title: str, table: dict[str, Any], host: str, source: NagiosObject) -> None:
        values = {what: self._value_of(what, host) for what in host_variables_in([title, table])} | {"host": host}
        if not self._tables.add(title, table, values):
            name = self._name_of(title, host)
            self.report.omit_of(source, repr(name), "it is defined twice: the first one is carried over")

    def _keys_of_dependencies(self, name: str, host: str, table: Mapping[str, Any]) -> dict[str, Any]:
        return self._dependencies.get(name, CheckDependencies()).keys_on(host, self._hosts, table)

    @staticmethod
    def _name_of(title: str, host: str) -> str:
        return str(fill_host_variables(title, {"host": host}))

    def _value_of(self, what: str, host: str) -> str:
        if what == "host":
            return host
        attribute = what.removeprefix("host.")
        if attribute.startswith("_"):
            is_secret = sounds_secret(attribute[1:])
            return self._commands.host_secret(host, attribute[1:]) if is_secret else self._custom(host, attribute[1:])
        # Nagios takes the name where there is no address and no alias.
        return self._hosts[host].get(attribute) or host

    def _custom(self, host: str, variable: str) -> str:
        return custom_variable(self._hosts[host], variable) or ""

    # Labels

    def _host_labels(self, name: str, host: NagiosObject) -> dict[str, str]:
        labels = self._labels_of_host(name)
        self._add_custom_labels(labels, host, lambda variable: host_variable(f"host._{variable}"))
        return labels

    def _labels_of_host(self, name: str) -> dict[str, str]:
        labels = {"host": HOST_NAME_VARIABLE}
        for directive in ("address", "alias", "display_name"):
            value = self._hosts[name].values.get(directive)
            if value is not None and value.text != name:
                self._add_label(labels, directive, value, host_variable(f"host.{directive}"))
        add_group_labels(labels, "hostgroup", self._groups.groups_of_host(name))
        return labels

    def _service_labels(self, host: str, one: _NagiosService) -> dict[str, str]:
        labels = self._labels_of_host(host)
        del labels["host"]
        labels = {"host": HOST_NAME_VARIABLE, "service": one.description, **labels}
        labels.pop("display_name", None)
        if "display_name" in one.source.values and one.source.get("display_name") != one.description:
            self._add_label(labels, "display_name", one.source.values["display_name"])
        add_group_labels(labels, "servicegroup", self._groups.groups_of_service(host, one.description))
        self._add_custom_labels(labels, one.source)
        return labels

    def _add_custom_labels(
        self,
        labels: dict[str, str],
        one: NagiosObject,
        text_of: Callable[[str], str] | None = None,
    ) -> None:
        for directive, value in one.values.items():
            variable = directive[1:].lower()
            if not directive.startswith("_") or not variable:
                continue
            if sounds_secret(variable, value.text):
                why = "it sounds secret, so it is no label; a command that has it reads it from a file"
                self.report.omit_of(value, f"{directive} as a label", why)
            else:
                key = f"_{variable}" if variable in _OWN_LABELS else variable
                self._add_label(labels, key, value, text_of(variable) if text_of else None)

    def _add_label(self, labels: dict[str, str], key: str, value: DirectiveValue, text: str | None = None) -> None:
        if problem := add_label(labels, key, value.text, text):
            self.report.omit_of(value, f"{key} as a label", problem)

    # Keys of a check

    def _table(self, one: NagiosObject, what: str, service: str, labels: dict[str, str]) -> dict[str, Any]:
        """The keys of a check, with gaps for what differs by host; of a service its host adds the labels."""
        doubts: list[str] = []
        is_active = one.get("active_checks_enabled", "1") != "0"
        every = self._duration(one, ("check_interval", "normal_check_interval"), "5")
        if is_active and not every:
            doubts.append("it has no check_interval above 0, so it is never due")
            every = _NO_INTERVAL
        if not is_active:
            every = self._expected_every(one, what, every, doubts)
        if not MIN_EVERY <= every <= MAX_EVERY:
            every = min(max(every, MIN_EVERY), MAX_EVERY)
            self.report.warn_of(one, f"{what}: the interval is out of range, it becomes {format_duration(every)}")
        table: dict[str, Any] = {"every": format_duration(every)} | ({} if is_active else {"passive": True})
        if is_active and (retry := self._duration(one, ("retry_interval", "retry_check_interval"), "1")):
            table["retry"] = format_duration(min(retry, MAX_EVERY))
        self._omit_without_effect(one, what, is_active=is_active)
        attempts = _number(one.get("max_check_attempts"))
        if attempts:
            table["attempts"] = min(max(int(attempts), 1), 255)
        # The command of a passive one is what Nagios runs when no result came in time, and so does a check here.
        if is_active or (one.get("check_command") and one.get("check_freshness") == "1"):
            table |= self._timebox(service)
            keys, more = self._commands.keys_for(one, service)
            table |= keys
            doubts += more
        elif one.get("check_command"):
            why = "Nagios never runs it, as check_freshness is not set"
            self.report.omit_of(one.values["check_command"], f"check_command of {what}", why)
        doubts += self._add_period(one, table)
        if labels:
            table["labels"] = labels
        if doubts:
            table["enabled"] = False
            self.report.warn_of(one, f"{what} is written disabled: {'; '.join(doubts)}")
        return table

    def _omit_without_effect(self, one: NagiosObject, what: str, *, is_active: bool) -> None:
        has_threshold = one.get("check_freshness") == "1" and _number(one.get("freshness_threshold"))
        why = dict.fromkeys(_OF_FRESHNESS, "a result of a check that runs is expected when it runs next")
        if is_active and one.get("check_freshness") != "1":
            why = {"freshness_threshold": "check_freshness is not set"}
        if not is_active:
            why = dict.fromkeys(("retry_interval", "retry_check_interval"), "nothing runs a passive check sooner")
        if not is_active and has_threshold:
            expected = "a result of a passive check is expected by its freshness_threshold"
            why |= dict.fromkeys(("check_interval", "normal_check_interval"), expected)
        for directive, reason in why.items():
            if _number(one.get(directive, "0")):
                self.report.omit_of(one.values[directive], f"{directive} of {what}", reason)

    def _expected_every(self, one: NagiosObject, what: str, every: int, doubts: list[str]) -> int:
        """How often a result of a passive check is expected."""
        threshold = int((_number(one.get("freshness_threshold")) or 0) * SECOND)
        if one.get("passive_checks_enabled", "1") == "0":
            doubts.append("neither active nor passive checks are enabled")
        elif one.get("check_freshness") != "1":
            message = (
                f"{what}: Nagios misses no result of it; here one is expected in {format_duration(_NEVER_EXPECTED)}"
            )
            self.report.warn_of(one, message)
            if "freshness_threshold" in one.values:
                why = "check_freshness is not set"
                self.report.omit_of(one.values["freshness_threshold"], f"freshness_threshold of {what}", why)
            return _NEVER_EXPECTED
        elif not threshold:
            self.report.warn_of(one, f"{what} has no freshness_threshold: a result is expected by its check_interval")
        return threshold or every or _NO_INTERVAL

    def _timebox(self, service: str) -> dict[str, str]:
        seconds = self._objects.setting(f"{'service' if service else 'host'}_check_timeout", _DEFAULT_TIMEOUT)
        length = int((_number(seconds) or 0) * SECOND)
        return {"timebox": format_duration(min(length, MAX_EVERY))} if length and seconds != _DEFAULT_TIMEOUT else {}

    def _duration(self, one: NagiosObject, names: tuple[str, ...], default: str) -> int:
        text = next((one.get(name) for name in names if name in one.values), default)
        return int((_number(text) or 0) * self._unit * SECOND)

    def _add_period(self, one: NagiosObject, table: dict[str, Any]) -> Iterator[str]:
        if name := one.get("check_period"):
            if name in self._periods:
                table["period"] = name
            else:
                yield f"there is no period {name!r} here"

    def _omit_unused_commands(self) -> None:
        used = self._commands.used | self._contacts.used_commands
        for one in self._objects.of("command"):
            if one.get("command_name") not in used:
                self.report.omit_of(one, f"command {one.get('command_name')!r}", "nothing that is carried over runs it")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 <= number < 1e9 else None
