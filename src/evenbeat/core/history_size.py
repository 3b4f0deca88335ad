"""How large the history of a timetable becomes, as retention bounds it: from what runs per hour, and bytes per row."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.core.retention import FREE_SHARE, RARE_RUNS, RARE_RUNS_KEPT, RECORDS_PER_HOUR, Retention
from evenbeat.model import DAY, HOUR

Rates = NDArray[np.float64]
"""Runs per hour, of each task."""

LEAST_MEASURED: Final = 200
"""With fewer rows their bytes say little: the default counts."""
DEFAULT_NOTABLE: Final = 0.02
"""The share of runs that are kept for longer, as long as it is not measured."""
_UNPACKED_HOURS: Final = 80 / 3_600
"""Rows of runs are packed when they are a minute old, or soon after."""
_RECENT_HOURS: Final = 0.6
"""Parts of an hour wait for its end, and five minutes: half an hour in the mean."""
_UNPACKED_BYTES: Final = 170
"""Of a run that is a row of its own."""


class Rows(NamedTuple):
    """Something of each layer: rows, parts, or bytes of each row or of all."""

    unpacked: float
    recent: float
    runs: float
    kept: float
    today: float
    """Summaries of hours that are not merged with those of their day yet."""
    hours: float
    """Of those that are."""
    days: float


DEFAULT_BYTES: Final = Rows(_UNPACKED_BYTES, recent=14.0, runs=14.0, kept=16.0, today=34.0, hours=30.0, days=40.0)
"""Bytes of a row, of checks with performance data, as long as they are not measured. What is measured of one layer
stands for the others in proportion.
"""
PART_BYTES: Final = 350
"""Of each part, beside those of its rows: what its rows have in common."""
OVERHEAD: Final = Rows(1.0, recent=1.1, runs=1.1, kept=1.1, today=1.1, hours=1.1, days=1.1)
"""What a database takes for a byte of a layer: pages that are not full, indexes."""


class SizeForecast(NamedTuple):
    """Bytes of a database."""

    growth_per_day: int
    """By how much it grows within the next day."""
    in_30_days: int
    final: int
    """When every layer is as old as retention lets it become."""


def expected_rows(rates: Rates, retention: Retention, age: int, notable: float) -> Rows:
    """How many rows each layer has when all of this has run for so long. `notable`: the share of runs that say more
    than a plain success.
    """
    rate = float(rates.sum())
    thinned = max(min(age, retention.keep) - retention.keep_runs, 0) / HOUR
    rare = rates[rates <= RARE_RUNS]
    often = rates[rates > RARE_RUNS]
    past = max(age - retention.keep_runs, 0) / HOUR
    last_ones = np.minimum(rare * past, RARE_RUNS_KEPT + rare * 12)  # they are trimmed once a day
    more = np.maximum(rare * thinned - last_ones, 0) * notable
    kept = float(last_ones.sum() + more.sum() + (np.minimum(often * notable, RECORDS_PER_HOUR) * thinned).sum())
    in_day = min(age / HOUR, 12)  # in the mean half a day is not over
    today = float(np.minimum(rates, 1).sum()) * in_day  # of rare tasks, too
    hours = int(np.count_nonzero(rates >= RARE_RUNS)) * (min(age, retention.keep) / HOUR - in_day)
    days = float(np.minimum(rates * 24, 1).sum()) * min(age, retention.keep_days) / DAY
    every_run = rate * (min(age, retention.keep_runs) / HOUR + (0.5 if age > retention.keep_runs else 0))
    return Rows(rate * _UNPACKED_HOURS, rate * _RECENT_HOURS, every_run, kept, today, hours, days)


def expected_parts(retention: Retention, age: int) -> Rows:
    """How many parts each layer has after so long."""
    keep_runs, keep, keep_days = retention
    thinned = max(min(age, keep) - keep_runs, 0) / DAY
    hours, days = min(age, keep) / DAY, min(age, keep_days) / DAY
    return Rows(0, min(age / HOUR, 1) * 10, min(age, keep_runs) / HOUR, thinned, min(age / HOUR, 12), hours, days)


class Measured(NamedTuple):
    """What a database has now."""

    used: int
    """Bytes, free pages not counted."""
    rows: Rows
    parts: Rows
    bytes: Rows
    """Of the blocks of each layer."""


def forecast(rates: Rates, retention: Retention, age: int, notable: float, now: Measured) -> SizeForecast:
    """The size of a database that has what was measured `now`, after so long.

    What is not history of runs stays as it is; free pages are as many as may be.
    """
    row_bytes = bytes_of_row(now)
    rest = max(now.used - _bytes(now.rows, now.parts, row_bytes), 0)

    def size_at(at: int) -> int:
        rows = expected_rows(rates, retention, at, notable)
        needed = rest + _bytes(rows, expected_parts(retention, at), row_bytes)
        return round(needed * FREE_SHARE / (FREE_SHARE - 1))

    growth = size_at(age + DAY) - size_at(age)
    return SizeForecast(max(growth, 0), size_at(30 * DAY), size_at(max(retention.horizon, age)))


def _bytes(rows: Rows, parts: Rows, row_bytes: Rows) -> float:
    return sum(
        (count * size + some * PART_BYTES) * more
        for count, some, size, more in zip(rows, parts, row_bytes, OVERHEAD, strict=True)
    )


def bytes_of_row(now: Measured) -> Rows:
    """Bytes of a row of each layer: measured, where there is enough of it."""
    measured = [
        max(size - parts * PART_BYTES, size / 4) / rows if rows >= LEAST_MEASURED and size else 0.0
        for rows, parts, size in zip(now.rows, now.parts, now.bytes, strict=True)
    ]
    runs = _first_known(measured, (2, 1, 3))
    summaries = _first_known(measured, (5, 4, 6))
    related = (1.0, runs, runs, runs, summaries, summaries, summaries)
    return Rows(*(found or usual * of for found, usual, of in zip(measured, DEFAULT_BYTES, related, strict=True)))


def _first_known(measured: Sequence[float], places: Iterable[int]) -> float:
    """How many times the usual bytes a row has, by the first of these layers that is measured."""
    return next((measured[place] / DEFAULT_BYTES[place] for place in places if measured[place]), 1.0)
