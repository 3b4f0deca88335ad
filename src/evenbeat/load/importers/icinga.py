"""Converts the objects of Icinga 2 to checks: one table for all services that are alike, whatever the number of hosts.

What cannot be converted is reported; a check that would behave differently is written disabled.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from evenbeat.load.config import BadFileError, ConfigError
from evenbeat.load.importers.check_dependencies import CheckDependencies, DependencyCollector
from evenbeat.load.importers.host_tables import HostTables
from evenbeat.load.importers.icinga_command import converted_command, is_dummy
from evenbeat.load.importers.icinga_contacts import IcingaContacts
from evenbeat.load.importers.icinga_downtimes import downtime_tables
from evenbeat.load.importers.icinga_labels import IcingaLabels
from evenbeat.load.importers.icinga_macros import MacroValues
from evenbeat.load.importers.icinga_objects import IcingaObject, read_icinga
from evenbeat.load.importers.icinga_periods import periods_of
from evenbeat.load.importers.icinga_pools import Pools
from evenbeat.load.importers.icinga_report import IcingaReport
from evenbeat.load.importers.report import ImportResult
from evenbeat.load.importers.secret_values import SecretFiles
from evenbeat.load.placeholders import HOST_NAME_VARIABLE, fill_host_variables, host_variables_in
from evenbeat.load.safe_text import name_error
from evenbeat.load.write_toml import ConfigDocument, period_table
from evenbeat.model import DAY, MAX_EVERY, MIN_EVERY, NAME_LIMIT, SECOND
from evenbeat.when.duration import format_duration

_NEVER_EXPECTED: Final = 365 * DAY
"""The interval of a passive check whose results nobody misses in Icinga."""
_CHECK_INTERVAL: Final = 300
_RETRY_INTERVAL: Final = 60
_ATTEMPTS: Final = 3
_TIMEOUT: Final = 60
"""Icinga's defaults, in seconds but for the attempts."""
_FINE: Final = ({"Up"}, {"OK", "Warning"})
"""The states in which a parent is fine, as here: of a host, of a service."""


class _IcingaCheck(NamedTuple):
    """The check of a host or service, with gaps for what differs by host."""

    source: IcingaObject
    host: IcingaObject
    title: str
    name: str
    service: str
    table: dict[str, Any]


def import_icinga(texts: Sequence[tuple[str, str]], zone: str = "UTC", secrets_folder: str = "secrets") -> ImportResult:
    """Import (text, file) pairs that belong together; raise BadFileError if they hold no objects of Icinga 2."""
    errors: list[ConfigError] = []
    by_kind: dict[str, dict[str, IcingaObject]] = {}
    report = IcingaReport()
    for text, file in texts:
        try:
            for one in read_icinga(text, file):
                if by_kind.setdefault(one.kind, {}).setdefault(one.name, one) is not one:
                    report.omit_of(one, f"{one.kind} {one.name!r}", "it is here twice: the first one is carried over")
        except BadFileError as e:
            errors += e.errors
    reader = _IcingaReader(by_kind, zone, secrets_folder, report)
    errors += reader.bad_names()
    if errors:
        raise BadFileError(errors)
    return report.result(reader.document())._replace(secrets=reader.secrets.contents)


class _IcingaReader:
    def __init__(
        self, by_kind: dict[str, dict[str, IcingaObject]], zone: str, secrets_folder: str, report: IcingaReport
    ) -> None:
        self.secrets = SecretFiles(secrets_folder)
        self._by_kind = by_kind
        self._zone = zone
        self._report = report
        self._hosts = by_kind.get("Host", {})
        self._commands = by_kind.get("CheckCommand", {})
        self._used_commands: set[str] = set()
        self._labels = IcingaLabels(by_kind, report)
        self._pools = Pools(by_kind, report)

    def bad_names(self) -> list[ConfigError]:
        """Names that nothing here can have."""
        found = []
        for kind, attribute in _NAMED:
            for one in self._by_kind.get(kind, {}).values():
                name = one.text(attribute) or one.name
                problem = name_error(name) if name else "an empty name"
                if not problem and len(name) > NAME_LIMIT // 2:  # HOST/SERVICE is a name too
                    problem = f"{len(name)} characters, accepted: at most {NAME_LIMIT // 2}"
                if problem:
                    found.append(ConfigError(one.file, one.place, f"the name of a {kind}: {problem}"))
        return found

    def document(self) -> ConfigDocument:
        """The sections of the file."""
        self._periods = periods_of(self._by_kind.get("TimePeriod", {}), self._zone, self._report)
        contacts = IcingaContacts(self._by_kind, self._periods, self.secrets, self._report)
        checks = [check for one in self._hosts.values() if (check := self._check(one, one, ""))]
        for service in self._by_kind.get("Service", {}).values():
            host = self._hosts.get(service.text("host_name"))
            if host is None:
                self._report.omit_of(service, f"service {service.name!r}", "its host is not here")
            elif check := self._check(service, host, service.text("name")):
                checks.append(check)
        by_name = {check.name: check for check in reversed(checks)}
        dependencies = self._dependencies(by_name)
        tables = HostTables()
        for check in checks:
            keys = contacts.keys_for(check.source, check.host.name, check.service)
            found = dependencies.get(check.name, CheckDependencies())
            keys |= found.keys_on(check.host.name, self._hosts, check.table)
            table = check.table | keys
            values = {what: self._value_of(what, check.host) for what in host_variables_in([check.title, table])}
            if not tables.add(check.title, table, values | {"host": check.host.name}):
                self._report.omit_of(
                    check.source, repr(check.name), "two checks have this name: the first is carried over"
                )
        planned = [*self._by_kind.get("Downtime", {}).values(), *self._by_kind.get("ScheduledDowntime", {}).values()]
        downtimes = {
            str(i): table
            for i, table in enumerate(downtime_tables(planned, by_name, self._zone, self._periods, self._report))
        }
        self._report_unused(contacts)
        document: ConfigDocument = {"periods": {name: period_table(period) for name, period in self._periods.items()}}
        document |= {"contacts": contacts.tables} if contacts.tables else {}
        document |= {"downtimes": downtimes} if downtimes else {}
        return document | {"checks": tables.tables()}

    def _report_unused(self, contacts: IcingaContacts) -> None:
        contacts.report_unused()
        self._labels.report_omitted()
        self._pools.report_unused()
        unused = [one for name, one in self._commands.items() if name not in self._used_commands]
        if unused:
            names = ", ".join(one.name for one in unused)
            what = f"CheckCommand {names}" if len(unused) == 1 else f"{len(unused)} CheckCommands: {names}"
            self._report.omit_of(unused[0], what, "no check uses them" if len(unused) > 1 else "no check uses it")
        kept = {id(one) for one in unused}
        everything = [one for some in self._by_kind.values() for one in some.values() if id(one) not in kept]
        self._report.omit_unused(everything)

    @staticmethod
    def _value_of(what: str, host: IcingaObject) -> str:
        return host.name if what == "host" else host.text(what.removeprefix("host."))

    # Keys of a check

    def _check(self, one: IcingaObject, host: IcingaObject, service: str) -> _IcingaCheck | None:
        title = f"{HOST_NAME_VARIABLE}/{service}" if service else HOST_NAME_VARIABLE
        name = str(fill_host_variables(title, {"host": host.name}))
        labels = self._labels.of_service(host, one) if service else self._labels.of_host(host)
        return _IcingaCheck(one, host, title, name, service, self._table(one, host, service, labels))

    def _table(self, one: IcingaObject, host: IcingaObject, service: str, labels: dict[str, str]) -> dict[str, Any]:
        doubts: list[str] = []
        command = self._commands.get(one.text("check_command"))
        is_active = one.flag("enable_active_checks", default=True)
        every = int(one.number("check_interval", _CHECK_INTERVAL) * SECOND)
        if not MIN_EVERY <= every <= MAX_EVERY:
            every = min(max(every, MIN_EVERY), MAX_EVERY)
            self._report.warn_of(
                one, f"{one.name!r}: the interval is out of range, it becomes {format_duration(every)}"
            )
        is_passive = not is_active or (command is not None and is_dummy(command))
        if not is_active:
            every = self._expected_every(one, every, doubts)
        table: dict[str, Any] = {"every": format_duration(every)} | ({"passive": True} if is_passive else {})
        retry = int(one.number("retry_interval", _RETRY_INTERVAL) * SECOND)
        if not is_passive and retry:
            table["retry"] = format_duration(min(retry, MAX_EVERY))
        elif retry != _RETRY_INTERVAL * SECOND:
            self._report.omit_of(one, f"retry_interval of {one.name!r}", "nothing runs a passive check sooner")
        table["attempts"] = min(max(int(one.number("max_check_attempts", _ATTEMPTS)), 1), 255)
        if is_active:
            table |= self._command_keys(one, host, service, command, doubts)
        elif one.text("check_command"):
            what = f"check_command {one.text('check_command')} of {one.name!r}"
            self._report.omit_of(one, what, "Icinga never runs it, as enable_active_checks is off")
        if period := one.text("check_period"):
            if period in self._periods:
                table["period"] = period
            else:
                doubts.append(f"there is no period {period!r} here")
        if is_active and (pool := self._pools.pool_of(one)):
            table["pool"] = pool
        if doubts:
            table["enabled"] = False
            self._report.warn_of(one, f"{one.name!r} is written disabled: {'; '.join(doubts)}")
        return table | {"labels": labels}

    def _expected_every(self, one: IcingaObject, every: int, doubts: list[str]) -> int:
        if not one.flag("enable_passive_checks", default=True):
            doubts.append("neither active nor passive checks are enabled")
            return every
        message = (
            f"{one.name!r}: Icinga misses no result of it; here one is expected in {format_duration(_NEVER_EXPECTED)}"
        )
        self._report.warn_of(one, message)
        return _NEVER_EXPECTED

    def _command_keys(
        self, one: IcingaObject, host: IcingaObject, service: str, command: IcingaObject | None, doubts: list[str]
    ) -> dict[str, Any]:
        if command is None:
            doubts.append(f"the command {one.text('check_command')!r} is not in these files")
            return {"command": ["noop"]}
        self._used_commands.add(command.name)
        values = MacroValues(host, one if service else None, command, self.secrets)
        keys, more, notes = converted_command(command, values, self.secrets)
        doubts += more
        for note in notes:
            self._report.warn_of(command, note)
        seconds = one.number("check_timeout", 0) or command.number("timeout", _TIMEOUT)
        timebox = {"timebox": format_duration(max(int(seconds * SECOND), 1))} if seconds not in (0, _TIMEOUT) else {}
        return timebox | keys

    # Dependencies

    def _dependencies(self, checks: dict[str, _IcingaCheck]) -> dict[str, CheckDependencies]:
        links = DependencyCollector(checks)
        redundant: dict[tuple[str, str], list[IcingaObject]] = {}
        for one in self._by_kind.get("Dependency", {}).values():
            child, parent = (_title(one.text(f"{who}_host_name"), one.text(f"{who}_service_name")) for who in _ENDS)
            if child not in checks:
                self._report.omit_of(one, f"{child!r} depends on {parent!r}", "it is not carried over itself")
                continue
            self._report_criteria(one)
            if group := one.text("redundancy_group"):
                redundant.setdefault((child, group), []).append(one)
                continue
            is_left = links.add(child, [parent], partial(self._report.omit_of, one))
            if is_left and one.flag("disable_checks", default=False):
                links.skipping.add(child)
        for (child, group), some in redundant.items():
            parents = [_title(one.text("parent_host_name"), one.text("parent_service_name")) for one in some]
            if child in links.any_of:
                self._report.omit_of(some[0], f"redundancy_group {group!r} of {child!r}", "a check has one such group")
            else:
                links.add(child, parents, partial(self._report.omit_of, some[0]), is_any=True)
        for check in checks.values():
            if check.service:  # Icinga adds it to each service
                links.add(check.name, [check.host.name], partial(self._report.omit_of, check.source))
        return links.found()

    def _report_criteria(self, one: IcingaObject) -> None:
        states = one.attributes.get("states")
        if isinstance(states, list) and set(map(str, states)) not in _FINE:
            what = f"states {', '.join(map(str, states))} of the dependency {one.name!r}"
            self._report.omit_of(one, what, "what is not fine of a parent is CRITICAL, UNKNOWN and DOWN")
        if not one.flag("disable_notifications", default=True):
            what = f"disable_notifications = false of the dependency {one.name!r}"
            self._report.omit_of(one, what, "who depends on what is not fine notifies nobody")


_ENDS: Final = ("child", "parent")
_NAMED: Final = (("Host", ""), ("Service", "name"), ("TimePeriod", ""), ("User", ""))
"""Kinds whose names become names here, and the attribute that has them."""


def _title(host: str, service: str) -> str:
    return f"{host}/{service}" if service else host
