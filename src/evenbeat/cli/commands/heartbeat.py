"""`evenbeat heartbeat`: a token by which anybody who has it tells that a passive check is alive."""

import argparse
import sys

from evenbeat.cli.output.common import print_json
from evenbeat.cli.task_commands import open_client, require_task


def run_command(args: argparse.Namespace) -> int:
    """Make one, or take it away; exit 0."""
    with open_client(args) as client:
        name = require_task(client, args.name).task.name
        if args.drop:
            client.remove_heartbeat(name)
            token = None
        else:
            token = client.create_heartbeat(name)
    if args.json:
        print_json({"task": name, "token": token})
    elif token is None:
        print(f"the token of {name} is nobody's any more")
    else:
        print(token)
        print(f"evenbeat heartbeat: this is told once; what {name} had before counts no more", file=sys.stderr)
    return 0
