"""The view of a cluster, and the status of several nodes together, from what each has written into its lease."""

import msgspec
import pytest

from evenbeat.model import PARTITION_COUNT, SECOND, Instant
from evenbeat.report.cluster_document import ClusterDocument, cluster_document
from evenbeat.report.cluster_view import cluster_view_of, merge_statuses
from evenbeat.store.cluster_contract import ClusterSnapshot, NodeLease
from evenbeat.wire.cluster_view import ClusterView, NodeInfo, PoolView, WorkerView
from evenbeat.wire.status import Lateness, Status

NOW = 1_800_000_000 * SECOND


def a_status(**numbers: object) -> Status:
    known = {
        **dict.fromkeys(("tasks", "idle", "pending", "slots", "waiting", "late", "stale", "disabled", "runs"), 1),
        "states": {"ok": 1},
        "outcomes": {"succeeded": 2},
        "skipped": {},
        "runs_per_second": 0.5,
        "lateness": Lateness(0.1, 0.2, 0.3),
        "uptime": 10.0,
        "generation": 0,
        "store": "ok",
        "late_by": {"1-10 s": 1},
    }
    return msgspec.convert({**msgspec.to_builtins(known), **msgspec.to_builtins(numbers)}, Status)


def a_worker(id_: str, silent_for: float = 0.1, **more: object) -> WorkerView:
    known = WorkerView(id_, "w", 7, ["default"], 10, 1, False, silent_for, Instant(NOW), "1", 2, 0)
    return msgspec.structs.replace(known, **more)


def a_lease(node: str, ends: float = 4.0, **more: object) -> NodeLease:
    about = NodeInfo("host", 1, Instant(NOW), "1", "", [], "ok", {"lost": 1}, [], {}, a_status())
    about = msgspec.structs.replace(about, **more)
    return NodeLease(node, 3, NOW + round(ends * SECOND), msgspec.json.encode(about))


def a_view(*leases: NodeLease, holders: dict[int, str] | None = None) -> ClusterSnapshot:
    held: list[str | None] = [leases[0].node] * PARTITION_COUNT
    for partition, node in (holders or {}).items():
        held[partition] = node or None
    return ClusterSnapshot(NOW, list(leases), held, {"": {"a": 300, "b": 212}, "two": {"a": 2}})


def test_who_holds_what_and_what_nobody_looks_after() -> None:
    view = a_view(a_lease("a"), a_lease("b"), a_lease("dead", -1), holders={3: "b", 4: "", 5: "dead"})
    found = cluster_view_of(view)
    a, b, dead = found.nodes
    assert (len(a.partitions), b.partitions, dead.partitions) == (PARTITION_COUNT - 3, [3], [5])
    assert (a.expires_in, dead.expires_in) == (4, -1)
    assert found.unheld == [4, 5]


def test_a_lease_goes_on_to_end_while_the_view_grows_old() -> None:
    view = a_view(a_lease("a"))
    assert cluster_view_of(view, NOW + 3 * SECOND).nodes[0].expires_in == 1
    assert cluster_view_of(view, NOW + 5 * SECOND).unheld == list(range(PARTITION_COUNT))
    assert cluster_view_of(view, NOW - 5 * SECOND).nodes[0].expires_in == 4


def test_a_worker_is_as_the_node_says_that_heard_it_last() -> None:
    a = a_lease("a", workers=[a_worker("x", 9.0), a_worker("y", 0.5)])
    b = a_lease("b", workers=[a_worker("x", 0.2, held=5)])
    dead = a_lease("dead", -1, workers=[a_worker("z")])
    found = cluster_view_of(a_view(a, b, dead)).workers
    assert [(worker.id, worker.silent_for) for worker in found] == [("x", 0.2), ("y", 0.5)]


@pytest.mark.parametrize(("seen", "expected"), [((None, 9.0), None), ((4.0, 9.0), 4.0), ((None, None), None)])
def test_a_pool_is_as_well_as_any_node_sees_it(seen: tuple[float | None, ...], expected: float | None) -> None:
    leases = [
        a_lease(name, pools={"far": PoolView(0 if alone else 2, 0 if alone else 8, 3, alone)})
        for name, alone in zip("ab", seen, strict=True)
    ]
    pool = cluster_view_of(a_view(*leases)).pools["far"]
    assert pool.waiting == 6
    assert pool.without_worker_for == expected
    assert pool.workers == (2 if expected is None else 0)


def test_numbers_of_nodes_are_added() -> None:
    found = merge_statuses([a_status(), a_status(store="the disk is full", states={"ok": 2, "critical": 1})])
    assert found is not None
    assert (found.tasks, found.slots, found.runs_per_second) == (2, 2, 1.0)
    assert found.states == {"ok": 3, "critical": 1}
    assert found.late_by == {"1-10 s": 2}
    assert found.store == "the disk is full"
    assert merge_statuses([]) is None


def test_the_document_of_a_cluster_says_the_same_and_can_be_read_back() -> None:
    view: ClusterView = cluster_view_of(
        a_view(a_lease("dead", -1), a_lease("b", workers=[a_worker("x")]), holders={3: "b"})
    )
    document = cluster_document(view)
    assert [(node.id, node.is_alive, node.partition_count) for node in document.nodes] == [
        ("b", True, 1),
        ("dead", False, PARTITION_COUNT - 1),
    ]
    assert document.shares.slots == {"a": 300, "b": 212}
    assert document.shares.limits == {"two": {"a": 2}}
    assert document.workers[0].started == "2027-01-15T08:00:00+00:00"
    new = a_lease("b", workers=[a_worker("x", started=Instant(0))])
    assert cluster_document(cluster_view_of(a_view(new))).workers[0].started is None
    assert msgspec.json.decode(msgspec.json.encode(document), type=ClusterDocument) == document
