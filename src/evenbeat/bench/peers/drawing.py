"""The picture of `evenbeat bench peers`: runs per second, and lateness at a rate."""

from statistics import median
from typing import Any, Final

from evenbeat.bench.peers.bench import Measured
from evenbeat.cli.output.picture import new_figure, save_figure

_PANELS: Final = (
    ("overload", "runs_per_s", "check_dummy, overload: runs/s (more is better)"),
    ("overload", "cpu_ms_per_run", "the same: ms of processor time per run (less)"),
    ("offered", "p99_ms", "check_dummy, offered: p99 of lateness, ms (less)"),
    ("functions", "runs_per_s", "function, overload: calls/s (more)"),
    ("functions_offered", "p99_ms", "function, offered: p99 of lateness, ms (less)"),
    ("spread", "start_peak", "busiest second / mean after a start (1 is even)"),
    ("spread", "reload_peak", "busiest second / mean after a reload (1 is even)"),
    ("start", "memory_mb", "memory with many checks, MB (less)"),
)
_OURS: Final = "#d1495b"
_THEIRS: Final = "#2a6f97"


def check_plot(path: str) -> None:
    """Raise Invalid before anything is measured if the picture could not be drawn."""
    new_figure(path, 1, 1)


def draw_peers(measured: list[Measured], versions: dict[str, str], path: str) -> None:
    """One panel per measure that was taken; a bar is the median of the rounds, its line goes from lowest to highest."""
    found = {each.name: each.figures for each in measured if each.figures}
    panels = [panel for panel in _PANELS if panel[0] in found]
    rows = max(1, -(-len(panels) // 2))
    figure = new_figure(path, 9, 1.6 * rows)
    grid = figure.subplots(rows, 2, squeeze=False)
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (name, key, title) in zip(grid.flat, panels, strict=False):
        _draw_panel(axes, {versions.get(who, who): some[key] for who, some in found[name].items()}, title)
    save_figure(figure, path)


def _draw_panel(axes: Any, values: dict[str, list[float]], title: str) -> None:
    middles = [median(some) for some in values.values()]
    below = [middle - min(some) for middle, some in zip(middles, values.values(), strict=True)]
    above = [max(some) - middle for middle, some in zip(middles, values.values(), strict=True)]
    colors = [_OURS if who.startswith("evenbeat") else _THEIRS for who in values]
    axes.barh(list(values), middles, xerr=[below, above], color=colors, ecolor="#333333", height=0.62)
    if max(middles) > 50 * max(min(middles), 1e-9):
        axes.set_xscale("log")
    axes.invert_yaxis()
    axes.set_title(title, loc="left", fontsize=9)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
