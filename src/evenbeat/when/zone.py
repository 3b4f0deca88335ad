"""Time zones as a table of stretches with one UTC offset each, so that local time is plain arithmetic.

zoneinfo knows the offset of an instant but not when it changes next. The table finds the changes once per zone
and decade; DST rules (cron's, the periods') are then a few integer comparisons, alike for one time or an array.
"""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from evenbeat.did_you_mean import nearest_words
from evenbeat.model import DAY, SECOND, Instant, Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_PROBE: Final = 6 * DAY
"""Offsets are compared so far apart: the shortest stretch of a zone, in Brazil and Palestine, was just under a week."""
_BLOCK: Final = 10
"""Years added to the table at a time."""
_NOT_ZONES: Final = ("/", ".", "right/", "posix/", "posixrules", "localtime", "Factory")
"""Files of the zone database that are not zones, or count leap seconds, which no system clock does."""
_BEFORE: Final = Instant(-(2**62))
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


_Table = tuple[list[int], list[int], list[int]]
"""Stretches: their starts, their offsets, and when their local time ends."""


class _KnownYears(NamedTuple):
    start: int
    end: int
    years: range
    table: _Table


class Zone:
    """One time zone. Immutable for its users; the table grows as later (or earlier) years are asked for."""

    def __init__(self, name: str, info: ZoneInfo) -> None:
        self.name = name
        self.info = info
        self._known = _KnownYears(0, 0, range(0), ([], [], []))

    def __repr__(self) -> str:
        return f"Zone({self.name!r})"

    def offset(self, t: Instant) -> int:
        """Local time minus UTC at an instant, in microseconds."""
        starts, offsets, _ = self._covering(t)
        return offsets[bisect_right(starts, t) - 1]

    def local(self, t: Instant) -> int:
        """Microseconds a local wall clock has counted since its own 1970-01-01T00:00."""
        return t + self.offset(t)

    def utc(self, local: int) -> Instant:
        """The instant of a local time: one that is skipped maps to the change, one that exists twice to the first."""
        starts, offsets, local_ends = self._covering(local)
        i = bisect_right(local_ends, local)
        return Instant(max(local - offsets[i], starts[i]))

    def utc_many(self, local: "NDArray[np.int64]") -> "NDArray[np.int64]":
        """`utc` for an array."""
        import numpy as np  # noqa: PLC0415 - a scalar answer must not cost the import

        if not len(local):
            return local
        self._covering(int(local.min()))
        starts, offsets, local_ends = (np.array(c, dtype=np.int64) for c in self._covering(int(local.max())))
        i = np.searchsorted(local_ends, local, side="right")
        instants: NDArray[np.int64] = np.maximum(local - offsets[i], starts[i])
        return instants

    def stretch(self, t: Instant) -> tuple[Instant, Instant, int]:
        """(start, end, offset) of the time around `t` with one offset; the same offset may go on beyond either."""
        starts, offsets, local_ends = self._covering(t)
        i = bisect_right(starts, t) - 1
        # Where the table ends the stretch ends too; a caller that goes on makes it grow.
        start = starts[i] if i else self._known.start
        end = starts[i + 1] if i + 1 < len(starts) else local_ends[i] - offsets[i]
        return Instant(start), Instant(end), offsets[i]

    def latest_local(self, t: Instant) -> int:
        """The latest local time any clock of this zone has shown up to `t`: in a repeated hour, that hour's end."""
        starts, offsets, local_ends = self._covering(t)
        i = bisect_right(starts, t) - 1
        return max(t + offsets[i], local_ends[i - 1] - 1 if i else _BEFORE)

    def _covering(self, t: int) -> _Table:
        # One object, replaced as a whole, so that threads never see half of a change.
        known = self._known
        if not known.start <= t < known.end:
            known = self._known = self._grown(known.years, (_EPOCH + timedelta(microseconds=t)).year)
        return known.table

    def _grown(self, years: range, year: int) -> "_KnownYears":
        first, last = (years.start, years.stop) if years else (year, year)
        if year - 2 < first:
            first = max(year - _BLOCK, 1)
        if year + 2 > last:
            last = min(year + _BLOCK, 9999)
        # A year's margin on both sides, so that neither an offset nor a neighbouring stretch is ever cut off.
        return _KnownYears(_new_year(first + 1), _new_year(last - 1), range(first, last), self._changes(first, last))

    def _changes(self, first_year: int, last_year: int) -> _Table:
        t, end = _new_year(first_year), _new_year(last_year)
        starts, offsets = [int(_BEFORE)], [self._ask(t)]
        while t < end:
            step = min(t + _PROBE, end)
            if (after := self._ask(step)) != offsets[-1]:
                lo, hi = t // SECOND, step // SECOND
                while hi - lo > 1:
                    middle = (lo + hi) // 2
                    lo, hi = (middle, hi) if self._ask(middle * SECOND) == offsets[-1] else (lo, middle)
                starts.append(hi * SECOND)
                offsets.append(after)
            t = step
        local_ends = [start + offset for start, offset in zip(starts[1:], offsets[:-1], strict=True)]
        return starts, offsets, [*local_ends, end + offsets[-1]]

    def _ask(self, t: int) -> int:
        delta = (_EPOCH + timedelta(microseconds=t)).astimezone(self.info).utcoffset()
        return 0 if delta is None else delta // timedelta(microseconds=1)


def _new_year(year: int) -> int:
    return (datetime(year, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)


@lru_cache(maxsize=1024)
def zone(name: str) -> Zone:
    """Look a zone up by its IANA name; raise Invalid with the nearest names that exist."""
    try:
        if not name or len(name) > 64 or ".." in name or name.startswith(_NOT_ZONES):
            raise ValueError(name)
        return Zone(name, ZoneInfo(name))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        pass
    known = _known_zones()
    near = nearest_words(name.lower(), [*known, *(n.rpartition("/")[2] for n in known)], n=3)
    full = dict.fromkeys(known.get(n) or next(known[k] for k in known if k.endswith("/" + n)) for n in near)
    hint = f", did you mean {' or '.join(full)}?" if full else ", accepted: an IANA name such as Europe/Paris, or UTC"
    raise Invalid(f"{name[:64]!r} is not a time zone{hint}")


@cache
def _known_zones() -> dict[str, str]:
    """Every IANA name by its lower case; to look for them goes through the file system."""
    return {name.lower(): name for name in available_timezones()}
