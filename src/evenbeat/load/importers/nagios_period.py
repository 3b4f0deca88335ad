"""Converts a Nagios timeperiod to periods: its weekdays, and the dates that replace them."""

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from evenbeat.load.importers.nagios_objects import NagiosObject
from evenbeat.load.importers.nagios_report import NagiosReport
from evenbeat.load.importers.task_names import TaskNames
from evenbeat.model import Invalid, Period
from evenbeat.when.period_line import parse_line
from evenbeat.when.zone import zone as zone_named

_OTHER_DIRECTIVES: Final = ("timeperiod_name", "alias", "use", "name", "register", "exclude", "use_timezone")
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_CLOSED: Final = re.compile(r"00:00-00:00")
_DAYS: Final = re.compile(r"(?P<days>.*?)\s+(?P<hours>\d\d?:\d\d-.*)")


def periods_of(
    timeperiod: NagiosObject, default_zone: str, taken: Collection[str], report: NagiosReport
) -> dict[str, Period]:
    """The periods by name, without exclusions; what cannot be converted is reported. `taken`: names of others.

    The one of the timeperiod's name includes those that have its dates.
    """
    name = timeperiod.get("timeperiod_name")
    zone = timeperiod.get("use_timezone").lstrip(":") or default_zone
    try:
        zone_named(zone)
    except Invalid as e:
        report.warn_of(timeperiod, f"period {name!r} is taken in {default_zone}: {e.problem}")
        zone = default_zone
    if "alias" in timeperiod.values:
        report.omit_of(timeperiod.values["alias"], f"alias of period {name!r}", "periods have no other name")
    weekdays: list[str] = []
    dates: list[tuple[int, str, str]] = []
    for directive, value in timeperiod.values.items():
        if directive in _OTHER_DIRECTIVES:
            continue
        line = " ".join(f"{directive} {value.text}".split())
        days, hours = _parts(line)
        open_hours = ",".join(h for h in hours.split(",") if h and not _CLOSED.fullmatch(h))
        try:
            if open_hours:
                parse_line(f"{days} {open_hours}")
            parse_line(days)
        except Invalid as e:
            report.omit_of(value, f"period {name!r}: {line}", str(e))
            continue
        if not hours:
            report.omit_of(value, f"period {name!r}: {line}", "it has no hours")
            continue
        text = f"{days} {open_hours}" if open_hours else ""
        if days.lower() in _WEEKDAYS:
            weekdays += [text] if text else []
        else:
            dates.append((_exactness(days), days, text))
    layers = _layers(dates)
    if not weekdays and not any(layer.open for layer in layers):
        report.omit_of(timeperiod, f"period {name!r}", "it is never open, which a period here cannot say")
        return {}
    if any(len(layer.open) > 1 for layer in layers):
        message = f"period {name!r}: where several of its dates meet their hours add up; in Nagios the first one counts"
        report.warn_of(timeperiod, message)
    return _periods_of_layers(name, zone, weekdays, layers, TaskNames(taken))


class _Layer(NamedTuple):
    """Dates that replace all that is less exact."""

    days: tuple[str, ...]
    """All day, those that are closed too."""
    open: tuple[str, ...]
    """With their hours."""


def _exactness(days: str) -> int:
    """Of several dates that meet, the one that is the most exact counts."""
    first, *others = days.lower().split()
    if first[0].isdigit():
        return 4  # 2026-12-24
    if first in _WEEKDAYS:
        return 1 if any(word[:3] in _MONTHS for word in others) else 0  # thursday 4 november; monday 2
    return 2 if first == "day" else 3  # day 15; december 24


def _layers(dates: Sequence[tuple[int, str, str]]) -> list[_Layer]:
    """The least exact first; of those that are equally exact, the one that was read first counts where they meet."""
    layers: list[_Layer] = []
    exactness = -1
    in_order = [*reversed(dates)]
    in_order.sort(key=lambda one: one[0])
    for exact, days, text in in_order:
        is_open = bool(text)
        joins = layers and bool(layers[-1].open) == is_open and (not is_open or exact == exactness)
        before = layers.pop() if joins else _Layer((), ())
        layers.append(_Layer((days, *before.days), (text, *before.open) if is_open else ()))
        exactness = exact
    return layers


def _periods_of_layers(
    name: str, zone: str, weekdays: Sequence[str], layers: Sequence[_Layer], names: TaskNames
) -> dict[str, Period]:
    """In Nagios a date replaces what is less exact; here ranges add up, so that is taken out first."""
    below = bool(weekdays)
    whole: list[Period | None] = []
    for layer in layers:
        whole.append(Period(ranges=layer.days, zone=zone) if below else None)  # else there is nothing to take out
        below = below or bool(layer.open)
    labels = [names.unique(f"{name} dates, all day") if one is not None else "" for one in whole]
    found = {label: one for label, one in zip(labels, whole, strict=True) if one is not None}
    parts: dict[str, Period] = {}
    for i, layer in enumerate(layers):
        if layer.open:
            over = tuple(label for label in labels[i + 1 :] if label)
            parts[names.unique(f"{name} dates")] = Period(ranges=layer.open, exclude=over, zone=zone)
    if not weekdays and len(parts) == 1:
        return found | {name: next(iter(parts.values()))}
    return found | parts | {name: Period(tuple(weekdays), include=tuple(parts), exclude=tuple(found), zone=zone)}


def _parts(line: str) -> tuple[str, str]:
    found = _DAYS.fullmatch(line)
    return (found["days"], found["hours"].replace(" ", "")) if found else (line, "")
