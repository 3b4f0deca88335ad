"""Durations as people write them: `150ms 10s 5m 2h 1d 1w 1h30m`, or a number of seconds."""

import re
from fractions import Fraction
from typing import Final

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, WEEK, Invalid

UNITS: Final = {"w": WEEK, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": SECOND // 1000, "us": 1}
LONGEST: Final = 100 * 366 * DAY
"""A century: sums stay far inside int64, whatever is added to them."""

_PART: Final = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>[a-zµ]*)", re.ASCII | re.IGNORECASE)
_ACCEPTED: Final = "accepted: 150ms 10s 5m 2h 1d 1w 1h30m, or a number of seconds"


def parse_duration(text: str | float) -> int:
    """Microseconds of a duration; raise Invalid with the column where it stops making sense."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise Invalid(f"{str(text)[:64]!r} is not a duration, {_ACCEPTED}")
    if not isinstance(text, str):
        return _in_range(Fraction(str(text)) if abs(text) < 1e15 else Fraction(10**15), str(text))
    if len(text) > 64:
        raise Invalid(f"a duration of {len(text)} characters, {_ACCEPTED}")
    found = text.strip()
    if not found:
        raise Invalid(f"an empty duration, {_ACCEPTED}")
    start = len(text) - len(text.lstrip())
    position, total, last_unit = 0, Fraction(0), None
    while position < len(found):
        part = _PART.match(found, position)
        if part is None:
            raise Invalid(f"{found[position:]!r} is not a number with a unit, {_ACCEPTED}", column=start + position + 1)
        number, unit = Fraction(part["number"]), part["unit"]
        if not unit and position == 0 and part.end() == len(found):
            return _in_range(number, found)
        if unit not in UNITS:
            known = " ".join(UNITS)
            raise Invalid(
                f"{unit!r} is not a unit, accepted: {known}"
                if unit
                else f"{part['number']!r} has no unit, {_ACCEPTED}",
                column=start + (part.start("unit") if unit else position) + 1,
            )
        if last_unit is not None and UNITS[unit] >= UNITS[last_unit]:
            raise Invalid(
                f"{unit!r} after {last_unit!r}: larger units come first, each once",
                column=start + part.start("unit") + 1,
            )
        total += number * UNITS[unit] / SECOND
        last_unit, position = unit, part.end()
    return _in_range(total, found)


def _in_range(seconds: Fraction, found: str) -> int:
    microseconds = seconds * SECOND
    if not 0 <= microseconds <= LONGEST:
        raise Invalid(f"{found!r} is out of range, accepted: 0 to {LONGEST // DAY}d")
    if microseconds.denominator != 1:
        raise Invalid(f"{found!r} is finer than a microsecond")
    return int(microseconds)


def format_duration(microseconds: int) -> str:
    """Write a duration so that parse_duration reads the same number back."""
    if microseconds == 0:
        return "0s"
    parts, rest = [], microseconds
    for unit, size in UNITS.items():
        if unit == "w" and rest % size:
            continue  # people say 10 days, not a week and three
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def spoken_duration(microseconds: int) -> str:
    """A distance in time, to two units: "2 d 3 h"."""
    rest, parts = microseconds, []
    for unit, size in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", SECOND)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2]) or "less than a second"
