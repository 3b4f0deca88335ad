"""The frames between a node and its worker processes: many runs per frame out, many results per frame back.

A frame is its length in four bytes, then msgpack. Times are microseconds of the node's clock. A worker reads that clock
as its own boot-time clock plus an offset, which the node sends at the start and whenever it changes.
"""

import signal
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

import msgspec
from msgspec import Struct

MAX_FRAME_SIZE: Final = 64 << 20
EARLY_DELIVERY: Final = 20_000
"""Microseconds by which a run may reach a local worker before it is due. The worker starts it when it is due, even if
the
node is busy then."""
READ_NOW: Final = signal.SIGRTMIN + 7
"""Sent to a sync host after a frame that must not wait for the end of the current function. No library uses it, and the
system calls of the function go on as if it had not come."""
_LENGTH: Final = 4


class RunSpec(Struct, array_like=True, gc=False):
    """One run to execute, and all that a worker must know for it."""

    token: int
    """Identifies this run between node and worker; a node never uses a token twice."""
    job: msgspec.Raw
    """A packed model.Job: packed once, when the task was loaded."""
    name: str
    nominal: int
    kind: int
    timebox: int
    latest_start: int
    """The run must not start later: the period closes, or the claim passes to another node."""
    last_start: int
    """Start of the last on-grid run, for the guard; NEVER (before any time) if there is none, or this run has no
    guard."""
    interval: int
    tolerance: int
    attempt: int
    """Of a check in a problem state, and of a retry: which attempt this run is; else 1."""
    cursor: bytes | None
    check: bool = False
    """The task is a check: what a function returns is read as a monitoring state."""

    moved: int = 0
    """How far the node's clock was set since the run was claimed: a run that has not started moves with it."""
    alone: bool = False
    """A worker died with the last run of this task: the worker of this run must not have any other."""

    @property
    def due(self) -> int:
        """When to start it, by the clock as it is set now."""
        return self.nominal + self.moved

    def wait(self, now: int) -> int:
        """Microseconds until it is due; 0 if that is longer than early delivery explains."""
        wait = self.nominal + self.moved - now
        return wait if 0 < wait <= 2 * EARLY_DELIVERY else 0

    def move(self, by: int) -> None:
        """The clock was set by `by`: the run starts at the same instant as before, and the guard counts from the same
        one.
        """
        self.moved += by
        self.last_start += by


TOKEN_OF: Final[Callable[[RunSpec], int]] = attrgetter("token")
"""The token of a run, for `map`."""


class HostEnvironment(Struct, frozen=True):
    """Variables, folder and user that a function asks for. A host process has one environment for its whole life."""

    env: tuple[tuple[str, str], ...] = ()
    """Added to the environment; the file of "file:PATH" is read when the host starts."""
    cwd: str | None = None
    user: str | None = None


class _JobEnvironment(Struct):
    """What a packed model.Job says of its environment; all other fields are ignored."""

    env: dict[str, str] = {}
    cwd: str | None = None
    user: str | None = None


_job_environment: Final = msgspec.msgpack.Decoder(_JobEnvironment)
NODE_ENVIRONMENT: Final = HostEnvironment()
"""The environment, folder and user of the node itself."""
HOST_ENVIRONMENT_VARIABLE: Final = "EVENBEAT_PLACE"
"""Environment variable of a host process: its HostEnvironment as JSON. Other users cannot read it, unlike an
argument."""


def host_environment_of(run: "RunSpec") -> HostEnvironment:
    """The environment that the function of this run asks for. An unreadable job is left for the host to refuse."""
    try:
        found = _job_environment.decode(run.job)
    except msgspec.DecodeError:
        return NODE_ENVIRONMENT
    if not (found.env or found.cwd or found.user):
        return NODE_ENVIRONMENT
    return HostEnvironment(tuple(sorted(found.env.items())), found.cwd, found.user)


class _JobOutput(Struct):
    """What a packed model.Job says of its output; all other fields are ignored."""

    output_keep: int | None = None


_job_output: Final = msgspec.msgpack.Decoder(_JobOutput)


def output_keep_of(run: "RunSpec") -> int:
    """Bytes of its output that the task of this run wants to keep; 0 if it does not say."""
    try:
        return _job_output.decode(run.job).output_keep or 0
    except msgspec.DecodeError:
        return 0


class RunsFrame(Struct, array_like=True, tag=1):
    """Node to worker: execute these runs."""

    runs: list[RunSpec]


class ClockFrame(Struct, array_like=True, tag=2):
    """Node to worker: the node's clock is this far ahead of the boot-time clock."""

    offset: int
    set_by: int = 0
    """If the clock was set: by how much. Runs that have not started move with it."""


class CancelFrame(Struct, array_like=True, tag=3):
    """Node to worker: end these runs now, or all if none is named. Their outcome is `cancelled`."""

    tokens: list[int]


class ReadOutputFrame(Struct, array_like=True, tag=9):
    """Node to worker: what has this run written from this position on? Sent only while somebody reads it."""

    token: int
    position: int
    """Bytes that the run has written before; see `core.output_excerpt`."""


class StartedFrame(Struct, array_like=True, tag=4):
    """Worker to node: these runs (token, start time) have started and did not end at once."""

    starts: list[tuple[int, int]]


class ReturnedValue(Struct, omit_defaults=True):
    """What a function returned."""

    value: Any = None
    refused: str = ""
    """Why that is not kept."""


class RunResult(Struct, array_like=True, gc=False):
    """One run that has ended."""

    token: int
    outcome: str
    status: int | None
    started: int
    ended: int
    output: bytes
    """At most OUTPUT_LIMIT bytes; for a run that could not be started, the reason."""
    cursor: bytes | None = None
    """The new cursor of the task; None if this run did not set it."""
    truncated: bool = False
    stop_node: bool = False
    """The function asked for the node to be stopped."""
    raised: tuple[str, ...] = ()
    """Of a function that an exception ended: the names of its class and of the classes that this is made of."""
    returned: bytes = b""
    """Of a function of a task: what it returned, a ReturnedValue as JSON; empty for nothing."""
    whole: bytes = b""
    """The whole output of a task with `output_keep`, as `core.whole_output` has it; empty if `output` is all of it."""


class ResultsFrame(Struct, array_like=True, tag=5):
    """Worker to node: these runs have ended."""

    results: list[RunResult]
    held: int = 0
    """Runs that it has started and that have not ended, and those that are not due yet. All others that it was given
    are still waiting to be started."""
    plain: bytes = b""
    """More results, as `wire.plain_results` packs them."""


class ReadyFrame(Struct, array_like=True, tag=6):
    """Worker to node: ready for runs."""

    pid: int


class WrongHostFrame(Struct, array_like=True, tag=7):
    """Sync host to node: these runs were not started. Their functions are asynchronous and belong on the async host."""

    tokens: list[int]


class OutOfResourcesFrame(Struct, array_like=True, tag=8):
    """Worker to node: no run can be started now for lack of descriptors, processes or memory; "" if it can again."""

    reason: str


class OutputFrame(Struct, array_like=True, tag=10):
    """Worker to node: the answer to a ReadOutputFrame."""

    token: int
    asked: int
    """The position in the question."""
    start: int
    """The position of the first byte: later than asked if bytes from there on were dropped."""
    data: bytes
    """Empty if there is nothing new, or if the run is not under way here."""


FrameToWorker = RunsFrame | ClockFrame | CancelFrame | ReadOutputFrame
FrameToNode = StartedFrame | ResultsFrame | ReadyFrame | WrongHostFrame | OutOfResourcesFrame | OutputFrame

_encoder: Final = msgspec.msgpack.Encoder()


def encode_frame(message: FrameToWorker | FrameToNode) -> bytes:
    """A whole frame."""
    buffer = bytearray(_LENGTH)
    _encoder.encode_into(message, buffer, _LENGTH)
    buffer[:_LENGTH] = (len(buffer) - _LENGTH).to_bytes(_LENGTH, "big")
    return bytes(buffer)


class FrameSplitter:
    """Splits the bytes that arrive on a stream into frames."""

    def __init__(self, limit: int = MAX_FRAME_SIZE) -> None:
        self._rest = bytearray()
        self._needed = _LENGTH
        self._limit = limit

    @property
    def is_between_frames(self) -> bool:
        """Does the next data begin with a frame?"""
        return not self._rest

    def split(self, data: bytes) -> list[memoryview]:
        """The frames that this data completes; raise ValueError if one is longer than the limit."""
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
"""Decodes one frame on the worker's side."""
_node_frames_decoder: Final = msgspec.msgpack.Decoder(list[FrameToNode])
_ARRAY: Final = b"\xdd"
"""First byte of a msgpack array whose length follows in four bytes."""


def decode_node_frames(frames: list[memoryview]) -> list[FrameToNode]:
    """Decode frames on the node's side, all at once: hosts send each result in a frame of its own."""
    return _node_frames_decoder.decode(b"".join((_ARRAY, len(frames).to_bytes(4, "big"), *frames)))
