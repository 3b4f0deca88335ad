"""What is kept of the whole output of a run."""

from hypothesis import given
from hypothesis import strategies as st
from numbered_output import numbered

from evenbeat.core.output_excerpt import MARK_ROOM, size_of
from evenbeat.core.whole_output import compress_block, decompress
from evenbeat.work.output_blocks import OutputBlocks

KEEP = 8_192
BLOCK = KEEP // 8


@given(st.lists(st.integers(0, 3_000), max_size=12))
def test_all_of_it_up_to_the_bound_and_then_the_beginning_and_the_end(writes: list[int]) -> None:
    blocks, size = OutputBlocks(KEEP), 0
    for count in writes:
        blocks.write(numbered(count, size))
        size += count
    whole, kept = numbered(size, 0), decompress(blocks.finish(), 1 << 20)
    assert size_of(kept) == size
    assert len(kept) <= KEEP + MARK_ROOM
    if size <= KEEP - BLOCK:
        assert kept == whole
    elif kept != whole:
        edge = KEEP // 2 - BLOCK
        assert (kept[:edge], kept[-edge:]) == (whole[:edge], whole[-edge:])


def test_a_flood_takes_no_more_memory_than_what_is_kept() -> None:
    blocks = OutputBlocks(1 << 20)
    for i in range(200):
        blocks.write(numbered(1 << 16, i << 16))
    assert len(blocks.finish()) < 1 << 20


def test_what_was_compressed_is_read_back_to_a_limit() -> None:
    bomb = compress_block(bytes(50 << 20))
    assert len(bomb) < 1 << 20
    assert decompress(bomb, 1_000) == bytes(1_000)
    assert decompress(compress_block(b"one ") + compress_block(b"two"), 1_000) == b"one two"
    assert decompress(compress_block(b"one ") + b"no zlib stream", 1_000) == b"one "
    assert decompress(b"", 1_000) == b""
