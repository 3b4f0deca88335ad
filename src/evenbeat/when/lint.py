"""Warnings about cron entries that work but pile up load or surprise their owner; each names a better entry."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Final

from evenbeat.model import Days
from evenbeat.when.cron_entry import (
    DAY_FIELD,
    FIELDS,
    HOUR_FIELD,
    MINUTE_FIELD,
    MONTH_FIELD,
    WEEKDAY_FIELD,
    CronEntry,
    CronField,
    CronTerm,
)
from evenbeat.when.period_line import LONGEST_MONTH


def cron_warnings(entry: CronEntry, days: Days = Days.OR) -> list[str]:
    """Every warning for an entry, the most useful first."""
    if entry.occasion:
        return []
    return [warning for rule in _RULES for warning in rule(entry, days)]


def _every_minute(entry: CronEntry, _: Days) -> Iterator[str]:
    minute = entry.fields[MINUTE_FIELD]
    if minute.uses_hash or minute.values != frozenset(range(60)):
        return
    hour = entry.fields[HOUR_FIELD].text
    what = "every minute" if hour == "*" else f"every minute of hour {hour}, 60 times"
    better = _with(entry, {MINUTE_FIELD: "H"})
    also = '; if every minute is meant, every = "1m" spreads it' if hour == "*" else ""
    yield f"{entry.text!r} runs {what}: perhaps {better!r} is meant{also}"


def _fixed_minute(entry: CronEntry, _: Days) -> Iterator[str]:
    minute, hour = entry.fields[MINUTE_FIELD], entry.fields[HOUR_FIELD]
    if minute.uses_hash or minute.text == "*":
        return
    step = _even_step(minute)
    if len(minute.values) == 1:
        changes = {MINUTE_FIELD: "H"}
        # Only a divisor of 24 runs as often wherever H lets it start; 1 is every hour already.
        if (hour_step := _star_step(hour)) in (2, 3, 4, 6, 8, 12):
            changes[HOUR_FIELD] = f"H/{hour_step}"
    elif step is not None:
        changes = {MINUTE_FIELD: f"H/{step}"}
    else:
        return
    yield (
        f"{minute.text!r} pins the minute, so all such tasks start together: "
        f"{_with(entry, changes)!r} runs as often and spreads them"
    )


def _step_beyond_range(entry: CronEntry, _: Days) -> Iterator[str]:
    for kind, field in enumerate(entry.fields):
        for term in field.terms:
            step = _plain_step(term)
            if step and term.hashed is None and len(term.values) == 1:
                unit = {MINUTE_FIELD: "m", HOUR_FIELD: "h", DAY_FIELD: "d"}.get(kind)
                seems = f'every = "{step}{unit}" does what it seems to say'
                better = seems if unit and term.text[0] == "*" else f"write {term.values[0]}"
                yield f"{term.text!r} in the {FIELDS[kind].name} field only ever matches {term.values[0]}: {better}"


def _uneven_step(entry: CronEntry, _: Days) -> Iterator[str]:
    for kind, unit in ((MINUTE_FIELD, "m"), (HOUR_FIELD, "h")):
        size = len(FIELDS[kind].values)
        for term in entry.fields[kind].terms:
            whole = _covers_field(kind, term)
            step = term.step or _plain_step(term)
            if whole and 1 < step <= size and size % step:
                whole_name = "hour" if kind == MINUTE_FIELD else "day"
                yield (
                    f"{term.text!r}: {step} does not divide {size}, so the last gap before the {whole_name} ends is "
                    f'shorter; every = "{step}{unit}" keeps one distance'
                )


def _short_cycle_in_month(entry: CronEntry, _: Days) -> Iterator[str]:
    field = entry.fields[DAY_FIELD]
    for term in field.terms:
        step = term.step or _plain_step(term)
        if _covers_field(DAY_FIELD, term) and 1 < step < 28:
            yield (
                f"{term.text!r} in the day-of-month field starts over every month, so the distance at its end is not "
                f'{step} days; every = "{step}d" keeps it'
            )


def _missing_days(entry: CronEntry, _: Days) -> Iterator[str]:
    field, months = entry.fields[DAY_FIELD], entry.fields[MONTH_FIELD]
    numbers = [v for v in field.values if isinstance(v, int) and v > 0]
    if field.uses_hash or months.uses_hash or len(numbers) != 1 or len(field.values) != 1:
        return
    if any(isinstance(m, int) and LONGEST_MONTH[m - 1] < min(numbers) for m in months.values):
        better = _with(entry, {DAY_FIELD: "L"})
        yield f"not every month has day {min(numbers)}: {better!r} runs on the last day of each"


def _either_day(entry: CronEntry, days: Days) -> Iterator[str]:
    day, weekday = entry.fields[DAY_FIELD].text, entry.fields[WEEKDAY_FIELD].text
    if days is Days.AND or day == "*" or weekday == "*":
        return
    if day.startswith("*") or weekday.startswith("*"):
        yield (
            f"one of {day!r} and {weekday!r} begins with '*', so both must match (Debian's rule); "
            'days = "and" says the same without the surprise'
        )
    else:
        yield f'day of month {day!r} or day of week {weekday!r}: either matches; days = "and" asks for both'


_RULES: Final[tuple[Callable[[CronEntry, Days], Iterator[str]], ...]] = (
    _every_minute,
    _step_beyond_range,
    _fixed_minute,
    _uneven_step,
    _short_cycle_in_month,
    _missing_days,
    _either_day,
)


def _with(entry: CronEntry, changes: dict[int, str]) -> str:
    texts = [changes.get(i, field.text) for i, field in enumerate(entry.fields)]
    return (f"TZ={entry.zone} " if entry.zone else "") + " ".join(texts)


def _plain_step(term: CronTerm) -> int:
    step = term.text.partition("/")[2]
    return int(step) if step and term.hashed is None else 0


def _covers_field(kind: int, term: CronTerm) -> bool:
    """Does the term step through the whole field, however it is written?"""
    if term.hashed is not None:
        return term.hashed == FIELDS[kind].hashed
    whole = FIELDS[kind].values
    return term.text.partition("/")[0] in ("*", f"{whole[0]}-{whole[-1]}")


def _star_step(field: CronField) -> int | None:
    only = field.terms[0] if len(field.terms) == 1 else None
    return _plain_step(only) or None if only and only.text.startswith("*") else None


def _even_step(field: CronField) -> int | None:
    """The n for which the values are what H/n would give, wherever it starts: 0,15,30,45 -> 15."""
    values = sorted(v for v in field.values if isinstance(v, int))
    gaps = {b - a for a, b in pairwise(values)}
    gap = gaps.pop() if len(gaps) == 1 else 0
    return gap if gap > 1 and gap * len(values) == 60 else None
