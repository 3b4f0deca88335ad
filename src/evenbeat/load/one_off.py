"""One-off times: a relative one is resolved when it is entered, and one in the past is refused."""

from collections.abc import Mapping
from typing import Any, Final

from evenbeat.model import SECOND, Instant, Invalid, Task
from evenbeat.when.duration import parse_duration
from evenbeat.when.instant import format_instant, parse_instant
from evenbeat.when.zone import zone

RELATIVE_REFUSED: Final = "a relative time would be another one whenever this is read; accepted here: a date and time"


def parse_one_off(text: str) -> Instant:
    """A time that a person or program gives once, in UTC unless it has an offset; raise Invalid."""
    return parse_instant(text, zone("UTC"))


def is_relative(at: object) -> bool:
    """Such as "+10m"."""
    return isinstance(at, str) and at.lstrip().startswith("+")


def resolve_relative_at(table: Mapping[str, Any], now: Instant) -> dict[str, Any]:
    """The keys of a task with `at = "+10m"` as the time that it means now; raise Invalid."""
    at = table.get("at")
    if not is_relative(at):
        return dict(table)
    try:
        length = parse_duration(str(at).strip()[1:])
    except Invalid as e:
        raise Invalid(e.problem, place="at") from None
    # "+10m" does not mean a fraction of a second.
    when = Instant(-(-(now + length) // SECOND) * SECOND)
    return {**table, "at": format_instant(when, zone("UTC"))}


def past_at_error(task: Task, now: Instant) -> str:
    """What is wrong with a task whose only time has passed; empty if nothing is."""
    at = task.schedule.at
    if at is None or parse_instant(at, zone(task.schedule.zone)) > now:
        return ""
    return f"{at} is in the past, so the task never runs"


def require_future_at(task: Task, now: Instant, before: Task | None = None) -> None:
    """Raise Invalid for a time that has passed; not if the task had it before."""
    same = before is not None and (before.schedule.at, before.schedule.zone) == (task.schedule.at, task.schedule.zone)
    if not same and (wrong := past_at_error(task, now)):
        raise Invalid(f"{wrong}; accepted: a future time, or a relative one such as +10m", place="at")
