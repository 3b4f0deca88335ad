"""Labels of checks that come from Icinga 2: addresses, other names, groups, and custom variables that are texts."""

from collections.abc import Mapping
from typing import Final

from evenbeat.load.importers.icinga_macros import is_function
from evenbeat.load.importers.icinga_objects import IcingaObject, as_text
from evenbeat.load.importers.icinga_report import IcingaReport
from evenbeat.load.importers.label_values import add_group_labels, add_label
from evenbeat.load.importers.secret_values import sounds_secret
from evenbeat.load.placeholders import HOST_NAME_VARIABLE, host_variable

_OF_HOSTS: Final = {"address": "address", "address6": "address6", "display_name": "alias"}
"""Attributes of hosts, and the labels that they become: contacts' commands get `alias` and `address`."""
_OWN_LABELS: Final = frozenset({"host", "service", "display_name", *_OF_HOSTS.values()})


class IcingaLabels:
    """Makes labels, and reports which of their values no label has."""

    def __init__(self, by_kind: Mapping[str, Mapping[str, IcingaObject]], report: IcingaReport) -> None:
        self._report = report
        self._groups = {kind: by_kind.get(kind, {}) for kind in ("HostGroup", "ServiceGroup")}
        self._used: set[tuple[str, str]] = set()
        self._omitted: dict[tuple[str, str, str], list[IcingaObject]] = {}

    def of_host(self, host: IcingaObject) -> dict[str, str]:
        """The labels of the check of a host."""
        labels = self._from_host(host)
        self._add_variables(labels, host)
        return labels

    def of_service(self, host: IcingaObject, service: IcingaObject) -> dict[str, str]:
        """The labels of a service: groups and addresses of its host, too."""
        name = service.text("name")
        labels = {"host": HOST_NAME_VARIABLE, "service": name, **self._from_host(host)}
        display_name = service.text("display_name")
        if display_name and display_name != name:
            self._add(labels, service, "display_name", display_name)
        self._add_groups(labels, "ServiceGroup", "servicegroup", service)
        self._add_variables(labels, service)
        return labels

    def report_omitted(self) -> None:
        """What became no label, and groups without members."""
        for (kind, name, why), some in self._omitted.items():
            times = f" ({len(some)} times, here first)" if len(some) > 1 else ""
            self._report.omit_of(some[0], f"{name} of a {kind} as a label{times}", why)
        for kind, groups in self._groups.items():
            for name, group in groups.items():
                if (kind, name) not in self._used:
                    why = "no members are here; those that `assign where` finds stand in the JSON of the API only"
                    self._report.omit_of(group, f"{kind} {name!r}", why)

    def _from_host(self, host: IcingaObject) -> dict[str, str]:
        labels = {"host": HOST_NAME_VARIABLE}
        for attribute, label in _OF_HOSTS.items():
            value = host.text(attribute)
            if value and value != host.name:
                self._add(labels, host, label, value, host_variable(f"host.{attribute}"))
        self._add_groups(labels, "HostGroup", "hostgroup", host)
        return labels

    def _add_groups(self, labels: dict[str, str], kind: str, label: str, one: IcingaObject) -> None:
        """Its groups, and those that they are in."""
        found, ahead = dict.fromkeys(one.words("groups")), [*one.words("groups")]
        while ahead:
            group = self._groups[kind].get(ahead.pop())
            new = [name for name in group.words("groups") if name not in found] if group else []
            found |= dict.fromkeys(new)
            ahead += new
        self._used |= {(kind, name) for name in found}
        add_group_labels(labels, label, found)

    def _add_variables(self, labels: dict[str, str], one: IcingaObject) -> None:
        for name, value in one.table("vars").items():
            if value in (None, "", [], {}):
                continue  # it says nothing
            if sounds_secret(name, as_text(value) if isinstance(value, str) else ""):
                why = "it sounds secret, so it is no label; a command that has it reads it from a file"
            elif is_function(value):
                why = "it is a function, of which nothing is known but its name"
            elif isinstance(value, dict) or (
                isinstance(value, list) and any(isinstance(v, dict | list) for v in value)
            ):
                why = "it is a table; what rules have made of it is carried over"
            else:
                text = ", ".join(map(as_text, value)) if isinstance(value, list) else as_text(value)
                self._add(labels, one, f"_{name}" if name in _OWN_LABELS else name, text)
                continue
            self._omitted.setdefault((one.kind, f"vars.{name}", why), []).append(one)

    def _add(self, labels: dict[str, str], one: IcingaObject, key: str, value: str, text: str | None = None) -> None:
        if problem := add_label(labels, key, value, text):
            self._omitted.setdefault((one.kind, key, problem), []).append(one)
