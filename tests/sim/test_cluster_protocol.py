"""Every reachable state of small clusters holds the properties; and the explorer finds the bugs that are planted."""

import pytest

from evenbeat.core import partition_ownership, run_lease
from evenbeat.sim.cluster_explore import comes_to_an_end, explore_cluster, explore_limit, next_states
from evenbeat.sim.cluster_limits import LimitShape
from evenbeat.sim.cluster_model import CLUSTER_SENTENCES, ClusterShape, initial_cluster, scaled_durations
from evenbeat.sim.cluster_mutants import PLANTED_BUGS, PlantedBug, find_bug
from evenbeat.sim.cluster_verify import CLUSTERS

SMALL = [
    ClusterShape("one node, one worker", workers=1, claims=1, tries=2, deaths=0, delay=2, steady=True),
    ClusterShape("a worker dies", workers=1, claims=1, tries=1, delay=2, steady=True),
    ClusterShape(
        "a worker is stopped for less than the margin",
        workers=1,
        claims=1,
        tries=1,
        deaths=0,
        steady=True,
        stall=1,
        margin=2,
        delay=2,
    ),
]

QUICK = (
    "a run is granted to two workers", "no margin", "lost too early", "never lost", "untaken too eagerly",
    "a run is ended late", "questions are settled at once", "what runs is cut", "a share beyond what is free",
    "a record does not check the lease", "released before it is dropped",
)  # fmt: skip
"""Bugs that are found within a second or so; all: python -m evenbeat.sim.cluster_mutants."""


@pytest.mark.parametrize("shape", SMALL, ids=lambda s: s.name)
def test_all_properties_hold_in_every_reachable_state(shape: ClusterShape) -> None:
    explored = explore_cluster(shape)
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states > 300


def test_a_limit_holds_over_all_nodes() -> None:
    explored = explore_limit(LimitShape("a limit of one, two nodes", 2, 1, 2))
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states > 1_000


@pytest.mark.parametrize("bug", [bug for bug in PLANTED_BUGS if bug.name in QUICK], ids=lambda bug: bug.name)
def test_a_planted_bug_is_found(bug: PlantedBug) -> None:
    found = find_bug(bug)
    assert found is not None
    assert found.property in CLUSTER_SENTENCES
    assert found.events


def test_every_bug_is_planted_in_something_that_there_is() -> None:
    assert not [bug.name for bug in PLANTED_BUGS if not hasattr(bug.module, bug.attribute)]


def test_all_quick_bugs_are_there() -> None:
    assert set(QUICK) <= {bug.name for bug in PLANTED_BUGS}


def test_a_worker_that_is_stopped_for_longer_while_its_run_goes_on_breaks_the_promise() -> None:
    """What the protocol cannot do alone: somebody else must end the runs of a worker that does not."""
    shape = ClusterShape("a worker is stopped", workers=1, claims=1, tries=2, deaths=0, delay=2, steady=True, stall=3)
    found = explore_cluster(shape).counterexample
    assert found is not None
    assert found.property == "cluster: really lost"


def test_the_durations_are_as_before_after_an_exploration() -> None:
    before = {**vars(partition_ownership)}, {**vars(run_lease)}
    with scaled_durations(SMALL[0]):
        assert SMALL[0].hold == run_lease.RUN_LEASE_DURATION
    assert ({**vars(partition_ownership)}, {**vars(run_lease)}) == before


def test_a_cluster_at_its_beginning_comes_to_an_end_by_itself() -> None:
    shape = ClusterShape("two nodes", 2, 2, claims=2)
    with scaled_durations(shape):
        assert comes_to_an_end(shape, initial_cluster(shape))
        assert len(list(next_states(shape, initial_cluster(shape)))) > 4


def test_the_named_clusters_have_nodes_and_workers_and_limits() -> None:
    shapes = [shape for shape in CLUSTERS if isinstance(shape, ClusterShape)]
    assert any(shape.nodes > 1 for shape in shapes)
    assert any(shape.workers > 1 for shape in shapes)
    assert any(isinstance(shape, LimitShape) for shape in CLUSTERS)
    # As in production: a permission ends before a run must, and a node has some of its lease to act in.
    assert all(shape.permit < shape.hold and shape.margin < shape.lease for shape in shapes)
