"""A copy of the definitions of plain tasks beside the database, from which a node starts faster than from the store.

The store alone says which tasks there are, and which version of its definition each has. A definition is taken from
the copy only if number, version and time of the change are those in the store; all others are read from the store. A
copy that is damaged, or of another version of this program, is not used. Each start that has read many definitions
from the store writes a new copy, beside the loop.
"""

import logging
import os
import stat
import sys
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from msgspec import Struct

from evenbeat.core.columns import Ints
from evenbeat.model import Entry, Task
from evenbeat.node.loop.plain_definitions import PlainDefinitions
from evenbeat.store.private_files import create_private

_LEAST: Final = 10_000
"""Tasks below which there is no copy: a start on them takes a moment anyway."""
_STALE_SHARE: Final = 32
"""A copy that lacks this share of the plain tasks is written anew."""
_LAYOUT: Final = 1
_LENGTH_BYTES: Final = 8
_DIGEST_BYTES: Final = 16
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_COLUMNS: Final = PlainDefinitions._fields[:10]
_WIDE: Final = frozenset(("numbers", "versions", "changed", "phases"))
_log: Final = logging.getLogger("evenbeat.node")


class VersionedStore(Protocol):
    """What a copy asks of a store."""

    def task_versions(self) -> Iterator[Sequence[tuple[int, int, int]]]:
        """Number, version and time of the last change of every task, some at a time, by number."""

    def numbered_entries(self, numbers: Sequence[int]) -> Iterator[Entry]:
        """The tasks with these numbers, of those that exist."""


class _Header(Struct):
    layout: int
    program: str
    byte_order: str
    sizes: dict[str, int]
    samples: list[Task]
    owner_names: list[str]
    label_texts: list[tuple[str, str]]


class _RefusedCopyError(ValueError):
    """A copy that is not used, and why."""


_decode_header: Final = msgspec.msgpack.Decoder(_Header).decode


def definition_copy_path(database: Path) -> Path:
    """Where the copy of a database's definitions is."""
    whole = database.resolve()
    return whole.with_name(whole.name + ".definitions")


class DefinitionCopy:
    """The copy that belongs to one database."""

    def __init__(self, path: Path, store: VersionedStore, least: int = _LEAST) -> None:
        """Databases with fewer than `least` tasks have no copy."""
        self._path = path
        self._store = store
        self._least = least
        self._stale = 0
        self._rest: Sequence[int] | None = None
        self.writing: threading.Thread | None = None
        """Writes a new copy."""

    def plain(self, without: Collection[int]) -> Iterator[PlainDefinitions]:
        """The definitions that are as the store has them, some at a time, without those of some tasks."""
        self._rest = None
        found = self._read()
        if found is None:
            return
        stored = [np.array(some, dtype=np.int64) for some in self._store.task_versions()]
        numbers, versions, changed = np.concatenate(stored).T if stored else np.zeros((3, 0), dtype=np.int64)
        places = np.minimum(np.searchsorted(numbers, found.numbers), max(len(numbers) - 1, 0))
        valid = np.zeros(len(found.numbers), dtype=bool)
        if len(numbers):
            valid |= numbers[places] == found.numbers
            valid &= (versions[places] == found.versions) & (changed[places] == found.changed)
        valid &= ~np.isin(found.numbers, list(without))
        self._stale = int((~valid).sum())
        self._rest = np.setdiff1d(numbers, found.numbers[valid], assume_unique=True).tolist()
        del stored, numbers, versions, changed, places
        yield from found.parts(valid)

    def others(self) -> Iterable[Entry] | None:
        """The tasks that `plain` has not given; None if it has given none."""
        return None if self._rest is None else self._store.numbered_entries(self._rest)

    def keep(self, definitions: PlainDefinitions | None) -> None:
        """Write these definitions, which must not change any more, in a thread, if they differ much from the copy."""
        rest, self._rest = self._rest, None
        if definitions is None or len(definitions.numbers) < self._least:
            return
        if rest is not None:
            lacking = int(np.isin(definitions.numbers, rest).sum())
            if (self._stale + lacking) * _STALE_SHARE <= len(definitions.numbers):
                return
        self.writing = threading.Thread(
            target=self._write, args=(definitions,), name="evenbeat definitions", daemon=True
        )
        self.writing.start()

    # Reading

    def _read(self) -> PlainDefinitions | None:
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError as e:
            self._log_refused(e.strerror)
            return None
        try:
            about = os.fstat(file)
            if not stat.S_ISREG(about.st_mode):
                raise _RefusedCopyError("it is no regular file")
            if about.st_mode & _OTHERS or about.st_uid not in (0, os.geteuid()):
                raise _RefusedCopyError("other users may have written it")
            with os.fdopen(file, "rb", closefd=False) as opened:
                return _decoded(opened.read())
        except (_RefusedCopyError, msgspec.MsgspecError, OSError) as e:
            self._log_refused(str(e))
            return None
        finally:
            os.close(file)

    def _log_refused(self, why: str | None) -> None:
        message = "the definitions are read from the database, as %s is not used: %s"
        _log.info(message, self._path, why, extra={"action": "copy_refused"})

    # Writing

    def _write(self, definitions: PlainDefinitions) -> None:
        part = self._path.with_name(self._path.name + ".part")
        try:
            part.unlink(missing_ok=True)
            create_private(part)
            with part.open("r+b") as file:
                file.writelines(_encoded(definitions))
            part.replace(self._path)
        except OSError as e:
            _log.info("no copy of the definitions was written: %s", e, extra={"action": "copy_not_written"})
            with suppress(OSError):
                part.unlink(missing_ok=True)


def _program() -> str:
    try:
        return version("evenbeat")
    except PackageNotFoundError:  # run from its source, without an installation
        return ""


def _encoded(definitions: PlainDefinitions) -> Iterator[bytes]:
    columns = {name: getattr(definitions, name).tobytes() for name in _COLUMNS}
    columns |= {"names": definitions.names, "jobs": definitions.jobs}
    header = msgspec.msgpack.encode(
        _Header(
            _LAYOUT,
            _program(),
            sys.byteorder,
            {name: len(column) for name, column in columns.items()},
            list(definitions.samples),
            list(definitions.owner_names),
            list(definitions.label_texts),
        )
    )
    digest = blake2b(digest_size=_DIGEST_BYTES)
    for piece in (len(header).to_bytes(_LENGTH_BYTES, "big"), header, *columns.values()):
        digest.update(piece)
        yield piece
    yield digest.digest()


def _decoded(content: bytes) -> PlainDefinitions:
    """The definitions in a file; raise _RefusedCopyError or MsgspecError."""
    whole = memoryview(content)
    body, digest = whole[:-_DIGEST_BYTES], whole[-_DIGEST_BYTES:]
    if blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise _RefusedCopyError("it is damaged")
    end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "big")
    header = _decode_header(body[_LENGTH_BYTES:end])
    if (header.layout, header.program, header.byte_order) != (_LAYOUT, _program(), sys.byteorder):
        raise _RefusedCopyError("another version of evenbeat has written it")
    columns: dict[str, memoryview] = {}
    for name, size in header.sizes.items():
        columns[name] = body[end : end + size]
        end += size
    if columns.keys() != {*_COLUMNS, "names", "jobs"} or end != len(body):
        raise _RefusedCopyError("its layout is another one")
    arrays: dict[str, Any] = {name: _column(name, columns[name]) for name in _COLUMNS}
    found = PlainDefinitions(
        **arrays,
        names=bytes(columns["names"]),
        jobs=bytes(columns["jobs"]),
        samples=header.samples,
        owner_names=header.owner_names,
        label_texts=header.label_texts,
    )
    if not found.is_consistent:
        raise _RefusedCopyError("its columns do not fit together")
    return found


def _column(name: str, memory: memoryview) -> Ints:
    kind = np.int64 if name in _WIDE else np.int32
    if len(memory) % np.dtype(kind).itemsize:
        raise _RefusedCopyError("its columns do not fit together")
    column: Ints = np.frombuffer(memory, kind)
    return column
