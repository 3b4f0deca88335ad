"""What a run has written: all of it up to a limit, then its beginning and its end."""

from evenbeat.core.output_excerpt import MARK_ROOM, join_parts
from evenbeat.core.whole_output import SHORT_OUTPUT
from evenbeat.model import OUTPUT_LIMIT
from evenbeat.work.output_blocks import OutputBlocks


class OutputBuffer:
    """Takes any amount and keeps a bounded part: the first half of the limit, and the last."""

    __slots__ = ("_blocks", "_head", "_head_limit", "_left_out", "_limit", "_tail", "_tail_limit")

    def __init__(self, first: bytes = b"", keep: int | None = None) -> None:
        """`keep` is `Job.output_keep`."""
        self._limit = limit = OUTPUT_LIMIT if keep is None else min(keep, OUTPUT_LIMIT)
        self._blocks = None if keep is None else OutputBlocks(keep)
        self._head_limit = (limit - MARK_ROOM) // 2
        self._tail_limit = limit - MARK_ROOM - self._head_limit
        self._head = bytearray()
        self._tail = bytearray()
        self._left_out = 0
        """Bytes between head and tail that were dropped."""
        if first:
            self.write(first)

    @property
    def size(self) -> int:
        """Bytes that were written, also those that are not kept."""
        return len(self._head) + self._left_out + len(self._tail)

    @property
    def is_truncated(self) -> bool:
        """Were bytes dropped?"""
        return self._left_out > 0

    def write(self, data: bytes | bytearray) -> None:
        """Add what the run has written."""
        if self._blocks is not None:
            self._blocks.write(data)
        if not self._tail and len(self._head) + len(data) <= self._limit:
            self._head += data
            return
        if not self._tail:
            whole = self._head + data
            self._head, data = whole[: self._head_limit], whole[self._head_limit :]
        self._tail += data
        excess = len(self._tail) - self._tail_limit
        if excess > 0:
            del self._tail[:excess]
            self._left_out += excess

    def kept(self) -> bytes:
        """What is kept, at most the limit; a mark stands for what was dropped."""
        if not self._left_out:
            return bytes(self._head + self._tail)
        return join_parts(bytes(self._head), self._left_out, bytes(self._tail))

    def whole(self) -> bytes:
        """The whole output, compressed, to be asked for once; empty unless the task asks for it, or if it is short."""
        return b"" if self._blocks is None or self.size <= SHORT_OUTPUT else self._blocks.finish()

    def after(self, position: int) -> tuple[int, bytes]:
        """What was written from a position on, and where that begins: later, if bytes from there on were dropped."""
        if position < len(self._head):
            return position, bytes(self._head[position:] + (b"" if self._left_out else self._tail))
        start = len(self._head) + self._left_out
        return (start, bytes(self._tail)) if position < start else (position, bytes(self._tail[position - start :]))
