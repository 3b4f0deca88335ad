"""The nouns: Schedule, Period and Task, and Invalid, the refusal of what a user wrote.

Times are int64 microseconds on the Unix epoch, durations are int microseconds.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Annotated, Final, NewType

from msgspec import Meta, Struct

Instant = NewType("Instant", int)
"""Microseconds since 1970-01-01T00:00:00Z."""

SECOND: Final = 1_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY

MIN_EVERY: Final = SECOND
"""A segment of the timetable: nothing is due more often."""

MAX_EVERY: Final = 3_653 * DAY
"""Ten years; a longer interval is a slip of the pen, and `at` says it better."""

NAME_LIMIT: Final = 256
TEXT_LIMIT: Final = 1_000
"""Longest cron entry, calendar expression or period line, in characters. Every input is bounded."""


class Invalid(ValueError):
    """A refusal: what was found, where, and what would be accepted.

    `column` counts from 1 in the text the user wrote; `place` names the part of it ("field 1", "tasks.report.cron").
    """

    def __init__(self, problem: str, *, column: int | None = None, place: str = "") -> None:
        self.problem = problem
        self.column = column
        self.place = place
        super().__init__(problem)

    def __str__(self) -> str:
        where = ", ".join(filter(None, (self.place, f"column {self.column}" if self.column else "")))
        return f"{where}: {self.problem}" if where else self.problem


@contextmanager
def placed(place: str, separator: str = ", ") -> Iterator[None]:
    """Put a place in front of the one that a refusal names itself."""
    try:
        yield
    except Invalid as e:
        whole = separator.join(filter(None, (place, e.place)))
        raise Invalid(e.problem, column=e.column, place=whole) from None


class Spread(StrEnum):
    """How the phase of an interval task is chosen."""

    EVEN = "even"
    HASH = "hash"
    ICINGA = "icinga"
    BERGAMOT = "bergamot"
    ALIGNED = "aligned"


class Hash(StrEnum):
    """Where the H of a cron entry gets its values from."""

    STABLE = "stable"
    JENKINS = "jenkins"


class Days(StrEnum):
    """Day of month and day of week both restricted: does either match, or must both?"""

    OR = "or"
    AND = "and"


class Prefer(StrEnum):
    """Which side wins where a period both includes and excludes an instant."""

    INCLUDE = "include"
    EXCLUDE = "exclude"


Name = Annotated[str, Meta(min_length=1, max_length=NAME_LIMIT)]
Text = Annotated[str, Meta(min_length=1, max_length=TEXT_LIMIT)]
Second = Annotated[int, Meta(ge=0, le=59)]


class Schedule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """When a task is due: exactly one of `every`, `cron`, `calendar`, `at`; the rest refines it."""

    every: int | None = None
    cron: Text | None = None
    calendar: Text | None = None
    at: Text | None = None
    zone: Name = "UTC"
    spread: Spread = Spread.EVEN
    phase: int | None = None
    """Microseconds; None until it is placed. Kept as long as `every` and `spread` do not change."""
    hash: Hash = Hash.STABLE
    days: Days = Days.OR
    second: Second | None = None
    """The second within the minute of a cron entry; None spreads it by the task's name."""

    def __post_init__(self) -> None:
        kinds = [k for k in ("every", "cron", "calendar", "at") if getattr(self, k) is not None]
        if len(kinds) != 1:
            found = " and ".join(kinds) or "none of them"
            raise Invalid(f"a schedule has exactly one of every, cron, calendar, at; found {found}", place="schedule")
        if self.every is not None and not MIN_EVERY <= self.every <= MAX_EVERY:
            raise Invalid(f"{self.every / SECOND:g} s is out of range, accepted: 1s to 3653d", place="every")
        if self.phase is not None and (self.every is None or not 0 <= self.phase < self.every):
            found = f"{self.phase / SECOND:g} s" + (f" of {self.every / SECOND:g} s" if self.every is not None else "")
            raise Invalid(f"{found}: a phase belongs to `every`, from 0 to less than it", place="phase")
        for field, default in (("hash", Hash.STABLE), ("days", Days.OR), ("second", None)):
            if self.cron is None and getattr(self, field) != default:
                raise Invalid(f"`{field}` belongs to cron entries, this schedule has `{kinds[0]}`", place=field)
        if self.every is None and self.spread != Spread.EVEN:
            raise Invalid(f"`spread` belongs to `every`, this schedule has `{kinds[0]}`", place="spread")


class Period(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A named calendar filter. No ranges and no holidays means always."""

    ranges: tuple[Text, ...] = ()
    holidays: Name | None = None
    """A country, or a country and its part ("DE", "DE-BY"): its public holidays, all day, join the ranges."""
    include: tuple[Name, ...] = ()
    exclude: tuple[Name, ...] = ()
    prefer: Prefer = Prefer.INCLUDE
    zone: Name = "UTC"


class Task(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Something to run again and again."""

    name: Name
    schedule: Schedule
    period: Name | None = None
    weight: Annotated[float, Meta(gt=0, le=86_400)] = 1.0
    """Expected run time, in seconds: how much one run counts on the load wheel."""
    command: tuple[str, ...] = ()
    check: bool = False
    labels: dict[str, str] = {}
