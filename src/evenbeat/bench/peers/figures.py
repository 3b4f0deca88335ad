"""From records of runs to figures: runs per second, lateness, the peak of the load, how regular a check is."""

from typing import Final

import numpy as np

from evenbeat.bench.peers.contract import Floats, RunRecords

_MS: Final = 1e3


def rate(ended: Floats, since: int, until: int) -> float:
    """Runs per second that ended in these whole seconds: some contenders record no finer time."""
    return float(np.count_nonzero((ended >= since) & (ended < until))) / (until - since)


def lateness(records: RunRecords, since: float, until: float) -> dict[str, float]:
    """Median, 99th percentile and maximum of lateness, in milliseconds, of runs that ended within."""
    return _percentiles(records.late[(records.ended >= since) & (records.ended < until)])


def peak_over_mean(started: Floats, since: float, until: float) -> float:
    """The busiest second beside the mean of all, counted from `since` in whole seconds."""
    seconds = int(until - since)
    inside = started[(started >= since) & (started < since + seconds)]
    per_second = np.bincount((inside - since).astype(np.int64), minlength=seconds)
    return float(per_second.max() / per_second.mean()) if len(inside) else float("nan")


def irregularity(numbers: Floats, started: Floats, every: float) -> dict[str, float]:
    """By how many milliseconds the time between two starts of a check differs from its interval."""
    order = np.lexsort((started, numbers))
    numbers, started = numbers[order], started[order]
    same = numbers[1:] == numbers[:-1]
    return _percentiles(np.abs(np.diff(started)[same] - every))


def _percentiles(seconds: Floats) -> dict[str, float]:
    if not len(seconds):
        return {"p50_ms": float("nan"), "p99_ms": float("nan"), "max_ms": float("nan")}
    middle, most, highest = np.percentile(seconds, [50, 99, 100]) * _MS
    return {"p50_ms": float(middle), "p99_ms": float(most), "max_ms": float(highest)}
