"""Read tasks, checks and periods from TOML. Every problem is reported with file, line and column; nothing is guessed.

[defaults]            what every task below has unless it says otherwise
[periods.NAME]        ranges, holidays, include, exclude, prefer, zone
[checks.NAME]         every | cron | calendar | at, period, weight, command ...
[tasks.NAME]
"""

import stat
import tomllib
from pathlib import Path
from typing import Any, Final, NamedTuple

from evenbeat.load.locate import Place, Places
from evenbeat.load.nouns import Reader
from evenbeat.model import Period, Task

SIZE_LIMIT: Final = 256 << 20
SHOWN: Final = 100
"""More problems than this are counted, not listed: the first ones explain them."""


class Config(NamedTuple):
    """What a file says."""

    tasks: tuple[Task, ...]
    periods: dict[str, Period]


class Problem(NamedTuple):
    """One thing wrong with a file, for the person who must mend it."""

    file: str
    place: Place | None
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.place.line}:{self.place.column}" if self.place else self.file
        return f"{where}: {self.message}"


class BadFileError(ValueError):
    """A file that cannot be used, with its problems."""

    def __init__(self, problems: list[Problem], more: int = 0) -> None:
        self.problems = problems
        lines = [*map(str, problems), *([f"... and {more:,} more"] if more else [])]
        super().__init__("\n".join(lines))


def load_toml(path: Path) -> Config:
    """Read a file; raise BadFileError with every problem found."""
    try:
        # A pipe or a device may have no end, or no beginning.
        if not stat.S_ISREG(path.stat().st_mode):
            raise _refused(path, "not a regular file")
        with path.open("rb") as file:
            content = file.read(SIZE_LIMIT + 1)
        if len(content) > SIZE_LIMIT:
            raise _refused(path, f"larger than {SIZE_LIMIT >> 20} MiB")
        text = content.decode("utf-8-sig")
    except OSError as e:
        raise _refused(path, e.strerror or str(e)) from None
    except UnicodeDecodeError as e:
        raise _refused(path, f"not UTF-8 text ({e.reason} at byte {e.start})") from None
    return parse_toml(text, str(path))


def _refused(path: Path, reason: str) -> BadFileError:
    return BadFileError([Problem(str(path), None, reason)])


def parse_toml(text: str, file: str) -> Config:
    """Parse the text of a file; `file` is how messages call it."""
    document = _document(text, file)
    reader = Reader(document)
    tasks, periods = reader.read()
    if reader.problems:
        places = Places(text, document)
        problems = []
        for path, error in reader.problems[:SHOWN]:
            place = places.find(path, error.column)
            # The column within the value is part of the place in the file, if that was found.
            problems.append(Problem(file, place, f"{error.place}: {error.problem}" if place else str(error)))
        raise BadFileError(problems, len(reader.problems) - len(problems))
    return Config(tasks, periods)


def _document(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        message, _, where = str(e).rpartition(" (at ")
        numbers = [int(w) for w in where.replace(",", " ").replace(")", " ").split() if w.isdecimal()]
        found = (Place(*numbers), message) if len(numbers) == 2 else (None, str(e))
        raise BadFileError([Problem(file, *found)]) from None
    except RecursionError:
        raise BadFileError([Problem(file, None, "tables or arrays nested too deep")]) from None
    except ValueError as e:
        # Python refuses to read a number of thousands of digits.
        raise BadFileError([Problem(file, None, str(e))]) from None
