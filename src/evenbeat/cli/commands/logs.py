"""`evenbeat logs`: the output of a run, also while it is under way."""

import argparse
import sys

from evenbeat.cli.output.common import print_json
from evenbeat.cli.output.run_output import print_output, wait_for_run
from evenbeat.cli.output.task_words import relative_time
from evenbeat.cli.task_selection import require_task
from evenbeat.cli.which_database import open_client
from evenbeat.client.contract import Client
from evenbeat.model import Entry, Instant, Invalid
from evenbeat.report.documents import iso_time
from evenbeat.report.words import nominals_of, outcome_words, zone_of
from evenbeat.when.instant import parse_instant
from evenbeat.wire.live_runs import OutputPart


def run_command(args: argparse.Namespace) -> int:
    """Print the output; exit 1 if there is no run."""
    if args.json and args.follow:
        raise Invalid("prints one document, and --follow prints as the run writes", place="--json")
    if args.run is not None and args.follow:
        raise Invalid("follows the run that is under way or comes next, and --run names one", place="--follow")
    with open_client(args) as client:
        entry = require_task(client, args.name)
        at = None if args.run is None else parse_instant(args.run, zone_of(entry.task, nominals_of(entry.task)))
        part = client.read_output(entry, run=at)
        if args.follow and (part.claimed is None or part.ended is not None):
            part = _next_run(client, entry, part.now)
        if part.claimed is None:
            print(f"{entry.task.name} has not run yet", file=sys.stderr)
            return 1
        if args.json:
            print_json(_document(entry, part))
            return 0
        last = print_output(
            part,
            lambda position, wait: client.read_output(entry, run=part.claimed, position=position, wait=wait),
            is_followed=args.follow,
        )
    if args.follow:
        print(f"{entry.task.name} {outcome_words(last.outcome, last.status)}", file=sys.stderr)
    return 0


def _next_run(client: Client, entry: Entry, since: Instant) -> OutputPart:
    if not client.has_node():
        raise Invalid("no node is running, so no run is to come; without --follow the latest output is shown")

    def say(part: OutputPart) -> None:
        due = client.condition(entry).next_run
        when = "none is planned" if due is None else f"due {relative_time(due, part.now)}"
        print(f"{entry.task.name} does not run now; waiting for its next run, {when}", file=sys.stderr)

    return wait_for_run(client, entry, since, say, forced=False)


def _document(entry: Entry, part: OutputPart) -> dict[str, object]:
    return {
        "task": entry.task.name,
        "run": iso_time(part.claimed),
        "nominal": iso_time(part.nominal),
        "kind": part.kind.word,
        "started": iso_time(part.started),
        "ended": iso_time(part.ended),
        "outcome": part.outcome,
        "status": part.status,
        "output": part.text,
    }
