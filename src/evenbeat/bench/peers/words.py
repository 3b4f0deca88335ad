"""The figures of peers in words: a line per contender, medians with the lowest and highest of all rounds."""

from collections.abc import Mapping
from statistics import median
from typing import Final

from evenbeat.bench.peers.bench import Measured

_WORDS: Final = {
    "runs_per_s": ("runs/s", 0),
    "p50_ms": ("late p50 ms", 1),
    "p99_ms": ("p99 ms", 1),
    "max_ms": ("max ms", 0),
    "cpu_ms_per_run": ("CPU ms/run", 2),
    "others_cpus": ("CPUs that others used", 1),
    "start_peak": ("peak/mean after a start", 2),
    "reload_peak": ("after a reload", 2),
    "irregular_p50_ms": ("irregular by p50 ms", 1),
    "irregular_p99_ms": ("p99 ms", 1),
    "irregular_max_ms": ("max ms", 0),
    "seconds": ("s to the first run", 1),
    "cpu_seconds": ("CPU s", 1),
    "memory_mb": ("MB", 0),
}
"""Of each figure, what it is and how many digits it deserves."""


def lines_of(measured: Measured, versions: Mapping[str, str]) -> list[str]:
    """A title, a line for each contender, and a line for each that is missing."""
    names = {name: versions.get(name, name) for name in measured.figures}
    width = max(map(len, names.values()), default=0) + 2
    found = [
        f"  {names[name]:<{width}}"
        + "  ".join(f"{_WORDS[key][0]} {_with_spread(values, _WORDS[key][1])}" for key, values in figures.items())
        for name, figures in measured.figures.items()
    ]
    return [f"[bold]{measured.title}[/bold]", *found, *(f"  left out: {text}" for text in measured.missing)]


def _with_spread(values: list[float], digits: int) -> str:
    middle = f"{median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"
