"""`evenbeat notifications`: every decision to notify a contact, or not to, with its reason, newest first."""

import argparse
from typing import Final

import msgspec
from msgspec.structs import replace
from rich.text import Text

from evenbeat.cli.output.common import console, now, number_option, print_json
from evenbeat.cli.typed_values import past_time
from evenbeat.cli.which_database import open_client
from evenbeat.load.safe_text import escaped_line
from evenbeat.model import Invalid
from evenbeat.store.alert_records import AlertDecisionFilter
from evenbeat.when.instant import parse_instant, spoken_instant
from evenbeat.when.zone import zone
from evenbeat.wire.documents import NotificationDocument

MAX_NOTIFICATIONS: Final = 100_000
_UTC: Final = zone("UTC")


def run_command(args: argparse.Namespace) -> int:
    """List what was decided; exit 0, or 2 if there never was such a task."""
    most = number_option(args.limit, "--limit", MAX_NOTIFICATIONS) or 0
    since = None if args.since is None else past_time(args.since, now())
    with open_client(args) as client:
        entry = None if args.name is None else client.find(args.name)  # it may be an id
        name = args.name if entry is None else entry.task.name
        only = AlertDecisionFilter(task=name, contact=args.contact, since=since, most=most + 1)
        found = client.notifications(only)
        if not found and args.name is not None and entry is None:
            anything = client.notifications(replace(only, contact=None, since=None, most=1))
            if not anything:
                raise Invalid(f"there is no task {args.name[:64]!r}, and no notification about one")
    if args.json:
        print_json({"notifications": msgspec.to_builtins(found[:most]), "more": len(found) > most})
    else:
        _show(found, most)
    return 0


def _show(found: list[NotificationDocument], most: int) -> None:
    out = console()
    for one in found[:most]:
        when = spoken_instant(parse_instant(one.at, _UTC), _UTC)
        what = f"  problem {one.problem}: {one.text}"
        out.print(Text.assemble((when, "dim"), "  ", (escaped_line(one.task), "bold"), escaped_line(what)))
    if len(found) > most:
        out.print(f"and more; --limit shows more than {most:,}")
    if not found:
        out.print("nothing was decided about any contact")
