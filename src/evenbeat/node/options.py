"""The options with which a node is started."""

from pathlib import Path
from typing import Final

from msgspec import Struct

from evenbeat.model import SECOND
from evenbeat.node.process.followed_files import FileState
from evenbeat.node.process.listen import ListenAddress

_DEFAULT_STOP_GRACE: Final = 30.0


class NodeOptions(Struct, frozen=True):
    """How a node runs."""

    files: tuple[Path, ...] = ()
    is_strict: bool = False
    """Refuse to start if a file cannot be applied, even if an earlier version of it could."""
    followed: tuple[FileState, ...] | None = None
    """The states of the files before they are read, of a node that reads them again when they change; else None."""
    workers: int = 1
    max_concurrent: int | None = None
    """None for what files say, else 512."""
    start_window: int | None = None
    """Microseconds within which first and catch-up runs are made; None for what files say, else a minute."""
    start_rate: int | None = None
    """Maximum of first and catch-up runs per second; None for what files say, else 200."""
    grace: float | None = None
    """Seconds that runs have to end when the node is stopped; None for what files say, else 30."""
    length: float | None = None
    """Seconds after which it stops by itself."""
    listen: ListenAddress | None = None
    """Where its API and page are served; None for nowhere."""

    def stop_grace(self, said: int | None) -> float:
        """How many seconds runs have to end when the node is stopped; files say so many microseconds."""
        if self.grace is not None:
            return self.grace
        return _DEFAULT_STOP_GRACE if said is None else said / SECOND
