"""`evenbeat scheduler`: a node of a cluster, without workers. `evenbeat up` on PostgreSQL is that and a worker."""

import argparse
import asyncio
import os
from typing import Final

from evenbeat.cli.common import print_json
from evenbeat.cli.tasks import database
from evenbeat.cli.up import options_of, shown_live, summary
from evenbeat.load.config import BadFileError
from evenbeat.model import Invalid
from evenbeat.node.beside import Beside
from evenbeat.node.live_cluster import live_in_cluster
from evenbeat.node.service import Node, Options
from evenbeat.queue.where import Where, parse_where
from evenbeat.store.opening import shown

_QUEUE: Final = "EVENBEAT_QUEUE"


def answer(args: argparse.Namespace) -> int:
    """Run it; exit 0 when it has stopped in order."""
    return _run(args, options_of(args), None)


def both(args: argparse.Namespace) -> int:
    """A scheduler, and a worker beside it that ends with it."""
    options = options_of(args)
    return _run(
        args, options, Beside(["evenbeat", "worker", "--workers", str(options.workers)], {_QUEUE: _queue(args)})
    )


def where_of(args: argparse.Namespace) -> Where:
    """`--queue URL`, or what the environment says."""
    return parse_where(_queue(args), args.replicas)


def _queue(args: argparse.Namespace) -> str:
    said = args.queue or os.environ.get(_QUEUE)
    if not said:
        raise Invalid("a cluster needs a queue: give --queue nats://HOST:PORT, or set EVENBEAT_QUEUE", place="--queue")
    return str(said)


def _run(args: argparse.Namespace, options: Options, worker: Beside | None) -> int:
    where, path = where_of(args), database(args)
    if not isinstance(path, str):
        raise Invalid(f"{path} is a file, and a cluster needs PostgreSQL: --db postgresql://HOST/NAME", place="--db")

    async def living() -> Node:
        if worker is not None:
            worker.start()
        try:
            return await shown_live(
                args, options, shown(path), lambda ready: live_in_cluster(path, where, options, ready)
            )
        finally:
            if worker is not None:
                await worker.stop()

    try:
        node = asyncio.run(living())
    except BadFileError as e:
        raise Invalid(str(e)) from None
    if args.json:
        print_json(summary(node))
    return 0
