from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import Outcome
from evenbeat.wire.plain_results import (
    PlainResults,
    decode_records,
    encode_plain_frame,
    encode_record,
    full_results,
    read_messages,
    tokens_of,
)
from evenbeat.wire.worker_frames import FrameSplitter, ReadyFrame, ResultsFrame, RunResult, StartedFrame, encode_frame

int64 = st.integers(-(2**63), 2**63 - 1)
records = st.tuples(st.integers(0, 2**63 - 1), int64, int64)
others = st.one_of(
    st.builds(StartedFrame, st.lists(st.tuples(int64, int64), max_size=3)),
    st.builds(ReadyFrame, int64),
    st.builds(ResultsFrame, st.just([RunResult(7, "failed", 1, 2, 3, b"no")]), st.just(4), st.binary(max_size=30)),
)


def flat(messages: list[object]) -> list[object]:
    """Columns as single results, in the same places between the other messages."""
    found: list[object] = []
    for message in messages:
        found += zip(*message, strict=True) if isinstance(message, PlainResults) else [message]
    return found


@given(st.lists(records | others, max_size=12), st.lists(st.integers(0, 10_000), max_size=4))
def test_results_and_other_frames_arrive_in_their_order_however_the_stream_is_cut(
    sent: list[tuple[int, int, int] | StartedFrame | ReadyFrame | ResultsFrame], cuts: list[int]
) -> None:
    stream = b"".join(encode_plain_frame(*one) if isinstance(one, tuple) else encode_frame(one) for one in sent)
    frames = FrameSplitter()
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    arrived = [message for a, b in pairwise(edges) for message in read_messages(frames, stream[a:b])]
    assert flat([*arrived]) == sent


@given(st.lists(records, min_size=1, max_size=20))
def test_results_that_arrive_together_are_one_message(sent: list[tuple[int, int, int]]) -> None:
    stream = b"".join(encode_plain_frame(*one) for one in sent)
    assert read_messages(FrameSplitter(), stream) == [PlainResults(*map(list, zip(*sent, strict=True)))]


@given(st.lists(records, max_size=20))
def test_records_are_the_same_as_full_results(sent: list[tuple[int, int, int]]) -> None:
    plain = decode_records(b"".join(encode_record(*one) for one in sent))
    full = [RunResult(token, Outcome.SUCCEEDED, 0, started, ended, b"") for token, started, ended in sent]
    assert full_results(plain) == full_results(full) == full
    assert tokens_of(plain) == tokens_of(full) == [token for token, _, _ in sent]


def test_a_part_of_a_record_is_refused() -> None:
    with pytest.raises(ValueError, match="23 bytes"):
        decode_records(bytes(23))


@pytest.mark.parametrize("body", [b"\xc1", b"\xc1" + bytes(23), b"\xc1" + bytes(25)])
def test_a_frame_with_the_mark_and_another_size_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError):
        read_messages(FrameSplitter(), len(body).to_bytes(4, "big") + body)
