"""What is measured of schedulers of checks: runs per second, lateness, spread of the load, start and memory."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from evenbeat.bench.peers.bare_loop import BareLoop
from evenbeat.bench.peers.contract import CheckWork, RunRecords, Scheduler
from evenbeat.bench.peers.evenbeat_node import EvenbeatNode
from evenbeat.bench.peers.figures import irregularity, lateness, peak_over_mean, rate
from evenbeat.bench.peers.icinga import Icinga
from evenbeat.bench.peers.logging_check import LoggingCheck
from evenbeat.bench.peers.nagios import Nagios
from evenbeat.bench.peers.running import CpuUse, CpuWatch, RunningContender, folder_for, hand_over, running
from evenbeat.bench.peers.sizes import Sizes

PLUGIN: Final = Path("/usr/lib/nagios/plugins/check_dummy")
_UTF8: Final = {"LANG": "C.UTF-8"}
_FLUSH_SECONDS: Final = 3
"""After a measurement: until Icinga has written its records, and the last runs have ended."""


class CheckMeasure(NamedTuple):
    """One kind of measurement, of one contender at a time."""

    name: str
    title: Callable[[Sizes], str]
    contenders: tuple[Scheduler, ...]
    measure: Callable[[Scheduler, Sizes], dict[str, float]]
    missing: Callable[[], str | None]


def plugin_missing() -> str | None:
    """How to install the plugin that is run; None if it is there."""
    return None if PLUGIN.exists() else "check_dummy is not installed: apt-get install monitoring-plugins-basic"


def measure_overload(contender: Scheduler, sizes: Sizes) -> dict[str, float]:
    """Runs per second where more is due than the machine can do, and the processor time that each takes."""
    work = CheckWork(sizes.overload_checks, 1, (str(PLUGIN), "0"))
    records, since, until, cpu = _measured(contender, work, sizes)
    return _runs_and_cpu(rate(records.ended, since, until), cpu)


def measure_offered(contender: Scheduler, sizes: Sizes) -> dict[str, float]:
    """Lateness at a rate that the machine can do, and the processor time that it takes, children included."""
    work = CheckWork(sizes.offered_checks, sizes.offered_every, (str(PLUGIN), "0"))
    records, since, until, cpu = _measured(contender, work, sizes)
    return _runs_and_cpu(rate(records.ended, since, until), cpu) | lateness(records, since, until)


def _runs_and_cpu(runs: float, cpu: CpuUse) -> dict[str, float]:
    return {"runs_per_s": runs, "cpu_ms_per_run": cpu.contender * 1e3 / max(runs, 1.0), "others_cpus": cpu.others}


def measure_spread(contender: Scheduler, sizes: Sizes) -> dict[str, float]:
    """The busiest second beside the mean, from the first start on and from a reload on; and how regular checks are."""
    every = sizes.spread_every
    with folder_for(None) as folder:
        check = LoggingCheck(folder)
        work = CheckWork(sizes.spread_checks, every, check.command, numbered=True, first_at_once=False)
        with _at_work(contender, work) as (contender_, _):
            contender_.wait_for(check.log, sizes.start_most_seconds)
            contender_.work(3 * every)
            reloaded = time.time()
            contender_.reload()
            contender_.work(2 * every)
            ended = time.time()
        numbers, started = check.starts()
    first = float(started.min())
    steady = (started >= first + every) & (started < reloaded)
    return {
        "start_peak": peak_over_mean(started, first, reloaded),
        "reload_peak": peak_over_mean(started, reloaded, ended),
        **{f"irregular_{key}": value for key, value in irregularity(numbers[steady], started[steady], every).items()},
    }


def measure_start(contender: Scheduler, sizes: Sizes) -> dict[str, float]:
    """From the start of the program to the first run of a check, and what is in memory a while later."""
    with folder_for(None) as folder:
        check = LoggingCheck(folder)
        work = CheckWork(sizes.start_checks, sizes.start_every, check.command, numbered=True, first_at_once=False)
        with _at_work(contender, work) as (contender_, _):
            seconds = contender_.wait_for(check.log, sizes.start_most_seconds)
            cpu = contender_.cpu_seconds()
            contender_.work(sizes.settle_seconds)
            return {"seconds": seconds, "cpu_seconds": cpu, "memory_mb": contender_.memory() / 1e6}


def check_measures() -> list[CheckMeasure]:
    """All of them."""
    schedulers = (EvenbeatNode(), Nagios(), Icinga())
    return [
        CheckMeasure(
            "overload",
            lambda s: f"check_dummy, {s.overload_checks:,} checks every second (overload)",
            (schedulers[0], BareLoop(), *schedulers[1:]),
            measure_overload,
            plugin_missing,
        ),
        CheckMeasure(
            "offered",
            lambda s: f"check_dummy, {s.offered_checks / s.offered_every:,.0f} checks per second offered",
            schedulers,
            measure_offered,
            plugin_missing,
        ),
        CheckMeasure(
            "locale",
            lambda s: f"check_dummy, {s.overload_checks:,} checks every second, with LANG=C and another locale",
            (BareLoop(), BareLoop("loop-utf8", _UTF8), schedulers[0], EvenbeatNode("evenbeat-utf8", _UTF8)),
            measure_overload,
            plugin_missing,
        ),
        CheckMeasure(
            "spread",
            lambda s: f"{s.spread_checks:,} checks every {s.spread_every} s, as really started",
            schedulers,
            measure_spread,
            LoggingCheck.missing,
        ),
        CheckMeasure(
            "start",
            lambda s: f"Start and memory with {s.start_checks:,} checks",
            schedulers,
            measure_start,
            LoggingCheck.missing,
        ),
    ]


@contextmanager
def _at_work(contender: Scheduler, work: CheckWork) -> Iterator[tuple[RunningContender, Path]]:
    with folder_for(contender.user_name) as folder:
        contender.prepare(folder, work)
        hand_over(folder, contender.user_name)
        with running(contender.command(folder), folder, contender.user_name, contender.environment) as started:
            yield started, folder


def _measured(contender: Scheduler, work: CheckWork, sizes: Sizes) -> tuple[RunRecords, int, int, CpuUse]:
    """Records, the first and last second that count, and how busy the processors were."""
    with _at_work(contender, work) as (started, folder):
        started.work(sizes.warm_up)
        watch, since = CpuWatch(started), time.time()
        started.work(sizes.seconds)
        cpu, until = watch.use(), time.time()
        started.work(_FLUSH_SECONDS)
        started.stop()
        return contender.records(folder), int(since) + 1, int(until), cpu
