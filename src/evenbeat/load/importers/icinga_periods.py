"""Converts TimePeriods of Icinga 2 to periods: `ranges` add up in both; `includes`, `excludes`, `prefer_includes`."""

from collections.abc import Mapping

from evenbeat.load.importers.icinga_objects import IcingaObject
from evenbeat.load.importers.icinga_report import IcingaReport
from evenbeat.model import Invalid, Period, Prefer
from evenbeat.when.period_line import parse_line

_CLOSED = "00:00-00:00"


def periods_of(timeperiods: Mapping[str, IcingaObject], zone: str, report: IcingaReport) -> dict[str, Period]:
    """The periods by name; what cannot be converted is reported."""
    lines = {name: ranges_of(one, report) for name, one in timeperiods.items()}
    kept = {name for name, one in timeperiods.items() if lines[name] or one.words("includes")}
    for name in timeperiods.keys() - kept:
        report.omit_of(timeperiods[name], f"period {name!r}", "it is never open, which a period here cannot say")
    links: dict[str, list[str]] = {name: [] for name in kept}
    periods = {}
    for name in [name for name in timeperiods if name in kept]:
        one = timeperiods[name]
        others = {key: tuple(_others(one, key, links, report)) for key in ("includes", "excludes")}
        # Without a range of its own it is open when those that it includes are; without ranges here it always is.
        ranges = lines[name] or [line for other in others["includes"] for line in lines[other]]
        if not ranges:
            report.omit_of(one, f"period {name!r}", "it is never open, which a period here cannot say")
            continue
        periods[name] = Period(
            ranges=tuple(ranges),
            include=others["includes"],
            exclude=others["excludes"],
            prefer=Prefer.INCLUDE if one.flag("prefer_includes", default=True) else Prefer.EXCLUDE,
            zone=zone,
        )
    return _without_missing(periods, timeperiods, report)


def ranges_of(one: IcingaObject, report: IcingaReport) -> list[str]:
    """The lines of `ranges`, of a TimePeriod or a ScheduledDowntime."""
    found = []
    for days, hours in one.table("ranges").items():
        open_hours = [hour.strip() for hour in hours.split(",")] if isinstance(hours, str) else []
        open_hours = [hour for hour in open_hours if hour and hour != _CLOSED]
        line = " ".join(f"{days} {','.join(open_hours)}".split())
        if not open_hours:
            report.omit_of(one, f"{one.kind} {one.name!r}: {days} {hours}", "it adds no hours, in Icinga neither")
            continue
        try:
            parse_line(line)
        except Invalid as e:
            report.omit_of(one, f"{one.kind} {one.name!r}: {line}", str(e))
        else:
            found.append(line)
    return found


def _others(one: IcingaObject, key: str, links: dict[str, list[str]], report: IcingaReport) -> list[str]:
    found = []
    for other in one.words(key):
        if other not in links or _reaches(links, other, one.name):
            why = "there is no such period here" if other not in links else "in a circle"
            report.omit_of(one, f"period {one.name!r}: {key} {other}", why)
            continue
        links[one.name].append(other)
        found.append(other)
    return found


def _reaches(links: Mapping[str, list[str]], start: str, end: str) -> bool:
    seen, ahead = {start}, [start]
    while ahead:
        new = set(links[ahead.pop()]) - seen
        seen |= new
        ahead += new
    return end in seen


def _without_missing(
    periods: dict[str, Period], timeperiods: Mapping[str, IcingaObject], report: IcingaReport
) -> dict[str, Period]:
    """Drop references to periods that turned out to be never open."""
    missing = timeperiods.keys() - periods.keys()
    found = {}
    for name, period in periods.items():
        for other in {*period.include, *period.exclude} & missing:
            report.omit_of(timeperiods[name], f"period {name!r}: {other}", "it is never open")
        kept = {key: tuple(o for o in getattr(period, key) if o not in missing) for key in ("include", "exclude")}
        found[name] = Period(
            ranges=period.ranges,
            include=kept["include"],
            exclude=kept["exclude"],
            prefer=period.prefer,
            zone=period.zone,
        )
    return found
