"""A cluster as its nodes see it: nodes, workers, pools, and which node holds which partitions."""

from msgspec import Struct

from evenbeat.model import Instant
from evenbeat.wire.status import Status


class WorkerView(Struct, frozen=True):
    """A worker of a cluster as a node hears it."""

    id: str
    name: str
    pid: int
    pools: list[str]
    slots: int
    held: int
    is_leaving: bool
    silent_for: float
    """Seconds since its last message."""
    started: int
    version: str
    processes: int
    restarts: int
    problem: str = ""
    """Why it cannot start all runs that it holds."""


class PoolView(Struct, frozen=True):
    """A pool of workers as a node sees it."""

    workers: int
    slots: int
    waiting: int
    """Runs of this node that no worker has taken yet."""
    without_worker_for: float | None
    """Seconds; None if it has a worker."""


class NodeInfo(Struct, frozen=True):
    """What a node of a cluster writes into its lease for the other nodes.

    Nodes of two versions read each other's: new keys come last and have a default.
    """

    name: str
    """The name of its machine: for people only."""
    pid: int
    started: Instant
    version: str
    page: str
    needs: list[str]
    """Limit keys of which it wants more than its share."""
    queue: str
    """"ok", or why the queue cannot be reached."""
    handing: dict[str, int]
    """Counts of what happened to the runs that it dispatched, since its start."""
    workers: list[WorkerView]
    pools: dict[str, PoolView]
    status: Status
    is_unwell: bool = False
    """The queue has been out of reach for long: other nodes should take its partitions."""
    waits_since: dict[str, int] = {}
    """Since when its share of each needed key has not grown, by the clock of the store."""


class NodeView(Struct, frozen=True):
    """A node of the cluster: its lease, and what it wrote there."""

    id: str
    epoch: int
    expires_in: float
    """Seconds; negative if its lease has ended."""
    partitions: list[int]
    about: NodeInfo


class ClusterView(Struct, frozen=True):
    """All nodes, workers and pools of a cluster, and which node holds which partitions."""

    now: Instant
    nodes: list[NodeView]
    unheld: list[int]
    """Partitions that no living node holds at this moment."""
    workers: list[WorkerView]
    pools: dict[str, PoolView]
    shares: dict[str, dict[str, int]]
