"""The node's end of the socket to a runner or a host that lives in the process of the test, and runs to send it."""

import socket

import msgspec
from queue_node import NEVER

from evenbeat.clock.system_clock import boot_time
from evenbeat.model import HOUR, SECOND, Job
from evenbeat.wire import worker_frames
from evenbeat.wire.plain_results import PlainResults, decode_records, full_results, read_messages
from evenbeat.wire.worker_frames import (
    CancelFrame,
    ClockFrame,
    ResultsFrame,
    RunResult,
    RunsFrame,
    RunSpec,
)


def run_of(job: Job, token: int = 1, **fields: int) -> RunSpec:
    packed = msgspec.Raw(msgspec.msgpack.encode(job))
    wanted = {"nominal": boot_time() + HOUR, "latest_start": boot_time() + 2 * HOUR, **fields}
    return RunSpec(
        token, packed, "a task", wanted["nominal"], 0, 10 * SECOND, wanted["latest_start"], NEVER, 0, 0, 1, None
    )


class WorkerWire:
    """The node's end of the socket to a worker that lives here."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair()
        self.theirs = theirs.detach()
        self._frames = worker_frames.FrameSplitter()

    def send(self, *messages: RunsFrame | ClockFrame | CancelFrame) -> None:
        self._ours.sendall(b"".join(map(worker_frames.encode_frame, messages)))

    def results(self) -> list[RunResult]:
        """What has been told so far."""
        self._ours.setblocking(False)
        try:
            found = read_messages(self._frames, self._ours.recv(1 << 20))
        except BlockingIOError:
            return []
        results = []
        for message in found:
            if isinstance(message, PlainResults):
                results += full_results(message)
            if isinstance(message, ResultsFrame):
                results += message.results + full_results(decode_records(message.plain))
        return results

    def close(self) -> None:
        self._ours.close()
