"""systemd OnCalendar expressions (`Mon..Fri 09:00`) behind the interface of cron; the library oncalendar reads them.

DST as systemd does: a local time that is skipped does not happen, one that repeats happens once, the first time.
"""

from collections.abc import Iterator
from copy import copy
from datetime import timedelta
from functools import lru_cache
from typing import Final

from oncalendar import BaseIterator, OnCalendarError

from evenbeat.model import DAY, SECOND, TEXT_LIMIT, Instant, Invalid
from evenbeat.when.instant import EPOCH
from evenbeat.when.nominal_times import CLOCK_CORRECTION_LIMIT, nominal_times_between
from evenbeat.when.zone import Zone, zone

_FURTHEST_BACK: Final = 64 * 366 * DAY


class Calendar:
    """The nominal times of one OnCalendar expression."""

    def __init__(self, text: str, zone_: Zone) -> None:
        self.text = text
        self.zone = zone_

    @property
    def repeats_after(self) -> int:
        """How far the clock can be set back without these times being repeated: as of cron entries."""
        fields = BaseIterator(self.text, EPOCH)
        has_fixed_times = len(fields.hours) < 24 and len(fields.minutes) < 60
        return CLOCK_CORRECTION_LIMIT if has_fixed_times else 0

    def next_after(self, t: Instant) -> Instant | None:
        """The first nominal time strictly after `t`; None after the year 2199, where systemd stops too."""
        local = self.zone.local(t)
        walk = copy(_parsed(self.text))
        walk.dt = EPOCH + timedelta(microseconds=local - local % SECOND)
        for found in walk:
            micros = (found - EPOCH) // timedelta(microseconds=1)
            candidate = self.zone.utc(micros)
            if candidate > t and self.zone.local(candidate) == micros:
                return candidate
        return None

    def previous_before(self, t: Instant) -> Instant | None:
        """The last nominal time strictly before `t`, looking 64 years back.

        The library only walks forward, so this halves the stretch in which the last time must lie.
        """
        distance = SECOND
        while not self._any_in(Instant(t - distance), t):
            if distance == _FURTHEST_BACK:
                return None
            distance = min(distance * 2, _FURTHEST_BACK)
        lo, hi = Instant(t - distance), t  # a time lies after lo and before t, none after hi
        while hi - lo > 1:
            middle = Instant((lo + hi) // 2)
            lo, hi = (middle, hi) if self._any_in(middle, t) else (lo, middle)
        return self.next_after(lo)

    def _any_in(self, after: Instant, before: Instant) -> bool:
        found = self.next_after(after)
        return found is not None and found < before

    def between(self, start: Instant, end: Instant) -> Iterator[Instant]:
        """Every nominal time t with start <= t < end, in order."""
        return nominal_times_between(self, start, end)


@lru_cache(maxsize=256)
def _parsed(text: str) -> BaseIterator:
    """The parsed expression, cached, as parsing takes ten times as long as a step. Few are kept: each takes 20 KiB."""
    return BaseIterator(text, EPOCH)


@lru_cache(maxsize=16384)
def compile_calendar(text: str, zone_name: str = "UTC") -> Calendar:
    """Parse an OnCalendar expression; its own zone, if it ends in one, beats `zone_name`."""
    if len(text) > TEXT_LIMIT:
        raise Invalid(f"an expression of {len(text)} characters, accepted: at most {TEXT_LIMIT}")
    text, zone_name = _own_zone(text.strip(), zone_name)
    try:
        BaseIterator(text, EPOCH)
    except (OnCalendarError, ValueError, IndexError) as e:
        raise Invalid(f"{text!r} is not an OnCalendar expression ({e}), accepted: such as Mon..Fri 09:00") from None
    calendar = Calendar(text, zone(zone_name))
    if calendar.next_after(Instant(-1)) is None:
        raise Invalid(f"{text!r} never happens: no such date")
    return calendar


def _own_zone(text: str, zone_name: str) -> tuple[str, str]:
    """The expression and its zone: the last word, if it is one."""
    head, _, last = text.rpartition(" ")
    if not head or not last[:1].isalpha():
        return text, zone_name
    try:
        zone(last)
    except Invalid:
        if "/" not in last:  # a weekday, perhaps; oncalendar will say
            return text, zone_name
        raise
    return head, last
