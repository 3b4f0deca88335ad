"""`evenbeat why`: why a task runs or does not run, now or at a given time; who was notified of a problem, and why."""

import argparse

import msgspec
from rich.text import Text

from evenbeat.cli.output.common import console, print_json
from evenbeat.cli.task_selection import require_task
from evenbeat.cli.which_database import open_client
from evenbeat.model import prefix_place
from evenbeat.report.why_facts import typed_time_span
from evenbeat.wire.replies import NotFound


def run_command(args: argparse.Namespace) -> int:
    """Print the answer and its reasons; exit 0."""
    with open_client(args) as client:
        if args.at is not None:
            with prefix_place("--at"):
                typed_time_span(args.at, require_task(client, args.name))
        try:
            found = client.why(args.name, args.at)
        except NotFound:
            require_task(client, args.name)  # its error suggests a similar name
            raise
    if args.json:
        print_json(msgspec.to_builtins(found))
        return 0
    out = console()
    out.print(Text(found.answer, "bold"))
    for reason in found.reasons:
        out.print(Text(f"  - {reason}"))
    if found.notified:
        out.print("[bold]notified[/bold]")
    for line in found.notified:
        out.print(Text(f"  - {line.text}"))
    return 0
