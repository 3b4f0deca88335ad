"""What the last node of a database may have left behind ends before anything of the new one begins."""

from pathlib import Path

from evenbeat.child_processes import leftovers


def worker_records_path(database: Path) -> Path:
    """Where a node records its worker processes."""
    whole = database.resolve()
    return whole.with_name(whole.name + ".workers")


def end_leftover_workers(database: Path) -> None:
    """Only for the owner of the database, before it has workers."""
    leftovers.end_leftovers([worker_records_path(database)])
