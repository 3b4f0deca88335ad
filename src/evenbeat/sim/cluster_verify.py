"""The clusters that are verified by name, explored one after the other."""

from collections.abc import Iterable, Iterator
from typing import Final

from evenbeat.sim.cluster_explore import explore_cluster, explore_limit
from evenbeat.sim.cluster_limits import Limit
from evenbeat.sim.cluster_model import Shape
from evenbeat.sim.verify import Verified

CLUSTERS: Final[tuple[Shape | Limit, ...]] = (
    Limit("cluster: a limit of one, two nodes", 2, 1, 2),
    Limit("cluster: a limit of two, three nodes, one dies", 3, 2, 2, moves=0),
    Shape("cluster: one node, one worker that dies", workers=1, claims=1, tries=2, delay=2, steady=True),
    Shape("cluster: one node, one worker that asks twice", workers=1, claims=1, tries=2, deaths=0, delay=2, asks=2),
    Shape(
        "cluster: one worker, clocks that differ", workers=1, claims=1, tries=1, delay=2, steady=True, margin=2, skips=1
    ),
    Shape("cluster: leases, clocks that differ", 2, 0, claims=1, tries=1, fences=2, deaths=0, skips=2, lease=2),
    Shape("cluster: two nodes, one worker", 2, 1, claims=1, tries=1, fences=2, deaths=0, delay=1, lease=2, steady=True),
    Shape("cluster: two nodes and their leases", 2, 0, claims=1, tries=2, lease=2, late_answers=True),
    Shape("cluster: one node, two workers", claims=1, tries=2, deaths=0, delay=2, steady=True),
)
"""Together they have every event. Small ones first."""


def verify_clusters(shapes: Iterable[Shape | Limit]) -> Iterator[Verified]:
    """Explore each to its end; the first counterexample ends it all."""
    for shape in shapes:
        explored = explore_limit(shape) if isinstance(shape, Limit) else explore_cluster(shape)
        yield Verified(shape, explored)
        if explored.counterexample is not None:
            return
