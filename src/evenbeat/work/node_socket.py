"""A worker's end of the socket to its node: frames in, frames out, never waiting for either."""

import os
from typing import Final

from evenbeat.wire import worker_frames
from evenbeat.wire.worker_frames import CancelFrame, ClockFrame, RunsFrame

_READ: Final = 256 << 10
_MAX_UNSENT_BYTES: Final = 1 << 20
_RESULT_OVERHEAD: Final = 100
"""Bytes of a result beside its output and its cursor."""
"""Bytes that may wait for the node; with more than that a worker takes on nothing new."""


class NodeGone(Exception):
    """The other end is closed, so the node has ended, however it ended."""


class NodeConnection:
    """Reads and writes whole frames on a descriptor that never blocks."""

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

    def receive(self) -> list[RunsFrame | ClockFrame | CancelFrame]:
        """What has arrived, possibly nothing."""
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
        """Send what the socket takes; the rest waits for `proceed`."""
        self._unsent += worker_frames.encode_frame(message)
        self.flush()

    def send_results(self, results: list[worker_frames.RunResult], held: int = 0) -> None:
        """In frames of a bearable size, whatever the functions or children had to say."""
        part: list[worker_frames.RunResult] = []
        size = 0
        for result in results:
            part.append(result)
            size += _RESULT_OVERHEAD + len(result.output) + len(result.cursor or b"")
            if size > _MAX_UNSENT_BYTES:
                self.send(worker_frames.ResultsFrame(part, held))
                part, size = [], 0
        if part:
            self.send(worker_frames.ResultsFrame(part, held))

    def flush(self) -> None:
        """Send more of what waits."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self.descriptor, self._unsent)]
        except BlockingIOError:
            pass
        except (BrokenPipeError, ConnectionResetError):
            raise NodeGone from None

    def finish(self) -> None:
        """Send all that waits, however long it takes."""
        os.set_blocking(self.descriptor, True)
        self.flush()
        os.set_blocking(self.descriptor, False)
