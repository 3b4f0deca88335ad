"""The other nodes of a cluster, seen and asked by one of its nodes."""

from msgspec.structs import asdict

from evenbeat.clock.system_clock import boot_time
from evenbeat.core.partition_ownership import is_over
from evenbeat.core.run_lease import WORKER_SILENT_AFTER
from evenbeat.model import SECOND
from evenbeat.node.answers.running_runs import running_runs_of
from evenbeat.node.answers.status import status_of
from evenbeat.node.cluster.forwarded_requests import ForwardedRequests
from evenbeat.node.cluster.lease import HeldLease
from evenbeat.node.cluster.partitions import HeldPartitions
from evenbeat.node.cluster.relay import EventRelay
from evenbeat.node.scheduler import Scheduler
from evenbeat.queue.nats.nats_queue import NatsQueue
from evenbeat.report.cluster_view import cluster_view_of, decode_node_info, merge_statuses
from evenbeat.store.cluster_contract import ClusterSnapshot, NodeLease
from evenbeat.wire.cluster_view import ClusterView
from evenbeat.wire.live_runs import RunningRuns
from evenbeat.wire.metrics import ClusterMetrics
from evenbeat.wire.status import Status


class ClusterPeers:
    """What this node knows of all nodes together, and how it has them do what only they can."""

    def __init__(
        self,
        node: Scheduler,
        queue: NatsQueue,
        lease: HeldLease,
        partitions: HeldPartitions,
        requests: ForwardedRequests,
    ) -> None:
        self._node = node
        self._queue = queue
        self._lease = lease
        self._partitions = partitions
        self.requests = requests
        self.relay = EventRelay(
            node.start_id, queue.tell_nodes, lambda most: running_runs_of(node, most), node.loop.time
        )
        queue.on_node_message = self.relay.receive
        self.snapshot: ClusterSnapshot | None = None
        """The cluster when our lease was last renewed."""
        self.fenced = 0
        """How often this node lost its lease."""

    def leases(self) -> list[NodeLease]:
        """The leases of the other nodes, living or not."""
        return [] if self.snapshot is None else [le for le in self.snapshot.leases if le.node != self._lease.id]

    def _living(self) -> list[NodeLease]:
        snapshot = self.snapshot
        return [] if snapshot is None else [lease for lease in self.leases() if lease.expires > snapshot.now]

    @property
    def problem(self) -> str:
        """Why this node may not act for the cluster now; empty if it may."""
        return "" if self._lease.may_act() else "the lease of this node has ended: the database does not answer"

    def status(self) -> Status:
        """The status of all nodes together."""
        mine = status_of(self._node)
        return merge_statuses([mine, *(decode_node_info(lease).status for lease in self._living())]) or mine

    async def running(self, most: int) -> RunningRuns:
        """The runs of all nodes together."""
        return await self.relay.all_running(most, len(self._living()))

    def view(self) -> ClusterView | None:
        """All nodes and workers; None as long as this node has not joined."""
        return None if self.snapshot is None else cluster_view_of(self.snapshot, self._node.clock.now())

    def metrics(self) -> ClusterMetrics:
        """What this node measures of its place among the others."""
        snapshot, queue, now = self.snapshot, self._queue, self._node.clock.now()
        leases = [] if snapshot is None else snapshot.leases
        holders = [] if snapshot is None else snapshot.holders
        living = {lease.node for lease in leases if not is_over(lease.expires, now)}
        return ClusterMetrics(
            nodes=len(living),
            partitions=len(self._partitions.held),
            unheld=sum(holder not in living for holder in holders),
            lease=(self._lease.until - boot_time()) / SECOND,
            queue=queue.problem or "ok",
            takeovers=self._partitions.takeovers,
            fenced=self.fenced,
            handing=asdict(queue.counts),
            pools=queue.pools,
            processes=sum(
                worker.processes for worker in queue.worker_views if worker.silent_for * SECOND < WORKER_SILENT_AFTER
            ),
        )
