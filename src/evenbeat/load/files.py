"""Reads any file of tasks: TOML by its name or content, otherwise a crontab; alone, or together with others."""

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from evenbeat.load.config import BadFileError, Config, ConfigError, ParsedFile
from evenbeat.load.config_validation import config_errors_of, validate_configs
from evenbeat.load.crontab import parse_crontab_file
from evenbeat.load.toml import parse_toml_file

MAX_FILE_BYTES: Final = 256 << 20


def load_file(path: Path) -> Config:
    """Read a file; raise BadFileError with all errors."""
    return load_parsed_file(path).config


def load_parsed_file(path: Path, *, must_run: bool = True) -> ParsedFile:
    """Read a file and keep the positions of its values; without `must_run` tasks need no command."""
    text = read_text(path)
    if is_toml(path, text):
        return parse_toml_file(text, str(path), must_run=must_run)
    return parse_crontab_file(text, str(path))


def load_together(paths: Sequence[Path], *, must_run: bool = True) -> list[ParsedFile]:
    """Read files that make one timetable; raise BadFileError with the errors in and between all of them.

    Without `must_run` tasks need no command.
    """
    sources, errors, more = [], [], 0
    for path in dict.fromkeys(paths):
        try:
            sources.append(load_parsed_file(path, must_run=must_run))
        except BadFileError as e:
            errors += e.errors
            more += e.errors_omitted
    if not errors:
        by_file = {source.file: source for source in sources}
        found = validate_configs({file: source.config for file, source in by_file.items()}, must_run=must_run)
        errors, more = config_errors_of(found, by_file.get)
    if errors:
        raise BadFileError(errors, more)
    return sources


def is_toml(path: Path, text: str) -> bool:
    """Is it TOML, by its name, or because it begins with the header of a table, as no crontab does?"""
    if path.suffix.lower() == ".toml":
        return True
    lines = (line.strip() for line in text.splitlines())
    return next((line[0] == "[" for line in lines if line and line[0] != "#"), False)


def read_text(path: Path) -> str:
    """The whole text of a regular file of a bounded size, in UTF-8; raise BadFileError with the reason why not."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise _refused(path, f"not UTF-8 text ({e.reason} at byte {e.start})") from None


def read_bytes(path: Path) -> bytes:
    """The content of a regular file of a bounded size; raise BadFileError with the reason why not."""
    try:
        # A pipe or a device may have no end, or no beginning.
        if not stat.S_ISREG(path.stat().st_mode):
            raise _refused(path, "not a regular file")
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as e:
        raise _refused(path, e.strerror or str(e)) from None
    except ValueError as e:
        if isinstance(e, BadFileError):
            raise
        raise _refused(path, str(e)) from None  # a NUL in the path
    if len(content) > MAX_FILE_BYTES:
        raise _refused(path, f"larger than {MAX_FILE_BYTES >> 20} MiB")
    return content


def _refused(path: Path, reason: str) -> BadFileError:
    return BadFileError([ConfigError(str(path), None, reason)])
