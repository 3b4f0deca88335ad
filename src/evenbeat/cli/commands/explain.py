"""`evenbeat explain`: a cron entry in plain English, with its resolved form and warnings."""

import argparse

from rich.markup import escape

from evenbeat.cli.output.common import console, name_option, print_json, second_option
from evenbeat.model import Days, Hash, prefix_place
from evenbeat.when.cron import compile_cron
from evenbeat.when.cron_entry import parse_cron_entry
from evenbeat.when.explain import explain_cron, explain_occasion
from evenbeat.when.lint import cron_warnings
from evenbeat.when.zone import zone


def run_command(args: argparse.Namespace) -> int:
    """Print the explanation; exit 0."""
    resolved = None
    if parse_cron_entry(args.cron).occasion:
        text = explain_occasion(args.cron)
    else:
        with prefix_place("zone"):
            zone(args.zone)
        cron = compile_cron(
            args.cron,
            name=name_option(args.name),
            zone_name=args.zone,
            hash_=Hash(args.hash),
            days=Days(args.days),
            second=second_option(args.second),
        )
        text, resolved = explain_cron(cron), cron.resolved
    warnings = cron_warnings(parse_cron_entry(args.cron), Days(args.days))
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
