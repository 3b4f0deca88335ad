"""Collects the checks of hosts: those that are alike become one table with `for`, whatever the number of hosts."""

import re
from collections.abc import Mapping
from typing import Any, Final

from evenbeat.load.placeholders import fill_host_variables, host_variables_in, to_placeholders

_RANGE: Final = re.compile(r"\[\d+-\d+\]")
"""A value of `for` that stands for several."""
_ATTRIBUTE: Final = re.compile(r"[\w-]+", re.ASCII)


class _AlikeChecks:
    """A title and a table with gaps, and the values of each host for them."""

    def __init__(self, title: str, table: dict[str, Any]) -> None:
        self.title = title
        self.table = table
        self.attributes = sorted(host_variables_in([title, table]) - {"host"})
        self.hosts: dict[str, dict[str, str]] = {}

    def attribute_names(self) -> dict[str, str] | None:
        """The names of the attributes in `for`; None if they would not do."""
        names = {attribute: attribute.partition(".")[2].lstrip("_") for attribute in self.attributes}
        whole = len(set(names.values())) == len(names) and all(map(_ATTRIBUTE.fullmatch, names.values()))
        return names if whole else None


class HostTables:
    """The checks of all hosts, with gaps for what differs by host."""

    def __init__(self) -> None:
        self._alike: dict[str, _AlikeChecks] = {}
        self._names: set[str] = set()

    def add(self, title: str, table: dict[str, Any], values: Mapping[str, str]) -> bool:
        """Add the check of one host, whose values are for "host", "host.address" and the like. False if there is one of
        its name.
        """
        name = fill_host_variables(title, values)
        if name in self._names:
            return False
        self._names.add(name)
        alike = self._alike.setdefault(repr((title, table)), _AlikeChecks(title, table))
        alike.hosts[values["host"]] = {attribute: values[attribute] for attribute in alike.attributes}
        return True

    def tables(self) -> dict[str, dict[str, Any]]:
        """The tables of `[checks]`."""
        found: dict[str, dict[str, Any]] = {}
        for alike in self._alike.values():
            names = alike.attribute_names()
            odd = names is None or any(
                _RANGE.search(host) or not all(values.values()) for host, values in alike.hosts.items()
            )
            if names is None or odd or len(alike.hosts) < 2:
                for host, values in alike.hosts.items():
                    whole = {"host": host, **values}
                    found[fill_host_variables(alike.title, whole)] = fill_host_variables(alike.table, whole)
                continue
            key = "host"
            while (title := to_placeholders(alike.title, key)) in found or title in self._names:
                # Another service of this name, on other hosts: the tables need different titles.
                key = f"host{int(key[4:] or 1) + 1}"
            for_: Any = list(alike.hosts)
            if names:
                for_ = {h: {names[a]: text for a, text in values.items()} for h, values in alike.hosts.items()}
            found[title] = {"for": {key: for_}, **to_placeholders(alike.table, key)}
        return found
