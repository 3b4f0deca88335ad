"""`evenbeat status`: how the node is; without one, what the store tells."""

import argparse
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from evenbeat.admin.capacity import limit_capacities, slot_capacity
from evenbeat.cli.output.cluster_lines import cluster_lines
from evenbeat.cli.output.common import console, print_json
from evenbeat.cli.task_commands import database_option, open_client, open_store_read_only
from evenbeat.model import SECOND, State
from evenbeat.report.obstacles import NO_WORKERS_TEXT
from evenbeat.store.addresses import is_shared_database, without_password
from evenbeat.store.contract import Filter, Store
from evenbeat.when.duration import spoken_duration
from evenbeat.wire.status import LimitStatus, Status


def run_command(args: argparse.Namespace) -> int:
    """Tell it; exit 0, or 1 if no node lives on the database or something keeps it from executing tasks."""
    with open_client(args) as client:
        status = client.status()
        cluster = None if status is None else client.cluster()
    if status is None:
        with open_store_read_only(args) as store:
            return _print_without_node(args, store)
    if args.json:
        more = {} if cluster is None else {"cluster": msgspec.to_builtins(cluster)}
        print_json({"live": True, **msgspec.to_builtins(status), **more})
    else:
        out = console()
        show_status(out, status)
        for line in [] if cluster is None else cluster_lines(cluster):
            out.print(line, soft_wrap=True, highlight=False)
    return 1 if status.problems or status.store != "ok" else 0


def _print_without_node(args: argparse.Namespace, store: Store) -> int:
    """The same keys; what only a node knows is null. Slots and limits are what the next node has, unless its command
    line says something else.
    """
    document: dict[str, Any] = dict.fromkeys(Status.__struct_fields__)
    states = {word: store.count(Filter(state=word)) for word in (*(s.name.lower() for s in State), "unchecked")}
    document |= {"tasks": store.count(), "disabled": store.count(Filter(state="disabled")), "states": states}
    slots = slot_capacity(store)
    limits = {name: LimitStatus(limit.most, 0, limit.source) for name, limit in limit_capacities(store).items()}
    document |= {"slots": slots.most, "slots_source": slots.source, "limits": msgspec.to_builtins(limits)}
    if args.json:
        print_json({"live": False, **document})
    else:
        path = database_option(args)
        command = "scheduler" if is_shared_database(path) else "up"
        print(f"no node lives on {without_password(path)}; `evenbeat {command}` starts one")
        print(f"{document['tasks']:,} tasks, {document['disabled']:,} disabled")
        for line in capacity_lines(slots.most, slots.source, limits):
            console().print(line, soft_wrap=True, highlight=False)
    return 1


def show_status(out: Console, status: Status) -> None:
    """A node at a glance."""
    for line in status_lines(status):
        out.print(line)


def status_lines(status: Status) -> list[str]:
    """The same, as lines."""
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
    lines += [f"[red]{escape(problem)}[/red]" for problem in status.problems]
    if not status.executes:
        lines.append(f"[yellow]{NO_WORKERS_TEXT}[/yellow]")
    if status.files != "ok":
        found = escape(status.files)
        lines.append(f"[red]the files could not be applied; what was last applied of them counts: {found}[/red]")
    return lines


def capacity_lines(slots: int, source: str, limits: Mapping[str, LimitStatus]) -> list[str]:
    """Who says how many slots there are, if it is not the default; and the limits."""
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
    """The planned slope of first and catch-up runs, so that it does not look like a fault."""
    kinds = {"first": status.first_runs_to_come, "catch-up": status.catch_ups_to_come}
    if status.to_come_until is None:
        return ""
    return f"still to come: {_counts(kinds)} runs, evenly until {status.to_come_until}"


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
