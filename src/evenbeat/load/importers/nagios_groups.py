"""Which hosts and services Nagios objects name: themselves, by their groups, with `*`, and except those with `!`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from evenbeat.load.importers.nagios_objects import NagiosObject
from evenbeat.load.importers.nagios_pattern import NamePattern
from evenbeat.load.importers.nagios_report import NagiosReport

HostAndService = tuple[str, str]
_Member = TypeVar("_Member", str, HostAndService)


class NagiosGroups:
    """The hosts, and the groups of hosts and services."""

    def __init__(
        self,
        hosts: Mapping[str, NagiosObject],
        hostgroups: Mapping[str, NagiosObject],
        servicegroups: Mapping[str, NagiosObject],
        report: NagiosReport,
        *,
        has_patterns: bool,
    ) -> None:
        self._hosts = hosts
        self._servicegroups = servicegroups
        self._report = report
        self._has_patterns = has_patterns
        self._groups = self._members_of_hostgroups(hostgroups)
        self._services: dict[str, dict[HostAndService, None]] = {}
        self._groups_of_host = _turned_round(self._groups)
        self._groups_of_service: dict[HostAndService, list[str]] = {}

    def use_services(self, services: Iterable[tuple[NagiosObject, Sequence[str]]]) -> None:
        """These are all services, with their hosts."""
        members: dict[str, dict[HostAndService, None]] = {name: {} for name in self._servicegroups}
        known: dict[HostAndService, None] = {}
        for service, hosts in services:
            pairs = [(host, service.get("service_description")) for host in hosts]
            known |= dict.fromkeys(pairs)
            for group in service.words("servicegroups"):
                members.setdefault(group, {}).update(dict.fromkeys(pairs))
        for name, one in self._servicegroups.items():
            words = one.words("members")
            if len(words) % 2:
                self._report.omit_of(
                    one.values["members"], f"members of servicegroup {name!r}: {words[-1]}", "no service"
                )
            for host, service_name in zip(words[::2], words[1::2], strict=False):
                if (host, service_name) in known:
                    members[name][host, service_name] = None
                    continue
                what = f"in servicegroup {name!r}: {host}, {service_name}"
                self._report.omit_of(one.values["members"], what, "there is no such service here")
        _add_inner_groups(self._servicegroups, members, "servicegroup_members")
        self._services = members
        self._groups_of_service = _turned_round(members)

    def groups_of_host(self, host: str) -> Sequence[str]:
        """The hostgroups that a host is in."""
        return self._groups_of_host.get(host, [])

    def groups_of_service(self, host: str, description: str) -> Sequence[str]:
        """The servicegroups that a service is in."""
        return self._groups_of_service.get((host, description), [])

    def services_in(self, one: NagiosObject, directive: str) -> list[HostAndService]:
        """The services of the servicegroups that an object names."""
        found: dict[HostAndService, None] = {}
        for group in one.words(directive):
            if group not in self._services:
                self._report.omit_of(
                    one.values[directive], f"{directive} {group}", "there is no such servicegroup here"
                )
            found |= self._services.get(group, {})
        return list(found)

    def hosts_named(self, one: NagiosObject, prefix: str = "", what: str = "") -> list[str]:
        """The hosts that an object names, itself or by groups; `prefix` stands before the names of the directives."""
        what = what or one.kind
        words, groups = one.words(f"{prefix}host_name"), one.words(f"{prefix}hostgroup_name")
        names = dict.fromkeys(self._chosen(words, self._hosts))
        for group in self._chosen(groups, self._groups):
            if group not in self._groups:
                self._report.omit_of(
                    one.values[f"{prefix}hostgroup_name"],
                    f"{what} on hosts of {group!r}",
                    f"no hostgroup {group!r} is defined",
                )
            names |= dict.fromkeys(sorted(self._groups.get(group, ())))
        not_wanted = set(self._chosen([w[1:].strip() for w in words if w.startswith("!")], self._hosts))
        for group in self._chosen([g[1:].strip() for g in groups if g.startswith("!")], self._groups):
            not_wanted |= set(self._groups.get(group, ()))
        for name in names:
            if name not in self._hosts:
                self._report.omit_of(
                    one.values.get(f"{prefix}host_name", one), f"{what} on {name!r}", f"no host {name!r} is defined"
                )
        return [name for name in names if name in self._hosts and name not in not_wanted]

    def _members_of_hostgroups(self, hostgroups: Mapping[str, NagiosObject]) -> dict[str, dict[str, None]]:
        groups = {
            name: dict.fromkeys(self._chosen(group.words("members"), self._hosts)) for name, group in hostgroups.items()
        }
        for name, group in hostgroups.items():
            for host in [host for host in groups[name] if host not in self._hosts]:
                del groups[name][host]
                self._report.omit_of(
                    group.values["members"], f"{host!r} in hostgroup {name!r}", "there is no such host here"
                )
        for name, host_ in self._hosts.items():
            for word in host_.words("hostgroups"):
                groups.setdefault(word, {})[name] = None
        _add_inner_groups(hostgroups, groups, "hostgroup_members")
        return groups

    def _chosen(self, words: Sequence[str], known: Mapping[str, object]) -> Iterator[str]:
        """`a, b`, `*` and `!c`."""
        left_out = {word[1:].strip() for word in words if word.startswith("!")}
        for word in words:
            if word.startswith("!"):
                continue
            pattern = NamePattern(word) if self._has_patterns and word != "*" else None
            if word == "*":
                names: Iterable[str] = known
            elif pattern is not None and pattern.is_one:
                names = [name for name in known if pattern.matches(name)]
            else:
                names = [word]
            yield from (name for name in names if name not in left_out)


def _add_inner_groups(
    groups: Mapping[str, NagiosObject], members: dict[str, dict[_Member, None]], directive: str
) -> None:
    """Add to each group the members of those in it; a circle ends, too."""
    inner = {name: group.words(directive) for name, group in groups.items()}
    changed = any(inner.values())
    while changed:
        changed = False
        for name, names in inner.items():
            before = len(members[name])
            for other in names:
                members[name].update(members.get(other, {}))
            changed |= len(members[name]) > before


def _turned_round(members: Mapping[str, Iterable[_Member]]) -> dict[_Member, list[str]]:
    found: dict[_Member, list[str]] = {}
    for group, some in members.items():
        for one in some:
            found.setdefault(one, []).append(group)
    return found
