"""Read tasks, checks and periods from TOML. Every problem is reported with file, line and column; nothing is guessed.

[node]                max_concurrent, keep, durability, start_window, start_rate, commands, pass_env
[defaults]            what every task below has unless it says otherwise
[templates.NAME]      what the tasks have that say `use = "NAME"`
[periods.NAME]        ranges, holidays, include, exclude, prefer, zone
[limits]              NAME = how many runs at the same time
[checks.NAME]         every | cron | calendar | at, period, weight, command ...
[tasks.NAME]
"""

import re
from pathlib import Path
from typing import Any, Final

import rtoml

from evenbeat.load.config import BadFileError, Config, Place, Problem, Source
from evenbeat.load.locate import Places
from evenbeat.load.pause_gc import without_collector
from evenbeat.load.read_text import read_text
from evenbeat.load.sections import Reader

SHOWN: Final = 100
"""More problems than this are counted, not listed: the first ones explain them."""
_WHERE: Final = re.compile(r"(?P<message>.*) at line (?P<line>\d+) column (?P<column>\d+)", re.DOTALL)


def load_toml(path: Path) -> Config:
    """Read a file; raise BadFileError with every problem found."""
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, file: str) -> Config:
    """Parse the text of a file; `file` is how messages call it."""
    return toml_source(text, file).config


def toml_source(text: str, file: str, *, must_run: bool = False) -> Source:
    """The same, for those who will ask where something stands; with `must_run` every task needs something to run."""
    # A line of a script ends in \n wherever it was written.
    text = text.replace("\r\n", "\n")
    with without_collector():
        document = _document(text, file)
        reader = Reader(document, must_run=must_run)
        config = reader.read()
    if reader.problems.found:
        places = Places(text, document)
        problems = []
        for path, error in reader.problems.found[:SHOWN]:
            place = places.find(path, error.column)
            # The column within the value is part of the place in the file, if that was found.
            problems.append(Problem(file, place, f"{error.place}: {error.problem}" if place else str(error)))
        problems.sort(key=lambda problem: problem.place or Place(0, 0))
        raise BadFileError(problems, len(reader.problems) - len(problems))
    known: list[Places] = []

    def place_of(path: tuple[str, ...], column: int | None) -> Place | None:
        if not known:
            known.append(Places(text, document))
        return known[0].find(reader.origin(path[1], *path[2:]) if path[0] == "tasks" else path, column)

    return Source(file, config, place_of)


def _document(text: str, file: str) -> dict[str, Any]:
    try:
        return rtoml.loads(text)
    except rtoml.TomlParsingError as e:
        found = _WHERE.fullmatch(str(e))
        place = Place(int(found["line"]), int(found["column"])) if found else None
        message = found["message"] if found else str(e)
        if "recurs" in message:
            message = "tables or arrays nested too deep"
        raise BadFileError([Problem(file, place, message)]) from None
