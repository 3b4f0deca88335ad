"""`evenbeat stop`: end runs under way, and withdraw forced runs that wait. The schedules of their tasks go on."""

import argparse
from contextlib import nullcontext

from evenbeat.cli.output.common import console, print_json
from evenbeat.cli.output.ended_runs import ended_run_document, print_ended_run
from evenbeat.cli.task_selection import (
    require_selection,
    require_task,
    say_if_nothing_matches,
    show_progress,
    task_filter,
)
from evenbeat.cli.which_database import open_client
from evenbeat.client.contract import Client
from evenbeat.model import Invalid
from evenbeat.name_patterns import is_pattern
from evenbeat.wire.replies import StopFound, StoppedRun

_WORDS = {
    StopFound.RUN: "its run ends now",
    StopFound.FORCED: "the forced run that waited is withdrawn",
    StopFound.RETRY: "the retry that was planned is withdrawn",
    StopFound.NOTHING: "nothing to stop: no run is under way",
}


def run_command(args: argparse.Namespace) -> int:
    """Stop; exit 0, or 1 if there was nothing to stop."""
    require_selection(args)
    with open_client(args) as client:
        for name in args.names:
            if not is_pattern(name) and not _was_removed(client, name):
                require_task(client, name)
        with show_progress("waiting for the runs to end") if args.wait else nullcontext():
            stopped = client.stop(task_filter(args), reason=args.reason, wait=args.wait)
        if not stopped:
            say_if_nothing_matches(args, client)
    if args.json:
        print_json({"stopped": [_document(run) for run in stopped]})
    else:
        _show(stopped)
    return 0 if any(run.found is not StopFound.NOTHING for run in stopped) else 1


def _was_removed(client: Client, name: str) -> bool:
    """Is this the name of a removed task? Its run may not have ended."""
    if client.find(name) is not None:
        return False
    try:
        client.records(name, 1)
    except Invalid:
        return False
    return True


def _document(run: StoppedRun) -> dict[str, object]:
    ended = None if run.run is None else ended_run_document(run.run)
    return {"task": run.task, "found": run.found, "run": ended}


def _show(stopped: list[StoppedRun]) -> None:
    out = console()
    for run in stopped:
        if run.run is not None:
            print_ended_run(out, run.run)
        else:
            print(f"{run.task}: {_WORDS[run.found]}")
    if not stopped:
        print("nothing to stop: no run of these tasks is under way")
