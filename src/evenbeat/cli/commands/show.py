"""`evenbeat show`: everything about one task: its definition, condition and latest runs."""

import argparse
import sys
from typing import Final

from rich.text import Text

from evenbeat.admin.command_permission import blocked_advice
from evenbeat.cli.output.common import console, now, print_json
from evenbeat.cli.output.task_words import STATE_COLOURS, condition_words, no_node_notice, relative_time
from evenbeat.cli.task_commands import open_client, require_task
from evenbeat.client.contract import Client
from evenbeat.load.task_keys import task_to_table
from evenbeat.load.write_toml import write_document
from evenbeat.model import Entry, Instant
from evenbeat.report.documents import run_document, skip_document, task_document
from evenbeat.report.problems import problem_document, problem_sentence
from evenbeat.report.words import deaths_words, long_schedule, nominals_of, run_words, skip_words, zone_of
from evenbeat.store.contract import Condition, Filter, ProblemFilter, RunRecord, SkipRecord
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.instant import spoken_instant
from evenbeat.wire.replies import NotFound

_RUNS_SHOWN: Final = 5


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
    kind = "passive check" if task.passive else "check" if task.check else "task"
    out.print(Text(f"  {kind} {entry.id}, of {entry.owner}, version {entry.version}", "dim"))
    out.print(Text(f"  {long_schedule(task, times)}"))
    if condition.blocked:
        out.print(Text(f'  not executed: commands = "files", and {blocked_advice(entry.owner)}', "yellow"))
    if condition.deaths:
        out.print(Text(f"  {deaths_words(task.name, condition.deaths)}", "yellow"))
    due = condition.next_run
    if due is not None:
        what = "next result expected" if task.passive else "next" if live else "no node is running; would run"
        out.print(f"  {what} {spoken_instant(due, where)}, {relative_time(due, at)}")
    if condition.expected_by is not None and not task.passive:
        by = condition.expected_by
        out.print(f"  result expected by {spoken_instant(by, where)}, {relative_time(by, at)}")
    if condition.output:
        out.print(Text(_indented(condition.output)))
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


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines()).rstrip("\n")
