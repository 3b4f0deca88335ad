"""`evenbeat scheduler`: a node of a cluster, without workers. `evenbeat up` on PostgreSQL is that and a worker."""

import argparse
import asyncio
import os
from collections.abc import Callable
from typing import Final

from evenbeat.cli.commands.up import options_of, shown_live, summary
from evenbeat.cli.output.common import print_json, warn_of_argument
from evenbeat.cli.task_commands import database
from evenbeat.load.config import BadFileError
from evenbeat.model import Invalid
from evenbeat.node.process.run_cluster_node import live_in_cluster
from evenbeat.node.scheduler import Node
from evenbeat.queue.nats.address import Where, parse_where
from evenbeat.store.opening import shown

_QUEUE: Final = "EVENBEAT_QUEUE"


def answer(args: argparse.Namespace) -> int:
    """Run it; exit 0 when it has stopped in order and everything is in the store."""
    return _run(args, worker=False)


def both(args: argparse.Namespace) -> int:
    """A scheduler, and a worker beside it that ends with it."""
    return _run(args, worker=args.workers != 0)


def _where(args: argparse.Namespace) -> Where:
    said = args.queue or os.environ.get(_QUEUE)
    if not said:
        raise Invalid("a cluster needs a queue: give --queue nats://HOST:PORT, or set EVENBEAT_QUEUE", place="--queue")
    return parse_where(said, args.replicas)


def _run(args: argparse.Namespace, *, worker: bool) -> int:
    options, where, path = options_of(args), _where(args), database(args)
    warn_of_argument(args.queue, "--queue", _QUEUE, is_secret=bool(where.password or where.token))
    warn_of_argument(args.db, "--db", "EVENBEAT_DB", is_secret=shown(path) != str(path))
    if not isinstance(path, str):
        raise Invalid(f"{path} is a file, and a cluster needs PostgreSQL: --db postgresql://HOST/NAME", place="--db")

    async def live(ready: Callable[[Node], None]) -> Node:
        return await live_in_cluster(path, where, options, ready, worker=worker)

    try:
        node = asyncio.run(shown_live(args, options, shown(path), live))
    except BadFileError as e:
        raise Invalid(str(e)) from None
    if args.json:
        print_json(summary(node))
    return 1 if node.left_unsafe else 0
