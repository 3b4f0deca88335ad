"""`evenbeat heartbeat`: create or remove the token with which a program reports that a passive check is alive."""

import argparse
import sys

from evenbeat.cli.output.common import print_json
from evenbeat.cli.task_commands import open_client, require_task


def run_command(args: argparse.Namespace) -> int:
    """Create or remove the token; exit 0."""
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
        print(f"removed the token of {name}")
    else:
        print(token)
        print(f"evenbeat heartbeat: shown once. The previous token of {name} is now invalid.", file=sys.stderr)
    return 0
