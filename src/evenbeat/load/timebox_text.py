"""How people write a timebox: a duration, a share of the time to the next nominal time, or none."""

import re
from typing import Final

from evenbeat.model import Invalid
from evenbeat.when.duration import format_duration, parse_duration

NONE: Final = "none"
_PERCENT: Final = re.compile(r"([0-9]{1,3})\s*%", re.ASCII)
_ACCEPTED: Final = 'a duration such as "10m", "1%" to "100%" of the time to the next nominal time, or "none"'


def parse_timebox(value: str | float) -> int:
    """As `Task.timebox` keeps it; raise Invalid."""
    if not isinstance(value, str):
        return _at_least_something(parse_duration(value))
    if value.strip() == NONE:
        return 0
    if "%" not in value:
        return _at_least_something(parse_duration(value))
    percent = _PERCENT.fullmatch(value.strip())
    if percent is None or not 1 <= int(percent[1]) <= 100:
        raise Invalid(f"{value[:64]!r} is not a timebox, accepted: {_ACCEPTED}")
    return -int(percent[1])


def format_timebox(timebox: int) -> str:
    """As `parse_timebox` reads it."""
    if timebox <= 0:
        return f"{-timebox}%" if timebox else NONE
    return format_duration(timebox)


def _at_least_something(duration: int) -> int:
    """A timebox of no time is a slip of the pen: `none` says that there is none."""
    if duration < 1:
        raise Invalid(f"too short, accepted: {_ACCEPTED}")
    return duration
