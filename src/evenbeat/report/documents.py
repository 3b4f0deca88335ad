"""Tasks, runs, skips and changes as JSON documents, identical on the command line and over HTTP."""

from typing import Any, Final

import msgspec

from evenbeat.load.config import NODE_DURATIONS
from evenbeat.load.contacts import notify_to_list
from evenbeat.load.size_text import format_size
from evenbeat.load.task_keys import DURATION_KEYS
from evenbeat.load.task_tables import hide_secrets, task_to_table
from evenbeat.load.timebox_text import format_timebox
from evenbeat.model import SECOND, Downtime, Instant, NotifyContact, TaskPause
from evenbeat.report.retries import attempt_of_run, waiting_retry
from evenbeat.report.words import condition_summary, is_set_aside, run_summary, short_schedule
from evenbeat.store.contract import Change, Condition, RunRecord, SkipRecord
from evenbeat.when.duration import format_duration
from evenbeat.when.instant import format_instant
from evenbeat.when.zone import Zone, zone
from evenbeat.wire.events import WaitingRetry

_UTC: Final = zone("UTC")
_DURATION_KEYS: Final = frozenset((*DURATION_KEYS, *NODE_DURATIONS))


def iso_time(t: Instant | None, where: Zone = _UTC) -> str | None:
    """An instant as ISO 8601; None stays None."""
    return None if t is None else format_instant(t, where)


def task_document(condition: Condition, *, secrets: bool) -> dict[str, Any]:
    """A task and its condition, its next run included; `task` has the keys of a file.

    Literal values of `env` are shown only with `secrets`: to the owner of the database, or to the role admin.
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
        "next": iso_time(condition.next_run, where),
        "expected_by": iso_time(condition.expected_by, where),
        "timebox": None if condition.timebox is None else condition.timebox / SECOND,
        "late": condition.late,
        "stale": condition.stale,
        "unreachable": bool(condition.unreachable_through),
        "unreachable_through": list(condition.unreachable_through),
        "running_since": iso_time(condition.running_since, where),
        "last_start": iso_time(condition.last_start, where),
        "last_end": iso_time(condition.last_end, where),
        "outcome": condition.outcome,
        "state": None if condition.state is None else condition.state.name.lower(),
        "hard": condition.hard if condition.state is not None else None,
        "attempt": condition.attempt if condition.state is not None else None,
        "flapping": condition.flapping,
        "output": condition.output,
        "created": iso_time(entry.created, where),
        "changed": iso_time(entry.changed, where),
        "task": task_to_table(task) if secrets else hide_secrets(task_to_table(task)),
        "downtime": bool(condition.downtimes),
        "downtimes": [_task_downtime_document(downtime, where) for downtime in condition.downtimes],
        "pause": None if task.pause is None else _pause_document(task.pause, where),
        "summary": condition_summary(condition),
        "retry": None if (retry := waiting_retry(condition)) is None else retry_document(retry, where),
        "waits_for": list(condition.waits_for),
        "longer_than": None if condition.longer_than is None else condition.longer_than / SECOND,
        "long": condition.long,
    }


def retry_document(retry: WaitingRetry, where: Zone = _UTC) -> dict[str, Any]:
    """Which attempt comes next, of how many, and when."""
    return {"attempt": retry.attempt, "attempts": retry.attempts, "at": iso_time(retry.at, where)}


def _pause_document(pause: TaskPause, where: Zone) -> dict[str, Any]:
    """Who has paused a task, and until when."""
    return {
        "by": pause.who,
        "at": iso_time(pause.at, where),
        "until": iso_time(pause.until, where),
        "reason": pause.reason,
    }


def _task_downtime_document(downtime: Downtime, where: Zone) -> dict[str, Any]:
    """An active downtime that a task is in."""
    return {
        "id": downtime.id,
        "from": iso_time(downtime.start, where),
        "until": iso_time(downtime.end, where),
        "period": downtime.period,
        "comment": downtime.comment,
        "who": downtime.who,
    }


def run_document(run: RunRecord) -> dict[str, Any]:
    """A run."""
    return {
        "task": run.task,
        "nominal": iso_time(run.nominal),
        "kind": run.kind.word,
        "claimed": iso_time(run.claimed),
        "started": iso_time(run.started),
        "ended": iso_time(run.ended),
        "outcome": run.outcome,
        "status": run.status,
        "state": None if run.state is None else run.state.name.lower(),
        "hard": run.hard if run.state is not None else None,
        "attempt": run.attempt if run.state is not None else attempt_of_run(run),
        "output": run.output,
        "summary": run_summary(run),
    }


def change_document(change: Change) -> dict[str, Any]:
    """A line of the audit; `fields` says from what to what, in the words of files."""
    return {
        "at": iso_time(change.at),
        "who": change.who,
        "action": change.action,
        "name": change.name,
        "detail": change.detail,
        "fields": [
            {"key": f.key, "old": _field_value(f.key, f.old), "new": _field_value(f.key, f.new)} for f in change.fields
        ],
    }


def _field_value(key: str, value: Any) -> Any:
    if key == "notify" and isinstance(value, list):
        return notify_to_list(msgspec.convert(value, list[NotifyContact]))
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if key == "output_keep":
        return format_size(value)
    return format_timebox(value) if key == "timebox" else format_duration(value) if key in _DURATION_KEYS else value


def skip_document(skip: SkipRecord) -> dict[str, Any]:
    """Skipped nominal times."""
    return {
        "task": skip.task,
        "first": iso_time(skip.first),
        "last": iso_time(skip.last),
        "times": skip.times,
        "reason": skip.reason,
        "kind": skip.kind.word,
        "at": iso_time(skip.at),
    }
