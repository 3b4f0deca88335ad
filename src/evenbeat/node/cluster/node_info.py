"""What a node of a cluster publishes about itself, in its lease."""

import os
import socket
from importlib.metadata import version
from typing import TYPE_CHECKING

import msgspec

from evenbeat.report.status import status_of
from evenbeat.wire.cluster_view import NodeInfo

if TYPE_CHECKING:
    from evenbeat.node.cluster.cluster_scheduler import ClusterScheduler


def node_info_of(node: "ClusterScheduler") -> NodeInfo:
    """The state of a live node."""
    queue = node.queue
    return NodeInfo(
        socket.gethostname(),
        os.getpid(),
        node.started_at,
        version("evenbeat"),
        node.page,
        sorted(node.shares.needs),
        queue.problem or "ok",
        msgspec.structs.asdict(queue.counts),
        queue.worker_views,
        queue.pools,
        status_of(node),
        node.is_unwell(),
        node.shares.waits_since,
    )
