"""Which Nagios checks depend on which: `parents`, hosts of services, and objects that say so.

Nagios asks that one parent of a host be up, and that all else be fine: `depends_any` and `depends`.
"""

from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Final

from evenbeat.load.importers.check_dependencies import CheckDependencies, DependencyCollector
from evenbeat.load.importers.nagios_groups import NagiosGroups
from evenbeat.load.importers.nagios_objects import NagiosObject, NagiosObjects
from evenbeat.load.importers.nagios_report import NagiosReport

_BAD: Final = frozenset(("c", "d", "u"))
"""CRITICAL, DOWN, UNKNOWN or UNREACHABLE: what is not fine here."""


def dependencies_of(
    objects: NagiosObjects,
    hosts: Mapping[str, NagiosObject],
    host_checks: Collection[str],
    services: Mapping[str, tuple[NagiosObject, str]],
    groups: NagiosGroups,
    report: NagiosReport,
) -> dict[str, CheckDependencies]:
    """What each check depends on, by name. `host_checks` are hosts that have one, `services` has for each check of a
    service its definition and its host.
    """
    links = DependencyCollector({*host_checks, *services})
    for name in host_checks:
        if parents := hosts[name].words("parents"):
            omit = partial(report.omit_of, hosts[name].values["parents"])
            links.add(name, parents, omit, is_any=len(parents) > 1)
    for one in objects.dependencies():
        skips, is_meant = _criteria(one, report)
        omit = partial(report.omit_of, one)
        for child, parent in _pairs(one, groups, report) if is_meant else ():
            if child not in host_checks and child not in services:
                omit(f"{child!r} depends on {parent!r}", "it is not carried over itself")
            elif links.add(child, [parent], omit) and skips:
                links.skipping.add(child)
    for name, (service, host) in services.items():
        if parents := _parent_services(service, host, report):
            omit = partial(report.omit_of, service.values["parents"])
            links.add(name, parents, omit, is_any=len(parents) > 1)
        if host in host_checks:
            links.add(name, [host], partial(report.omit_of, service))
    return links.found()


def _parent_services(service: NagiosObject, host: str, report: NagiosReport) -> list[str]:
    """`parents host,service,...`, or of services on the same host: `parents ,service`."""
    words = [word.strip() for word in service.get("parents").split(",")] if service.get("parents") else []
    if len(words) % 2:
        report.omit_of(service.values["parents"], f"parents {words[-1]}", "a host without a service")
    return [_title(of or host, what) for of, what in zip(words[::2], words[1::2], strict=False) if what]


def _criteria(one: NagiosObject, report: NagiosReport) -> tuple[bool, bool]:
    """Does it keep the dependent one from running, and does it mean what we mean by a dependency?"""
    execution, notification = (
        {*one.words(f"{what}_failure_criteria"), *one.words(f"{what}_failure_options")} - {"n"}
        for what in ("execution", "notification")
    )
    if one.get("inherits_parent") == "0":
        report.warn_of(one.values["inherits_parent"], f"{one.kind}: dependencies of what it depends on count too")
    if other := sorted((execution | notification) - _BAD):
        what = f"failure criteria {', '.join(other)} of a {one.kind}"
        report.omit_of(one, what, "what counts is CRITICAL and UNKNOWN")
    if not (execution | notification) & _BAD:
        report.omit_of(one, f"a {one.kind}", "it has no failure criteria that count")
    return bool(execution & _BAD), bool((execution | notification) & _BAD)


def _pairs(one: NagiosObject, groups: NagiosGroups, report: NagiosReport) -> Iterator[tuple[str, str]]:
    """Dependent checks and what they depend on."""
    masters, dependents = groups.hosts_named(one), groups.hosts_named(one, "dependent_")
    if one.kind == "hostdependency":
        if not masters or not dependents:
            report.omit_of(one, "a hostdependency", "it names no host here, or no dependent host")
        yield from ((child, parent) for child in dependents for parent in masters)
        return
    parents = [(host, service) for host in masters for service in one.words("service_description")]
    parents += groups.services_in(one, "servicegroup_name")
    services = one.words("dependent_service_description")
    children = [(host, service) for host in dependents for service in services]
    children += groups.services_in(one, "dependent_servicegroup_name")
    found = [(child, parent) for child in children for parent in parents]
    if not dependents:  # services of the same host
        found += [((host, child), (host, parent)) for host, parent in parents for child in services]
    if not found:
        report.omit_of(one, "a servicedependency", "it names no service here, or no dependent service")
    for child, parent in found:
        yield _title(*child), _title(*parent)


def _title(host: str, service: str) -> str:
    return f"{host}/{service}" if service else host
