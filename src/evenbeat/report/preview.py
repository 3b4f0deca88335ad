"""When a task will run, told before it does: its schedule in words, the next times, and what deserves a second look."""

from collections.abc import Iterator
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from evenbeat.admin.command_permission import blocked_advice
from evenbeat.model import Instant, Task
from evenbeat.report.words import nominals_of, short_schedule, zone_of
from evenbeat.when.calendar import Calendar
from evenbeat.when.cron import Cron
from evenbeat.when.duration import format_duration
from evenbeat.when.explain import explain_cron, explain_occasion
from evenbeat.when.inside_period import within_period
from evenbeat.when.instant import LATEST, format_instant, parse_instant, spoken_instant
from evenbeat.when.interval import Interval
from evenbeat.when.lint import cron_warnings
from evenbeat.when.nominal_times import CompiledSchedule, ListedSchedule
from evenbeat.when.period import CompiledPeriod
from evenbeat.when.schedule import NodeEventSchedule, UntimedSchedule
from evenbeat.when.zone import Zone, zone


class SchedulePreview(Struct):
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


def preview_schedule(task: Task, period: CompiledPeriod | None, start: Instant, n: int) -> SchedulePreview:
    """The next n times after `start`, inside the period; the task has its phase."""
    times = nominals_of(task)
    where = zone_of(task, times)
    listed = within_period(times, period)
    found = list(islice(_times_after(task, listed, period, start), n))
    warnings = cron_warnings(times.entry, task.schedule.days) if isinstance(times, Cron) else []
    if not found and not isinstance(times, UntimedSchedule):
        warnings.append("no nominal time is left" if period is None else "no nominal time inside within 50 years")
    return SchedulePreview(
        short_schedule(task),
        _after_parents(task) if task.schedule.parents else _in_english(times, where),
        times.resolved if isinstance(times, Cron) else None,
        where.name,
        [format_instant(t, where) for t in found],
        warnings,
    )


def preview_of_paused(shown: SchedulePreview, task: Task) -> SchedulePreview:
    """The same for a task that is paused or disabled: it has no next times."""
    why = "it is paused" if task.paused else "it is disabled: its definition says enabled = false"
    return replace(shown, next=[], warnings=[*shown.warnings, f"{why}, so it does not run"])


def preview_of_blocked(shown: SchedulePreview, owner: str) -> SchedulePreview:
    """The same for a task whose command or function may not be executed."""
    why = f'commands = "files", and {blocked_advice(owner)}'
    return replace(shown, next=[], warnings=[*shown.warnings, f"it does not run: {why}"])


def _times_after(task: Task, times: ListedSchedule, period: CompiledPeriod | None, start: Instant) -> Iterator[Instant]:
    if task.start_at is not None:
        asked = parse_instant(task.start_at, zone(task.schedule.zone))
        if asked > start:
            if period is None or period.contains(asked):
                yield asked
            start = asked
    yield from times.between(Instant(start + 1), LATEST)


def _after_parents(task: Task) -> str:
    names = ", ".join(task.schedule.parents)
    if task.schedule.after:
        return f"After a success of {'each of ' * (len(task.schedule.after) > 1)}{names}."
    return f"After a failure of {'one of ' * (len(task.schedule.after_failure) > 1)}{names} that is not tried again."


def _in_english(times: CompiledSchedule, where: Zone) -> str:
    match times:
        case Cron():
            return explain_cron(times)
        case NodeEventSchedule():
            return explain_occasion(times.event)
        case Interval():
            every, phase = format_duration(times.every), format_duration(times.phase)
            return f"Every {every}, phase {phase}, on the grid of the Unix epoch."
        case Calendar():
            return f"By the calendar expression {times.text}, {where.name} time."
    only = times.next_after(Instant(-(2**62)))
    return "Never." if only is None else f"Once, {spoken_instant(only, where)}, {where.name} time."
