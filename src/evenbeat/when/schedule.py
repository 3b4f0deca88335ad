"""From the noun Schedule to something that knows its nominal times, whatever kind it is."""

from collections.abc import Iterator
from typing import Final

from evenbeat.model import Instant, Invalid, Schedule, Spread, prefix_place
from evenbeat.when.calendar import compile_calendar
from evenbeat.when.cron import compile_cron
from evenbeat.when.cron_entry import parse_cron_entry
from evenbeat.when.instant import parse_instant
from evenbeat.when.interval import Interval
from evenbeat.when.nominal_times import CompiledSchedule
from evenbeat.when.spread import aligned_phase, hash_phase
from evenbeat.when.windows import FOREVER
from evenbeat.when.zone import zone


class OnceSchedule:
    """A single nominal time."""

    repeats_after: Final[int] = FOREVER

    def __init__(self, at: Instant) -> None:
        self.at = at

    def next_after(self, t: Instant) -> Instant | None:
        return self.at if t < self.at else None

    def previous_before(self, t: Instant) -> Instant | None:
        return self.at if self.at < t else None

    def between(self, start: Instant, end: Instant) -> Iterator[Instant]:
        return iter((self.at,) if start <= self.at < end else ())


class UntimedSchedule:
    """Never due by time."""

    repeats_after: Final[int] = FOREVER

    def next_after(self, t: Instant) -> Instant | None:  # noqa: ARG002
        return None

    def previous_before(self, t: Instant) -> Instant | None:  # noqa: ARG002
        return None

    def between(self, start: Instant, end: Instant) -> Iterator[Instant]:  # noqa: ARG002
        return iter(())


class NodeEventSchedule(UntimedSchedule):
    """`@reboot` and `@shutdown`: due by an event of the node."""

    def __init__(self, event: str) -> None:
        self.event = event


AFTER_PARENTS: Final = UntimedSchedule()
"""`after` and `after_failure`: due by what becomes of other tasks, see `core.chains`."""


def compile_schedule(schedule: Schedule, name: str) -> CompiledSchedule:
    """Compile a schedule for a task of this name; raise Invalid, with the field as its place."""
    with prefix_place("zone"):
        zone(schedule.zone)
    if schedule.every is not None:
        return Interval(schedule.every, _phase(schedule.every, schedule, name))
    if schedule.parents:
        return AFTER_PARENTS
    field = "cron" if schedule.cron is not None else "calendar" if schedule.calendar is not None else "at"
    with prefix_place(field):
        return _compile_calendar(schedule, name)


def _compile_calendar(schedule: Schedule, name: str) -> CompiledSchedule:
    if schedule.cron is not None:
        return _cron(schedule.cron, schedule, name)
    if schedule.calendar is not None:
        return compile_calendar(schedule.calendar, schedule.zone)
    return OnceSchedule(parse_instant(schedule.at or "", zone(schedule.zone)))


def _cron(text: str, schedule: Schedule, name: str) -> CompiledSchedule:
    entry = parse_cron_entry(text)
    if entry.occasion is not None:
        zone(entry.zone or "UTC")
        return NodeEventSchedule(entry.occasion)
    return compile_cron(
        text,
        name=name,
        zone_name=schedule.zone,
        hash_=schedule.hash,
        days=schedule.days,
        second=schedule.second,
    )


def has_own_phase(schedule: Schedule) -> bool:
    """Does an interval task have its phase whatever the others do, so that it need not be placed?"""
    return schedule.phase is not None or schedule.spread in (Spread.ALIGNED, Spread.HASH)


def _phase(every: int, schedule: Schedule, name: str) -> int:
    if schedule.phase is not None:
        return schedule.phase
    if schedule.spread is Spread.ALIGNED:
        return aligned_phase()
    if schedule.spread is Spread.HASH:
        return hash_phase(name, every)
    raise Invalid(f"spread = {schedule.spread.value!r} has no phase before the task is placed", place="phase")
