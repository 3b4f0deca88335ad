"""The cluster over HTTP: nodes, workers, pools, who holds what. A node that is alone is a cluster of one."""

from typing import Final

from msgspec import Struct

from evenbeat.api.http.context import House
from evenbeat.api.http.route import Call, Role, Route
from evenbeat.api.routes.documents import NodeDocument, Nodes, WorkerDocument
from evenbeat.api.routes.health import look_at_cluster, numbers_of
from evenbeat.report.cluster_document import (
    ClusterDocument,
    ClusterNodeDocument,
    ClusterWorkerDocument,
    cluster_document,
    document_of_one,
)
from evenbeat.report.documents import instant
from evenbeat.store.opening import shown
from evenbeat.wire.requests import AskNode

_TAG: Final = "Now"


class Workers(Struct):
    """All that were heard of lately."""

    workers: list[ClusterWorkerDocument]


async def cluster(call: Call) -> ClusterDocument:
    return await cluster_of(call.house)


async def nodes(call: Call) -> Nodes:
    found = await cluster_of(call.house)
    if found.is_single:
        identity = (await call.house.ask(AskNode())).node
        assert identity is not None
        processes = [WorkerDocument(worker.pid, worker.kind) for worker in identity.workers]
        return Nodes([_node(node, processes, identity.database) for node in found.nodes])
    # In a cluster every node hears every worker.
    workers = [WorkerDocument(worker.pid, f"{worker.name}: {', '.join(worker.pools)}") for worker in found.workers]
    database = shown(str(call.house.database))
    return Nodes([_node(node, workers, database) for node in found.nodes if node.is_alive])


async def workers(call: Call) -> Workers:
    return Workers((await cluster_of(call.house)).workers)


async def cluster_of(house: House) -> ClusterDocument:
    """As the node sees it; raise StoreError if it does not answer."""
    view = await look_at_cluster(house)
    if view is not None:
        return cluster_document(view)
    identity = (await house.ask(AskNode())).node
    assert identity is not None
    return document_of_one(identity, await numbers_of(house), instant(house.now()) or "")


def _node(node: ClusterNodeDocument, workers: list[WorkerDocument], database: str) -> NodeDocument:
    return NodeDocument(node.id, node.pid, node.started, node.version, workers, database)


ROUTES: Final = (
    Route("GET", "/v1/cluster", Role.READ, cluster, "Nodes, workers, pools: who has what.", ClusterDocument, _TAG),
    Route("GET", "/v1/nodes", Role.READ, nodes, "Which nodes live on the database.", Nodes, _TAG),
    Route("GET", "/v1/workers", Role.READ, workers, "Which workers there are.", Workers, _TAG),
)
