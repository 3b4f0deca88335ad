"""`evenbeat scheduler`: a node of a cluster, without workers. `evenbeat up` on PostgreSQL adds a worker to it."""

import argparse
import asyncio
import os
from typing import Final

from evenbeat.cli.node_commands import node_display, node_options, report_end
from evenbeat.cli.output.common import warn_of_secret_argument
from evenbeat.cli.which_database import database_option
from evenbeat.load.config import BadFileError
from evenbeat.model import Invalid
from evenbeat.node.process.run_cluster_node import run_cluster_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.queue.nats.address import QueueAddress, parse_queue_address
from evenbeat.store.addresses import without_password

_QUEUE: Final = "EVENBEAT_QUEUE"


def run_command(args: argparse.Namespace) -> int:
    """Run the scheduler; exit 0 after an orderly stop with everything in the store."""
    return _run(args, worker=False)


def run_scheduler_and_worker(args: argparse.Namespace) -> int:
    """Run a scheduler, and a worker beside it that ends with it."""
    return _run(args, worker=args.workers != 0)


def _where(args: argparse.Namespace) -> QueueAddress:
    address = args.queue or os.environ.get(_QUEUE)
    if not address:
        raise Invalid("a cluster needs a queue: give --queue nats://HOST:PORT, or set EVENBEAT_QUEUE", place="--queue")
    return parse_queue_address(address, args.replicas)


def _run(args: argparse.Namespace, *, worker: bool) -> int:
    options, where, path = node_options(args), _where(args), database_option(args)
    warn_of_secret_argument(args.queue, "--queue", _QUEUE, is_secret=bool(where.password or where.token))
    warn_of_secret_argument(args.db, "--db", "EVENBEAT_DB", is_secret=without_password(path) != str(path))
    if not isinstance(path, str):
        raise Invalid(f"{path} is a file, and a cluster needs PostgreSQL: --db postgresql://HOST/NAME", place="--db")

    async def run() -> Scheduler:
        async with node_display(args, options, without_password(path)) as ready:
            return await run_cluster_node(path, where, options, ready, worker=worker)

    try:
        node = asyncio.run(run())
    except BadFileError as e:
        raise Invalid(str(e)) from None
    return report_end(args, node)
