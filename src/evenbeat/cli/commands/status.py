"""`evenbeat status`: how the node is doing; without a node, what the store knows."""

import argparse
from typing import Any

import msgspec
from rich.console import Console

from evenbeat.admin.capacity import limit_capacities, slot_capacity
from evenbeat.cli.output.cluster_lines import cluster_lines
from evenbeat.cli.output.common import console, print_json
from evenbeat.cli.output.status_lines import capacity_lines, status_lines
from evenbeat.cli.which_database import database_option, open_client, open_store_read_only
from evenbeat.model import State
from evenbeat.store.addresses import is_shared_database, without_password
from evenbeat.store.contract import Filter, Store
from evenbeat.wire.status import LimitStatus, Status


def run_command(args: argparse.Namespace) -> int:
    """Print it; exit 0, or 1 if no node is running on the database or something keeps it from executing tasks."""
    with open_client(args) as client:
        status = client.status()
        cluster = None if status is None else client.cluster()
    if status is None:
        with open_store_read_only(args) as store:
            return _print_without_node(args, store)
    if args.json:
        more = {} if cluster is None else {"cluster": msgspec.to_builtins(cluster)}
        print_json({"live": True, **msgspec.to_builtins(status), **more})
    else:
        out = console()
        show_status(out, status)
        for line in [] if cluster is None else cluster_lines(cluster):
            out.print(line, soft_wrap=True, highlight=False)
    return 1 if status.problems or status.store != "ok" else 0


def _print_without_node(args: argparse.Namespace, store: Store) -> int:
    """Print the same keys; what only a node knows is null. Slots and limits are those of the next node, unless its
    command line overrides them.
    """
    document: dict[str, Any] = dict.fromkeys(Status.__struct_fields__)
    states = {word: store.count(Filter(state=word)) for word in (*(s.name.lower() for s in State), "unchecked")}
    document |= {"tasks": store.count(), "disabled": store.count(Filter(state="disabled")), "states": states}
    slots = slot_capacity(store)
    limits = {name: LimitStatus(limit.most, 0, limit.source) for name, limit in limit_capacities(store).items()}
    document |= {"slots": slots.most, "slots_source": slots.source, "limits": msgspec.to_builtins(limits)}
    if args.json:
        print_json({"live": False, **document})
    else:
        path = database_option(args)
        command = "scheduler" if is_shared_database(path) else "up"
        print(f"no node is running on {without_password(path)}; `evenbeat {command}` starts one")
        print(f"{document['tasks']:,} tasks, {document['disabled']:,} disabled")
        for line in capacity_lines(slots.most, slots.source, limits):
            console().print(line, soft_wrap=True, highlight=False)
    return 1


def show_status(out: Console, status: Status) -> None:
    """Print the status lines of a node."""
    for line in status_lines(status):
        out.print(line)
