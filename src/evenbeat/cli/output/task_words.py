"""The condition of tasks in words, for lists."""

from typing import Final

from evenbeat.core.task_defaults import attempts_of
from evenbeat.model import Instant, Outcome, State, Task
from evenbeat.report.retries import attempt_words, waiting_retry
from evenbeat.report.words import is_set_aside, state_words
from evenbeat.store.contract import Condition
from evenbeat.when.duration import spoken_duration
from evenbeat.when.instant import spoken_instant
from evenbeat.when.zone import zone

STATE_COLOURS: Final = {
    State.OK: "green",
    State.WARNING: "yellow",
    State.CRITICAL: "red",
    State.UNKNOWN: "magenta",
}


def condition_words(condition: Condition) -> tuple[str, str]:
    """The condition of a task in a few words, and its colour."""
    words, colour = _condition_words(condition)
    if condition.downtimes:
        words = f"{words}, in downtime"
    if is_set_aside(condition.deaths):
        words, colour = f"{words}, set aside", "red"
    if condition.unreachable_through:
        return f"{words}, unreachable", colour
    if condition.stale or condition.late:
        return f"{words}, {'stale' if condition.stale else 'late'}", "red" if condition.stale else "yellow"
    return words, colour


def _condition_words(condition: Condition) -> tuple[str, str]:
    task = condition.entry.task
    if condition.running_since is not None:
        return ("running, unusually long", "yellow") if condition.long else ("running", "cyan")
    if task.paused or not task.enabled:
        return _pause_words(task) if task.paused else "disabled", "dim"
    if condition.blocked and not task.passive:
        return condition.blocked, "yellow"
    if condition.state is not None:
        words = state_words(condition.state, hard=condition.hard, attempt=condition.attempt, attempts=attempts_of(task))
        return f"{words}, flapping" if condition.flapping else words, STATE_COLOURS[condition.state]
    if (retry := waiting_retry(condition)) is not None:
        return f"{condition.outcome or 'failed'}, {attempt_words(retry)} is next", "yellow"
    if condition.outcome is not None:
        return condition.outcome.value, "green" if condition.outcome is Outcome.SUCCEEDED else "red"
    return "new", "dim"


def _pause_words(task: Task) -> str:
    until = None if task.pause is None else task.pause.until
    if until is None:
        return "paused"
    return f"paused until {spoken_instant(until, zone(task.schedule.zone))}"


def no_node_notice(*, live: bool) -> str:
    """A notice for lists of next times when no node is running; empty if one is."""
    return "" if live else "no node is running: tasks do not run; the times shown are when they would"


def relative_time(t: Instant | None, now: Instant) -> str:
    """A time relative to now: "in 3 min 20 s", "12 s ago"."""
    if t is None:
        return "-"
    if t > now:
        return f"in {spoken_duration(t - now)}"
    words = spoken_duration(now - t)
    return "just now" if words.startswith("less") else f"{words} ago"
