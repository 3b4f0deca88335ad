"""A worker's end of the socket to its node: reads and writes frames without blocking."""

import os
from typing import Final

from evenbeat.wire import worker_frames
from evenbeat.wire.worker_frames import FrameToWorker

_READ: Final = 256 << 10
_MAX_UNSENT_BYTES: Final = 1 << 20
"""Bytes that may wait for the node; with more unsent a worker accepts nothing new."""
_RESULT_OVERHEAD: Final = 100
"""Bytes of a result besides its output and its cursor."""


class NodeGone(Exception):
    """The other end is closed, so the node has ended."""


class NodeConnection:
    """Reads and writes whole frames on a descriptor, without blocking."""

    def __init__(self, descriptor: int) -> None:
        os.set_blocking(descriptor, False)
        os.set_inheritable(descriptor, False)  # noqa: FBT003
        self.descriptor: Final = descriptor
        self._frames = worker_frames.FrameSplitter()
        self._unsent = bytearray()

    @property
    def is_waiting_to_send(self) -> bool:
        return bool(self._unsent)

    @property
    def has_too_much_unsent(self) -> bool:
        return len(self._unsent) > _MAX_UNSENT_BYTES

    def receive(self) -> list[FrameToWorker]:
        """The frames that have arrived, possibly none."""
        try:
            data = os.read(self.descriptor, _READ)
        except BlockingIOError:
            return []
        except ConnectionResetError:
            data = b""
        if not data:
            raise NodeGone
        return [worker_frames.worker_frame_decoder.decode(frame) for frame in self._frames.split(data)]

    def send(self, message: worker_frames.FrameToNode) -> None:
        """Send as much as the socket takes; the rest waits for `flush`."""
        self.send_frame(worker_frames.encode_frame(message))

    def send_frame(self, frame: bytes) -> None:
        """As `send`, of a frame that is encoded already."""
        self._unsent += frame
        self.flush()

    def send_results(self, results: list[worker_frames.RunResult], held: int = 0, plain: bytes = b"") -> None:
        """Send results in frames of limited size, however large their outputs are. `plain` has few bytes."""
        part: list[worker_frames.RunResult] = []
        size = 0
        for result in results:
            part.append(result)
            size += _RESULT_OVERHEAD + len(result.output) + len(result.whole) + len(result.cursor or b"")
            if size > _MAX_UNSENT_BYTES:
                self.send(worker_frames.ResultsFrame(part, held))
                part, size = [], 0
        if part or plain:
            self.send(worker_frames.ResultsFrame(part, held, plain))

    def flush(self) -> None:
        """Send as much of the rest as the socket takes."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self.descriptor, self._unsent)]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            raise NodeGone from None

    def finish(self) -> None:
        """Send everything, and block until it is sent."""
        os.set_blocking(self.descriptor, True)
        self.flush()
        os.set_blocking(self.descriptor, False)
