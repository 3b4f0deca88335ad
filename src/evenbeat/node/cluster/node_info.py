"""What a node of a cluster writes into its lease for the other nodes."""

import os
import socket
from importlib.metadata import version

import msgspec

from evenbeat.core.limit_shares import LimitShares
from evenbeat.node.answers.status import status_of
from evenbeat.node.scheduler import Scheduler
from evenbeat.queue.nats.nats_queue import NatsQueue
from evenbeat.wire.cluster_view import NodeInfo


def encode_node_info(node: Scheduler, queue: NatsQueue, shares: LimitShares, *, is_unwell: bool) -> bytes:
    """The current state of this node, as it goes into the lease."""
    return msgspec.json.encode(
        NodeInfo(
            name=socket.gethostname(),
            pid=os.getpid(),
            started=node.started_at,
            version=version("evenbeat"),
            page=node.page,
            needs=sorted(shares.needs),
            queue=queue.problem or "ok",
            handing=msgspec.structs.asdict(queue.counts),
            workers=queue.worker_views,
            pools=queue.pools,
            status=status_of(node),
            is_unwell=is_unwell,
            waits_since=shares.waits_since,
        )
    )
