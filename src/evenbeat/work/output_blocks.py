"""The whole output of a run in compressed blocks, for tasks that ask for it: beginning and end, up to a bound."""

from collections import deque
from typing import Final

from evenbeat.core.output_excerpt import left_out_mark
from evenbeat.core.whole_output import BLOCK, compress_block

_MAX_HELD: Final = 64 << 20
"""Compressed bytes that all runs of a worker process may hold; beyond it a run keeps only the end of what follows."""


class _Held:
    """Compressed bytes that the runs of this process hold."""

    total = 0


class OutputBlocks:
    """Takes any amount; keeps the first half of `keep` bytes and the last."""

    __slots__ = (
        "_block",
        "_block_size",
        "_head",
        "_head_room",
        "_left_out",
        "_tail",
        "_tail_limit",
        "_tail_size",
    )

    def __init__(self, keep: int) -> None:
        self._head: list[bytes] = []
        self._head_room = keep // 2
        """Bytes that the head has room for, before they are compressed."""
        self._tail: deque[tuple[int, bytes]] = deque()
        """Compressed blocks, and the size of each before."""
        self._tail_limit = keep - self._head_room
        self._tail_size = 0
        self._left_out = 0
        self._block = bytearray()
        self._block_size = min(BLOCK, max(keep // 8, 512))

    def write(self, data: bytes | bytearray) -> None:
        """Add what the run has written."""
        self._block += data
        while len(self._block) >= self._block_size:
            block = bytes(self._block[: self._block_size])
            del self._block[: self._block_size]
            self._add(block)

    def _add(self, block: bytes) -> None:
        if self._head_room >= len(block) and _Held.total < _MAX_HELD:
            self._head_room -= len(block)
            self._head.append(compress_block(block))
            _Held.total += len(self._head[-1])
            return
        self._tail_limit += self._head_room
        self._head_room = 0
        self._tail.append((len(block), compress_block(block)))
        self._tail_size += len(block)
        _Held.total += len(self._tail[-1][1])
        while len(self._tail) > 1 and (self._tail_size > self._tail_limit or _Held.total > _MAX_HELD):
            size, packed = self._tail.popleft()
            self._tail_size -= size
            self._left_out += size
            _Held.total -= len(packed)

    def finish(self) -> bytes:
        """All blocks, to be called once; a mark stands for what is missing."""
        if self._block:
            self._add(bytes(self._block))
        mark = [compress_block(f"\n{left_out_mark(self._left_out - 1)}".encode())] if self._left_out else []
        whole = b"".join([*self._head, *mark, *(packed for _, packed in self._tail)])
        _Held.total -= sum(map(len, self._head)) + sum(len(packed) for _, packed in self._tail)
        return whole
