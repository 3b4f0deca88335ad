"""The border between commands and a terminal: what is printed cannot command it, wherever the text comes from.

Names, labels, outputs and errors may hold escape sequences, which clear the screen, change what was printed before or
type into the shell. `Visible` shows them as text. What rich prints passes `common.SafeConsole` instead, as its own
colours are escape sequences too.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from evenbeat.load.safe_text import escaped_text


class EscapingStream:
    """A stream of text in front of another one."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write it with every control character as an escape, newlines and tabs apart."""
        self.stream.write(escaped_text(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def raw_stream(stream: TextIO) -> TextIO:
    """Where a stream leads to, for text that is safe already."""
    return stream.stream if isinstance(stream, EscapingStream) else stream


def escape_output() -> None:
    """From now on, to the end of the process."""
    sys.stdout, sys.stderr = _escaping(sys.stdout), _escaping(sys.stderr)


@contextmanager
def escaped_output() -> Iterator[None]:
    """Meanwhile."""
    before = sys.stdout, sys.stderr
    escape_output()
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _escaping(stream: TextIO) -> TextIO:
    return stream if isinstance(stream, EscapingStream) or stream is None else cast("TextIO", EscapingStream(stream))
