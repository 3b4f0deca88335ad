"""What is measured of schedulers of Python functions: calls per second in overload, and lateness at a rate."""

import time
from typing import Final

import numpy as np

from evenbeat.bench.peers.contract import RunRecords
from evenbeat.bench.peers.figures import lateness, rate
from evenbeat.bench.peers.function_callers import FunctionCaller, FunctionWork, environment_of
from evenbeat.bench.peers.logging_check import read_pairs
from evenbeat.bench.peers.running import CpuWatch, folder_for, running
from evenbeat.bench.peers.sizes import Sizes

_MARGIN_SECONDS: Final = 5
"""For what comes between the first call and the warm-up."""


def overload_title(sizes: Sizes) -> str:
    """What the first measure is about."""
    return f"A Python function, {sizes.overload_functions:,} calls due every second (overload)"


def offered_title(sizes: Sizes) -> str:
    """What the second measure is about."""
    return f"A Python function, {sizes.offered_functions / sizes.offered_every:,.0f} calls per second offered"


def measure_function_overload(caller: FunctionCaller, sizes: Sizes) -> dict[str, float]:
    """Calls per second where more is due than the machine can do."""
    records, since, until, others = _measured(caller, FunctionWork(sizes.overload_functions, 1, _seconds(sizes)), sizes)
    return {"runs_per_s": rate(records.ended, since, until), "others_cpus": others}


def measure_function_offered(caller: FunctionCaller, sizes: Sizes) -> dict[str, float]:
    """How late the function started, by its own clock."""
    work = FunctionWork(sizes.offered_functions, sizes.offered_every, _seconds(sizes))
    records, since, until, others = _measured(caller, work, sizes)
    runs = rate(records.ended, since, until)
    return {"runs_per_s": runs, "others_cpus": others, **lateness(records, since, until)}


def _seconds(sizes: Sizes) -> int:
    return sizes.warm_up + sizes.seconds + _MARGIN_SECONDS


def _measured(caller: FunctionCaller, work: FunctionWork, sizes: Sizes) -> tuple[RunRecords, int, int, float]:
    """What the function wrote, the first and last second that count, and how many processors others kept busy.

    The function returns at once: its start is its end.
    """
    with folder_for(None) as folder:
        log = folder / "calls"
        log.touch()
        command = caller.prepare(folder, work)
        with running(command, folder, None, environment_of(log)) as started:
            started.wait_for(log, sizes.start_most_seconds)
            started.work(sizes.warm_up)
            watch, since = CpuWatch(started), int(time.time())
            started.work(sizes.seconds)
            others = watch.use().others
        due, called = read_pairs(log)
    return RunRecords(called, np.maximum(called - due, 0.0)), since, since + sizes.seconds, others
