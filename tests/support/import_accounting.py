"""Which lines of a source an import has lost: neither in its result nor named in its report."""

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from evenbeat.load.config import BadFileError
from evenbeat.load.importers.report import ImportResult, shown
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document
from evenbeat.model import Task

CORPUS = Path(__file__).parent.parent / "load" / "importers" / "corpus"


def copy_of_corpus(system: str, folder: Path) -> Path:
    """The files of a system in a folder of a test; what they run writes to its folder `out`."""
    root = folder / system
    shutil.copytree(CORPUS / system, root, symlinks=True)
    for file in root.rglob("*"):
        if file.is_file() and not file.is_symlink():
            file.write_bytes(file.read_bytes().replace(b"@ROOT@", str(root).encode()))
    (root / "out").mkdir()
    (root / "out").chmod(0o777)
    return root


def tasks_of(result: ImportResult) -> dict[str, Task]:
    """The tasks by name, as they are read back from the TOML."""
    return {task.name: task for task in parse_toml(write_document(result.document), "imported.toml").tasks}


def texts_of(result: ImportResult) -> set[str]:
    """Every text in the document, and the names of its tables."""
    return set(_texts(result.document))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield str(key)
            yield from _texts(inner)
    elif isinstance(value, Iterable):
        for inner in value:
            yield from _texts(inner)
    else:
        yield str(value)


def omitted_lines(result: ImportResult, file: str) -> set[int]:
    """The lines of a file that the report names as not carried over."""
    places = [place for one in result.omissions for place in ((one.file, one.place), *one.also)]
    found = {place.line for of, place in places if of == file and place is not None}
    for one in result.omissions:
        if one.file == file and one.what.startswith("comments in line"):
            for first, last in re.findall(r"(\d+)(?:-(\d+))?", one.what):
                found |= {*range(int(first), int(last or first) + 1)}
    return found


def silent_lines(
    files: Iterable[Path], import_them: Callable[[], ImportResult], is_about: Callable[[str], bool] = bool
) -> list[str]:
    """The lines of these files without which the result and the report would be the same, and which the report does not
    name: `FILE: LINE`. Those count for which `is_about` holds.
    """
    whole = import_them()
    before = _made_of(whole)
    silent = []
    for file in files:
        text = file.read_text()
        lines = text.splitlines(keepends=True)
        named = omitted_lines(whole, str(file))
        for number, line in enumerate(lines, start=1):
            if not line.strip() or number in named or not is_about(line):
                continue
            file.write_text("".join([*lines[: number - 1], *lines[number:]]))
            try:
                if _made_of(import_them()) == before:
                    silent.append(f"{file.name}: {line.strip()}")
            except BadFileError:
                pass  # something needs it
        file.write_text(text)
    return silent


def _made_of(result: ImportResult) -> Any:
    """The result and the report, wherever in the files it is about."""
    said = Counter([*(one.what for one in result.omissions), *(one.message for one in result.warnings)])
    return result.document, result.secrets, said


def is_named(result: ImportResult, file: str, line: int, text: str) -> bool:
    """Does the report say that this text in this line was not carried over?"""
    return any(
        one.file == file and one.place is not None and one.place.line == line and one.what in (text, shown(text))
        for one in result.omissions
    )
