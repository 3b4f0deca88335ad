"""`evenbeat show`: everything about one task: its definition, condition and latest runs."""

import argparse
import sys
from typing import Final

from rich.text import Text

from evenbeat.admin.command_permission import blocked_advice
from evenbeat.cli.output.common import console, now, print_json
from evenbeat.cli.output.task_words import STATE_COLOURS, condition_words, no_node_notice, relative_time
from evenbeat.cli.task_selection import require_task
from evenbeat.cli.which_database import open_client
from evenbeat.client.contract import Client
from evenbeat.core.telling_lines import telling_lines
from evenbeat.load.task_tables import task_to_table
from evenbeat.load.write_toml import write_document
from evenbeat.model import Entry, Instant
from evenbeat.report.chains import waiting_words
from evenbeat.report.documents import run_document, skip_document, task_document
from evenbeat.report.downtime_words import in_downtime_words
from evenbeat.report.problems import problem_document, problem_sentence
from evenbeat.report.retries import attempt_words, waiting_retry
from evenbeat.report.words import (
    deaths_words,
    has_run_failed,
    long_schedule,
    nominals_of,
    pause_words,
    run_words,
    skip_words,
    timebox_words,
    unreachable_words,
    zone_of,
)
from evenbeat.store.contract import Condition, Filter, ProblemFilter, RunRecord, SkipRecord
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.instant import spoken_instant
from evenbeat.when.zone import Zone
from evenbeat.wire.replies import NotFound

_RUNS_SHOWN: Final = 5
_OUTPUT_LINES: Final = 20
"""Lines of the latest output that are shown."""


def run_command(args: argparse.Namespace) -> int:
    """Show the task; exit 0."""
    with open_client(args) as client:
        entry = require_task(client, args.name)
        condition = client.condition(entry)
        runs, skips = client.latest_records(entry, _RUNS_SHOWN)
        problems = _open_problems(client, entry)
        live = client.has_node()
    if args.json:
        latest = {"runs": [run_document(run) for run in runs], "skips": [skip_document(skip) for skip in skips]}
        found = {"problems": [problem_document(problem, now()) for problem in problems]}
        print_json({**task_document(condition, secrets=True), **latest, **found, "live": live})
    else:
        _show(condition, problems, runs, skips, now(), live=live)
    if note := no_node_notice(live=live):
        print(note, file=sys.stderr)
    return 0


def _open_problems(client: Client, entry: Entry) -> list[ProblemRecord]:
    try:
        return client.problems(ProblemFilter(Filter(names=(entry.id,))))
    except NotFound:  # the node at this URL is of before there were problems
        return []


def _show(
    condition: Condition,
    problems: list[ProblemRecord],
    runs: list[RunRecord],
    skips: list[SkipRecord],
    at: Instant,
    *,
    live: bool,
) -> None:
    out, entry, task = console(), condition.entry, condition.entry.task
    times = nominals_of(task)
    where = zone_of(task, times)
    words, colour = condition_words(condition)
    out.print(Text.assemble((task.name, "bold"), "  ", (words, colour)))
    for problem in problems:
        out.print(Text(f"  {problem_sentence(problem, at, where)}", STATE_COLOURS[problem.state]))
    if task.pause is not None:
        out.print(Text(f"  {pause_words(task, where)}", "cyan"))
    for downtime in condition.downtimes:
        out.print(Text(f"  {in_downtime_words(downtime, where)}", "cyan"))
    kind = "passive check" if task.passive else "check" if task.check else "task"
    out.print(Text(f"  {kind} {entry.id}, of {entry.owner}, version {entry.version}", "dim"))
    out.print(Text(f"  {long_schedule(task, times)}"))
    if condition.unreachable_through:
        out.print(Text(f"  {unreachable_words(condition)}", "yellow"))
    if condition.blocked:
        out.print(Text(f'  not executed: commands = "files", and {blocked_advice(entry.owner)}', "yellow"))
    if condition.deaths:
        out.print(Text(f"  {deaths_words(task.name, condition.deaths)}", "yellow"))
    _show_next_run(condition, at, where, live=live)
    if condition.output:
        _show_output(condition)
    out.print("\n[bold]definition[/bold]")
    section = "checks" if task.check else "tasks"
    out.print(Text(_indented(write_document({section: {task.name: task_to_table(task)}}))))
    if runs:
        out.print(f"\n[bold]latest {'results' if task.passive else 'runs'}[/bold]")
    for run in runs:
        out.print(Text(f"  {run_words(run, where)}"))
    if skips:
        out.print("\n[bold]latest skips[/bold]")
    for skip in skips:
        out.print(Text(f"  {skip_words(skip, where)}"))


def _show_output(condition: Condition) -> None:
    """The lines of the latest output that say most."""
    out, check, has_failed = console(), condition.entry.task.check, has_run_failed(condition.outcome)
    shown = telling_lines(condition.output, _OUTPUT_LINES, is_check=check, has_failed=has_failed)
    if shown.before:
        out.print(Text(f"  ... {_lines_words(shown.before)} before", "dim"))
    out.print(Text(_indented("\n".join(shown.lines))))
    if shown.after:
        out.print(Text(f"  ... {_lines_words(shown.after)} more", "dim"))


def _lines_words(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def _show_next_run(condition: Condition, at: Instant, where: Zone, *, live: bool) -> None:
    out, task, by = console(), condition.entry.task, condition.expected_by
    due = condition.next_run
    if due is None:
        if condition.waits_for and task.enabled and not task.paused:
            out.print(Text(f"  next {waiting_words(task, condition.waits_for)}"))
        return
    what = "next result expected" if task.passive else "next" if live else "no node is running; would run"
    retry = waiting_retry(condition)
    which = f": {attempt_words(retry)}" if retry is not None and retry.at == due else ""
    out.print(f"  {what} {spoken_instant(due, where)}, {relative_time(due, at)}{which}")
    if task.passive:
        return
    if by is not None:
        out.print(f"  result expected by {spoken_instant(by, where)}, {relative_time(by, at)}")
    out.print(f"  {timebox_words(condition)}")


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines()).rstrip("\n")
