"""A cluster, or a single node, as a document for programs: the same on the command line and over HTTP."""

import socket
from collections.abc import Mapping
from typing import Annotated, Final

from msgspec import Meta, Struct
from msgspec.structs import asdict

from evenbeat.core.limit_shares import ALL_SLOTS_KEY
from evenbeat.model import PARTITION_COUNT, Instant
from evenbeat.report.documents import iso_time
from evenbeat.wire.cluster_messages import DEFAULT_POOL
from evenbeat.wire.cluster_view import ClusterView, NodeView, PoolView, WorkerView
from evenbeat.wire.metrics import NodeMetrics
from evenbeat.wire.status import NodeIdentity, Status

IsoTime = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""ISO 8601 with an offset."""
_Count = Annotated[int, Meta(ge=0)]
_Seconds = Annotated[float, Meta(ge=0)]
_Partition = Annotated[int, Meta(ge=0, lt=PARTITION_COUNT)]
_OK: Final = "ok"


class ClusterNodeDocument(Struct, frozen=True):
    """A scheduler."""

    id: str
    """Random, drawn when it joined; its name is for people."""
    name: str
    pid: int
    started: IsoTime
    version: str
    page: str
    """Where its page is; empty without one."""
    is_alive: bool
    epoch: _Count
    """The epoch of its lease, higher than any before; 0 for a single node, which has no lease."""
    expires_in: float | None
    """Seconds until its lease ends unless renewed, below 0 if it has ended; null for a single node."""
    partitions: list[_Partition]
    partition_count: _Count
    queue: str
    """"ok", or why it cannot reach the queue."""
    handing: dict[str, _Count]
    """Counts of what happened to runs that it dispatched, since its start."""
    needs: list[str]
    """Limits of which it needs more than its share; "" stands for all slots."""
    status: Status
    """The status of its own tasks."""


class ClusterWorkerDocument(Struct, frozen=True):
    """A worker, which executes runs."""

    id: str
    name: str
    pid: int
    pools: list[str]
    slots: _Count
    held: _Count
    """Runs that it has started or whose results are not committed yet."""
    is_leaving: bool
    silent_for: _Seconds
    """Seconds since its last message; a healthy worker sends one every second."""
    started: IsoTime | None
    """Null until it knows the time of the cluster."""
    version: str
    processes: _Count
    restarts: _Count
    """Processes of it that ended by themselves and were replaced."""
    problem: str = ""
    """Why it cannot start all runs that it holds: no descriptors or processes are left, for example."""


class PoolDocument(Struct, frozen=True):
    """A pool of workers, for which tasks may ask."""

    workers: _Count
    slots: _Count
    waiting: _Count
    """Runs that no worker has taken yet."""
    without_worker_for: _Seconds | None
    """Seconds; null while it has a worker."""


class SharesDocument(Struct, frozen=True):
    """The shares of nodes in slots and limits, by the ids of the nodes."""

    slots: dict[str, _Count]
    limits: dict[str, dict[str, _Count]]


class ClusterDocument(Struct, frozen=True):
    """All nodes, workers and pools, and which node holds which partitions."""

    is_single: bool
    """A single node on a database of its own, which no other node can join."""
    now: IsoTime
    nodes: list[ClusterNodeDocument]
    workers: list[ClusterWorkerDocument]
    pools: dict[str, PoolDocument]
    shares: SharesDocument
    partitions: _Count
    """The number of all partitions."""
    unheld: list[_Partition]
    """Partitions that no living node holds: their tasks do not run now."""


def cluster_document(view: ClusterView) -> ClusterDocument:
    """The document of a cluster."""
    return ClusterDocument(
        is_single=False,
        now=iso_time(view.now) or "",
        nodes=sorted(map(_node_document, view.nodes), key=lambda node: (not node.is_alive, node.name, node.started)),
        workers=[_worker_document(worker) for worker in view.workers],
        pools={name: _pool_document(pool) for name, pool in view.pools.items()},
        shares=_shares_document(view.shares),
        partitions=PARTITION_COUNT,
        unheld=view.unheld,
    )


def single_node_document(identity: NodeIdentity, numbers: NodeMetrics, now: str) -> ClusterDocument:
    """The document of a single node, in the same shape."""
    started, status, name = iso_time(identity.started) or "", numbers.status, socket.gethostname()
    processes = len(identity.workers)
    node = ClusterNodeDocument(
        id=identity.id,
        name=name,
        pid=identity.pid,
        started=started,
        version=identity.version,
        page="",
        is_alive=True,
        epoch=0,
        expires_in=None,
        partitions=list(range(PARTITION_COUNT)),
        partition_count=PARTITION_COUNT,
        queue=_OK,
        handing={},
        needs=[],
        status=status,
    )
    worker = ClusterWorkerDocument(
        id=identity.id,
        name=name,
        pid=identity.pid,
        pools=[DEFAULT_POOL],
        slots=status.slots,
        held=status.pending,
        is_leaving=False,
        silent_for=0.0,
        started=started,
        version=identity.version,
        processes=processes,
        restarts=numbers.worker_restarts,
        problem=numbers.queue,
    )
    return ClusterDocument(
        is_single=True,
        now=now,
        nodes=[node],
        workers=[worker],
        pools={DEFAULT_POOL: PoolDocument(1, status.slots, 0, None)},
        shares=SharesDocument({identity.id: status.slots}, {}),
        partitions=PARTITION_COUNT,
        unheld=[],
    )


def _node_document(node: NodeView) -> ClusterNodeDocument:
    about = node.about
    return ClusterNodeDocument(
        id=node.id,
        name=about.name,
        pid=about.pid,
        started=iso_time(about.started) or "",
        version=about.version,
        page=about.page,
        is_alive=node.expires_in > 0,
        epoch=node.epoch,
        expires_in=node.expires_in,
        partitions=node.partitions,
        partition_count=len(node.partitions),
        queue=about.queue,
        handing=about.handing,
        needs=about.needs,
        status=about.status,
    )


def _worker_document(worker: WorkerView) -> ClusterWorkerDocument:
    started = Instant(worker.started) if worker.started else None
    return ClusterWorkerDocument(**{**asdict(worker), "started": iso_time(started)})


def _pool_document(pool: PoolView) -> PoolDocument:
    return PoolDocument(**asdict(pool))


def _shares_document(shares: Mapping[str, Mapping[str, int]]) -> SharesDocument:
    limits = {key: dict(nodes) for key, nodes in shares.items() if key != ALL_SLOTS_KEY}
    return SharesDocument(dict(shares.get(ALL_SLOTS_KEY, {})), limits)
