"""Which tasks a request to stop runs is about, as the store knows them."""

from collections.abc import Iterator, Sequence
from typing import Final

from evenbeat.core.scope import Scope
from evenbeat.load.safe_text import text_error
from evenbeat.model import TEXT_LIMIT, Entry, Instant, Invalid, RunKind
from evenbeat.name_patterns import is_pattern
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import COMPUTED_FILTER_STATES, Change, Condition, Filter, Store
from evenbeat.wire.requests import StopRuns

STOPPED: Final = "stopped"
"""In the audit: a person has stopped what ran of a task, or withdrawn what was about to run."""
_WITHDRAWN_KINDS: Final = (RunKind.FORCED, RunKind.FORCED_BEFORE_START, RunKind.RETRY)
"""Planned runs off the grid that a stop withdraws."""


def check_stop_reason(reason: str) -> None:
    """Raise Invalid if this cannot be the reason of a stop: one line, as it stands in the output of the run."""
    if len(reason) > TEXT_LIMIT:
        raise Invalid(f"{len(reason):,} characters, accepted: at most {TEXT_LIMIT:,}", place="reason")
    if problem := text_error(reason):
        raise Invalid(problem, place="reason")


def tasks_to_stop(store: Store, only: Filter, now: Instant) -> list[Entry]:
    """The tasks that are named, and those of all others that match of which a run is under way or is withdrawn.

    A name may also be that of a removed task whose run has not ended. Unknown names are ignored.
    """
    exact = {name for name in only.names if not is_pattern(name)}
    found = [c.entry for c in _conditions(store, only, now) if {c.entry.task.name, c.entry.id} & exact or _has_run(c)]
    missing = exact.difference(*({entry.task.name, entry.id} for entry in found))
    if missing:
        found += (entry for entry in store.removed_running() if _is_meant(entry, only, missing))
    return found


def note_stops(store: Store, tasks: Sequence[str], request: StopRuns, now: Instant) -> None:
    """Write to the audit of which tasks something was stopped."""
    store.note([Change(now, request.who, STOPPED, task, request.reason) for task in tasks])


def _conditions(store: Store, only: Filter, now: Instant) -> Iterator[Condition]:
    if only.state in COMPUTED_FILTER_STATES:
        return ConditionReader(store, now).conditions(only)
    return store.conditions(only)


def _has_run(condition: Condition) -> bool:
    """May a run of this task be under way, or planned in a way that a stop withdraws?"""
    planned = condition.extra is not None and condition.extra_kind in _WITHDRAWN_KINDS
    return condition.running_since is not None or planned


def _is_meant(removed: Entry, only: Filter, names: set[str]) -> bool:
    within = Scope(only.owner, dict(only.labels)).contains(removed.owner, removed.task.labels)
    return within and only.state in (None, "running") and not names.isdisjoint((removed.task.name, removed.id))
