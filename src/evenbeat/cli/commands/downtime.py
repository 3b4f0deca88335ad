"""`evenbeat downtime`: set a downtime, list them, end one."""

import argparse
import sys

from rich.cells import cell_len
from rich.text import Text

from evenbeat.cli.output.common import console, end_option, now, print_json, time_option
from evenbeat.cli.output.task_words import relative_time
from evenbeat.cli.task_selection import key_value_options
from evenbeat.cli.which_database import open_client
from evenbeat.load.safe_text import escaped_line
from evenbeat.model import Downtime, Instant, Invalid
from evenbeat.report.downtime_words import downtime_sentence, selection_words
from evenbeat.report.downtimes import KnownDowntime, downtime_document, known_downtime
from evenbeat.report.words import first_line
from evenbeat.store.contract import Conflict

_HEADINGS = ("id", "state", "until", "tasks", "by", "reason")


def run_command(args: argparse.Namespace) -> int:
    """Set, list or end; exit 0, or 1 if the downtime is over already or declared in a file."""
    if args.action == "add":
        return _add(args)
    _refuse_options_of_add(args)
    if args.action in ("rm", "end"):
        return _end(args)
    if args.names:
        raise Invalid(f"`evenbeat downtime {args.action}` lists all downtimes, and takes no name")
    return _list(args)


def _refuse_options_of_add(args: argparse.Namespace) -> None:
    given = {
        "--owner": args.owner,
        "--label": args.label,
        "--for": args.for_,
        "--from": args.from_,
        "--to": args.until,
        "--period": args.period,
        "--reason": args.reason,
        "--no-dependents": args.no_dependents,
    }
    for option, value in given.items():
        if value:
            raise Invalid("belongs to `evenbeat downtime add`", place=option)


def _add(args: argparse.Namespace) -> int:
    if args.all:
        raise Invalid("belongs to `evenbeat downtime ls`", place="--all")
    if not args.names and args.owner is None and not args.label:
        raise Invalid("which tasks? Give names or patterns, --owner or --label; '*' means all")
    start = None if args.from_ is None else time_option(args.from_, "--from")
    end = end_option(args.for_, args.until, start)
    if end is None:
        raise Invalid("until when? Give --for D or --to T, at most a year")
    with open_client(args) as client:
        made = client.add_downtime(
            args.names,
            owner=args.owner,
            labels=key_value_options(args.label, "--label"),
            start=start,
            end=end,
            period=args.period,
            dependents=not args.no_dependents,
            comment=args.reason,
        )
    _report(args, "set", made)
    return 0


def _end(args: argparse.Namespace) -> int:
    if args.all:
        raise Invalid("belongs to `evenbeat downtime ls`", place="--all")
    if len(args.names) != 1:
        raise Invalid("which one? `evenbeat downtime rm ID`; `evenbeat downtime ls` shows the ids")
    with open_client(args) as client:
        try:
            ended = client.end_downtime(args.names[0])
        except Conflict as e:
            print(f"evenbeat downtime: {e}", file=sys.stderr)
            if args.json:
                print_json({"ended": None})
            return 1
    _report(args, "ended", ended)
    return 0


def _report(args: argparse.Namespace, what: str, downtime: Downtime) -> None:
    if args.json:
        print_json(downtime_document(known_downtime(downtime, {}, now())))
    else:
        print(escaped_line(f"{what} {downtime.id}: {downtime_sentence(downtime)}"))


def _list(args: argparse.Namespace) -> int:
    with open_client(args) as client:
        found = client.downtimes(is_all=args.all)
    if args.json:
        print_json({"downtimes": [downtime_document(known) for known in found]})
        return 0
    if not found:
        print("no downtimes" if args.all else "no downtimes; --all also shows those that are over")
        return 0
    rows = [_HEADINGS, *map(_row, found)]
    widths = [max(cell_len(row[i]) for row in rows) for i in range(len(_HEADINGS) - 1)]
    out = console()
    for i, row in enumerate(rows):
        cells = (cell + " " * (width - cell_len(cell) + 3) for cell, width in zip(row, widths, strict=False))
        out.print(Text("".join((*cells, row[-1])), style="" if i else "dim"))
    return 0


def _row(known: KnownDowntime) -> tuple[str, ...]:
    one, at = known.downtime, now()
    until = "-" if one.end is None else relative_time(one.end, at)
    texts = (one.id, _state(known, at), until, selection_words(one), one.who, first_line(one.comment))
    return tuple(map(escaped_line, texts))


def _state(known: KnownDowntime, at: Instant) -> str:
    one = known.downtime
    if known.is_over:
        return f"over, ended by {one.ended_by}" if one.ended_by else "over"
    if known.is_active:
        return "active"
    if one.start is not None and one.start > at:
        return f"begins {relative_time(one.start, at)}"
    return f"outside {one.period}" if one.period is not None else "begins"
