"""`evenbeat run`: run tasks now, ignoring enabled and period; slots and runs under way still hold them back."""

import argparse
from collections.abc import Mapping

import msgspec

from evenbeat.cli.output.common import console, print_json
from evenbeat.cli.task_commands import open_client, require_task, show_progress
from evenbeat.model import Instant, Outcome
from evenbeat.report.documents import iso_time
from evenbeat.report.words import duration_words, outcome_words
from evenbeat.wire.replies import EndedRun


def run_command(args: argparse.Namespace) -> int:
    """Request the runs; exit 0, with --wait only if all succeeded."""
    with open_client(args) as client:
        names = [require_task(client, name).task.name for name in args.names]
        if not args.wait:
            _print_asked(args, names, client.request_run(names))
            return 0
        with show_progress(f"waiting for {', '.join(names)}"):
            ended = client.run_now(names, wait=True)
    if args.json:
        print_json({"runs": [_document(run) for run in ended]})
    else:
        _show(ended)
    return 0 if all(run.outcome == Outcome.SUCCEEDED for run in ended) else 1


def _print_asked(args: argparse.Namespace, names: list[str], waiting: Mapping[str, str]) -> None:
    if args.json:
        print_json({"asked": names, "waiting": waiting})
        return
    by_reason: dict[str, list[str]] = {}
    for name in names:
        by_reason.setdefault(waiting.get(name, ""), []).append(name)
    for reason, tasks in by_reason.items():
        print(f"{', '.join(tasks)}: {f'{reason}, then runs' if reason else 'will run now'}")


def _document(run: EndedRun) -> dict[str, object]:
    document: dict[str, object] = msgspec.to_builtins(run)
    return {**document, "started": iso_time(Instant(run.started)), "ended": iso_time(Instant(run.ended))}


def _show(ended: list[EndedRun]) -> None:
    out = console()
    for run in ended:
        good = run.outcome == Outcome.SUCCEEDED
        words = f"{outcome_words(run.outcome, run.status)}, {duration_words(run.ended - run.started)}"
        out.print(run.task, style="bold", end=" ", markup=False)
        out.print(words, style="green" if good else "red", markup=False)
        if run.output:
            out.print(run.output.rstrip("\n"), markup=False)
