"""`evenbeat why`: why does a task run, or not, now or then, and when is it next?"""

import argparse

import msgspec
from rich.text import Text

from evenbeat.cli.output.common import console, print_json
from evenbeat.cli.task_commands import asking, need
from evenbeat.model import placed
from evenbeat.report.why_facts import span_of


def answer(args: argparse.Namespace) -> int:
    """Say it; exit 0."""
    with asking(args) as side:
        entry = need(side, args.name)
        if args.at is not None:
            with placed("--at"):
                span_of(args.at, entry)
        found = side.why(entry, args.at)
    if args.json:
        print_json(msgspec.to_builtins(found))
        return 0
    out = console()
    out.print(Text(found.answer, "bold"))
    for reason in found.reasons:
        out.print(Text(f"  - {reason}"))
    return 0
