"""Protects the terminal from escape sequences in printed texts.

Names, labels, outputs and errors may contain escape sequences that clear the screen, change what was printed before or
type into the shell. `EscapingStream` shows them as text. Output of rich passes `common.SafeConsole` instead, as rich's
own colours are escape sequences too.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from evenbeat.load.safe_text import escaped_text


class EscapingStream:
    """A text stream that escapes control characters and writes to another stream."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write a text with control characters escaped, except newlines and tabs."""
        self.stream.write(escaped_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def raw_stream(stream: TextIO) -> TextIO:
    """The stream behind an escaping one, for text that is safe already."""
    return stream.stream if isinstance(stream, EscapingStream) else stream


def escape_output() -> None:
    """Escape stdout and stderr from now on."""
    sys.stdout, sys.stderr = _escaping(sys.stdout), _escaping(sys.stderr)


def has_terminal(stream: TextIO) -> bool:
    """Is the stream a terminal, and this process in its foreground?"""
    if not stream.isatty():
        return False
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()
    except OSError:
        return True  # a terminal without sessions


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escape stdout and stderr within the context."""
    before = sys.stdout, sys.stderr
    escape_output()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _escaping(stream: TextIO) -> TextIO:
    return stream if isinstance(stream, EscapingStream) or stream is None else cast("TextIO", EscapingStream(stream))
