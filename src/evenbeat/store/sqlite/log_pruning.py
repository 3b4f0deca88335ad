"""Bounds the log of runs of a store that nobody packs: deletes old runs, and plain successes beyond a number."""

import sqlite3
from collections.abc import Sequence
from typing import Final

from evenbeat.store.common.packed_history import DamageReports
from evenbeat.store.common.run_log import EndedRuns, LogBlock, log_records
from evenbeat.store.history_contract import PackedRun
from evenbeat.store.sqlite.statements import as_list, query

_RARE: Final = PackedRun._fields.index("rare")
"""What a part knows of a run, and the log does not."""


def prune_log(connection: sqlite3.Connection, cutoff: int, plain: int, most: int, damage: DamageReports) -> int:
    """Delete the oldest of the runs that ended before `cutoff`, or are more than this many plain successes.

    Looks at records from the oldest one on until there are `most` such runs, or none in a record and no plain successes
    too many. Return how many were deleted, whole outputs included.
    """
    ((logged,),) = connection.execute(query("logged_plain_runs")).fetchall()
    surplus = max(logged - plain, 0)
    gone: list[PackedRun] = []
    emptied: list[int] = []
    for number, rows, _, last_claimed, _, body in connection.execute(query("oldest_records")):
        runs: list[PackedRun] = []
        with damage.skipped(0, number, rows):
            runs = LogBlock(body).runs()
        if not runs:
            if last_claimed < cutoff:
                emptied.append(number)
            continue
        stay: list[PackedRun] = []
        for run in runs:
            is_surplus = surplus > 0 and not run.notable
            surplus -= is_surplus
            (gone if is_surplus or run.ended < cutoff else stay).append(run)
        if not stay:
            emptied.append(number)
        elif len(stay) < len(runs):
            _change(connection, number, stay)
        elif not surplus:
            break
        if len(gone) >= most:
            break
    connection.execute(query("delete_records"), (as_list(emptied),))
    return len(gone) + _forget_outputs(connection, gone)


def _change(connection: sqlite3.Connection, number: int, runs: Sequence[PackedRun]) -> None:
    columns = list(zip(*runs, strict=True))
    del columns[_RARE]
    (record,) = log_records(EndedRuns._make(columns))
    connection.execute(query("change_record"), (*record, number))


def _forget_outputs(connection: sqlite3.Connection, runs: Sequence[PackedRun]) -> int:
    asked = [{"task": run.task, "claimed": run.claimed} for run in runs]
    return max(connection.executemany(query("forget_output"), asked).rowcount, 0)
