"""Pictures for people: a figure to draw on, if the extra is there, and a file to keep it in."""

from typing import TYPE_CHECKING

from evenbeat.model import Invalid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(path: str, width: float, height: float) -> "Figure":
    """An empty figure that `save_figure` can keep there; refuses before any work is done for it."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        raise Invalid("drawing needs the extra: pip install 'evenbeat[plot]'", place="--plot") from None
    if not path.endswith(".png"):
        raise Invalid(f"{path!r} is not a .png file", place="--plot")
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: "Figure", path: str) -> None:
    """Write it."""
    try:
        figure.savefig(path, dpi=110)
    except OSError as e:
        raise Invalid(f"{path}: {e.strerror}", place="--plot") from None
