"""What is kept of the output of a run, and what is read of it while it grows."""

from hypothesis import given
from hypothesis import strategies as st
from numbered_output import numbered

from evenbeat.core.output_excerpt import part_after, size_of
from evenbeat.work.output_buffer import OutputBuffer

WRITES = st.lists(st.integers(0, 400), max_size=30)
LIMIT = 1_000


@given(WRITES)
def test_up_to_the_limit_everything_is_kept_and_then_the_beginning_and_the_end(writes: list[int]) -> None:
    buffer, size = OutputBuffer(keep=LIMIT), 0
    for count in writes:
        buffer.write(numbered(count, size))
        size += count
    whole, kept = numbered(size, 0), buffer.kept()
    assert buffer.size == size_of(kept) == size
    assert len(kept) <= LIMIT
    if size <= LIMIT:
        assert (kept, buffer.is_truncated) == (whole, False)
    elif buffer.is_truncated:
        assert kept[:400] == whole[:400]
        assert kept[-400:] == whole[-400:]


@given(WRITES, st.integers(1, 5))
def test_a_reader_sees_each_byte_once_or_learns_how_many_it_missed(writes: list[int], read_every: int) -> None:
    buffer, size, seen = OutputBuffer(keep=LIMIT), 0, 0
    for turn, count in enumerate(writes):
        buffer.write(numbered(count, size))
        size += count
        while turn % read_every == 0:
            start, data = buffer.after(seen)
            if not data:
                break
            assert start >= seen
            assert data == numbered(len(data), start)
            seen = start + len(data)
    start, data = part_after(buffer.kept(), seen)
    assert start >= seen
    assert seen == size or data


def test_a_reader_who_keeps_up_misses_nothing() -> None:
    buffer, seen = OutputBuffer(keep=LIMIT), b""
    for i in range(1_000):
        buffer.write(b"%d\n" % i)
        start, data = buffer.after(len(seen))
        assert start == len(seen)
        seen += data
    assert seen == b"".join(b"%d\n" % i for i in range(1_000))
