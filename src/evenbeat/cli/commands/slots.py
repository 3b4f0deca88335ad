"""`evenbeat slots` and `evenbeat limit`: how many runs at the same time, changed while the node lives."""

import argparse

from evenbeat.cli.commands.status import run_command as status
from evenbeat.cli.output.common import number_option
from evenbeat.cli.task_commands import open_client
from evenbeat.model import Invalid

_MAX_SLOTS = 1_000_000


def run_command(args: argparse.Namespace) -> int:
    """Change it, and tell the status; exit 0. A database without a node keeps it for the next one."""
    if (args.most is None) is not args.reset:
        raise Invalid("accepted: a number, or --reset for what the command line or files say")
    most = number_option(args.most, "N", _MAX_SLOTS)
    with open_client(args) as client:
        if args.command == "slots":
            client.set_slots(most)
        else:
            client.set_limit(args.name, most)
    status(args)
    return 0
