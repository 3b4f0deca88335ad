"""`evenbeat run`: run tasks now, ignoring enabled and period; slots and runs under way still hold them back."""

import argparse
import sys
from collections.abc import Mapping

from evenbeat.cli.output.common import console, print_json
from evenbeat.cli.output.ended_runs import ended_run_document, print_ended_run
from evenbeat.cli.output.run_output import print_output, wait_for_run
from evenbeat.cli.task_selection import key_value_options, require_task, show_progress
from evenbeat.cli.typed_values import parse_value
from evenbeat.cli.which_database import open_client
from evenbeat.client.contract import Client
from evenbeat.model import Invalid, Outcome, Task
from evenbeat.report.words import outcome_words
from evenbeat.wire.live_runs import OutputPart
from evenbeat.wire.requests import RunArguments


def run_command(args: argparse.Namespace) -> int:
    """Request the runs; exit 0, with --wait only if all succeeded."""
    with open_client(args) as client:
        entries = [require_task(client, name) for name in args.names]
        names = [entry.task.name for entry in entries]
        arguments = _arguments(args, entries[0].task) if args.arg or args.env else None
        if args.follow:
            return _follow(client, args, arguments)
        if not args.wait:
            _print_asked(args, names, client.request_run(names, arguments))
            return 0
        with show_progress(f"waiting for {', '.join(names)}"):
            ended = client.run_now(names, wait=True, arguments=arguments)
    if args.json:
        print_json({"runs": [ended_run_document(run) for run in ended]})
    else:
        out = console()
        for run in ended:
            print_ended_run(out, run)
    return 0 if all(run.outcome == Outcome.SUCCEEDED for run in ended) else 1


def _follow(client: Client, args: argparse.Namespace, arguments: RunArguments | None) -> int:
    """Run one task and print what it writes; exit 0 if it succeeded."""
    if len(args.names) > 1:
        raise Invalid(
            f"follows one task, found {len(args.names)}; `evenbeat logs NAME -f` follows another", place="--follow"
        )
    if args.json:
        raise Invalid("prints one document, and --follow prints as the run writes", place="--json")
    entry = require_task(client, args.names[0])
    name = entry.task.name
    before = client.read_output(entry).now
    waiting = client.request_run([name], arguments)

    def say(part: OutputPart) -> None:
        reason = part.waiting or waiting.get(name, "")
        print(f"{name}: {reason or 'will run now'}", file=sys.stderr)

    first = wait_for_run(client, entry, before, say, forced=True)
    last = print_output(
        first,
        lambda position, wait: client.read_output(entry, run=first.claimed, position=position, wait=wait),
        is_followed=True,
    )
    print(f"{name} {outcome_words(last.outcome, last.status)}", file=sys.stderr)
    return 0 if last.outcome == Outcome.SUCCEEDED else 1


def _arguments(args: argparse.Namespace, task: Task) -> RunArguments:
    """Arguments of this run: `--arg` as a file would type it for a function, as it stands for a command."""
    env = key_value_options(args.env, "--env")
    if task.job.function is None:
        return RunArguments(tuple(args.arg), env=env)
    kwargs = {key: parse_value(text) for key, text in key_value_options(args.arg, "--arg").items()}
    return RunArguments(kwargs=kwargs, env=env)


def _print_asked(args: argparse.Namespace, names: list[str], waiting: Mapping[str, str]) -> None:
    if args.json:
        print_json({"asked": names, "waiting": waiting})
        return
    by_reason: dict[str, list[str]] = {}
    for name in names:
        by_reason.setdefault(waiting.get(name, ""), []).append(name)
    for reason, tasks in by_reason.items():
        print(f"{', '.join(tasks)}: {f'{reason}, then runs' if reason else 'will run now'}")
