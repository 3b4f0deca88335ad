"""`evenbeat history`: what became of runs and of nominal times without one, newest first."""

import argparse
from collections.abc import Sequence
from typing import Final

from rich.text import Text

from evenbeat.cli.common import console, print_json
from evenbeat.cli.tasks import need, reading
from evenbeat.model import SECOND, Instant, Invalid, Outcome
from evenbeat.node.documents import run_document, skip_document
from evenbeat.node.phrases import ending, first_line, lasted, skip_words, times_of, zone_of
from evenbeat.store.contract import RunRecord, SkipRecord, Store
from evenbeat.when.instant import spoken_instant
from evenbeat.when.zone import Zone, zone

MOST: Final = 100_000
_Record = RunRecord | SkipRecord


def answer(args: argparse.Namespace) -> int:
    """List them; exit 0."""
    if not 1 <= args.n <= MOST:
        raise Invalid(f"{args.n} is out of range, accepted: 1 to {MOST}", place="-n")
    where = zone("UTC")
    with reading(args) as store:
        number = None
        if args.name is not None:
            entry = need(store, args.name)
            number, where = entry.number, zone_of(entry.task, times_of(entry.task))
        records = _records(store, number, args)
    if args.json:
        print_json(
            {
                "runs": [run_document(r) for r in records if isinstance(r, RunRecord)],
                "skips": [skip_document(r) for r in records if isinstance(r, SkipRecord)],
            }
        )
    else:
        _show(records, where, several=args.name is None)
    return 0


def _records(store: Store, number: int | None, args: argparse.Namespace) -> list[_Record]:
    runs = [] if args.skips else _failed(store, number, args.n) if args.failed else store.runs(number, most=args.n)
    skips = [] if args.failed else store.skips(number, most=args.n)
    merged: list[_Record] = [*runs, *skips]
    return sorted(merged, key=_when, reverse=True)[: args.n]


def _failed(store: Store, number: int | None, most: int) -> list[RunRecord]:
    """Runs that did not succeed. Changes of state are notable too, so more may have to be read."""
    found: list[RunRecord] = []
    before = None
    while len(found) < most:
        some = store.runs(number, before=before, most=max(most, 100), notable=True)
        found += [run for run in some if run.outcome not in (None, Outcome.SUCCEEDED)]
        if len(some) < max(most, 100):
            break
        before = some[-1].claimed
    return found[:most]


def _when(record: _Record) -> int:
    return record.claimed if isinstance(record, RunRecord) else record.at


def _show(records: Sequence[_Record], where: Zone, *, several: bool) -> None:
    out = console()
    width = max((len(record.task) for record in records), default=0)
    for record in records:
        name = (f"{record.task:{width}}  ", "bold") if several else ""
        if isinstance(record, SkipRecord):
            when, rest = record.at, [(f"skipped: {skip_words(record, where)}", "yellow")]
        else:
            when, rest = _begun(record), _run(record)
        out.print(Text.assemble((spoken_instant(when, where), "dim"), "  ", name, *rest))
    if not records:
        out.print("nothing yet")


def _begun(run: RunRecord) -> Instant:
    return run.claimed if run.started is None else run.started


def _run(run: RunRecord) -> list[tuple[str, str]]:
    """What it was and how late, how long it took, how it ended, what that made of a check, and what it said."""
    good = run.outcome in (None, Outcome.SUCCEEDED)
    took = "-" if run.ended is None else lasted(run.ended - _begun(run))
    late = f"{(_begun(run) - run.nominal) / SECOND:+.3f} s"
    state = ""
    if run.state is not None:
        state = f"{run.state.name} {'HARD' if run.hard else 'SOFT'} {run.attempt}"
    return [
        (f"{run.kind.word:8}  {late:>10}  {took:>8}  ", ""),
        (f"{ending(run.outcome, run.status):9}  ", "green" if good else "red"),
        (f"{state}  " if state else "", ""),
        (first_line(run.output), "dim"),
    ]
