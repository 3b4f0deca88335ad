"""Finds the files of a Nagios installation: those that its main file names, and all `*.cfg` of a folder.

Naemon's `include_file` and `include_dir` are the same for it as `cfg_file` and `cfg_dir`.
"""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from evenbeat.load.config import BadFileError, ConfigError, FilePosition
from evenbeat.load.files import MAX_FILE_BYTES
from evenbeat.load.importers.report import ImportReport
from evenbeat.load.importers.source_files import files_in, is_folder, read_source

_NAMED: Final = re.compile(
    r"[ \t]*(?P<what>cfg_file|cfg_dir|include_file|include_dir|resource_file|status_file|state_retention_file)"
    r"[ \t]*=[ \t]*(?P<path>.*?)[ \t\r]*"
)
_MAIN_FILE: Final = re.compile(r"^[ \t]*(cfg_file|cfg_dir|resource_file|object_cache_file)[ \t]*=", re.MULTILINE)
_STATUS: Final = ("state_retention_file", "status_file")
"""Where downtimes stand; one of them is enough."""
_MOST_FILES: Final = 100_000
_MAX_DEPTH: Final = 40
FILE_SETTINGS: Final = ("cfg_file", "cfg_dir", "include_file", "include_dir", "resource_file", *_STATUS)
"""The settings that name files which are read."""


class NagiosFiles(NamedTuple):
    """Texts with the names of their files, and what a reader should know of them."""

    texts: list[tuple[str, str]]
    warnings: list[ConfigError]


def find_nagios_files(paths: Sequence[str]) -> NagiosFiles:
    """Read files and folders, and what main files among them name; raise BadFileError."""
    search = _FileSearch()
    for path in paths:
        if is_folder(Path(path)):
            search.add_folder(Path(path), None)
        else:
            search.add_file(Path(path), None)
    if not search.texts and not search.errors:
        search.errors.append(ConfigError(paths[0], None, "no files named *.cfg here"))
    if search.errors:
        raise BadFileError(search.errors)
    return NagiosFiles(search.texts, search.warnings())


class _FileSearch:
    def __init__(self) -> None:
        self.texts: list[tuple[str, str]] = []
        self.errors: list[ConfigError] = []
        self._report = ImportReport()
        self._seen: set[str] = set()
        """Real paths: a file counts once, and a circle of links ends."""
        self._bytes = 0
        self._depth = 0

    def warnings(self) -> list[ConfigError]:
        """What a reader should know of the files."""
        return [*self._report.result({}).warnings]

    def add_file(self, path: Path, named_in: ConfigError | None) -> None:
        """Read a file, and those that it names if it is a main file."""
        if not self._is_new(path):
            return
        try:
            text = read_source(path, self._report)
        except BadFileError as e:
            self.errors += e.errors if named_in is None else [_at(named_in, error) for error in e.errors]
            return
        self._bytes += len(text)
        if self._bytes > MAX_FILE_BYTES or len(self.texts) >= _MOST_FILES:
            message = f"more than {_MOST_FILES} files, or {MAX_FILE_BYTES >> 20} MiB, in all"
            self.errors.append(ConfigError(str(path), None, message))
            return
        self.texts.append((text, str(path)))
        if _MAIN_FILE.search(text) and not self._is_too_deep(path):
            self._depth += 1
            self._add_named(path, text)
            self._depth -= 1

    def add_folder(self, folder: Path, named_in: ConfigError | None) -> None:
        """Read all `*.cfg` of a folder and of those in it, in the order of their names."""
        if not self._is_new(folder) or self._is_too_deep(folder):
            return
        self._depth += 1
        self._add_entries(folder, named_in)
        self._depth -= 1

    def _is_too_deep(self, path: Path) -> bool:
        if self._depth < _MAX_DEPTH:
            return False
        self.errors.append(
            ConfigError(str(path), None, f"more than {_MAX_DEPTH} folders and main files, each in the one before")
        )
        return True

    def _add_entries(self, folder: Path, named_in: ConfigError | None) -> None:
        try:
            entries = files_in(folder)
        except BadFileError as e:
            self.errors += e.errors if named_in is None else [_at(named_in, error) for error in e.errors]
            return
        for path in entries:
            if path.name.startswith("."):
                continue
            if is_folder(path):
                self.add_folder(path, named_in)
            elif path.name.endswith(".cfg"):
                self.add_file(path, named_in)

    def _add_named(self, main: Path, text: str) -> None:
        status: list[ConfigError] = []
        for what, path, place in _named_files(main, text):
            error = ConfigError(str(main), place, what)
            if what in ("cfg_dir", "include_dir"):
                self.add_folder(path, error)
            elif what in ("cfg_file", "include_file"):
                self.add_file(path, error)
            elif what == "resource_file":
                self._add_optional(path, error, "so its macros $USERn$ are not known")
            elif not os.access(path, os.F_OK):
                status.append(error)
            elif what == "state_retention_file" or not os.access(path.with_name("retention.dat"), os.F_OK):
                self._add_optional(path, error, "so its downtimes are not carried over")
        if status and len(status) == sum(what in _STATUS for what, _, _ in _named_files(main, text)):
            self._report.warn(status[0].file, status[0].place, "the file is not here: downtimes are not carried over")

    def _add_optional(self, path: Path, named_in: ConfigError, otherwise: str) -> None:
        before = len(self.errors)
        self.add_file(path, named_in)
        for error in self.errors[before:]:
            self._report.warn(error.file, error.place, f"{error.message}: {otherwise}")
        del self.errors[before:]

    def _is_new(self, path: Path) -> bool:
        try:
            real = os.path.realpath(path)
        except (OSError, ValueError):
            real = str(path)
        new = real not in self._seen
        self._seen.add(real)
        return new


def _named_files(main: Path, text: str) -> Iterator[tuple[str, Path, FilePosition]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if (found := _NAMED.fullmatch(line)) and found["path"]:
            yield found["what"], main.parent / found["path"], FilePosition(number, found.start("path") + 1)


def _at(named_in: ConfigError, error: ConfigError) -> ConfigError:
    """The error of a file, at the place that names it."""
    return named_in._replace(message=f"{named_in.message}: {error.file}: {error.message}")
