"""`evenbeat slots` and `evenbeat limit`: set the maximum of concurrent runs, while the node is running too."""

import argparse

from evenbeat.cli.commands.status import run_command as status
from evenbeat.cli.output.common import number_option
from evenbeat.cli.which_database import open_client
from evenbeat.model import Invalid

_MAX_SLOTS = 1_000_000


def run_command(args: argparse.Namespace) -> int:
    """Change the maximum and print the status; exit 0. Without a node, the database keeps it for the next one."""
    if (args.most is None) is not args.reset:
        raise Invalid("accepted: a number, or --reset to return to the value of the command line or files")
    most = number_option(args.most, "N", _MAX_SLOTS)
    with open_client(args) as client:
        if args.command == "slots":
            client.set_slots(most)
        else:
            client.set_limit(args.name, most)
    status(args)
    return 0
