"""`evenbeat migrate`: bring a PostgreSQL database up to date, or move an SQLite database into one."""

import argparse
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskID, TextColumn

from evenbeat.cli.output.common import SafeConsole, print_json
from evenbeat.cli.which_database import database_option
from evenbeat.model import Invalid
from evenbeat.store.addresses import is_shared_database, without_password
from evenbeat.store.opening import check_driver
from evenbeat.store.sqlite.ownership import DatabaseOwnership


def run_command(args: argparse.Namespace) -> int:
    """Migrate, and copy if asked to; exit 0."""
    target = database_option(args)
    if not is_shared_database(target):
        raise Invalid(
            f"{target} is a file, which every node brings up to date itself; accepted: postgresql://user@host/database",
            place="--db",
        )
    check_driver()
    from evenbeat.store.postgres.connect import PostgresAddress, prepare  # noqa: PLC0415 - the driver is an extra

    source = None if args.from_ is None else _source(args.from_)
    before, after = prepare(PostgresAddress(str(target)))
    copied = None if source is None else _copy_to_postgres(source, str(target))
    if args.json:
        document = {"database": without_password(target), "before": before, "after": after}
        print_json(document if copied is None else {**document, "copied": copied})
        return 0
    print(f"{without_password(target)}: schema {after}" + (f", was {before}" if before != after else ", up to date"))
    for table, rows in (copied or {}).items():
        print(f"  {rows:>12,}  {table.replace('_', ' ')}")
    return 0


def _source(text: str) -> Path:
    if is_shared_database(text):
        raise Invalid("only an SQLite file can be copied; for PostgreSQL use pg_dump", place="--from")
    path = Path(text)
    if not path.exists():
        raise Invalid(f"there is no database {path}", place="--from")
    return path


def _copy_to_postgres(source: Path, target: str) -> dict[str, int]:
    from evenbeat.store.postgres.copy_from_sqlite import copy_sqlite  # noqa: PLC0415

    err = SafeConsole(stderr=True)
    bars = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed:,.0f}"), console=err)
    bars.disable = not err.is_terminal
    known: dict[str, TaskID] = {}

    def report(table: str, done: int, total: int) -> None:
        if table not in known:
            known[table] = bars.add_task(table.replace("_", " "), total=total)
        bars.update(known[table], completed=done)

    # While this process owns the file, no node can start on it.
    with DatabaseOwnership(source), bars:
        return copy_sqlite(source, target, report)
