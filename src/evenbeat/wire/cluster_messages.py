"""The messages between nodes and workers of a cluster. Many runs per message; msgpack; all sizes are bounded.

stream  PREFIX.runs.POOL       node -> worker      RunOffer, to one of the pool's workers
publish PREFIX.node.NODE       worker -> one node  StartRequest, RunReport, RunOutput, OutputPiece
publish PREFIX.nodes           worker -> all nodes StartRequest, RunReport, OutputPiece, WorkerStatus (each answers for
                                                   its own)
publish PREFIX.worker.WORKER   node -> worker      StartReply, ResultsStored, WorkerStatusReply, CancelRuns,
                                                   ReadRunOutput
"""

from typing import Final

import msgspec
from msgspec import Struct

from evenbeat.wire.worker_frames import RunResult, RunSpec

MAX_MESSAGE_SIZE: Final = 900 << 10
"""Bytes: servers accept 1 MiB unless configured otherwise."""
MAX_RUNS_PER_OFFER: Final = 256
"""Runs in one RunOffer."""
DEFAULT_POOL: Final = "default"
"""The pool of tasks that ask for none."""
CUT_OFF_OUTPUT: Final = b"ended by its worker, as no node answered for it"
"""The output of a run that was lost although its worker lives. It is stored with the run."""


class RunOffer(Struct, array_like=True, tag=1):
    """Node to one worker of a pool: these runs are due. The worker asks before it starts any of them."""

    id: str
    node: str
    """The sender, which the worker asks first."""
    tasks: list[int]
    """The number of the task of each run: by it another node knows whether the run is its own."""
    runs: list[RunSpec]
    functions: list[str | None] | None
    """The function of each run, None for a command; None if all are commands."""


class StartRequest(Struct, array_like=True, tag=2):
    """Worker to node: may I start these runs?"""

    worker: str
    asked: int
    """When it was sent, on the worker's clock."""
    runs: list[tuple[int, int]]
    """Token and task of each."""


class StartReply(Struct, array_like=True, tag=3):
    """Node to worker: start the granted runs, forget the refused ones."""

    node: str
    asked: int
    """As in the StartRequest."""
    granted: list[int]
    refused: list[int]
    """These have ended, or another worker has them. A run in neither list belongs to another node."""
    takes_plain: bool = False
    """The node reads plain results. One of an earlier version does not say so."""


class RunReport(Struct, array_like=True, tag=4):
    """Worker to node: runs that have started and did not end at once, and runs that have ended."""

    worker: str
    starts: list[tuple[int, int, int]]
    """Token, task, start time."""
    results: list[tuple[int, RunResult]]
    """Task, and the result of its run."""
    plain_tasks: list[int] = []
    plain: bytes = b""
    """More results, as `wire.plain_results` packs them, and the task of each; only to nodes that take them."""


class ResultsStored(Struct, array_like=True, tag=5):
    """Node to worker: these results are stored, or no longer wanted; forget them."""

    node: str
    tokens: list[int]


class WorkerStatus(Struct, array_like=True, tag=6):
    """Worker to all nodes, every WORKER_STATUS_INTERVAL: who I am and which runs I hold."""

    worker: str
    sent: int
    """When it was sent, on the worker's clock."""
    settled: int
    """All StartRequests up to this time, on the worker's clock, are answered or given up: a run granted to one of
    them is in `held`, or will never be started by that grant."""
    name: str
    """Shown to people; by default the name of its machine."""
    pid: int
    pools: list[str]
    slots: int
    is_leaving: bool
    held: list[tuple[int, int]]
    """Token and task of each run that was started and whose result is not confirmed as stored."""
    started: int
    """When the worker started, by the cluster's clock; 0 if it does not know that clock yet."""
    version: str
    processes: int
    restarts: int
    problem: str = ""
    """Why it cannot start some or all of its runs, or ""."""


class WorkerStatusReply(Struct, array_like=True, tag=7):
    """Node to worker: which of the reported runs are renewed, and which must end."""

    node: str
    sent: int
    """As in the WorkerStatus."""
    now: int
    """When the node answered, by the cluster's clock."""
    renewed: list[int]
    """This node owns these runs, and the worker may go on with them."""
    over: list[int]
    """These have ended, or another worker has them: end them."""


class CancelRuns(Struct, array_like=True, tag=8):
    """Node to worker: end these runs now."""

    node: str
    tokens: list[int]


class ReadRunOutput(Struct, array_like=True, tag=9):
    """Node to worker: what has this run written from this position on?"""

    node: str
    token: int
    position: int


class RunOutput(Struct, array_like=True, tag=10):
    """Worker to one node: the answer to a ReadRunOutput, as in `OutputFrame`."""

    worker: str
    token: int
    asked: int
    start: int
    data: bytes


class OutputPiece(Struct, array_like=True, tag=11):
    """Worker to node: a piece of `RunResult.whole`, which no message could take. All pieces come before the RunReport,
    which has none of it; if one of them is lost, the output is cut as that of any other task.
    """

    worker: str
    token: int
    index: int
    count: int
    """Pieces in all."""
    data: bytes


MessageToNodes = StartRequest | RunReport | WorkerStatus | RunOutput | OutputPiece
MessageToWorker = StartReply | ResultsStored | WorkerStatusReply | CancelRuns | ReadRunOutput

node_message_decoder: Final = msgspec.msgpack.Decoder(MessageToNodes)
worker_message_decoder: Final = msgspec.msgpack.Decoder(MessageToWorker)
run_offer_decoder: Final = msgspec.msgpack.Decoder(RunOffer)
encode_message: Final = msgspec.msgpack.Encoder().encode
