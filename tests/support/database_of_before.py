"""Turns a database into one of an evenbeat of before."""

import sqlite3
from contextlib import closing
from pathlib import Path

from run_log_reader import show_logged_runs


def make_runs_rows(path: Path) -> None:
    """Turn the log of runs into rows, as evenbeat kept them before it had a log."""
    with closing(sqlite3.connect(path)) as connection:
        for table, is_notable in (("plain_runs", 0), ("notable_runs", 1)):
            show_logged_runs(connection)
            runs = connection.execute(f"SELECT rowid, * FROM temp.{table} ORDER BY rowid").fetchall()
            newest: dict[int, int] = {}
            for number, task, claimed, ended, nominal, generation, kind, *rest in runs:
                row = (number, newest.get(task), task, nominal, generation, kind, claimed, rest[0], ended, *rest[1:])
                connection.execute(f"INSERT INTO main.{table} VALUES ({', '.join('?' * 15)})", row)
                newest[task] = number
            column = ("newest_plain", "newest_notable")[is_notable]
            connection.executemany(
                f"UPDATE progress SET {column} = ? WHERE task = ?", [(number, task) for task, number in newest.items()]
            )
            connection.executescript("DROP TABLE temp.plain_runs; DROP TABLE temp.notable_runs")
        connection.executescript("DROP TABLE run_log; PRAGMA user_version = 12")
