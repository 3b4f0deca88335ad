"""The clusters that are verified by name, explored one after the other."""

from collections.abc import Iterable, Iterator
from typing import Final

from evenbeat.sim.cluster_explore import explore_cluster, explore_limit
from evenbeat.sim.cluster_limits import LimitShape
from evenbeat.sim.cluster_model import ClusterShape
from evenbeat.sim.verify import VerifiedWorld

CLUSTERS: Final[tuple[ClusterShape | LimitShape, ...]] = (
    LimitShape("cluster: a limit of one, two nodes", 2, 1, 2),
    LimitShape("cluster: a limit of two, three nodes, one dies", 3, 2, 2, moves=0),
    ClusterShape("cluster: one node, one worker that dies", workers=1, claims=1, tries=2, delay=2, steady=True),
    ClusterShape(
        "cluster: one node, one worker that asks twice", workers=1, claims=1, tries=2, deaths=0, delay=2, asks=2
    ),
    ClusterShape(
        "cluster: one worker, clocks that differ", workers=1, claims=1, tries=1, delay=2, steady=True, margin=2, skips=1
    ),
    ClusterShape("cluster: leases, clocks that differ", 2, 0, claims=1, tries=1, fences=2, deaths=0, skips=2, lease=2),
    ClusterShape(
        "cluster: two nodes, one worker", 2, 1, claims=1, tries=1, fences=2, deaths=0, delay=1, lease=2, steady=True
    ),
    ClusterShape("cluster: two nodes and their leases", 2, 0, claims=1, tries=2, lease=2, late_answers=True),
    ClusterShape("cluster: one node, two workers", claims=1, tries=2, deaths=0, delay=2, steady=True),
)
"""Together they have every event. Small ones first."""


def verify_clusters(shapes: Iterable[ClusterShape | LimitShape]) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    for shape in shapes:
        explored = explore_limit(shape) if isinstance(shape, LimitShape) else explore_cluster(shape)
        yield VerifiedWorld(shape, explored)
        if explored.counterexample is not None:
            return
