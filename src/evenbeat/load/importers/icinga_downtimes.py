"""Converts Downtimes and ScheduledDowntimes of Icinga 2 to downtimes: the latter by a period of their own."""

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from evenbeat.load.importers.icinga_objects import IcingaObject
from evenbeat.load.importers.icinga_periods import ranges_of
from evenbeat.load.importers.icinga_report import IcingaReport
from evenbeat.load.safe_text import lines_error
from evenbeat.model import NAME_LIMIT, SECOND, TEXT_LIMIT, Instant, Period
from evenbeat.when.instant import LATEST, format_instant
from evenbeat.when.zone import zone as zone_named

_WITH_CHILDREN: Final = ("DowntimeTriggeredChildren", "DowntimeNonTriggeredChildren")


def downtime_tables(
    objects: Iterable[IcingaObject],
    checks: Collection[str],
    zone: str,
    periods: dict[str, Period],
    report: IcingaReport,
) -> Iterator[dict[str, Any]]:
    """The tables of `[[downtimes]]` for these checks; periods that they need are added."""
    for one in objects:
        host, service = one.text("host_name"), one.text("service_name")
        name = f"{host}/{service}" if service else host
        what = f"the downtime {one.name!r}"
        if name not in checks:
            report.omit_of(one, what, "no such check is carried over")
        elif not one.flag("fixed", default=True):
            report.omit_of(one, what, "it is flexible, so it would begin with a problem")
        elif one.text("config_owner") or one.text("scheduled_by"):
            report.omit_of(one, what, f"it comes from {one.text('scheduled_by') or one.text('config_owner')!r}")
        elif times := _period_of(one, zone, periods, report) if one.kind == "ScheduledDowntime" else _times_of(one):
            yield _about(name, host, service) | times | _rest(one, what, report)
        else:
            report.omit_of(one, what, "its times are not understood")


def _about(name: str, host: str, service: str) -> dict[str, Any]:
    if "*" in name or "?" in name:  # names in downtimes are patterns
        return {"labels": {"host": host} | ({"service": service} if service else {})}
    return {"names": [name]}


def _rest(one: IcingaObject, what: str, report: IcingaReport) -> dict[str, Any]:
    comment = ": ".join(filter(None, (one.text("author"), one.text("comment"))))[:TEXT_LIMIT]
    if problem := lines_error(comment):
        report.omit_of(one, f"the comment of {what}", problem)
        comment = ""
    found = {"dependents": one.text("child_options") in _WITH_CHILDREN}
    return found | ({"comment": comment} if comment else {})


def _times_of(one: IcingaObject) -> dict[str, Any]:
    start, end = (int(one.attributes.get(key) or 0) if _is_time(one, key) else 0 for key in ("start_time", "end_time"))
    if not 0 < start < end:
        return {}
    return {
        key: format_instant(Instant(at * SECOND), zone_named("UTC")) for key, at in (("from", start), ("until", end))
    }


def _is_time(one: IcingaObject, key: str) -> bool:
    value = one.attributes.get(key)
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value * SECOND < LATEST


def _period_of(one: IcingaObject, zone: str, periods: dict[str, Period], report: IcingaReport) -> dict[str, Any]:
    ranges = ranges_of(one, report)
    if not ranges:
        return {}
    name = f"downtime {one.name}"[:NAME_LIMIT].strip()
    while name in periods:
        name = f"{name[: NAME_LIMIT - 1]}'"
    periods[name] = Period(ranges=tuple(ranges), zone=zone)
    return {"period": name}
