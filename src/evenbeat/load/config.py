"""What a file says, where in it something stands, and what is wrong with it: the nouns of this room."""

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from evenbeat.model import DAY, MAX_EVERY, SECOND, CommandSource, Invalid, Period, Task
from evenbeat.when.duration import parse_duration

NOTHING_TO_RUN: Final = "there is nothing to run, say `command`, `function` or `passive = true`"

DEFAULT_KEEP: Final = 30 * DAY
"""How long history is kept, unless a file says otherwise."""


class Durability(StrEnum):
    """What a commit survives: the end of the process, or the end of the power too."""

    NORMAL = "normal"
    FULL = "full"


class NodeSettings(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[node]`: what a file says of the node itself; None where it says nothing."""

    max_concurrent: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Slots: runs at the same time."""
    keep: Annotated[int, Meta(ge=1, le=MAX_EVERY)] | None = None
    """How long runs are remembered."""
    durability: Durability | None = None
    start_window: Annotated[int, Meta(ge=SECOND, le=DAY)] | None = None
    """Within which new checks have their first run, and what was missed is made up for."""
    start_rate: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """First and catch-up runs per second at most."""
    commands: CommandSource | None = None
    """Who may say what is executed: see `core.permission`."""
    pass_env: tuple[str, ...] | None = None
    """Variables of the node's environment that commands get beside the usual ones: see `core.environment`."""


NODE_DURATIONS: Final = {"keep": (1, MAX_EVERY, "up to 3653d"), "start_window": (SECOND, DAY, "1s to 1d")}
"""Those of its keys that are durations: least, most, and both in words."""


def parse_node_duration(key: str, said: str | float) -> int:
    """A duration of `[node]` in microseconds; raise Invalid."""
    length = parse_duration(said)
    least, most, accepted = NODE_DURATIONS[key]
    if not least <= length <= most:
        raise Invalid(f"{said!r} is out of range, accepted: {accepted}")
    return length


class Config(NamedTuple):
    """All that a file says."""

    tasks: tuple[Task, ...]
    periods: dict[str, Period]
    limits: dict[str, int]
    node: NodeSettings | None
    """None if the file does not mention it."""


class FilePosition(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


class ConfigError(NamedTuple):
    """One thing wrong with a file, or worth a second look, for the person who must mend it."""

    file: str
    place: FilePosition | None
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.place.line}:{self.place.column}" if self.place else self.file
        return f"{where}: {self.message}"


class ParsedFile(NamedTuple):
    """A file that was read without a problem."""

    file: str
    config: Config
    place_of: Callable[[tuple[str, ...], int | None], FilePosition | None]
    """Where the value at a path stands, or a column within its text. A task's path is ("tasks", name, key)."""
    warnings: tuple[ConfigError, ...] = ()
    """What reading it already showed."""


class BadFileError(ValueError):
    """Files that cannot be used, with their problems."""

    def __init__(self, problems: list[ConfigError], more: int = 0) -> None:
        self.errors = problems
        self.errors_omitted = more
        """So many were counted, but not listed."""
        lines = [*map(str, problems), *([f"... and {more:,} more"] if more else [])]
        super().__init__("\n".join(lines))
