"""Which nominal times there are: slow, obvious, and without a line of evenbeat."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

SECOND = 1_000_000
MINUTE = 60 * SECOND
DAY = 86_400 * SECOND
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017
Window = tuple[int, int]


def seconds(text: str) -> int:
    """ "10s" in microseconds."""
    assert text.endswith("s")
    return int(text[:-1]) * SECOND


def instant_of(text: str) -> int:
    """An ISO 8601 time with its offset."""
    return (datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1)


def windows(hours: Sequence[str], after: int, until: int) -> list[Window]:
    """When a period is open: from, until (exclusive); ranges in UTC, each within a day, in order."""
    found = []
    for day in range(after // DAY - 2, until // DAY + 2):
        for start, end in _ranges(tuple(hours)):
            found.append((day * DAY + start, day * DAY + end))
    return found


def of_day(time: str) -> int:
    parts = [int(part) for part in time.split(":")] + [0]
    return (parts[0] * 3600 + parts[1] * 60 + parts[2]) * SECOND


def is_open(hours: Sequence[str] | None, t: int) -> bool:
    """Of a task without a period, or of a period without hours, always."""
    if not hours:
        return True
    return any(start <= t % DAY < end for start, end in _ranges(tuple(hours)))


@cache
def _ranges(hours: tuple[str, ...]) -> list[Window]:
    return [(of_day(start), of_day(end)) for start, end in (line.split("-") for line in hours)]


def nominal_times(keys: Mapping[str, Any], hours: Sequence[str] | None, after: int, until: int) -> list[int]:
    """All in (after, until]."""
    if "at" in keys:
        times = [t for t in [instant_of(keys["at"])] if is_open(hours, t)]
    elif "cron" in keys:
        times = [t for t in _cron(keys, after, until) if is_open(hours, t)]
    elif not hours:
        times = _grid(keys, after, until)
    else:
        times = _inside(keys, hours, after, until)
    return [t for t in times if after < t <= until]


def interval(keys: Mapping[str, Any]) -> int:
    """How far apart two nominal times are at most, roughly."""
    return seconds(keys["every"]) if "every" in keys else DAY


def _grid(keys: Mapping[str, Any], after: int, until: int) -> list[int]:
    every, phase = seconds(keys["every"]), seconds(keys["phase"])
    first = after // every - 1
    last = until // every + 1
    return [phase + k * every for k in range(first, last + 1)]


def _inside(keys: Mapping[str, Any], hours: Sequence[str], after: int, until: int) -> list[int]:
    """Grid points inside a window; a window without any has one run instead, if points fell into the gap before it."""
    every, phase = seconds(keys["every"]), seconds(keys["phase"])
    found = []
    closed = after - 2 * DAY
    for start, end in windows(hours, after, until):
        own = [t for t in _grid(keys, start, end) if start <= t < end]
        lost = [t for t in _grid(keys, closed, start) if closed <= t < start]
        if own:
            found += own
        elif lost:
            found.append(start + (end - start) * phase // every)
        closed = end
    return found


def _cron(keys: Mapping[str, Any], after: int, until: int) -> list[int]:
    """Minute by minute, by the clock on the wall. Of entries that name their hours, a time which that clock skips is
    that of the change, and one that comes twice is the first, as Debian's cron has it.
    """
    minutes, hours, *rest = keys["cron"].split()
    assert rest == ["*", "*", "*"]
    zone, second = ZoneInfo(keys.get("zone", "UTC")), keys["second"] * SECOND
    wanted_minutes, wanted_hours = _field(minutes, 60), _field(hours, 24)
    found = set()
    for t in range((after // MINUTE - 1) * MINUTE, until + MINUTE, MINUTE):
        local = _local(zone, t)
        is_fixed = hours != "*"
        if local.minute in wanted_minutes and local.hour in wanted_hours and not (is_fixed and local.fold):
            found.add(t + second)
        skipped = _wall(local) - _wall(_local(zone, t - MINUTE)) - timedelta(minutes=1)
        for minute in range(max(skipped // timedelta(minutes=1), 0) if is_fixed else 0):
            passed = _wall(local) - timedelta(minutes=minute + 1)
            if passed.minute in wanted_minutes and passed.hour in wanted_hours:
                found.add(t + second)
    return sorted(found)


def _local(zone: ZoneInfo, t: int) -> datetime:
    return (EPOCH + timedelta(microseconds=t)).astimezone(zone)


def _wall(local: datetime) -> datetime:
    """What the clock on the wall says, for sums."""
    return local.replace(tzinfo=None, fold=0)


def _field(text: str, size: int) -> set[int]:
    if text == "*":
        return set(range(size))
    if text.startswith("*/"):
        return set(range(0, size, int(text[2:])))
    return {int(number) for number in text.split(",")}
