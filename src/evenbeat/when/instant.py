"""Instants: ISO 8601 text to microseconds and back, always with a zone."""

from datetime import UTC, datetime, timedelta
from typing import Final

from evenbeat.model import SECOND, Instant, Invalid
from evenbeat.when.zone import Zone

EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - local (naive) times are counted from here too
EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
YEARS: Final = range(1900, 2200)
"""Years we answer for, as systemd does: a slip of the pen must not make us work out five thousand years of DST."""

LATEST: Final = Instant((datetime(YEARS.stop, 1, 1) - EPOCH) // timedelta(microseconds=1))  # noqa: DTZ001
"""No calendar schedule has a time from here on."""

_ACCEPTED: Final = "accepted: 2026-12-01, 2026-12-01T09:00, 2026-12-01T09:00:00+01:00"


def parse_instant(text: str, zone: Zone) -> Instant:
    """Read ISO 8601; without an offset it is a local time of `zone` (skipped by DST: the change; twice: the first)."""
    try:
        if len(text) > 64:
            raise ValueError("too long")
        read = datetime.fromisoformat(text.strip())
    except ValueError as e:
        shown = text if len(text) <= 64 else text[:61] + "..."
        # Python says either what is wrong ("hour must be in 0..23"), or in its own words only that something is.
        reason = "" if "isoformat" in str(e) else f" ({e})"
        raise Invalid(f"{shown!r} is not a time{reason}, {_ACCEPTED}") from None
    if read.year not in YEARS:
        raise Invalid(f"the year {read.year} is out of range, accepted: {YEARS.start} to {YEARS.stop - 1}")
    if read.tzinfo is not None:
        return Instant((read - EPOCH_UTC) // timedelta(microseconds=1))
    return zone.utc((read - EPOCH) // timedelta(microseconds=1))


def to_datetime(t: Instant, zone: Zone) -> datetime:
    """An aware datetime in `zone`."""
    return (EPOCH_UTC + timedelta(microseconds=t)).astimezone(zone.info)


def format_instant(t: Instant, zone: Zone) -> str:
    """ISO 8601 with offset; the fraction only where there is one."""
    return to_datetime(t, zone).isoformat(timespec="microseconds" if t % SECOND else "seconds")


def spoken_instant(t: Instant, zone: Zone) -> str:
    """For people, to the second: "Mon 2026-11-16 09:00:37+01:00"."""
    local = to_datetime(t, zone)
    return f"{local:%a} {local.isoformat(sep=' ', timespec='seconds')}"
