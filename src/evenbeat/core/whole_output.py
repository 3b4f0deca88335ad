"""The whole output of a run, compressed block by block while the run writes it: its beginning and its end, to a bound.

Each block is a zlib stream of its own; one after the other they are the output.
"""

import zlib
from typing import Final

BLOCK: Final = 64 << 10
"""Bytes of a block before it is compressed, in less than a millisecond."""
SHORT_OUTPUT: Final = 200
"""Bytes of an output that every run has in the history anyway: it needs no whole output besides."""
_LEVEL: Final = 3


def compress_block(data: bytes | bytearray) -> bytes:
    """One block."""
    return zlib.compress(data, _LEVEL)


def decompress(whole: bytes, limit: int) -> bytes:
    """The output, at most `limit` bytes of it; what is no zlib stream ends it."""
    found = bytearray()
    while whole and len(found) < limit:
        stream = zlib.decompressobj()
        try:
            found += stream.decompress(whole, limit - len(found))
        except zlib.error:
            break
        if not stream.eof:
            break
        whole = stream.unused_data
    return bytes(found)
