"""Read any file of tasks: TOML by its name or its look, a crontab otherwise; alone, or together with others."""

from collections.abc import Sequence
from pathlib import Path

from evenbeat.load.config import BadFileError, Config, Source
from evenbeat.load.crontab import crontab_source
from evenbeat.load.cross_check import findings, problems_of
from evenbeat.load.read_text import read_text
from evenbeat.load.toml import toml_source


def load_file(path: Path) -> Config:
    """All that a file says; raise BadFileError with every problem found."""
    return load_source(path).config


def load_source(path: Path, *, must_run: bool = True) -> Source:
    """The same, for those who will ask where something stands; without `must_run` tasks need no command."""
    text = read_text(path)
    if is_toml(path, text):
        return toml_source(text, str(path), must_run=must_run)
    return crontab_source(text, str(path))


def load_together(paths: Sequence[Path], *, must_run: bool = True) -> list[Source]:
    """Files that make one timetable; raise BadFileError with the problems of all of them, and between them.

    Without `must_run` tasks need no command.
    """
    sources, problems, more = [], [], 0
    for path in dict.fromkeys(paths):
        try:
            sources.append(load_source(path, must_run=must_run))
        except BadFileError as e:
            problems += e.problems
            more += e.more
    if not problems:
        by_file = {source.file: source for source in sources}
        found = findings({file: source.config for file, source in by_file.items()}, must_run=must_run)
        problems, more = problems_of(found, by_file.get)
    if problems:
        raise BadFileError(problems, more)
    return sources


def is_toml(path: Path, text: str) -> bool:
    """By its name; or because it begins with the header of a table, as no crontab does."""
    if path.suffix.lower() == ".toml":
        return True
    lines = (line.strip() for line in text.splitlines())
    return next((line[0] == "[" for line in lines if line and line[0] != "#"), False)
