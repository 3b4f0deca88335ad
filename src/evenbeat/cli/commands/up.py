"""`evenbeat up`: run a node on a database until it is told to stop, and show how it is doing."""

import argparse
import asyncio
import os
from pathlib import Path

from evenbeat.cli.node_commands import node_display, node_options, report_end
from evenbeat.cli.which_database import database_option
from evenbeat.load.config import BadFileError
from evenbeat.model import Invalid
from evenbeat.node.options import NodeOptions
from evenbeat.node.process.run_node import run_node
from evenbeat.node.scheduler import Scheduler
from evenbeat.store.user_store import is_custom_store


def run_command(args: argparse.Namespace) -> int:
    """Run the node; exit 0 after an orderly stop with everything in the store."""
    if isinstance(database_option(args), str):
        from evenbeat.cli.commands.scheduler import run_scheduler_and_worker  # noqa: PLC0415 - a single node needs none of it

        return run_scheduler_and_worker(args)
    if args.queue or os.environ.get("EVENBEAT_QUEUE"):
        raise Invalid("a queue is for a cluster: give --db postgresql://... too, or omit it", place="--queue")
    options = node_options(args)
    if options.listen is not None and is_custom_store(database_option(args)):
        raise Invalid("the API has a process of its own, which can read SQLite and PostgreSQL only", place="--listen")
    try:
        node = asyncio.run(_run_node(args, options))
    except BadFileError as e:
        raise Invalid(str(e)) from None
    return report_end(args, node)


async def _run_node(args: argparse.Namespace, options: NodeOptions) -> Scheduler:
    path = database_option(args)
    assert isinstance(path, Path)
    async with node_display(args, options, path) as ready:
        return await run_node(path, options, ready)
