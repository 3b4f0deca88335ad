"""The status of a node as short lines for a terminal."""

from collections.abc import Mapping

from rich.markup import escape

from evenbeat.model import SECOND
from evenbeat.report.history_status import in_bytes, outgrown_disk_words
from evenbeat.report.status import NO_WORKERS_TEXT
from evenbeat.when.duration import spoken_duration
from evenbeat.wire.status import HistoryStatus, LimitStatus, Status


def status_lines(status: Status) -> list[str]:
    """The status of a node as lines with rich markup."""
    late = status.lateness
    lines = [
        f"[bold]{status.tasks:,} tasks[/bold]: {status.idle:,} idle, "
        f"{status.pending:,} of {status.slots:,} slots taken, "
        f"{status.waiting:,} waiting, {status.late:,} late, {status.stale:,} stale, {status.disabled:,} disabled",
        f"{status.runs:,} runs in {spoken_duration(round(status.uptime * SECOND))}: {status.runs_per_second:.2f}/s, "
        f"lateness p50 {late.p50:.3f} s, p99 {late.p99:.3f} s, max {late.max:.3f} s",
    ]
    lines += capacity_lines(status.slots, status.slots_source, status.limits)
    if to_come := _planned_runs_line(status):
        lines.append(to_come)
    if any(status.states.values()):
        lines.append("checks: " + _counts(status.states))
    if status.outcomes:
        lines.append("outcomes: " + _counts(status.outcomes))
    if status.skipped:
        lines.append("skipped: " + _counts(status.skipped))
    lines += history_lines(status.history)
    lines += _message_lines(status)
    lines += [f"[red]{escape(problem)}[/red]" for problem in status.problems]
    if not status.executes:
        lines.append(f"[yellow]{NO_WORKERS_TEXT}[/yellow]")
    if status.files != "ok":
        found = escape(status.files)
        lines.append(f"[red]the files could not be applied; their last applied versions are in effect: {found}[/red]")
    return lines


def history_lines(history: HistoryStatus | None) -> list[str]:
    """The size of the database, and what becomes of it."""
    if history is None:
        return []
    every, longer = (spoken_duration(round(length * SECOND)) for length in (history.keep_runs, history.keep))
    line = (
        f"database: {in_bytes(history.size)}, grows by {in_bytes(history.growth_per_day)} a day, becomes "
        f"{in_bytes(history.forecast)}: every run is kept for {every}, what says more for {longer}"
    )
    if history.disk_free is not None:
        line += f"; {in_bytes(history.disk_free)} are free on its disk"
    words = outgrown_disk_words(history)
    return [line, *([] if words is None else [f"[yellow]{escape(words)}[/yellow]"])]


def _message_lines(status: Status) -> list[str]:
    lines = []
    if status.messages_waiting:
        some = f"{status.messages_waiting:,} message{'' if status.messages_waiting == 1 else 's'} to contacts"
        lines.append(f"{some} not delivered yet, the oldest since {status.messages_waiting_since}")
    if status.failing_contacts:
        names = ", ".join(status.failing_contacts)
        lines.append(f"[red]messages do not arrive: {escape(names)}; `evenbeat contacts NAME` tells why[/red]")
    return lines


def capacity_lines(slots: int, source: str, limits: Mapping[str, LimitStatus]) -> list[str]:
    """Slots and where their number comes from, unless it is the default, and the limits."""
    lines = []
    if source not in ("", "default"):
        lines.append(f"slots: {slots:,}, {_source_text(source)}")
    if limits:
        lines.append("limits: " + "; ".join(_limit(name, limit) for name, limit in limits.items()))
    return [escape(line) for line in lines]


def _limit(name: str, limit: LimitStatus) -> str:
    return f"{name} {limit.running:,} of {limit.most:,} taken, {_source_text(limit.source)}"


def _source_text(source: str) -> str:
    return source if source.startswith("set by ") else f"from {'the ' if source == 'command line' else ''}{source}"


def _planned_runs_line(status: Status) -> str:
    """The planned first and catch-up runs, so that the slope does not look like a fault."""
    kinds = {"first": status.first_runs_to_come, "catch-up": status.catch_ups_to_come}
    if status.to_come_until is None:
        return ""
    return f"still to come: {_counts(kinds)} runs, evenly until {status.to_come_until}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
