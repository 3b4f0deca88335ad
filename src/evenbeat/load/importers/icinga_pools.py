"""Zones and endpoints of Icinga 2 as pools of workers: checks of a zone, and those of an agent, run where they ran."""

from collections.abc import Mapping

from evenbeat.load.importers.icinga_objects import IcingaObject
from evenbeat.load.importers.icinga_report import IcingaReport
from evenbeat.load.safe_text import text_error
from evenbeat.model import NAME_LIMIT


class Pools:
    """Which pool a check belongs to; those of the topmost zone need none."""

    def __init__(self, by_kind: Mapping[str, Mapping[str, IcingaObject]], report: IcingaReport) -> None:
        self._zones = by_kind.get("Zone", {})
        self._endpoints = by_kind.get("Endpoint", {})
        self._report = report
        self._zone_of = {endpoint: name for name, zone in self._zones.items() for endpoint in zone.words("endpoints")}
        self._used: set[str] = set()

    def pool_of(self, one: IcingaObject) -> str:
        """The pool of a check; empty if any worker may run it."""
        endpoint = one.text("command_endpoint")
        zone = self._zone_of.get(endpoint, endpoint) or one.text("zone")
        found = self._zones.get(zone)
        self._used.add(zone)
        if not zone or (found is not None and (found.flag("global", default=False) or not found.text("parent"))):
            return ""
        if problem := text_error(zone) or (f"longer than {NAME_LIMIT}" if len(zone) > NAME_LIMIT else ""):
            self._report.omit_of(one, f"the zone of {one.name!r}", problem)
            return ""
        return zone

    def report_unused(self) -> None:
        """Zones in which no check runs, and endpoints of none."""
        for name, zone in self._zones.items():
            if name not in self._used and zone.text("parent"):
                self._report.omit_of(zone, f"Zone {name!r}", "no check runs in it")
            elif name not in self._used or not zone.text("parent"):
                self._report.omit_of(zone, f"Zone {name!r}", "what runs in it may run anywhere, so it needs no pool")
        for name, endpoint in self._endpoints.items():
            if name not in self._zone_of:
                self._report.omit_of(endpoint, f"Endpoint {name!r}", "it is in no zone")
