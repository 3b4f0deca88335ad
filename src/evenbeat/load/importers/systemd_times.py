"""When a timer is due: time spans of systemd, and calendar expressions with a random delay as cron entries with H."""

import re
from typing import Final

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, WEEK, Invalid

_UNITS: Final = (
    dict.fromkeys(("usec", "us", "µs", "μs"), 1)
    | dict.fromkeys(("msec", "ms"), 1_000)
    | dict.fromkeys(("seconds", "second", "sec", "s", ""), SECOND)
    | dict.fromkeys(("minutes", "minute", "min", "m"), MINUTE)
    | dict.fromkeys(("hours", "hour", "hr", "h"), HOUR)
    | dict.fromkeys(("days", "day", "d"), DAY)
    | dict.fromkeys(("weeks", "week", "w"), WEEK)
    | dict.fromkeys(("months", "month", "M"), int(30.44 * DAY))
    | dict.fromkeys(("years", "year", "y"), int(365.25 * DAY))
)
_SPAN: Final = re.compile(r"\s*([0-9]{1,18}(?:\.[0-9]{1,6})?)(?![0-9.])\s*([A-Za-zµμ]*)")
_MAX_SPAN: Final = 100 * 366 * DAY
_SHORTHANDS: Final = {
    "hourly": "*-*-* *:00:00",
    "daily": "*-*-* 00:00:00",
    "weekly": "Mon *-*-* 00:00:00",
    "monthly": "*-*-01 00:00:00",
}
_SIMPLE: Final = re.compile(
    r"(?:(?P<days>[A-Za-z]{3}(?:(?:\.\.|,)[A-Za-z]{3})*)\s*)?(?:\*-\*-(?P<date>\*|\d{1,2})(?:\s+|$))?"
    r"(?:(?P<hours>\*|\d{1,2}(?:,\d{1,2})*|\d{1,2}/\d{1,2}):(?P<minute>\d{1,2})(?::0?0)?)?"
)
"""The expressions whose delay a cron entry can express."""


def parse_span(text: str) -> int | None:
    """A time span such as `1h 30min` in microseconds; None for `infinity`. Raise Invalid."""
    if text.strip() == "infinity":
        return None
    total, at = 0.0, 0
    while found := _SPAN.match(text, at):
        if found[2] not in _UNITS:
            break
        total, at = total + float(found[1]) * _UNITS[found[2]], found.end()
    if not text.strip() or text[at:].strip():
        raise Invalid(f"{text[:64]!r} is not a time span, accepted: such as 1h 30min, 90 or infinity")
    return int(min(total, _MAX_SPAN))


def entry_with_delay(expression: str, delay: int) -> str | None:
    """The cron entry that runs once within `delay` after each time of a calendar expression, at a time that is stable;
    None if no entry with H says that.
    """
    text = _SHORTHANDS.get(expression.strip().lower(), expression.strip())
    found = _SIMPLE.fullmatch(text)
    if found is None or delay < MINUTE or not (found["days"] or found["date"] or found["hours"]):
        return None
    minute, hours = int(found["minute"] or 0), found["hours"] or "0"
    if minute > 59:
        return None
    times = _hours(hours, minute, delay)
    if times is None:
        return None
    days = (found["days"] or "*").replace("..", "-").upper()
    date = found["date"] or "*"
    if days != "*" and date != "*":
        return None  # cron takes either of them, systemd both
    return f"{times} {date.lstrip('0') or '0'} * {days}" if date != "*" else f"{times} * * {days}"


def _hours(hours: str, minute: int, delay: int) -> str | None:
    """Minute and hour of an entry: within the hour, over whole hours, or around the clock."""
    each = _hour_list(hours)
    if each is None:
        return None
    gap = 24 // len(each)
    is_even = len(each) > 1 and 24 % len(each) == 0 and each == list(range(each[0], 24, gap))
    if is_even and delay >= gap * HOUR and gap > 1:
        return f"H H/{gap}"
    if len(each) == 1 and minute == 0 and delay >= HOUR:
        last = min(each[0] + delay // HOUR, 24) - 1
        return f"H H({each[0]}-{last})" if last > each[0] else f"H {each[0]}"
    last_minute = min(minute + delay // MINUTE - 1, 59)
    first = f"H({minute}-{last_minute})" if last_minute > minute else str(minute)
    return f"{'H' if first == 'H(0-59)' else first} {hours if '/' not in hours else ','.join(map(str, each))}"


def _hour_list(hours: str) -> list[int] | None:
    if hours == "*":
        return list(range(24))
    start, slash, step = hours.partition("/")
    found = list(range(int(start), 24, int(step) or 24)) if slash else sorted({int(hour) for hour in hours.split(",")})
    return found if found and found[-1] < 24 else None
