"""What a node measures of itself, as documents: counters, gauges and histograms."""

from msgspec import Struct

from evenbeat.wire.cluster_view import PoolView
from evenbeat.wire.status import Status


class Histogram(Struct, frozen=True):
    """How many values fell below each bound."""

    bounds: tuple[float, ...]
    counts: list[int]
    """Cumulative: for each bound the number of values up to it; the last one counts all."""
    sum: float


class ClusterMetrics(Struct):
    """What a node of a cluster measures of its place in it."""

    nodes: int
    """Living nodes, itself included."""
    partitions: int
    """Partitions that it holds."""
    unheld: int
    """Partitions that no living node holds."""
    lease: float
    """Seconds for which it may act; below 0 it may not."""
    queue: str
    """"ok", or why the queue cannot be reached."""
    takeovers: int
    """Nodes whose expired lease it revoked."""
    fenced: int
    """How often it lost its own lease."""
    handing: dict[str, int]
    """Counts of what happened to the runs that it dispatched."""
    pools: dict[str, PoolView]
    """As this node sees them."""
    processes: int
    """Processes of all workers that it hears."""


class AlertMetrics(Struct, frozen=True):
    """What a node has done and has to do about notifications."""

    outcomes: dict[str, int] = {}
    """Items that were sent, suppressed or delayed ("waiting"); messages that were delivered or given up, and deliveries
    that failed.
    """
    messages: int = 0
    """Messages that have left and whose end is not known."""
    oldest: float = 0.0
    """Seconds since the oldest of them left; 0 without any."""
    sender_restarts: int = 0


class NodeMetrics(Struct):
    """Counted since the node was started; times in seconds."""

    status: Status
    """Runs, outcomes, skips by reason, idle, pending, slots, waiting, late, stale, disabled, states."""
    lateness: Histogram
    """How long after they were due all dispatched runs started."""
    duration: Histogram
    """How long all runs took that really started and ended."""
    commit_time: Histogram
    """How long the store took to commit each batch; its count is the number of commits."""
    worker_restarts: int
    workers: int
    """Worker processes that are up now; in a cluster, the workers that were heard lately."""
    unsafe: int
    """Batches that are not committed yet."""
    oldest_unsafe: float
    """Age of the oldest of these batches; 0 without any."""
    last_turn: float
    """Age of the loop's latest turn; a healthy loop makes one every second."""
    cpu: float
    """Processor time of the node itself, without its workers."""
    cluster: ClusterMetrics | None = None
    """None for a single node."""
    queue: str = ""
    """Why runs cannot be dispatched or started; empty if they can."""
    problems: dict[str, int] = {}
    """Open problems of its tasks, by their state."""
    alerts: AlertMetrics = AlertMetrics()
    retries: int = 0
    """Runs of tasks that tried again what had failed."""
