"""Reads a large file in a separate process: parsing it in one go would block everything else in ours.

What comes back is the configuration in pieces, or the problems of the file; a process that cannot do it is no
problem of the file, which is then read here.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final

import msgspec
from msgspec import Struct

from evenbeat.load.config import BadFileError, Config, ConfigError, NodeSettings
from evenbeat.load.files import load_file
from evenbeat.model import Contact, Downtime, Period, Task

SUBPROCESS_FROM_BYTES: Final = 1 << 20
"""Bytes; a smaller file is parsed within some tens of milliseconds."""
_TASKS_PER_PIECE: Final = 500
"""Tasks in one piece, which is decoded in one go."""
_LENGTH_BYTES: Final = 4
_MAX_PIECE_BYTES: Final = 1 << 30
"""Bytes of a piece; a file is smaller than that."""


class _ResultHeader(Struct):
    """What is sent: all but the tasks, or problems; and how many pieces of tasks follow."""

    problems: list[ConfigError] = []
    more: int = 0
    periods: dict[str, Period] = {}
    limits: dict[str, int] = {}
    node: NodeSettings | None = None
    pieces: int = 0
    contacts: Mapping[str, Contact] = {}
    downtimes: tuple[Downtime, ...] = ()
    names_from_commands: dict[str, tuple[str, ...]] = {}


_header_decoder: Final = msgspec.msgpack.Decoder(_ResultHeader)
_tasks_decoder: Final = msgspec.msgpack.Decoder(list[Task])


def load_in_subprocess(path: Path) -> Config:
    """Do the same as `load_file`; in another process if the file is large."""
    try:
        is_large = path.stat().st_size >= SUBPROCESS_FROM_BYTES
    except (OSError, ValueError):
        is_large = False  # reading it will report the reason
    return (_load_in_subprocess(path) if is_large else None) or load_file(path)


def _load_in_subprocess(path: Path) -> Config | None:
    """The answer of the process; None if there was none."""
    command = [sys.executable, "-P", "-m", __name__, str(path)]
    try:
        # A session of its own: Ctrl-C on our terminal must not reach it.
        process = subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError:
        return None
    with process:
        assert process.stdout is not None
        try:
            return _receive_config(process.stdout)
        except (EOFError, msgspec.MsgspecError):
            process.kill()
            return None


def _receive_config(pipe: IO[bytes]) -> Config:
    head = _header_decoder.decode(_read_piece(pipe))
    if head.problems:
        raise BadFileError(head.problems, head.more)
    tasks = tuple(task for _ in range(head.pieces) for task in _tasks_decoder.decode(_read_piece(pipe)))
    shared = (head.periods, head.limits, head.node, head.contacts, head.downtimes, head.names_from_commands)
    return Config(tasks, *shared)


def _read_piece(pipe: IO[bytes]) -> bytes:
    length = int.from_bytes(pipe.read(_LENGTH_BYTES), "big")
    piece = pipe.read(length) if 0 < length <= _MAX_PIECE_BYTES else b""
    if not piece or len(piece) < length:
        raise EOFError
    return piece


# On the other side


def _encoded_pieces(path: Path) -> Iterator[bytes]:
    encode = msgspec.msgpack.Encoder().encode
    try:
        config = load_file(path)
    except BadFileError as e:
        yield encode(_ResultHeader(e.errors, e.errors_omitted))
        return
    pieces = range(0, len(config.tasks), _TASKS_PER_PIECE)
    shared = (config.periods, config.limits, config.node, len(pieces), config.contacts, config.downtimes)
    yield encode(_ResultHeader([], 0, *shared, names_from_commands=dict(config.names_from_commands)))
    for at in pieces:
        yield encode(config.tasks[at : at + _TASKS_PER_PIECE])


def main() -> None:
    """Send the content of the file to the parent process."""
    for piece in _encoded_pieces(Path(sys.argv[1])):
        sys.stdout.buffer.write(len(piece).to_bytes(_LENGTH_BYTES, "big") + piece)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
