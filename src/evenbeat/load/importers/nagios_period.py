"""Converts a Nagios timeperiod to periods: its weekdays, and the dates that replace them."""

import re
from typing import Final

from evenbeat.load.importers.nagios_objects import NagiosObject
from evenbeat.load.importers.nagios_report import NagiosReport
from evenbeat.model import Invalid, Period
from evenbeat.when.period_line import parse_line
from evenbeat.when.zone import zone as zone_named

_OTHER_DIRECTIVES: Final = ("timeperiod_name", "alias", "use", "name", "register", "exclude", "use_timezone")
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CLOSED: Final = re.compile(r"00:00-00:00")
_DAYS: Final = re.compile(r"(?P<days>.*?)\s+(?P<hours>\d\d?:\d\d-.*)")


def periods_of(timeperiod: NagiosObject, default_zone: str, report: NagiosReport) -> dict[str, Period]:
    """The periods by name, without exclusions; what cannot be converted is reported."""
    name = timeperiod.get("timeperiod_name")
    zone = timeperiod.get("use_timezone").lstrip(":") or default_zone
    try:
        zone_named(zone)
    except Invalid as e:
        report.warn_of(timeperiod, f"period {name!r} is taken in {default_zone}: {e.problem}")
        zone = default_zone
    if "alias" in timeperiod.values:
        report.omit_of(timeperiod.values["alias"], f"alias of period {name!r}", "periods have no other name")
    weekdays, dates, all_day = [], [], []
    for directive, value in timeperiod.values.items():
        if directive in _OTHER_DIRECTIVES:
            continue
        line = " ".join(f"{directive} {value.text}".split())
        days, hours = _parts(line)
        open_hours = ",".join(h for h in hours.split(",") if h and not _CLOSED.fullmatch(h))
        try:
            if open_hours or not hours:
                parse_line(f"{days} {open_hours}".strip())
            parse_line(days)
        except Invalid as e:
            report.omit_of(value, f"period {name!r}: {line}", str(e))
            continue
        text = f"{days} {open_hours}".strip()
        if days in _WEEKDAYS:
            weekdays += [text] if open_hours else []
        else:
            all_day.append(days)
            dates += [text] if open_hours else []
    if not weekdays and not dates:
        report.omit_of(timeperiod, f"period {name!r}", "it is never open, which a period here cannot say")
        return {}
    if not weekdays or not all_day:
        return {name: Period(ranges=tuple(weekdays or dates), zone=zone)}
    # In Nagios the hours of a date replace those of its weekday; here ranges add up, so the dates are taken out first.
    whole_days = f"{name} dates, all day"
    found = {whole_days: Period(ranges=tuple(all_day), zone=zone)}
    if dates:
        found[dates_period_name(name)] = Period(ranges=tuple(dates), zone=zone)
    include = (dates_period_name(name),) if dates else ()
    found[name] = Period(ranges=tuple(weekdays), include=include, exclude=(whole_days,), zone=zone)
    if len(all_day) > 1:
        message = (
            f"period {name!r}: where several of its dates meet their hours add up; in Nagios the most exact one wins"
        )
        report.warn_of(timeperiod, message)
    return found


def dates_period_name(name: str) -> str:
    """The period that holds the dates of another."""
    return f"{name} dates"


def _parts(line: str) -> tuple[str, str]:
    found = _DAYS.fullmatch(line)
    return (found["days"], found["hours"].replace(" ", "")) if found else (line, "")
