"""`evenbeat problems`: what is wrong with tasks, newest first; or one problem with its times and its timeline."""

import argparse
from typing import Final

import msgspec
from rich.cells import cell_len
from rich.text import Text

from evenbeat.cli.output.common import console, now, number_option, print_json
from evenbeat.cli.output.task_words import STATE_COLOURS, relative_time
from evenbeat.cli.task_selection import MAX_PROBLEM_ID, key_value_options
from evenbeat.cli.which_database import open_client
from evenbeat.load.safe_text import escaped_line
from evenbeat.model import Instant, Invalid, State
from evenbeat.report.problems import (
    acknowledged_words,
    has_acknowledgement,
    held_words,
    note_document,
    problem_document,
    problem_summary,
    problem_words,
)
from evenbeat.report.words import first_line
from evenbeat.store.contract import Filter, ProblemFilter
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.when.instant import parse_instant, spoken_instant
from evenbeat.when.zone import zone
from evenbeat.wire.documents import TimelineEntry
from evenbeat.wire.replies import NotFound

MAX_PROBLEMS: Final = 1_000_000
_UTC: Final = zone("UTC")
_HEADINGS: Final = ("id", "state", "since", "task", "acknowledged", "output")
_COMMENT_WIDTH: Final = 40
"""Characters of a comment in a list."""


def run_command(args: argparse.Namespace) -> int:
    """List problems; exit 0, or 1 if no problem matches a given name."""
    most = number_option(args.limit, "--limit", MAX_PROBLEMS) or 0
    if args.id is not None:
        return _show_one(args)
    only = ProblemFilter(
        Filter(tuple(args.names), args.owner, key_value_options(args.label, "--label")),
        args.cause,
        None if args.state is None else State[args.state.upper()],
        None if args.all else not args.closed,
        most=most + 1,
        acknowledged=True if args.acknowledged else False if args.unacknowledged else None,
    )
    with open_client(args) as client:
        found = client.problems(only)
    page, is_more, at = found[:most], len(found) > most, now()
    if args.json:
        print_json({"problems": [problem_document(problem, at) for problem in page], "more": is_more})
    else:
        _show(page, at, "" if args.all else "closed" if args.closed else "open", is_more=is_more)
    return 1 if args.names and not page else 0


def _show(found: list[ProblemRecord], at: Instant, which: str, *, is_more: bool) -> None:
    out = console()
    if not found:
        out.print(f"no {which} problems".replace("  ", " "))
        return
    rows = [tuple((heading, "dim") for heading in _HEADINGS), *(_row(problem, at) for problem in found)]
    widths = [max(cell_len(row[i][0]) for row in rows) for i in range(len(_HEADINGS) - 1)]
    for row in rows:
        cells = [
            (words + " " * (width - cell_len(words) + 3), look)
            for (words, look), width in zip(row, widths, strict=False)
        ]
        out.print(Text.assemble(*cells, row[-1]))
    if is_more:
        out.print(f"and more; --limit shows more than {len(found):,}")


def _row(problem: ProblemRecord, at: Instant) -> tuple[tuple[str, str], ...]:
    """The cells of a problem: texts and their colours."""
    return (
        (str(problem.id), "dim"),
        (_state_words(problem), "dim" if problem.closed is not None else STATE_COLOURS[problem.state]),
        (relative_time(problem.since, at), ""),
        (escaped_line(problem.task), "bold"),
        (escaped_line(_acknowledged_cell(problem, at)), ""),
        (escaped_line(problem_summary(problem)), "dim"),
    )


def _state_words(problem: ProblemRecord) -> str:
    words = problem_words(problem)
    if problem.closed is not None:
        return f"{words}, {problem.reason or 'over'}"
    words = f"{words}, flapping" if problem.flapping else words
    words = f"{words}, unreachable" if problem.unreachable else words
    return f"{words}, in downtime" if problem.downtime else words


def _acknowledged_cell(problem: ProblemRecord, at: Instant) -> str:
    ack = problem.acknowledgement
    if ack is None or not has_acknowledgement(problem, at):
        return "-"
    comment = first_line(ack.comment)
    short = comment if len(comment) <= _COMMENT_WIDTH else f"{comment[:_COMMENT_WIDTH]}..."
    return f"by {ack.who}{f': {short}' if short else ''}"


def _show_one(args: argparse.Namespace) -> int:
    if args.names or args.label or args.owner is not None or args.cause is not None or args.state is not None:
        raise Invalid("shows one problem, and needs neither names nor other options", place="--id")
    number = number_option(args.id, "--id", MAX_PROBLEM_ID) or 0
    with open_client(args) as client:
        try:
            problem, notes = client.problem(number)
            timeline = client.problem_timeline(number)
        except NotFound as e:
            raise Invalid(str(e), place="--id") from None
    at = now()
    if args.json:
        documents = {"notes": [note_document(note) for note in notes], "timeline": msgspec.to_builtins(timeline)}
        print_json({**problem_document(problem, at), **documents})
    else:
        _show_problem(problem, timeline, at)
    return 0


def _show_problem(problem: ProblemRecord, timeline: list[TimelineEntry], at: Instant) -> None:
    out = console()
    colour = "dim" if problem.closed is not None else STATE_COLOURS[problem.state]
    out.print(Text.assemble((problem.task, "bold"), "  ", (_state_words(problem), colour)))
    about = f"  problem {problem.id}, of {problem.owner or 'nobody'}, cause {problem.cause}, worst {problem.worst.name}"
    out.print(Text(about, "dim"))
    times = [("opened", problem.opened), ("in this state since", problem.since), ("closed", problem.closed)]
    for what, t in times:
        if t is not None:
            out.print(Text(f"  {what} {spoken_instant(t, _UTC)}, {relative_time(t, at)}"))
    out.print(Text(f"  {acknowledged_words(problem, at, _UTC)}"))
    if problem.hold:
        out.print(Text(f"  {held_words(problem, _UTC)}"))
    if problem.output:
        out.print(Text(f"  {problem_summary(problem)}", "dim"))
    if timeline:
        out.print("\n[bold]timeline[/bold]")
    for entry in timeline:
        when = spoken_instant(parse_instant(entry.at, _UTC), _UTC)
        head = f"  {when}  {f'{entry.who}  {entry.kind}' if entry.who else ''}"
        lines = entry.text.splitlines()
        first = f"{': ' if entry.who else ''}{lines[0]}" if lines else ""
        out.print(Text(head + first))
        for line in lines[1:]:
            out.print(Text(f"    {line}"))
