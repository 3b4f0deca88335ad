"""Tasks, runs and skips as documents for programs: the same on the command line and over HTTP."""

from typing import Any, Final

from evenbeat.load.config import NODE_DURATIONS
from evenbeat.load.task_keys import flat, without_secrets
from evenbeat.load.tasks import DURATIONS
from evenbeat.model import Instant
from evenbeat.report.words import is_set_aside, short_schedule
from evenbeat.store.contract import Change, Condition, RunRecord, SkipRecord
from evenbeat.when.duration import format_duration
from evenbeat.when.instant import format_instant
from evenbeat.when.zone import Zone, zone

_UTC: Final = zone("UTC")
_DURATIONS: Final = frozenset((*DURATIONS, *NODE_DURATIONS))


def instant(t: Instant | None, where: Zone = _UTC) -> str | None:
    """A time in a document."""
    return None if t is None else format_instant(t, where)


def task_document(condition: Condition, *, secrets: bool) -> dict[str, Any]:
    """A task and how it is, its next run included; `task` has the keys of a file.

    Literal values of `env` are part of it only with `secrets`: for an owner of the database, or the role admin.
    """
    entry, task = condition.entry, condition.entry.task
    where = zone(task.schedule.zone)
    return {
        "name": task.name,
        "id": entry.id,
        "owner": entry.owner,
        "version": entry.version,
        "check": task.check,
        "enabled": task.enabled,
        "paused": task.paused,
        "blocked": condition.blocked or None,
        "worker_deaths": condition.deaths,
        "set_aside": is_set_aside(condition.deaths),
        "schedule": short_schedule(task),
        "next": instant(condition.next_run, where),
        "expected_by": instant(condition.expected_by, where),
        "late": condition.late,
        "stale": condition.stale,
        "running_since": instant(condition.running_since, where),
        "last_start": instant(condition.last_start, where),
        "last_end": instant(condition.last_end, where),
        "outcome": condition.outcome,
        "state": None if condition.state is None else condition.state.name.lower(),
        "hard": condition.hard if condition.state is not None else None,
        "attempt": condition.attempt if condition.state is not None else None,
        "flapping": condition.flapping,
        "output": condition.output,
        "created": instant(entry.created, where),
        "changed": instant(entry.changed, where),
        "task": flat(task) if secrets else without_secrets(flat(task)),
    }


def run_document(run: RunRecord) -> dict[str, Any]:
    """A run."""
    return {
        "task": run.task,
        "nominal": instant(run.nominal),
        "kind": run.kind.word,
        "claimed": instant(run.claimed),
        "started": instant(run.started),
        "ended": instant(run.ended),
        "outcome": run.outcome,
        "status": run.status,
        "state": None if run.state is None else run.state.name.lower(),
        "hard": run.hard if run.state is not None else None,
        "attempt": run.attempt if run.state is not None else None,
        "output": run.output,
    }


def change_document(change: Change) -> dict[str, Any]:
    """A line of the audit; `fields` says from what to what, in the words of files."""
    return {
        "at": instant(change.at),
        "who": change.who,
        "action": change.action,
        "name": change.name,
        "detail": change.detail,
        "fields": [{"key": f.key, "old": _value(f.key, f.old), "new": _value(f.key, f.new)} for f in change.fields],
    }


def _value(key: str, value: Any) -> Any:
    return format_duration(value) if key in _DURATIONS and isinstance(value, int) else value


def skip_document(skip: SkipRecord) -> dict[str, Any]:
    """Nominal times that were skipped."""
    return {
        "task": skip.task,
        "first": instant(skip.first),
        "last": instant(skip.last),
        "times": skip.times,
        "reason": skip.reason,
        "kind": skip.kind.word,
        "at": instant(skip.at),
    }
