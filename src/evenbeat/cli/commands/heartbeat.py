"""`evenbeat heartbeat`: a token by which anybody who has it tells that a passive check is alive."""

import argparse
import sys

from evenbeat.cli.output.common import print_json
from evenbeat.cli.task_commands import asking, changing, need


def answer(args: argparse.Namespace) -> int:
    """Make one, or take it away; exit 0."""
    with asking(args) as side:
        name = need(side, args.name).task.name
    with changing(args) as door:
        if args.drop:
            door.drop_beat(name)
            token = None
        else:
            token = door.new_beat(name)
    if args.json:
        print_json({"task": name, "token": token})
    elif token is None:
        print(f"the token of {name} is nobody's any more")
    else:
        print(token)
        print(f"evenbeat heartbeat: this is told once; what {name} had before counts no more", file=sys.stderr)
    return 0
