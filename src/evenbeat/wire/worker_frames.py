"""The codec between a node and its workers: many runs per frame out, many results per frame back.

A frame is its length in four bytes, then msgpack. Times are microseconds of the node's clock; a worker reads that clock
as `offset` (told when it starts, and when it changes) plus its own boot-time clock.
"""

from typing import Final

import msgspec
from msgspec import Struct

MAX_FRAME_SIZE: Final = 64 << 20
EARLY_DELIVERY: Final = 20_000
"""Microseconds by which a run may reach a worker here before it is due. The worker waits for the moment, whatever keeps
its node busy then."""
_LENGTH: Final = 4


class RunSpec(Struct, array_like=True, gc=False):
    """One run to be made, and all that a worker must know for it."""

    token: int
    """Names this run between node and worker; never used twice by a node."""
    job: msgspec.Raw
    """A packed model.Job: packed once, when the task was loaded."""
    name: str
    nominal: int
    kind: int
    timebox: int
    latest_start: int
    """Not after that: the period closes, or the claim is given to somebody else."""
    last_start: int
    """Of the last on-grid run, for the guard; NEVER (before any time) if there is none, or this run has no guard."""
    interval: int
    tolerance: int
    attempt: int
    """Of a check in a problem state: the attempt this run will be; else 1."""
    cursor: bytes | None
    check: bool = False
    """The result is a monitoring state: what a function returns is read as one."""

    moved: int = 0
    """How far the node's clock was set since the run was claimed: a run that is not started yet moves with it."""
    alone: bool = False
    """A worker died with the last run of this task: no other run may be on the worker that gets this one."""

    @property
    def due(self) -> int:
        """When to start it, by the clock as it is now."""
        return self.nominal + self.moved

    def wait(self, now: int) -> int:
        """Microseconds until it is due; none if that is longer than can be."""
        wait = self.nominal + self.moved - now
        return wait if 0 < wait <= 2 * EARLY_DELIVERY else 0

    def move(self, by: int) -> None:
        """The clock was set: the run starts at the same moment as before, and the guard counts from the same one."""
        self.moved += by
        self.last_start += by


class HostEnvironment(Struct, frozen=True):
    """Where a function runs if not simply in the node's own environment: a host process has one place for its life."""

    env: tuple[tuple[str, str], ...] = ()
    """Added to the environment; "file:PATH" is read when the host starts."""
    cwd: str | None = None
    user: str | None = None


class _JobEnvironment(Struct):
    """What a packed model.Job says of its place; everything else in it is passed over."""

    env: dict[str, str] = {}
    cwd: str | None = None
    user: str | None = None


_whereabouts: Final = msgspec.msgpack.Decoder(_JobEnvironment)
NODE_ENVIRONMENT: Final = HostEnvironment()
"""The environment, folder and user of the node itself."""
HOST_ENVIRONMENT_VARIABLE: Final = "EVENBEAT_PLACE"
"""In the environment of a host process: its place, as JSON. Nobody else can read it there, unlike an argument."""


def host_environment_of(run: "RunSpec") -> HostEnvironment:
    """Where the function of this run is to be called; a job that cannot be read is for the host to refuse."""
    try:
        found = _whereabouts.decode(run.job)
    except msgspec.DecodeError:
        return NODE_ENVIRONMENT
    if not (found.env or found.cwd or found.user):
        return NODE_ENVIRONMENT
    return HostEnvironment(tuple(sorted(found.env.items())), found.cwd, found.user)


class RunsFrame(Struct, array_like=True, tag=1):
    """Node to worker: make these."""

    runs: list[RunSpec]


class ClockFrame(Struct, array_like=True, tag=2):
    """Node to worker: the node's clock is this far ahead of the boot-time clock."""

    offset: int
    set_by: int = 0
    """The clock was set, by so much: runs that are not started yet move with it."""


class CancelFrame(Struct, array_like=True, tag=3):
    """Node to worker: end these runs now; all of them, if none is named. Their outcome is `cancelled`."""

    tokens: list[int]


class StartedFrame(Struct, array_like=True, tag=4):
    """Worker to node: these have started (token, when) and did not end at once."""

    starts: list[tuple[int, int]]


class RunResult(Struct, array_like=True, gc=False):
    """One run that has ended."""

    token: int
    outcome: str
    status: int | None
    started: int
    ended: int
    output: bytes
    """At most OUTPUT_LIMIT; for what could not be started, the reason."""
    cursor: bytes | None = None
    """What the next run shall find; None if this one did not set it."""
    truncated: bool = False
    stop_node: bool = False
    """The function asked for the node to be stopped."""


class ResultsFrame(Struct, array_like=True, tag=5):
    """Worker to node: these have ended."""

    results: list[RunResult]
    held: int = 0
    """Runs that it has begun and that have not ended, and those that are not due yet. What else it was given it could
    not begin, as it had others to begin."""


class ReadyFrame(Struct, array_like=True, tag=6):
    """Worker to node: up and running."""

    pid: int


class WrongHostFrame(Struct, array_like=True, tag=7):
    """Function host to node: not begun, because these functions are asynchronous and belong to the other host."""

    tokens: list[int]


class OutOfResourcesFrame(Struct, array_like=True, tag=8):
    """Worker to node: nothing can be started now, for want of descriptors, processes or memory; "" if it can again."""

    reason: str


FrameToWorker = RunsFrame | ClockFrame | CancelFrame
FrameToNode = StartedFrame | ResultsFrame | ReadyFrame | WrongHostFrame | OutOfResourcesFrame

_encoder: Final = msgspec.msgpack.Encoder()


def encode_frame(message: FrameToWorker | FrameToNode) -> bytes:
    """A whole frame."""
    buffer = bytearray(_LENGTH)
    _encoder.encode_into(message, buffer, _LENGTH)
    buffer[:_LENGTH] = (len(buffer) - _LENGTH).to_bytes(_LENGTH, "big")
    return bytes(buffer)


class FrameSplitter:
    """Cuts what arrives on a stream into frames."""

    def __init__(self, limit: int = MAX_FRAME_SIZE) -> None:
        self._rest = bytearray()
        self._needed = _LENGTH
        self._limit = limit

    def split(self, data: bytes) -> list[memoryview]:
        """The frames that are complete with this data; raise ValueError if one is too large to be true."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._needed:
                return []
            data = bytes(self._rest)
        frames, start = [], 0
        view = memoryview(data)
        self._needed = _LENGTH
        while len(data) - start >= _LENGTH:
            length = int.from_bytes(view[start : start + _LENGTH], "big")
            if length > self._limit:
                raise ValueError(f"a frame of {length} bytes, accepted: at most {self._limit}")
            end = start + _LENGTH + length
            if len(data) < end:
                self._needed = _LENGTH + length
                break
            frames.append(view[start + _LENGTH : end])
            start = end
        self._rest = bytearray(view[start:])
        return frames


worker_frame_decoder: Final = msgspec.msgpack.Decoder(FrameToWorker)
"""Decodes a frame on the worker's side ..."""
_node_frames_decoder: Final = msgspec.msgpack.Decoder(list[FrameToNode])
_ARRAY: Final = b"\xdd"
"""What an array begins with, before the number of its elements in four bytes."""


def decode_node_frames(frames: list[memoryview]) -> list[FrameToNode]:
    """... and on the node's: all at once, as hosts tell each result in a frame of its own."""
    return _node_frames_decoder.decode(b"".join((_ARRAY, len(frames).to_bytes(4, "big"), *frames)))
