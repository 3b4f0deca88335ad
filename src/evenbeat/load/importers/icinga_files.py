"""Finds the files of an Icinga 2 dump: files, and all files of a folder and of those in it."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from evenbeat.load.config import BadFileError, ConfigError
from evenbeat.load.files import MAX_FILE_BYTES
from evenbeat.load.importers.report import ImportReport
from evenbeat.load.importers.source_files import files_below, is_folder, read_source


class IcingaFiles(NamedTuple):
    """Texts with the names of their files, and what a reader should know of them."""

    texts: list[tuple[str, str]]
    warnings: list[ConfigError]


def find_icinga_files(paths: Sequence[str]) -> IcingaFiles:
    """Read files, and those of folders; raise BadFileError."""
    report, texts, size = ImportReport(), [], 0
    for path in dict.fromkeys(_files(paths)):
        text = read_source(path, report)
        size += len(text)
        if size > MAX_FILE_BYTES:
            raise BadFileError([ConfigError(str(path), None, f"more than {MAX_FILE_BYTES >> 20} MiB in all")])
        texts.append((text, str(path)))
    if not texts:
        raise BadFileError([ConfigError(paths[0], None, "no files here")])
    return IcingaFiles(texts, [*report.result({}).warnings])


def _files(paths: Sequence[str]) -> Iterator[Path]:
    for name in paths:
        path = Path(name)
        if is_folder(path):
            yield from (one for one in files_below(path) if not one.name.startswith("."))
        else:
            yield path
