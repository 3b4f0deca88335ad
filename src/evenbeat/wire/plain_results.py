"""Results of runs that succeeded and have nothing else to say: a few bytes each, read many at a time into columns.

A function host reports every run on its own, so that the node knows which one is to blame if the host dies. With a
msgpack frame for each, making and reading them cost more than the functions.
"""

import struct
from collections.abc import Iterable
from itertools import groupby, starmap
from typing import Final, NamedTuple

from evenbeat.model import Outcome
from evenbeat.wire.worker_frames import FrameSplitter, FrameToNode, RunResult, decode_node_frames

_MARK: Final = 0xC1
"""First byte of the body of such a frame, which no msgpack begins with."""
_BODY_SIZE: Final = 25
_FRAME: Final = struct.Struct(">IBqqq")
"""The length that every frame begins with, the mark, then token, start and end."""
_RECORD: Final = struct.Struct(">qqq")


class PlainResults(NamedTuple):
    """Runs that succeeded with status 0, without output, cursor or value. Columns in the same order."""

    tokens: list[int]
    started: list[int]
    ended: list[int]


Results = list[RunResult] | PlainResults
"""What a queue reports together."""
MessageToNode = FrameToNode | PlainResults


def tokens_of(results: Results) -> list[int]:
    """Which runs these are the results of."""
    return results.tokens if isinstance(results, PlainResults) else [result.token for result in results]


def full_results(results: Results) -> list[RunResult]:
    """The results one by one."""
    if not isinstance(results, PlainResults):
        return results
    runs = zip(results.tokens, results.started, results.ended, strict=True)
    return [RunResult(token, Outcome.SUCCEEDED, 0, started, ended, b"") for token, started, ended in runs]


def encode_plain_frame(token: int, started: int, ended: int) -> bytes:
    """A whole frame with the result of one run."""
    return _FRAME.pack(_BODY_SIZE, _MARK, token, started, ended)


def encode_record(token: int, started: int, ended: int) -> bytes:
    """One of the results that a frame of another kind has many of."""
    return _RECORD.pack(token, started, ended)


def encode_records(results: Iterable[tuple[int, int, int]]) -> bytes:
    """Results by token, start and end, one after the other."""
    return b"".join(starmap(_RECORD.pack, results))


def decode_records(data: bytes) -> PlainResults:
    """Decode records that follow one another; raise ValueError if there is a part of one."""
    if len(data) % _RECORD.size:
        raise ValueError(f"{len(data)} bytes of records of {_RECORD.size} bytes")
    return PlainResults(*map(list, zip(*_RECORD.iter_unpack(data), strict=True))) if data else PlainResults([], [], [])


def read_messages(frames: FrameSplitter, data: bytes) -> list[MessageToNode]:
    """Decode what this data from a worker process completes; raise ValueError if it cannot be read."""
    plain = _plain_frames(data) if frames.is_between_frames else None
    if plain is not None:
        return [plain]
    bodies = frames.split(data)
    if not any(map(_is_plain, bodies)):
        return [*decode_node_frames(bodies)]
    messages: list[MessageToNode] = []
    for are_plain, group in groupby(bodies, _is_plain):
        some = list(group)
        messages += [decode_records(b"".join([body[1:] for body in some]))] if are_plain else decode_node_frames(some)
    return messages


def _is_plain(body: memoryview) -> bool:
    return len(body) == _BODY_SIZE and body[0] == _MARK


def _plain_frames(data: bytes) -> PlainResults | None:
    """Whole frames with one result each; None if there is anything else in the data."""
    if not data or len(data) % _FRAME.size:
        return None
    lengths, marks, tokens, started, ended = zip(*_FRAME.iter_unpack(data), strict=True)
    if lengths.count(_BODY_SIZE) < len(lengths) or marks.count(_MARK) < len(marks):
        return None
    return PlainResults(list(tokens), list(started), list(ended))
