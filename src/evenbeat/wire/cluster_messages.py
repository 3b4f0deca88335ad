"""What nodes and workers of a cluster say to each other. Many runs per message; msgpack; all sizes are bounded.

stream  PREFIX.runs.POOL       node -> worker      Parcel, once to one of the pool's workers
request PREFIX.node.NODE       worker -> a node    Question, Report
publish PREFIX.nodes           worker -> all nodes Question, Report, Tidings (each answers for what is its own)
publish PREFIX.worker.WORKER   node -> worker      Permission, Stored, Heard, Cancelled
"""

from typing import Final

import msgspec
from msgspec import Struct

from evenbeat.wire.worker_frames import RunResult, RunSpec

MAX_MESSAGE_SIZE: Final = 900 << 10
"""Bytes: servers take 1 MiB, unless told otherwise."""
MAX_RUNS_PER_OFFER: Final = 256
"""Runs in one parcel."""
DEFAULT_POOL: Final = "default"
CUT_OFF_OUTPUT: Final = b"ended by its worker, as no node answered for it"
"""The output of a run that was lost, and whose worker lives."""
"""Where tasks go that ask for none."""


class RunOffer(Struct, array_like=True, tag=1):
    """Node to some worker of a pool: these may be run, after asking."""

    id: str
    node: str
    """Who sent it, and is asked first."""
    tasks: list[int]
    """The number of the task of each run: whose it is if that node is gone."""
    runs: list[RunSpec]
    functions: list[str | None] | None
    """As `dispatch` takes them."""


class StartRequest(Struct, array_like=True, tag=2):
    """Worker to node: may I start these?"""

    worker: str
    asked: int
    """On the worker's clock."""
    runs: list[tuple[int, int]]
    """Token and task of each."""


class StartReply(Struct, array_like=True, tag=3):
    """Node to worker: start these; forget the others of mine, they are over or somebody else's."""

    node: str
    asked: int
    """As in the question."""
    granted: list[int]
    refused: list[int]
    """What is neither here nor there belongs to another node."""


class RunReport(Struct, array_like=True, tag=4):
    """Worker to node: these have started, and did not end at once; these have ended."""

    worker: str
    starts: list[tuple[int, int, int]]
    """Token, task, when."""
    results: list[tuple[int, RunResult]]
    """Task, and how its run ended."""


class ResultsStored(Struct, array_like=True, tag=5):
    """Node to worker: of these the results are safe, or nobody wants them any more."""

    node: str
    tokens: list[int]


class WorkerStatus(Struct, array_like=True, tag=6):
    """Worker to all nodes, with every beat: who I am and what I have."""

    worker: str
    sent: int
    """On the worker's clock."""
    settled: int
    """Permissions that were asked for up to then will not be used any more, unless they are among `held`."""
    name: str
    """What people call it: its host by default."""
    pid: int
    pools: list[str]
    slots: int
    is_leaving: bool
    held: list[tuple[int, int]]
    """Token and task of each run that was started and whose result is not safe."""
    started: int
    """When it came up, by the cluster's clock; 0 if it does not know that yet."""
    version: str
    processes: int
    restarts: int
    problem: str = ""
    """Why it cannot start what it has, or not all of it."""


class WorkerStatusReply(Struct, array_like=True, tag=7):
    """Node to worker: I have heard of you."""

    node: str
    sent: int
    """As in the tidings."""
    now: int
    """By the cluster's clock, when the node answered."""
    renewed: list[int]
    """I own these, and you go on with them ..."""
    over: list[int]
    """... and of these I know that they are over, or somebody else's: end them."""


class CancelRuns(Struct, array_like=True, tag=8):
    """Node to worker: end these now."""

    node: str
    tokens: list[int]


MessageToNodes = StartRequest | RunReport | WorkerStatus
MessageToWorker = StartReply | ResultsStored | WorkerStatusReply | CancelRuns

node_message_decoder: Final = msgspec.msgpack.Decoder(MessageToNodes)
worker_message_decoder: Final = msgspec.msgpack.Decoder(MessageToWorker)
run_offer_decoder: Final = msgspec.msgpack.Decoder(RunOffer)
encode_message: Final = msgspec.msgpack.Encoder().encode
