"""The cluster over HTTP: nodes, workers, pools and held partitions. A single node is a cluster of one."""

from typing import Final

from msgspec import Struct

from evenbeat.api.http.context import ApiContext
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.health import cluster_view_of, numbers_of
from evenbeat.report.cluster_document import (
    ClusterDocument,
    ClusterNodeDocument,
    ClusterWorkerDocument,
    cluster_document,
    single_node_document,
)
from evenbeat.report.documents import iso_time
from evenbeat.store.addresses import without_password
from evenbeat.wire.documents import NodeDocument, Nodes, WorkerDocument
from evenbeat.wire.requests import GetNodeIdentity

_TAG: Final = "Now"


class Workers(Struct):
    """All that have reported lately."""

    workers: list[ClusterWorkerDocument]


async def read_cluster(call: Call) -> ClusterDocument:
    return await cluster_document_of(call.context)


async def list_nodes(call: Call) -> Nodes:
    found = await cluster_document_of(call.context)
    if found.is_single:
        identity = (await call.context.node.ask(GetNodeIdentity())).node
        assert identity is not None
        processes = [WorkerDocument(worker.pid, worker.kind) for worker in identity.workers]
        return Nodes([_node(node, processes, identity.database) for node in found.nodes])
    # In a cluster every node hears every worker.
    workers = [WorkerDocument(worker.pid, f"{worker.name}: {', '.join(worker.pools)}") for worker in found.workers]
    database = without_password(str(call.context.database))
    return Nodes([_node(node, workers, database) for node in found.nodes if node.is_alive])


async def list_workers(call: Call) -> Workers:
    return Workers((await cluster_document_of(call.context)).workers)


async def cluster_document_of(context: ApiContext) -> ClusterDocument:
    """The cluster as the node sees it; raise StoreError if the node does not answer."""
    view = await cluster_view_of(context)
    if view is not None:
        return cluster_document(view)
    identity = (await context.node.ask(GetNodeIdentity())).node
    assert identity is not None
    return single_node_document(identity, await numbers_of(context), iso_time(context.now()) or "")


def _node(node: ClusterNodeDocument, workers: list[WorkerDocument], database: str) -> NodeDocument:
    return NodeDocument(node.id, node.pid, node.started, node.version, workers, database)


ROUTES: Final = (
    Route("GET", "/v1/cluster", Role.READ, read_cluster, "Nodes, workers, pools: who has what.", ClusterDocument, _TAG),
    Route("GET", "/v1/nodes", Role.READ, list_nodes, "Which nodes live on the database.", Nodes, _TAG),
    Route("GET", "/v1/workers", Role.READ, list_workers, "Which workers there are.", Workers, _TAG),
)
