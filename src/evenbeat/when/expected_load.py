"""Fold a calendar schedule onto the hour of the load wheel: how often it is expected to start in each second."""

from datetime import date, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import numpy as np
from cronsim import CronSim
from numpy.typing import NDArray

from evenbeat.model import DAY, HOUR, SECOND, Instant
from evenbeat.when.calendar import Calendar
from evenbeat.when.cron import Cron
from evenbeat.when.cron_entry import DAY_FIELD, HOUR_FIELD, MINUTE_FIELD, MONTH_FIELD, WEEKDAY_FIELD, CronValue
from evenbeat.when.interval import Interval
from evenbeat.when.nominal_times import ForwardSchedule
from evenbeat.when.wheel import LoadWheel, PlacedTask
from evenbeat.when.zone import Zone, zone

_FIRST_DAY: Final = date(2001, 1, 1)
_DAYS: Final = 10_227
"""28 years, after which dates and weekdays repeat: what is counted over them is the long-run share."""
_SAMPLE_START: Final = Instant(20_454 * DAY)
_SAMPLE_LENGTH: Final = 366 * DAY
_SAMPLE_SIZE: Final = 7_200
_MIDDLES: Final = tuple(Instant(15 * DAY + m * 365 * DAY // 12 + 20_454 * DAY) for m in range(12))
"""The middle of each month of 2026, where a zone is asked for its offset."""


def cron_slots(cron: Cron) -> dict[int, float]:
    """Expected starts per hour in each slot: every minute the entry names, times the share of hours it runs in."""
    fields = cron.times.fields
    hours = len(fields[HOUR_FIELD]) / 24
    share = hours * _share_of_days(fields[DAY_FIELD], fields[MONTH_FIELD], fields[WEEKDAY_FIELD], cron.times.day_and)
    slots: dict[int, float] = {}
    for offset, part in _offsets_within_hour(cron.zone.name).items():
        for minute in fields[MINUTE_FIELD]:
            assert isinstance(minute, int)
            slot = (minute * 60 + cron.second - offset) % 3_600
            slots[slot] = slots.get(slot, 0.0) + share * part
    return slots


def expected_per_hour(times: ForwardSchedule) -> float:
    """How often a schedule starts in an hour, in the mean over years; one-shots and events of the node do not count."""
    if isinstance(times, Interval):
        return HOUR / times.every
    if isinstance(times, Cron):
        return sum(cron_slots(times).values())
    return sum(calendar_slots(times).values()) if isinstance(times, Calendar) else 0.0


def fold_onto_wheel(wheel: LoadWheel, times: ForwardSchedule, weight: float) -> None:
    """Put a schedule that has its times onto the wheel; one-shots and events of the node weigh nothing."""
    if isinstance(times, Interval):
        wheel.add(PlacedTask(times.every, times.phase, weight))
    elif isinstance(times, Cron):
        wheel.add_slots(cron_slots(times), weight)
    elif isinstance(times, Calendar):
        wheel.add_slots(calendar_slots(times), weight)


def unfold_from_wheel(wheel: LoadWheel, times: ForwardSchedule, weight: float) -> None:
    """Exactly undo `count_on`."""
    if isinstance(times, Interval):
        wheel.remove(PlacedTask(times.every, times.phase, weight))
    elif isinstance(times, Cron):
        wheel.remove_slots(cron_slots(times), weight)
    elif isinstance(times, Calendar):
        wheel.remove_slots(calendar_slots(times), weight)


@lru_cache(maxsize=32)
def calendar_slots(calendar: Calendar) -> dict[int, float]:
    """Expected starts per hour in each slot, counted over a sample: what is rarer than that weighs next to nothing."""
    sample = list(islice(calendar.between(_SAMPLE_START, Instant(_SAMPLE_START + _SAMPLE_LENGTH)), _SAMPLE_SIZE))
    if not sample:
        return {}
    length = sample[-1] - _SAMPLE_START if len(sample) == _SAMPLE_SIZE else _SAMPLE_LENGTH
    slots: dict[int, float] = {}
    for t in sample:
        slot = t % HOUR // SECOND
        slots[slot] = slots.get(slot, 0.0) + HOUR / length
    return slots


@lru_cache(maxsize=1024)
def _offsets_within_hour(zone_name: str) -> dict[int, float]:
    """How much of the year a zone is how many seconds off the full hour: 1800 in India, both in Lord Howe."""
    where: Zone = zone(zone_name)
    offsets = [where.offset(t) % HOUR // SECOND for t in _MIDDLES]
    return {o: offsets.count(o) / len(offsets) for o in dict.fromkeys(offsets)}


@lru_cache(maxsize=65536)
def _share_of_days(
    days: frozenset[CronValue],
    months: frozenset[CronValue],
    weekdays: frozenset[CronValue],
    day_and: bool,  # noqa: FBT001 - part of the cache key
) -> float:
    c = _calendar()
    in_month = np.isin(c["month"], [m for m in months if isinstance(m, int)])
    by_day = np.isin(c["day"], [d for d in days if isinstance(d, int) and d > 0])
    by_day |= c["last"] & (CronSim.LAST in days)
    by_day |= c["last_weekday"] & (CronSim.LAST_WEEKDAY in days)
    by_weekday = np.isin(c["weekday"], [w % 7 for w in weekdays if isinstance(w, int)])
    for mark in weekdays:
        if isinstance(mark, tuple):
            week = c["last_of_its_weekday"] if mark[1] == CronSim.LAST else c["week"] == mark[1]
            by_weekday |= (c["weekday"] == mark[0] % 7) & week
    both = by_day & by_weekday if day_and else by_day | by_weekday
    return float((in_month & both).mean())


@lru_cache(maxsize=1)
def _calendar() -> dict[str, NDArray[Any]]:
    all_days = [_FIRST_DAY + timedelta(days=i) for i in range(_DAYS)]
    month = np.array([d.month for d in all_days])
    weekday = np.array([d.isoweekday() % 7 for d in all_days])
    day = np.array([d.day for d in all_days])
    next_month = np.append(month[1:], 1)
    last = month != next_month
    to_end = np.array([0] * _DAYS)
    for i in range(_DAYS - 2, -1, -1):
        to_end[i] = 0 if last[i] else to_end[i + 1] + 1
    working = (weekday >= 1) & (weekday <= 5)
    # A working day is a month's last one when only a weekend can follow it.
    last_weekday = working & ((to_end == 0) | ((weekday == 5) & (to_end <= 2)))
    return {
        "month": month,
        "weekday": weekday,
        "day": day,
        "last": last,
        "last_weekday": last_weekday,
        "week": (day + 6) // 7,
        "last_of_its_weekday": to_end < 7,
    }
