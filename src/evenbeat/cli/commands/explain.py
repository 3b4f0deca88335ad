"""`evenbeat explain`: a cron entry in plain English, its resolved form, its warnings."""

import argparse

from rich.markup import escape

from evenbeat.cli.output.common import checked_name, console, print_json, second_option
from evenbeat.model import Days, Hash, placed
from evenbeat.when.cron import compile_cron
from evenbeat.when.cron_entry import parse_entry
from evenbeat.when.explain import explain_cron, explain_occasion
from evenbeat.when.lint import lint
from evenbeat.when.zone import zone


def answer(args: argparse.Namespace) -> int:
    """Print the explanation; exit 0."""
    resolved = None
    if parse_entry(args.cron).occasion:
        text = explain_occasion(args.cron)
    else:
        with placed("zone"):
            zone(args.zone)
        cron = compile_cron(
            args.cron,
            name=checked_name(args.name),
            zone_name=args.zone,
            hash_=Hash(args.hash),
            days=Days(args.days),
            second=second_option(args.second),
        )
        text, resolved = explain_cron(cron), cron.resolved
    warnings = lint(parse_entry(args.cron), Days(args.days))
    if args.json:
        print_json({"text": text, "resolved": resolved, "warnings": warnings})
        return 0
    out = console()
    out.print(f"[bold]{escape(text)}[/bold]")
    if resolved not in (None, args.cron):
        out.print(f"  resolved: [cyan]{escape(str(resolved))}[/cyan]")
    for warning in warnings:
        out.print(f"  [yellow]![/yellow] {escape(warning)}")
    return 0
