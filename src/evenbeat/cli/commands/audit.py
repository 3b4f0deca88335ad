"""`evenbeat audit`: who changed what, from what to what, newest first; includes tasks that were removed."""

import argparse
from typing import Any, Final

import msgspec
from rich.text import Text

from evenbeat.cli.output.common import console, now, number_option, print_json
from evenbeat.cli.typed_values import past_time
from evenbeat.cli.which_database import open_client
from evenbeat.report.documents import change_document
from evenbeat.store.contract import AuditFilter, Change
from evenbeat.when.instant import spoken_instant
from evenbeat.when.zone import zone

MAX_CHANGES: Final = 100_000
_UTC: Final = zone("UTC")
_MAX_WIDTH: Final = 200
"""Characters of a value on a line; JSON has the whole value."""


def run_command(args: argparse.Namespace) -> int:
    """List the changes; exit 0."""
    most = number_option(args.limit, "--limit", MAX_CHANGES) or 0
    since = None if args.since is None else past_time(args.since, now())
    with open_client(args) as client:
        entry = None if args.name is None else client.find(args.name)  # it may be an id
        name = args.name if entry is None else entry.task.name
        found = client.audit(AuditFilter(name, args.who, since, most=most))
    if args.json:
        print_json({"changes": [change_document(change) for change in found]})
    else:
        _show(found)
    return 0


def _show(found: list[Change]) -> None:
    out = console()
    for change in found:
        detail = f"  {change.detail}" if change.detail else ""
        out.print(
            Text.assemble(
                (spoken_instant(change.at, _UTC), "dim"),
                f"  {change.who or '-'}  {change.action} ",
                (change.name, "bold"),
                (detail, "dim"),
            )
        )
        for field in change_document(change)["fields"]:
            line = f"    {field['key']}: {_value(field['old'])} -> {_value(field['new'])}"
            out.print(Text(line))
    if not found:
        out.print("nothing yet")


def _value(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= _MAX_WIDTH else f"{text[:_MAX_WIDTH]}..."
