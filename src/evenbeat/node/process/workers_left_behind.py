"""Ends the worker processes that the last node of a database has left behind, before the new node starts its own."""

from pathlib import Path

from evenbeat.child_processes import processes_left_behind


def worker_records_path(database: Path) -> Path:
    """Where a node records its worker processes."""
    whole = database.resolve()
    return whole.with_name(whole.name + ".workers")


def end_leftover_workers(database: Path) -> None:
    """To be called only by the owner of the database, before it has workers."""
    processes_left_behind.end_leftovers([worker_records_path(database)])
