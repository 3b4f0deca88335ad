from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import Job
from evenbeat.wire import worker_frames
from evenbeat.wire.worker_frames import (
    CancelFrame,
    ClockFrame,
    FrameSplitter,
    ReadyFrame,
    ResultsFrame,
    RunResult,
    RunsFrame,
    RunSpec,
    StartedFrame,
    WrongHostFrame,
)

int64 = st.integers(-(2**63), 2**63 - 1)
tokens = st.integers(0, 2**63 - 1)
jobs = st.builds(Job, command=st.lists(st.text(max_size=20), max_size=3).map(tuple))
runs = st.builds(
    RunSpec,
    token=tokens,
    job=jobs.map(lambda job: msgspec.Raw(msgspec.msgpack.encode(job))),
    name=st.text(max_size=20),
    nominal=int64,
    kind=st.integers(0, 6),
    timebox=tokens,
    latest_start=int64,
    last_start=int64,
    interval=tokens,
    tolerance=tokens,
    attempt=st.integers(1, 255),
    cursor=st.none() | st.binary(max_size=50),
    check=st.booleans(),
)
results = st.builds(
    RunResult,
    token=tokens,
    outcome=st.sampled_from(["succeeded", "failed"]),
    status=st.none() | st.integers(-64, 255),
    started=int64,
    ended=int64,
    output=st.binary(max_size=300),
    cursor=st.none() | st.binary(max_size=50),
    truncated=st.booleans(),
    stop_node=st.booleans(),
)
to_worker = st.one_of(
    st.builds(RunsFrame, st.lists(runs, max_size=3)),
    st.builds(ClockFrame, int64),
    st.builds(CancelFrame, st.lists(tokens, max_size=3)),
)
to_node = st.one_of(
    st.builds(StartedFrame, st.lists(st.tuples(tokens, int64), max_size=3)),
    st.builds(ResultsFrame, st.lists(results, max_size=3)),
    st.builds(ReadyFrame, tokens),
    st.builds(WrongHostFrame, st.lists(tokens, max_size=3)),
)


def fed(stream: bytes, cuts: list[int]) -> list[bytes]:
    """What comes out of a stream that arrives in pieces."""
    reader = FrameSplitter()
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    return [bytes(f) for a, b in pairwise(edges) for f in reader.split(stream[a:b])]


@given(st.lists(to_worker, max_size=5), st.lists(st.integers(0, 10_000), max_size=8))
def test_what_is_sent_to_a_worker_arrives_however_the_stream_is_cut(
    messages: list[worker_frames.FrameToWorker], cuts: list[int]
) -> None:
    arrived = [
        worker_frames.worker_frame_decoder.decode(f)
        for f in fed(b"".join(map(worker_frames.encode_frame, messages)), cuts)
    ]
    assert [worker_frames.encode_frame(m) for m in arrived] == [worker_frames.encode_frame(m) for m in messages]


@given(st.lists(to_node, max_size=5), st.lists(st.integers(0, 10_000), max_size=8))
def test_what_is_sent_to_the_node_arrives_however_the_stream_is_cut(
    messages: list[worker_frames.FrameToNode], cuts: list[int]
) -> None:
    arrived = fed(b"".join(map(worker_frames.encode_frame, messages)), cuts)
    assert worker_frames.decode_node_frames([memoryview(frame) for frame in arrived]) == messages


def test_a_stream_that_arrives_byte_by_byte_is_understood() -> None:
    stream = worker_frames.encode_frame(ClockFrame(5)) + worker_frames.encode_frame(CancelFrame([1, 2]))
    assert len(fed(stream, list(range(len(stream))))) == 2


def test_a_frame_too_large_to_be_true_is_refused() -> None:
    with pytest.raises(ValueError, match="accepted: at most"):
        FrameSplitter().split(b"\xff\xff\xff\xff")


def test_a_job_travels_packed() -> None:
    job = Job(command=("check_disk", "-w", "10%"), env={"A": "env:B"})
    run = RunSpec(1, msgspec.Raw(msgspec.msgpack.encode(job)), "disk", 0, 0, 1, 2, 3, 4, 5, 1, None)
    arrived = worker_frames.worker_frame_decoder.decode(fed(worker_frames.encode_frame(RunsFrame([run])), [])[0])
    assert isinstance(arrived, RunsFrame)
    assert msgspec.msgpack.decode(arrived.runs[0].job, type=Job) == job
