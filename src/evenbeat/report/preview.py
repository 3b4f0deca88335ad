"""When a task will run, told before it does: its schedule in words, the next times, and what deserves a second look."""

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from evenbeat.admin.command_permission import why_blocked
from evenbeat.model import Instant, Task
from evenbeat.report.words import short_schedule, times_of, zone_of
from evenbeat.when.calendar import Calendar
from evenbeat.when.cron import Cron
from evenbeat.when.duration import format_duration
from evenbeat.when.explain import explain_cron, explain_occasion
from evenbeat.when.inside import inside
from evenbeat.when.instant import LATEST, format_instant, parse_instant, spoken_instant
from evenbeat.when.interval import Interval
from evenbeat.when.lint import lint
from evenbeat.when.nominals import Listed, Nominals
from evenbeat.when.period import Period
from evenbeat.when.schedule import Occasion
from evenbeat.when.zone import Zone, zone


class Preview(Struct):
    """A task's times."""

    schedule: str
    """As it was written."""
    text: str
    """In plain English."""
    resolved: str | None
    """A cron entry with the values that its H stand for."""
    zone: str
    next: list[str]
    warnings: list[str]


def preview(task: Task, period: Period | None, start: Instant, n: int) -> Preview:
    """The next n times after `start`, inside the period; the task has its phase."""
    times = times_of(task)
    where = zone_of(task, times)
    listed = inside(times, period)
    found = list(islice(_after(task, listed, period, start), n))
    warnings = lint(times.entry, task.schedule.days) if isinstance(times, Cron) else []
    if not found and not isinstance(times, Occasion):
        warnings.append("no nominal time is left" if period is None else "no nominal time inside within 50 years")
    return Preview(
        short_schedule(task),
        _in_english(times, where),
        times.resolved if isinstance(times, Cron) else None,
        where.name,
        [format_instant(t, where) for t in found],
        warnings,
    )


def paused(shown: Preview, task: Task) -> Preview:
    """The same for a task that is paused or disabled: it has no next times."""
    why = "it is paused" if task.paused else "it is disabled: its definition says enabled = false"
    return replace(shown, next=[], warnings=[*shown.warnings, f"{why}, so it does not run"])


def blocked(shown: Preview, owner: str) -> Preview:
    """The same for a task whose command or function may not be executed."""
    why = f'commands = "files", and {why_blocked(owner)}'
    return replace(shown, next=[], warnings=[*shown.warnings, f"it does not run: {why}"])


def _after(task: Task, times: Listed, period: Period | None, start: Instant) -> Iterator[Instant]:
    if task.start_at is not None:
        asked = parse_instant(task.start_at, zone(task.schedule.zone))
        if asked > start:
            if period is None or period.contains(asked):
                yield asked
            start = asked
    yield from times.between(Instant(start + 1), LATEST)


def _in_english(times: Nominals, where: Zone) -> str:
    match times:
        case Cron():
            return explain_cron(times)
        case Occasion():
            return explain_occasion(times.event)
        case Interval():
            every, phase = format_duration(times.every), format_duration(times.phase)
            return f"Every {every}, phase {phase}, on the grid of the Unix epoch."
        case Calendar():
            return f"By the calendar expression {times.text}, {where.name} time."
    only = times.next_after(Instant(-(2**62)))
    return "Never." if only is None else f"Once, {spoken_instant(only, where)}, {where.name} time."
