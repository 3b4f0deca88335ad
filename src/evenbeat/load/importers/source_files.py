"""Reads the files of an import: folders are listed in order, sizes are bounded, what is not UTF-8 is reported."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from evenbeat.load.config import BadFileError, ConfigError, FilePosition
from evenbeat.load.files import read_bytes
from evenbeat.load.importers.report import ImportReport

_MAX_FILES: Final = 100_000
_MAX_DEPTH: Final = 40


def read_source(path: Path, report: ImportReport) -> str:
    """The text of a file. Lines that are not UTF-8 are read as Latin-1, and the report says so."""
    content = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode()
    except UnicodeDecodeError:
        pass
    lines = []
    for number, line in enumerate(content.split(b"\n"), start=1):
        try:
            lines.append(line.decode())
        except UnicodeDecodeError as e:
            lines.append(line.decode("latin-1"))
            text = "not UTF-8: read as Latin-1, and written as UTF-8"
            report.warn(str(path), FilePosition(number, e.start + 1), text)
    return "\n".join(lines)


def files_in(folder: Path) -> list[Path]:
    """All there is in a folder, by name; raise BadFileError if it cannot be read."""
    try:
        found = sorted(folder.iterdir())
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise BadFileError([ConfigError(str(folder), None, reason)]) from None
    if len(found) > _MAX_FILES:
        raise BadFileError([ConfigError(str(folder), None, f"{len(found):,} files, accepted: at most {_MAX_FILES:,}")])
    return found


def files_below(folder: Path) -> Iterator[Path]:
    """All files of a folder and of the folders in it, by name; links to folders are not followed."""
    left = [(folder, 0)]
    count = 0
    while left:
        here, depth = left.pop()
        found = files_in(here)
        count += len(found)
        if count > _MAX_FILES:
            problem = f"more than {_MAX_FILES:,} files, accepted: at most that many"
            raise BadFileError([ConfigError(str(folder), None, problem)])
        yield from (path for path in found if not path.is_dir())
        if depth < _MAX_DEPTH:
            left += [(path, depth + 1) for path in reversed(found) if path.is_dir() and not path.is_symlink()]


def is_folder(path: Path) -> bool:
    """Is it a folder that can be looked at?"""
    try:
        return path.is_dir()
    except (OSError, ValueError):
        return False


def check_exists(path: Path) -> None:
    """Raise BadFileError if there is no such file or folder."""
    try:
        path.stat()
    except (OSError, ValueError) as e:
        reason = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise BadFileError([ConfigError(str(path), None, reason)]) from None
