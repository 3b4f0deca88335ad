"""`evenbeat history`: runs and skips, newest first, or summaries of runs by hour or day."""

import argparse
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec import structs, to_builtins
from rich.text import Text

from evenbeat.cli.output.common import console, now, print_json
from evenbeat.cli.output.summary_lines import print_summaries
from evenbeat.cli.task_selection import require_task
from evenbeat.cli.typed_values import past_time
from evenbeat.cli.which_database import open_client
from evenbeat.client.contract import Client
from evenbeat.model import DAY, SECOND, Instant, Invalid, Outcome, RunKind
from evenbeat.report.documents import run_document, skip_document
from evenbeat.report.history import HistoryRecord, record_time
from evenbeat.report.retries import attempt_of_run
from evenbeat.report.words import duration_words, nominals_of, outcome_words, run_summary, skip_words, zone_of
from evenbeat.store.contract import RunRecord, SkipRecord
from evenbeat.when.instant import spoken_instant
from evenbeat.when.zone import Zone, zone

MAX_RECORDS: Final = 100_000
_RECORDS_SHOWN: Final = 20
_SUMMARIES_SHOWN: Final = {"hour": 24, "day": 30}


def run_command(args: argparse.Namespace) -> int:
    """List runs and skips; exit 0."""
    since = None if args.since is None else past_time(args.since, now())
    most = args.n if args.n is not None else _RECORDS_SHOWN if since is None else MAX_RECORDS
    if not 1 <= most <= MAX_RECORDS:
        raise Invalid(f"{most} is out of range, accepted: 1 to {MAX_RECORDS}", place="-n")
    where = zone("UTC")
    if args.by is not None:
        return _show_summaries(args, since)
    with open_client(args) as client:
        entry = None if args.name is None else client.find(args.name)
        if entry is not None:
            where = zone_of(entry.task, nominals_of(entry.task))
        asked = args.name if entry is None else entry.id
        older = None
        try:
            found = client.records(asked, most, failed=args.failed, skips=args.skips)
        except Invalid:
            if args.name is not None:
                require_task(client, args.name)  # its error suggests a similar name
            raise
        if args.name is not None and len(found) < most and not args.json:
            older = _words_about_older(client, args.name)
    if since is not None:
        found = [record for record in found if record_time(record) >= since]
    if args.json:
        print_json(
            {
                "runs": [run_document(r) for r in found if isinstance(r, RunRecord)],
                "skips": [skip_document(r) for r in found if isinstance(r, SkipRecord)],
            }
        )
    else:
        _show(found, where, several=args.name is None)
        if older is not None:
            console().print(Text(older, "dim"))
    return 0


def _show_summaries(args: argparse.Namespace, since: Instant | None) -> int:
    if args.name is None:
        raise Invalid("summaries are those of one task, accepted: the NAME of a task", place="--by")
    with open_client(args) as client:
        try:
            found = client.summaries(args.name, args.by, since)
        except Invalid:
            require_task(client, args.name)  # its error suggests a similar name
            raise
    most = args.n if args.n is not None else _SUMMARIES_SHOWN[args.by] if since is None else MAX_RECORDS
    if args.json:
        print_json(to_builtins(structs.replace(found, summaries=found.summaries[-most:])))
    else:
        print_summaries(console(), found, most)
    return 0


def _words_about_older(client: Client, name: str) -> str | None:
    """Where the single runs of a task end, if older ones were only summed up."""
    with suppress(Invalid):  # a node of before there were summaries
        found = client.summaries(name, "day", until=Instant(now() - DAY))
        if found.layer == "runs" or not found.summaries or found.summaries[0].since >= found.runs_since:
            return None
        return f"older runs are kept as summaries: evenbeat history {name} --by hour, or --by day"
    return None


def _show(found: Sequence[HistoryRecord], where: Zone, *, several: bool) -> None:
    out = console()
    width = max((len(record.task) for record in found), default=0)
    for record in found:
        name = (f"{record.task:{width}}  ", "bold") if several else ""
        if isinstance(record, SkipRecord):
            when, rest = record.at, [(f"skipped: {skip_words(record, where)}", "yellow")]
        else:
            when, rest = _start_text(record), _run_cells(record)
        out.print(Text.assemble((spoken_instant(when, where), "dim"), "  ", name, *rest))
    if not found:
        out.print("nothing yet")


def _start_text(run: RunRecord) -> Instant:
    return run.claimed if run.started is None else run.started


def _run_cells(run: RunRecord) -> list[tuple[str, str]]:
    """A run on one line: its kind, lateness, duration and outcome, the state of a check, and the output."""
    good = run.outcome in (None, Outcome.SUCCEEDED)
    took = "-" if run.ended is None else duration_words(run.ended - _start_text(run))
    is_claimed = run.started is None and run.ended is None
    attempt = attempt_of_run(run)
    # After others it is due as soon as it is claimed; its nominal time is that of the first of them.
    due = run.claimed if run.kind is RunKind.CHAIN else run.nominal
    late = "-" if is_claimed or attempt is not None else f"{(_start_text(run) - due) / SECOND:+.3f} s"
    state = ""
    if run.state is not None:
        state = f"{run.state.name} {'HARD' if run.hard else 'SOFT'} {run.attempt}"
    return [
        (f"{run.kind.word:8}  {late:>10}  {took:>8}  ", ""),
        (f"{'claimed' if is_claimed else outcome_words(run.outcome, run.status):9}  ", "green" if good else "red"),
        (f"{state}  " if state else "", ""),
        (f"attempt {attempt}  " if attempt is not None else "", ""),
        (run_summary(run), "dim"),
    ]
