"""`evenbeat ack`: say that someone takes care of the open problems of tasks; `unack` takes that back."""

import argparse
import sys

from evenbeat.cli.output.common import duration_option, now, number_option, print_json
from evenbeat.cli.task_selection import MAX_PROBLEM_ID, require_selection, required_task_filter, say_if_nothing_matches
from evenbeat.cli.which_database import open_client
from evenbeat.model import Instant, Invalid, prefix_place
from evenbeat.store.contract import Conflict
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone
from evenbeat.wire.replies import ProblemsChanged


def run_command(args: argparse.Namespace) -> int:
    """Acknowledge; exit 0, or 1 if there is no open problem, or with --withdraw no acknowledgement."""
    check_ids(args)
    if not args.ids:
        require_selection(args)
    if args.withdraw and (args.comment or args.sticky or args.for_ is not None or args.until is not None):
        raise Invalid(
            "takes acknowledgements back; only without --comment, --for, --until, --sticky", place="--withdraw"
        )
    until = _until(args, now())
    with open_client(args) as client:
        only = required_task_filter(args, client)
        try:
            changed = client.acknowledge(
                only, args.ids, comment=args.comment, until=until, sticky=args.sticky, withdraw=args.withdraw
            )
        except Conflict as e:
            say_if_nothing_matches(args, client)
            return refused(args, e)
    print_problems_changed(args, "withdrawn" if args.withdraw else "acknowledged", changed)
    return 0


def _until(args: argparse.Namespace, at: Instant) -> Instant | None:
    if args.for_ is not None:
        length = duration_option(args.for_, "--for")
        if not length:
            raise Invalid(f"{args.for_} is no time at all, accepted: a duration such as 2h", place="--for")
        return Instant(at + length)
    if args.until is None:
        return None
    with prefix_place("--until"):
        until = parse_instant(args.until, zone("UTC"))
        if until <= at:
            raise Invalid(f"{args.until} has passed, accepted: a time in the future")
    return until


def check_ids(args: argparse.Namespace) -> None:
    """Refuse numbers that are no ids."""
    for number in args.ids:
        number_option(number, "--id", MAX_PROBLEM_ID)


def refused(args: argparse.Namespace, why: Conflict) -> int:
    """There is no problem to do it with: the answer is "no"."""
    print(f"evenbeat {args.command}: {why}", file=sys.stderr)
    if args.json:
        print_json({"ids": [], "tasks": []})
    return 1


def print_problems_changed(args: argparse.Namespace, done: str, changed: ProblemsChanged) -> None:
    """Print to which problems it was done."""
    if args.json:
        print_json({"ids": changed.ids, "tasks": changed.tasks})
    elif len(changed.tasks) == 1:
        ids = ", ".join(map(str, changed.ids))
        print(f"{done}: problem{'' if len(changed.ids) == 1 else 's'} {ids} of {changed.tasks[0]}")
    else:
        print(f"{done}: {len(changed.ids):,} problems of {len(changed.tasks):,} tasks")
