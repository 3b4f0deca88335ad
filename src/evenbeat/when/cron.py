"""The times of a cron entry: cronsim's calendar on local time, Debian's DST rules on our table of zone changes.

Compiled once and shared: tasks whose entries resolve alike in one zone share one `CronTimes`, which remembers its
last answers, so a hundred thousand tasks cost as many calendar searches as they have distinct entries.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from cronsim import CronSim

from evenbeat.model import MINUTE, SECOND, Days, Hash, Instant, Invalid
from evenbeat.when.cron_entry import (
    DAY_FIELD,
    HOUR_FIELD,
    MINUTE_FIELD,
    MONTH_FIELD,
    WEEKDAY_FIELD,
    CronEntry,
    CronValue,
    ResolvedCronEntry,
    clear_parsed,
    parse_cron_entry,
    resolve_hashes,
    spread_second,
)
from evenbeat.when.instant import EPOCH, YEARS
from evenbeat.when.nominal_times import CLOCK_CORRECTION_LIMIT, nominal_times_between
from evenbeat.when.zone import Zone, zone

_EPOCH_ORDINAL: Final = EPOCH.toordinal()
_PROBE_START: Final = datetime(2000, 1, 1)  # noqa: DTZ001
"""Where the search for a first date begins when an entry is written: any fixed day gives the same yes or no."""
_DAYS_OF_EVERY_MONTH: Final = frozenset(range(1, 29))
_STEPS: Final = {sign * n: timedelta(seconds=sign * n) for sign in (1, -1) for n in (1, 60, 3_600)}
_PLAIN_WEEKDAYS: Final = frozenset(range(8))


_MOST_SHARED: Final = 65_536
_SHARED: "dict[tuple[str, Days, str], CronTimes]" = {}
"""By resolved entry, rule of days and zone."""


class _Walker(CronSim):
    """cronsim's walk through the calendar, on local time without a zone, fed with values we have parsed already."""

    def __init__(self, fields: tuple[frozenset[CronValue], ...], *, day_and: bool, local: int, direction: int) -> None:
        self.seconds = {0}
        self.minutes = fields[MINUTE_FIELD]  # type: ignore[assignment]
        self.hours = fields[HOUR_FIELD]  # type: ignore[assignment]
        self.days = fields[DAY_FIELD]  # type: ignore[assignment]
        self.months = fields[MONTH_FIELD]  # type: ignore[assignment]
        self.weekdays = fields[WEEKDAY_FIELD]  # type: ignore[assignment]
        self.day_and = day_and
        self.fixup_tz = None
        self.skip_initial_tick = False
        self.tick_direction = direction
        # cronsim begins with a step of one second: let it be the one onto the nearest full minute.
        minute = local // MINUTE + 1 if direction > 0 else (local - 1) // MINUTE
        self.dt = EPOCH + timedelta(seconds=minute * 60 - direction)

    def tick(self, seconds: int = 1) -> None:
        # Local time knows no DST, so a step is a plain sum; the usual ones need not be made anew.
        self.dt += _STEPS.get(seconds * self.tick_direction) or timedelta(seconds=seconds * self.tick_direction)


class CronTimes:
    """The minutes a resolved entry names in one zone, as instants.

    Entries for fixed times (neither minute nor hour begins with `*`) follow the wall clock: skipped by a DST change
    they happen at the change, repeated they happen once. The others follow elapsed time: every minute whose local
    time matches. Both are Debian cron's rules.
    """

    def __init__(self, resolved: ResolvedCronEntry, days: Days, zone_: Zone) -> None:
        texts = resolved.texts
        self.text = resolved.text
        self.zone = zone_
        # Debian's reading of a leading star: `*/2` in one day field does not count as a restriction of its own,
        # so both fields must match; only when neither starts with `*` does either suffice.
        self.day_and = days == Days.AND or texts[DAY_FIELD][0] == "*" or texts[WEEKDAY_FIELD][0] == "*"
        self.fields = resolved.fields
        self._by_wall_clock = texts[MINUTE_FIELD][0] != "*" and texts[HOUR_FIELD][0] != "*"
        self._memos = ((0, 0), (0, 0))
        """From lo on, up to hi, the next minute is hi. One tuple, so that threads see two that belong together."""
        self.is_possible = self._has_a_date()

    @property
    def repeats_after(self) -> int:
        """How far the clock can be set back without these times being repeated."""
        return CLOCK_CORRECTION_LIMIT if self._by_wall_clock else 0

    def _walk(self, local: int, direction: int) -> int | None:
        """The first match after (or before) a local time; None if there is none in 50 years, or before 2200."""
        try:
            found = next(_Walker(self.fields, day_and=self.day_and, local=local, direction=direction))
        except (StopIteration, OverflowError):
            return None
        if found.year not in YEARS:
            return None
        days = found.toordinal() - _EPOCH_ORDINAL
        return (days * 86_400 + found.hour * 3_600 + found.minute * 60) * SECOND

    def _has_a_date(self) -> bool:
        """Is there any date that the day and month fields allow?"""
        days, weekdays = self.fields[DAY_FIELD], self.fields[WEEKDAY_FIELD]
        if weekdays <= _PLAIN_WEEKDAYS and not days.isdisjoint(_DAYS_OF_EVERY_MONTH):
            return True
        start = (_PROBE_START - EPOCH) // timedelta(microseconds=1)
        return self._walk(start, 1) is not None

    def next_after(self, t: Instant) -> Instant | None:
        """The first minute strictly after `t`."""
        newer, older = self._memos
        if newer[0] <= t < newer[1]:
            return Instant(newer[1])
        if older[0] <= t < older[1]:
            return Instant(older[1])
        found = self._next_by_wall_clock(t) if self._by_wall_clock else self._next_by_elapsed_time(t)
        if found is not None:
            # Two stretches, because tasks of different seconds ask on both sides of an occurrence.
            self._memos = ((min(t, newer[0]), found), older) if newer[1] == found else ((t, found), newer)
        return found

    def previous_before(self, t: Instant) -> Instant | None:
        """The last minute strictly before `t`."""
        return self._previous_by_wall_clock(t) if self._by_wall_clock else self._previous_by_elapsed_time(t)

    def _next_by_wall_clock(self, t: Instant) -> Instant | None:
        local: int | None = self.zone.local(t)
        while local is not None and (local := self._walk(local, 1)) is not None:
            # In the second pass of a repeated hour the wall clock names times that are over.
            if (found := self.zone.utc(local)) > t:
                return found
        return None

    def _previous_by_wall_clock(self, t: Instant) -> Instant | None:
        local: int | None = self.zone.latest_local(t) + 1
        while local is not None and (local := self._walk(local, -1)) is not None:
            if (found := self.zone.utc(local)) < t:
                return found
        return None

    def _next_by_elapsed_time(self, t: Instant) -> Instant | None:
        inside, after = t, t
        while True:
            _, end, offset = self.zone.stretch(inside)
            local = self._walk(after + offset, 1)
            if local is None or local - offset < end:
                return None if local is None else Instant(local - offset)
            # The offset changes before that: look again from the change on, by the new one.
            inside, after = end, Instant(end - 1)

    def _previous_by_elapsed_time(self, t: Instant) -> Instant | None:
        until = t
        while True:
            start, _, offset = self.zone.stretch(Instant(until - 1))
            local = self._walk(until + offset, -1)
            if local is None or local - offset >= start:
                return None if local is None else Instant(local - offset)
            until = start


def _shared_times(resolved: ResolvedCronEntry, days: Days, zone_: Zone) -> CronTimes:
    key = (resolved.text, days, zone_.name)
    times = _SHARED.get(key)
    if times is None:
        times = CronTimes(resolved, days, zone_)
        # Tasks hold on to the times they use; what is forgotten here is only no longer found by new ones.
        if len(_SHARED) >= _MOST_SHARED:
            _SHARED.clear()
        _SHARED[key] = times
    return times


class Cron:
    """The nominal times of one cron task: shared minutes, and its own second within them."""

    __slots__ = ("_offset", "entry", "second", "times", "zone")

    def __init__(self, entry: CronEntry, times: CronTimes, second: int) -> None:
        self.entry = entry
        self.times = times
        self.second = second
        self.zone = times.zone
        self._offset = second * SECOND

    @property
    def resolved(self) -> str:
        """The plain cron entry after H."""
        return self.times.text

    @property
    def repeats_after(self) -> int:
        """How far the clock can be set back without these times being repeated."""
        return self.times.repeats_after

    def next_after(self, t: Instant) -> Instant | None:
        """The first nominal time strictly after `t`."""
        found = self.times.next_after(Instant(t - self._offset))
        return None if found is None else Instant(found + self._offset)

    def previous_before(self, t: Instant) -> Instant | None:
        """The last nominal time strictly before `t`."""
        found = self.times.previous_before(Instant(t - self._offset))
        return None if found is None else Instant(found + self._offset)

    def between(self, start: Instant, end: Instant) -> Iterator[Instant]:
        """Every nominal time t with start <= t < end, in order."""
        return nominal_times_between(self, start, end)


def compile_cron(
    text: str,
    *,
    name: str = "",
    zone_name: str = "UTC",
    hash_: Hash = Hash.STABLE,
    days: Days = Days.OR,
    second: int | None = None,
) -> Cron:
    """Parse, resolve H by the task's name, and attach the shared times; raise Invalid for what cannot be."""
    entry = parse_cron_entry(text)
    if entry.occasion:
        raise Invalid(f"{entry.occasion} is an event of the node and has no times", column=1)
    try:
        zone_ = zone(zone_name if entry.zone is None else entry.zone)
    except Invalid as e:
        raise Invalid(e.problem, column=None if entry.zone is None else text.upper().index("TZ=") + 4) from None
    times = _shared_times(resolve_hashes(entry, name, hash_), Days(days), zone_)
    if not times.is_possible:
        day, month, weekday = times.text.split()[DAY_FIELD:]
        raise Invalid(
            f"no date ever has day of month {day}, month {month} and day of week {weekday}",
            column=entry.column(DAY_FIELD),
            place=f"field {DAY_FIELD + 1}",
        )
    return Cron(entry, times, _second(second, name))


def _second(second: int | None, name: str) -> int:
    if second is None:
        return spread_second(name)
    if not 0 <= second <= 59:
        raise Invalid(f"{second} is not a second, accepted: 0-59, or none to spread it")
    return second


def clear_shared() -> None:
    """Forget everything compiled so far (to measure what it costs)."""
    _SHARED.clear()
    clear_parsed()
