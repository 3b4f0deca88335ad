"""`evenbeat run`: run tasks now, ignoring enabled and period; slots and running instances count as ever."""

import argparse

import msgspec

from evenbeat.cli.common import console, print_json
from evenbeat.cli.tasks import asking, changing, need, patience
from evenbeat.model import Instant, Outcome
from evenbeat.node.documents import instant
from evenbeat.node.phrases import ending, lasted
from evenbeat.node.requests import Ended


def answer(args: argparse.Namespace) -> int:
    """Ask for them; exit 0, with --wait only if all of them succeeded."""
    with asking(args) as side:
        names = [need(side, name).task.name for name in args.names]
    with changing(args) as door:
        if not args.wait:
            door.force(names, wait=False)
            _tell_asked(args, names)
            return 0
        with patience(f"waiting for {', '.join(names)}"):
            ended = door.force(names, wait=True)
    if args.json:
        print_json({"runs": [_document(run) for run in ended]})
    else:
        _show(ended)
    return 0 if all(run.outcome == Outcome.SUCCEEDED for run in ended) else 1


def _tell_asked(args: argparse.Namespace, names: list[str]) -> None:
    if args.json:
        print_json({"asked": names})
    else:
        print(f"{', '.join(names)}: will run as soon as a slot is free")


def _document(run: Ended) -> dict[str, object]:
    document: dict[str, object] = msgspec.to_builtins(run)
    return {**document, "started": instant(Instant(run.started)), "ended": instant(Instant(run.ended))}


def _show(ended: list[Ended]) -> None:
    out = console()
    for run in ended:
        good = run.outcome == Outcome.SUCCEEDED
        words = f"{ending(run.outcome, run.status)}, {lasted(run.ended - run.started)}"
        out.print(run.task, style="bold", end=" ", markup=False)
        out.print(words, style="green" if good else "red", markup=False)
        if run.output:
            out.print(run.output.rstrip("\n"), markup=False)
