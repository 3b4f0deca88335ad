"""When, measured: next occurrences beside cronsim and croniter, interval grids beside a plain loop."""

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random
from typing import Final

import numpy as np
from cronsim import CronSim

from evenbeat.bench.measure import Comparison, Contender, compare_in_pairs
from evenbeat.model import DAY, HOUR, SECOND, Instant
from evenbeat.when.cron import clear_shared, compile_cron
from evenbeat.when.interval import nominal_after

_NOW: Final = datetime(2026, 3, 28, 12, 3, 20, tzinfo=UTC)
_START: Final = Instant(int(_NOW.timestamp()) * SECOND)
_ENTRIES: Final = 3_000
_PASSES: Final = 3
"""Over all entries, for one measurement: long enough to be steady."""
_NAMES: Final = 100_000
_BASELINE_NAMES: Final = 5_000
"""The number of names that bare cronsim is measured with; it does the same work for each."""
_GRID: Final = 1_000_000


def comparisons(pairs: int) -> Iterator[tuple[str, Comparison]]:
    """Every measure, as soon as it is taken."""
    yield from _one_off(pairs)
    yield "shared_cache", _shared_cache(pairs)
    yield "interval_grid", _interval_grid(pairs)


def _one_off(pairs: int) -> Iterator[tuple[str, Comparison]]:
    entries = _random_entries()

    def ours() -> None:
        for _ in range(_PASSES):
            clear_shared()
            for entry in entries:
                compile_cron(entry, second=0).next_after(_START)

    def cronsim() -> None:
        for _ in range(_PASSES):
            for entry in entries:
                next(CronSim(entry, _NOW))

    title = "One-off: parse an entry not seen before and find its next time (single fields may be known from others)"
    count = _PASSES * len(entries)
    mine, theirs = Contender("evenbeat", ours, count), Contender("bare cronsim", cronsim, count)
    yield "one_off_cronsim", compare_in_pairs(title, mine, theirs, pairs)

    compiled = [compile_cron(entry, second=0) for entry in entries]
    day = 0

    def evaluate() -> None:
        nonlocal day
        day += 400
        # Far enough from all it was asked before that nothing is remembered.
        t = Instant(_START + day * DAY)
        for cron in compiled:
            cron.next_after(t)

    title = "Evaluation: the next time of a compiled entry, asked about a new time"
    yield "evaluation_cronsim", compare_in_pairs(title, Contender("evenbeat", evaluate, len(entries)), theirs, pairs)
    try:
        from croniter import croniter  # noqa: PLC0415 - only here, an extra
    except ImportError:
        return

    def with_croniter() -> None:
        for entry in entries:
            croniter(entry, _NOW).get_next(datetime)

    title = "One-off, beside croniter"
    yield (
        "one_off_croniter",
        compare_in_pairs(title, mine, Contender("bare croniter", with_croniter, len(entries)), pairs),
    )


def _random_entries() -> list[str]:
    """Entries as people write them, no two alike."""
    random = Random(1)  # noqa: S311
    entries: dict[str, None] = {}
    while len(entries) < _ENTRIES:
        minute, hour = random.randrange(60), random.randrange(24)
        late, step = random.randrange(12, 24), random.choice((5, 10, 15, 20))
        for entry in (
            f"{minute} {hour} * * {random.choice(('*', '1-5', 'MON', '0'))}",
            f"{minute}-59/{step} {hour // 2}-{late} * * *",
            f"{minute} {hour} {random.randrange(1, 29)} {random.choice(('*', '1-11', '*/3'))} *",
        ):
            entries[entry] = None
    return list(entries)[:_ENTRIES]


def _shared_cache(pairs: int) -> Comparison:
    crons = [compile_cron("H H * * *", name=f"job-{i}") for i in range(_NAMES)]
    resolved = [cron.resolved for cron in crons[:_BASELINE_NAMES]]
    minute = 0

    def ours() -> None:
        nonlocal minute
        minute += 1
        # A new day each time, so that every distinct entry has to be evaluated again.
        t = Instant(_START + minute * DAY)
        for cron in crons:
            cron.next_after(t)

    def baseline() -> None:
        for entry in resolved:
            next(CronSim(entry, _NOW))

    title = f"Shared: next time of {_NAMES:,} tasks under 'H H * * *', per task"
    return compare_in_pairs(
        title, Contender("evenbeat", ours, _NAMES), Contender("bare cronsim", baseline, _BASELINE_NAMES), pairs
    )


def _interval_grid(pairs: int) -> Comparison:
    random = np.random.default_rng(1)
    every = random.integers(10, HOUR // SECOND, _GRID) * SECOND
    phase = (random.random(_GRID) * every).astype(np.int64)
    plain = list(zip(phase.tolist(), every.tolist(), strict=True))

    def ours() -> None:
        nominal_after(phase, every, _START)

    def baseline() -> None:
        t = int(_START)
        [t + e - (t - p) % e for p, e in plain]

    title = f"Interval grid: next nominal time of {_GRID:,} tasks"
    return compare_in_pairs(
        title, Contender("evenbeat (numpy columns)", ours, _GRID), Contender("plain loop", baseline, _GRID), pairs
    )
