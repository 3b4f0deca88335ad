"""Plots: a matplotlib figure, if the extra is installed, saved as a PNG file."""

from typing import TYPE_CHECKING

from evenbeat.model import Invalid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(path: str, width: float, height: float) -> "Figure":
    """An empty figure for `save_figure`; raises Invalid early if it could not be saved to `path`."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise Invalid("drawing needs the extra: pip install 'evenbeat[plot]'", place="--plot") from None
    if not path.endswith(".png"):
        raise Invalid(f"{path!r} is not a .png file", place="--plot")
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", path: str) -> None:
    """Save the figure as PNG."""
    try:
        figure.savefig(path, dpi=110)
    except OSError as e:
        raise Invalid(f"{path}: {e.strerror}", place="--plot") from None
