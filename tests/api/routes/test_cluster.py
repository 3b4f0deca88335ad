"""A node that is alone answers what is asked of a cluster: it is one of one."""

import msgspec
from api_client import ApiClient, RoleNameAuthenticator
from live_node import LiveNode

from conftest import Evenbeat
from evenbeat.api.http.context import ApiContext
from evenbeat.report.cluster_document import ClusterDocument


def test_a_node_that_is_alone_is_a_cluster_of_one(api: ApiClient, live_node: LiveNode) -> None:
    answer = api.get("/v1/cluster")
    found = msgspec.json.decode(answer.content, type=ClusterDocument)
    assert found.is_single
    (node,), (worker,) = found.nodes, found.workers
    assert (node.id, node.is_alive, node.expires_in) == (live_node.node.start_id, True, None)
    assert node.partitions == list(range(found.partitions))
    assert found.unheld == []
    assert (worker.pools, worker.processes >= 1, worker.slots) == (["default"], True, 512)
    assert msgspec.to_builtins(found.pools) == {
        "default": {"workers": 1, "slots": 512, "waiting": 0, "without_worker_for": None}
    }
    assert found.shares.slots == {node.id: 512}


def test_its_worker_is_listed_and_its_processes_are_those_of_the_node(api: ApiClient, live_node: LiveNode) -> None:
    (worker,) = api.get("/v1/workers").json()["workers"]
    (node,) = api.get("/v1/nodes").json()["nodes"]
    assert worker["id"] == node["id"] == live_node.node.start_id
    assert len(node["workers"]) == worker["processes"]
    assert {process["kind"] for process in node["workers"]} <= {"commands", "functions", "async functions"}
    assert node["database"] == str(live_node.database)


def test_who_is_not_let_in_learns_nothing_of_it(api: ApiClient) -> None:
    for path in ("/v1/cluster", "/v1/workers", "/v1/nodes"):
        assert api.get(path, headers={"authorization": ""}).status_code == 401
        assert api.get(path, headers={"authorization": "Bearer reader"}).status_code == 200


def test_without_a_node_there_is_nobody_to_tell(stopped_context: ApiContext) -> None:
    api = ApiClient(stopped_context, RoleNameAuthenticator())
    try:
        for path in ("/v1/cluster", "/v1/workers", "/v1/nodes"):
            assert api.get(path).status_code == 503
    finally:
        api.close()


def test_status_of_a_single_node_says_nothing_of_a_cluster(live_node: LiveNode, evenbeat: Evenbeat) -> None:
    status = evenbeat("status", "--db", str(live_node.database), "--json").json
    assert status["live"] is True
    assert "cluster" not in status
    assert "nodes:" not in evenbeat("status", "--db", str(live_node.database)).out
