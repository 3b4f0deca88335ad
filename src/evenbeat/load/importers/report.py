"""What an import has made of other systems' files, what it did not carry over and why, and what is different now."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from evenbeat.load.config import Config, ConfigError, FilePosition
from evenbeat.load.write_toml import ConfigDocument

_MAX_SHOWN: Final = 160
"""Characters of a line of the source that a report repeats."""


class Omission(NamedTuple):
    """Something of a source that the result does not have."""

    file: str
    place: FilePosition | None
    what: str
    """As the source has it: `Nice=19`."""
    why: str
    also: tuple[tuple[str, FilePosition], ...] = ()
    """Where else the source has it."""

    def __str__(self) -> str:
        return str(ConfigError(self.file, self.place, f"{self.what}: {self.why}"))


class ImportResult(NamedTuple):
    """The result of an import, and everything that its owner should know of it."""

    document: ConfigDocument
    warnings: Sequence[ConfigError] = ()
    """What was carried over and is different now, or needs a look."""
    omissions: Sequence[Omission] = ()
    """What was not carried over."""
    secrets: Mapping[str, str] = {}
    """What the source has in plain text and is secret, by the names of the files that the document refers to."""


class ImportReport:
    """Collects omissions and warnings of one import; each of them once."""

    def __init__(self) -> None:
        self._omissions: dict[Omission, None] = {}
        self._warnings: dict[ConfigError, None] = {}

    def omit(
        self,
        file: str,
        place: FilePosition | None,
        what: str,
        why: str,
        also: Iterable[tuple[str, FilePosition]] = (),
    ) -> None:
        """Something of the source is not carried over."""
        self._omissions[Omission(file, place, shown(what), why, tuple(also))] = None

    def omit_comments(self, file: str, lines: Sequence[int]) -> None:
        """The comments in these lines, which are sorted, are not carried over."""
        if lines:
            what = f"comments in {'lines' if len(lines) > 1 else 'line'} {_ranges(lines)}"
            self.omit(file, FilePosition(lines[0], 1), what, "nothing in them runs")

    def warn(self, file: str, place: FilePosition | None, message: str) -> None:
        """Something was carried over and is different now, or needs a look."""
        self._warnings[ConfigError(file, place, message)] = None

    def result(self, document: ConfigDocument) -> ImportResult:
        """The document with everything that was collected, in the order of the files' lines."""
        return ImportResult(document, sorted(self._warnings, key=_position), sorted(self._omissions, key=_position))


def _position(one: Omission | ConfigError) -> tuple[str, FilePosition]:
    return one.file, one.place or FilePosition(0, 0)


def _ranges(lines: Sequence[int]) -> str:
    """`1-3, 7`: sorted numbers, shortened."""
    found: list[list[int]] = []
    for line in lines:
        if found and line == found[-1][-1] + 1:
            found[-1] = [found[-1][0], line]
        else:
            found.append([line])
    return ", ".join("-".join(map(str, one)) for one in found)


def shown(text: str) -> str:
    """A text of the source on one line, cut if it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_SHOWN else f"{line[: _MAX_SHOWN - 3]}..."


def carried_over(config: Config) -> str:
    """How much an import has made, in words: `3 tasks, 1 contact`."""
    checks = sum(task.check for task in config.tasks)
    counts = {
        "check": checks,
        "task": len(config.tasks) - checks,
        "contact": len(config.contacts),
        "period": len(config.periods),
        "downtime": len(config.downtimes),
        "limit": len(config.limits),
    }
    return ", ".join(f"{n:,} {noun}{'' if n == 1 else 's'}" for noun, n in counts.items() if n) or "nothing"
