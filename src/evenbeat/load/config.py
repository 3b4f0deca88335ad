"""The result of reading a file: its tasks, periods and settings, the positions of values, and errors."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Final, NamedTuple

from msgspec import Meta, Struct

from evenbeat.model import (
    DAY,
    MAX_EVERY,
    SECOND,
    CommandSource,
    Contact,
    Downtime,
    Invalid,
    Notify,
    Period,
    ShortText,
    Task,
)
from evenbeat.when.duration import parse_duration

NOTHING_TO_RUN: Final = "there is nothing to run, say `command`, `function` or `passive = true`"

DEFAULT_KEEP: Final = 30 * DAY
"""The default retention of history."""


class Durability(StrEnum):
    """What a commit survives: a crash of the process, or a power failure too."""

    NORMAL = "normal"
    FULL = "full"


class NodeSettings(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The section `[node]` of a file; None for keys it does not have."""

    max_concurrent: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Slots: runs at the same time."""
    keep: Annotated[int, Meta(ge=1, le=MAX_EVERY)] | None = None
    """How long changes of state, failures, forced runs and summaries of hours are kept."""
    durability: Durability | None = None
    start_window: Annotated[int, Meta(ge=SECOND, le=DAY)] | None = None
    """The time over which first runs of new checks and catch-up runs are spread."""
    start_rate: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """First and catch-up runs per second at most."""
    commands: CommandSource | None = None
    """Who may define commands: see `core.permission`."""
    pass_env: tuple[str, ...] | None = None
    """Variables of the node's environment that commands get beside the usual ones: see `core.environment`."""
    notify: Notify | None = None
    """Who gets messages about problems of the node itself."""
    page: ShortText | None = None
    """The URL of the page as people reach it, for links in messages; None for where the node serves it."""
    ping: ShortText | None = None
    """A URL, or a reference to one, that is called as long as the node works: a dead man's switch."""
    stop_grace: Annotated[int, Meta(ge=0, le=DAY)] | None = None
    """How long runs have to end when the node is stopped in order."""
    keep_runs: Annotated[int, Meta(ge=1, le=MAX_EVERY)] | None = None
    """How long every run is kept."""


NODE_DURATIONS: Final = {
    "keep": (1, MAX_EVERY, "up to 3653d"),
    "keep_runs": (1, MAX_EVERY, "up to 3653d"),
    "start_window": (SECOND, DAY, "1s to 1d"),
    "stop_grace": (0, DAY, "0s to 1d"),
}
"""The keys that are durations: minimum, maximum, and both in words."""


def parse_node_duration(key: str, value: str | float) -> int:
    """A duration of `[node]` in microseconds; raise Invalid."""
    length = parse_duration(value)
    least, most, accepted = NODE_DURATIONS[key]
    if not least <= length <= most:
        raise Invalid(f"{value!r} is out of range, accepted: {accepted}")
    return length


class Config(NamedTuple):
    """The whole content of a file."""

    tasks: tuple[Task, ...]
    periods: dict[str, Period]
    limits: dict[str, int]
    node: NodeSettings | None
    """None if the file does not mention it."""
    contacts: Mapping[str, Contact] = {}
    downtimes: tuple[Downtime, ...] = ()
    names_from_commands: Mapping[str, tuple[str, ...]] = {}
    """Of a crontab: the names of tasks that no line names, each with all that it could be; a task that is there already
    keeps the name that it has.
    """


class FilePosition(NamedTuple):
    """Line and column, both from 1."""

    line: int
    column: int


class ConfigError(NamedTuple):
    """An error or warning about a file, for the person who must fix it."""

    file: str
    place: FilePosition | None
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.place.line}:{self.place.column}" if self.place else self.file
        return f"{where}: {self.message}"


class ParsedFile(NamedTuple):
    """A file that was read without errors."""

    file: str
    config: Config
    place_of: Callable[[tuple[str | int, ...], int | None], FilePosition | None]
    """The position of the value at a path, or of a column within it. A task's path is ("tasks", name, key)."""
    warnings: tuple[ConfigError, ...] = ()
    """Warnings found while reading."""


class BadFileError(ValueError):
    """Files with errors."""

    def __init__(self, errors: list[ConfigError], more: int = 0) -> None:
        self.errors = errors
        self.errors_omitted = more
        """The number of errors that are not listed."""
        lines = [*map(str, errors), *([f"... and {more:,} more"] if more else [])]
        super().__init__("\n".join(lines))
