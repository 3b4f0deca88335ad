"""Read any file of tasks: TOML by its name or its look, a crontab otherwise; alone, or together with others."""

from collections.abc import Sequence
from pathlib import Path

from evenbeat.load.config import BadFileError, Config, Source
from evenbeat.load.crontab import crontab_source
from evenbeat.load.text import read_text
from evenbeat.load.together import disagreements
from evenbeat.load.toml import toml_source


def load_file(path: Path) -> Config:
    """All that a file says; raise BadFileError with every problem found."""
    return load_source(path).config


def load_source(path: Path) -> Source:
    """The same, for those who will ask where something stands."""
    text = read_text(path)
    return toml_source(text, str(path)) if is_toml(path, text) else crontab_source(text, str(path))


def load_together(paths: Sequence[Path]) -> list[Source]:
    """Files that make one timetable; raise BadFileError with the problems of all of them, and between them."""
    sources, problems, more = [], [], 0
    for path in dict.fromkeys(paths):
        try:
            sources.append(load_source(path))
        except BadFileError as e:
            problems += e.problems
            more += e.more
    if not problems:
        problems = disagreements(sources)
    if problems:
        raise BadFileError(problems, more)
    return sources


def is_toml(path: Path, text: str) -> bool:
    """By its name; or because it begins with the header of a table, as no crontab does."""
    if path.suffix.lower() == ".toml":
        return True
    lines = (line.strip() for line in text.splitlines())
    return next((line[0] == "[" for line in lines if line and line[0] != "#"), False)
