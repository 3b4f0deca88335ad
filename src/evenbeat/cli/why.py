"""`evenbeat why`: why does a task run, or not, now or then, and when is it next?"""

import argparse
import re
from typing import Final

import msgspec
from rich.text import Text

from evenbeat.cli.common import at_option, console, now, print_json
from evenbeat.cli.tasks import database, need, reading
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Entry, Instant
from evenbeat.node.desk import Desk
from evenbeat.node.door import live_node
from evenbeat.node.owner import is_owned
from evenbeat.node.phrases import times_of, zone_of
from evenbeat.node.requests import AskMoment
from evenbeat.node.service import KEEP
from evenbeat.node.why import Facts, why
from evenbeat.node.why_then import why_then
from evenbeat.store.contract import Filter, RunRecord, Store

_MOST: Final = 5_000
"""Records that are looked through for the time that was asked about."""
_LATEST: Final = 10


def answer(args: argparse.Namespace) -> int:
    """Say it; exit 0."""
    at = now()
    with reading(args) as store:
        entry = need(store, args.name)
        start, end = _span(args.at, entry, at)
        facts = _facts(args, store, entry, at, None if args.at is None else (start, end))
    found = why(facts) if args.at is None else why_then(facts, start, end)
    if args.json:
        print_json(msgspec.to_builtins(found))
        return 0
    out = console()
    out.print(Text(found.answer, "bold"))
    for reason in found.reasons:
        out.print(Text(f"  - {reason}"))
    return 0


def _span(text: str | None, entry: Entry, at: Instant) -> tuple[Instant, Instant]:
    """The second, the minute, the hour or the day that somebody means who types a time."""
    where = zone_of(entry.task, times_of(entry.task))
    start = at_option(text, where, at, "--at")
    clock = re.search(r"[T ]\d\d(?P<minutes>:?\d\d)?(?P<seconds>:?\d\d)?", text or "")
    length = DAY if clock is None else SECOND if clock["seconds"] else MINUTE if clock["minutes"] else HOUR
    return start, Instant(start + length)


def _facts(
    args: argparse.Namespace, store: Store, entry: Entry, at: Instant, span: tuple[Instant, Instant] | None
) -> Facts:
    path = database(args)
    node = live_node(path)
    try:
        moment = None if node is None else node.ask(AskMoment(entry.number)).moment
    finally:
        if node is not None:
            node.close()
    number = entry.number
    return Facts(
        condition=next(store.conditions(Filter(names=(entry.id,)))),
        runs=store.runs(number, most=_LATEST) if span is None else _runs_around(store, number, *span),
        skips=store.skips(number, most=_LATEST if span is None else _MOST),
        periods={name: period for name, (_, period) in store.periods().items()},
        now=at,
        keep=Desk(store, now).settings().keep or KEEP,
        is_live=node is not None or is_owned(path),
        moment=moment,
    )


def _runs_around(store: Store, number: int, start: Instant, end: Instant) -> list[RunRecord]:
    """The runs of a span, and as far beyond it as can be read: what was due within it may have started later."""
    found = store.runs(number, before=end, most=_MOST)
    for beyond in (MINUTE, HOUR, DAY):
        more = store.runs(number, before=Instant(end + beyond), most=_MOST)
        if len(more) == _MOST and more[-1].claimed > start:
            break
        found = more
    return found
