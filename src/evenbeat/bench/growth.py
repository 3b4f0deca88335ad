"""Growth, measured: what a segment costs with ten thousand tasks and with ten million, beside the bare scan."""

import time
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import numpy as np

from evenbeat.bench.measure import Observation
from evenbeat.bench.segment import DENSE, SPARSE, IntervalMix, compare_with
from evenbeat.bench.segment_loops import START, NumpyWalker, timetable_of
from evenbeat.cli.output.picture import new_figure, save_figure

_TASKS: Final = 1_000_000
_SIZES: Final = (10_000, 100_000, 1_000_000, 10_000_000)
_PAIRS: Final = 3
_BYTES: Final = 400
"""Bytes per task, for both sides and for building them."""
_SCANS: Final = 31


class SegmentCost(NamedTuple):
    """Milliseconds per segment."""

    tasks: int
    ours_ms: float
    numpy_ms: float


def scan_nanoseconds_per_task() -> float:
    """Nanoseconds per task for one comparison of the whole column of due times."""
    due = timetable_of(_TASKS, SPARSE.intervals).columns.due
    took: list[int] = []
    for _ in range(_SCANS):
        start = time.process_time_ns()
        np.flatnonzero(due <= START)
        took.append(time.process_time_ns() - start)
    return median(took) / _TASKS


def segment_costs(plot: str, constant: float) -> Observation:
    """Cost by size, for a dense and a sparse mix, also as a picture; says which sizes the memory is too small for."""
    sizes = [size for size in _SIZES if size * _BYTES < _available()]
    left_out = [size for size in _SIZES if size not in sizes]
    found = {mix.name: [_cost(mix, size) for size in sizes] for mix in (DENSE, SPARSE)}
    _draw(found, constant, plot)
    lines = [
        f"  {name:<8}{cost.tasks:>12,} tasks {cost.ours_ms:>10.3f} ms   bare numpy {cost.numpy_ms:>10.3f} ms"
        for name, costs in found.items()
        for cost in costs
    ]
    lines += [f"  left out: {size:,} tasks need {size * _BYTES / 1e9:.0f} GB of free memory" for size in left_out]
    value: dict[str, object] = {name: [cost._asdict() for cost in costs] for name, costs in found.items()}
    return Observation(
        value | {"left_out": left_out}, "\n".join(["[bold]A segment[/bold], by number of tasks", *lines])
    )


def _cost(mix: IntervalMix, tasks: int) -> SegmentCost:
    measure = compare_with(mix, tasks, "bare numpy", NumpyWalker, _PAIRS)
    return SegmentCost(tasks, 1e3 / measure.ours, 1e3 / measure.baseline)


def _available() -> int:
    meminfo = Path("/proc/meminfo").read_text()
    return int(meminfo.split("MemAvailable:")[1].split()[0]) * 1024


def _draw(found: dict[str, list[SegmentCost]], constant: float, path: str) -> None:
    figure = new_figure(path, 8, 5)
    axes = figure.subplots()
    for (name, costs), color in zip(found.items(), ("#d1495b", "#2a6f97"), strict=True):
        tasks = [cost.tasks for cost in costs]
        label = name.replace("_", " to ")
        axes.plot(tasks, [cost.ours_ms for cost in costs], "o-", color=color, label=f"evenbeat, {label}")
        axes.plot(tasks, [cost.numpy_ms for cost in costs], "x--", color=color, alpha=0.6, label=f"bare numpy, {label}")
    tasks = [cost.tasks for cost in next(iter(found.values()))]
    scan = [constant * n / 1e6 for n in tasks]
    axes.plot(tasks, scan, ":", color="#555555", label=f"the scan alone: {constant:.2f} ns per task")
    axes.set(xscale="log", yscale="log", xlabel="tasks", ylabel="milliseconds of CPU per segment (one second)")
    axes.set_title("A segment: agenda, gate, next due, start, end", loc="left", fontsize=11)
    axes.grid(visible=True, which="major", color="#dddddd")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    save_figure(figure, path)
