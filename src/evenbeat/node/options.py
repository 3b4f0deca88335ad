"""The options with which a node is started."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from evenbeat.node.process.listen import ListenAddress

DEFAULT_STOP_GRACE: Final = 30.0
"""Seconds that runs have to end when the node is stopped."""


class NodeOptions(Struct, frozen=True):
    """How a node runs."""

    files: tuple[Path, ...] = ()
    is_strict: bool = False
    """Refuse to start if a file cannot be applied, even if an earlier version of it could."""
    workers: int = 1
    max_concurrent: int | None = None
    """None for what files say, else 512."""
    start_window: int | None = None
    """Microseconds within which first and catch-up runs are made; None for what files say, else a minute."""
    start_rate: int | None = None
    """Maximum of first and catch-up runs per second; None for what files say, else 200."""
    grace: float = DEFAULT_STOP_GRACE
    length: float | None = None
    """Seconds after which it stops by itself."""
    listen: ListenAddress | None = None
    """Where its API and page are served; None for nowhere."""
