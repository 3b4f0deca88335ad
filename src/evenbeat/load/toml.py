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

from evenbeat.load.config import BadFileError, Config, ConfigError, FilePosition, ParsedFile
from evenbeat.load.locate import TomlPositions
from evenbeat.load.pause_gc import without_garbage_collection
from evenbeat.load.read_text import read_text
from evenbeat.load.sections import DocumentReader

MAX_ERRORS_SHOWN: Final = 100
"""Errors beyond this number are counted, not listed: the first ones explain them."""
_WHERE: Final = re.compile(r"(?P<message>.*) at line (?P<line>\d+) column (?P<column>\d+)", re.DOTALL)


def load_toml(path: Path) -> Config:
    """Read a file; raise BadFileError with all errors."""
    return parse_toml(read_text(path), str(path))


def parse_toml(text: str, file: str) -> Config:
    """Parse the text of a file; `file` is its name in messages."""
    return parse_toml_file(text, file).config


def parse_toml_file(text: str, file: str, *, must_run: bool = False) -> ParsedFile:
    """Parse the text and keep the positions of its values; with `must_run` every task needs something to run."""
    # Lines of a script end in \n, even in a file from another system.
    text = text.replace("\r\n", "\n")
    with without_garbage_collection():
        document = _document(text, file)
        reader = DocumentReader(document, must_run=must_run)
        config = reader.read()
    if reader.errors.errors:
        places = TomlPositions(text, document)
        errors = []
        for path, error in reader.errors.errors[:MAX_ERRORS_SHOWN]:
            place = places.position_of(path, error.column)
            # The column within the value is part of the place in the file, if that was found.
            errors.append(ConfigError(file, place, f"{error.place}: {error.problem}" if place else str(error)))
        errors.sort(key=lambda error: error.place or FilePosition(0, 0))
        raise BadFileError(errors, len(reader.errors) - len(errors))
    known: list[TomlPositions] = []

    def place_of(path: tuple[str, ...], column: int | None) -> FilePosition | None:
        if not known:
            known.append(TomlPositions(text, document))
        return known[0].position_of(reader.defining_path(path[1], *path[2:]) if path[0] == "tasks" else path, column)

    return ParsedFile(file, config, place_of)


def _document(text: str, file: str) -> dict[str, Any]:
    try:
        return rtoml.loads(text)
    except rtoml.TomlParsingError as e:
        found = _WHERE.fullmatch(str(e))
        place = FilePosition(int(found["line"]), int(found["column"])) if found else None
        message = found["message"] if found else str(e)
        if "recurs" in message:
            message = "tables or arrays nested too deep"
        raise BadFileError([ConfigError(file, place, message)]) from None
