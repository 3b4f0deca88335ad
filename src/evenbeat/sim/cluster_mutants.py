"""Can the verifier of the cluster fail? Bugs planted in the decisions, and in how they are used; each must be found.

`python -m evenbeat.sim.cluster_mutants` tries them all; it exits with 1 if one survives.
"""
# ruff: noqa: ARG001, ARG005 - a bug is often something that is not looked at

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, NamedTuple

from evenbeat.core import limit_shares, partition_ownership, run_lease
from evenbeat.core.limit_shares import LimitDemand, ShareRequest
from evenbeat.core.run_lease import RunFate, RunLease
from evenbeat.sim import cluster_limits, cluster_node, cluster_worker
from evenbeat.sim.cluster_explore import explore_cluster, explore_limit
from evenbeat.sim.cluster_limits import LimitNode, LimitShape
from evenbeat.sim.cluster_model import (
    LONG_GONE,
    NOBODY,
    NOW,
    ClusterShape,
    ModelCluster,
    ModelMessage,
    ModelPartition,
    ModelRun,
    ModelWorker,
    PropertyBroken,
    StoredTask,
    replaced_at,
)
from evenbeat.sim.explore import Counterexample

ONE_WORKER: Final = ClusterShape("one node, one worker", workers=1, claims=1, tries=2, deaths=0, asks=2)
STEADY: Final = ClusterShape("one node, one steady worker", workers=1, claims=1, tries=1, deaths=0, steady=True)
A_DEATH: Final = ClusterShape("a worker dies", workers=1, claims=1, tries=1, delay=2, steady=True)
TWO_WORKERS: Final = ClusterShape("one node, two workers", claims=1, tries=2, deaths=1, delay=2, tidings=2, steady=True)
TWO_NODES: Final = ClusterShape(
    "two nodes, one worker", 2, 1, claims=1, tries=2, fences=2, delay=2, lease=2, tidings=2, steady=True
)
LEASES: Final = ClusterShape("leases", 2, 0, claims=1, tries=2, fences=2, lease=2, late_answers=True)
SKEW: Final = ClusterShape("leases, clocks that differ", 2, 0, claims=1, tries=1, fences=2, deaths=0, skips=2, lease=2)
LIMIT: Final = LimitShape("a limit", 3, 2, 2)
MOVES: Final = LimitShape("a limit, runs that move", 2, 2, 2, deaths=0, moves=2)
SMALL_LIMIT: Final = LimitShape("a limit of one", 2, 1, 2)

MOST_STATES: Final = 200_000
"""States of one shape that are explored for one bug."""


class PlantedBug(NamedTuple):
    """One bug: what is replaced by what."""

    name: str
    module: ModuleType | type
    attribute: str
    instead: Callable[..., Any]
    shape: ClusterShape | LimitShape


def _granted_twice(hand: RunLease, worker: str, asked: int, now: int) -> RunLease | None:
    return None if hand.adopted else RunLease(worker, asked, now)


def _adopted_is_granted(hand: RunLease, worker: str, asked: int, now: int) -> RunLease | None:
    return RunLease(worker, asked, now) if hand.worker in ("", worker) else None


def _last_question_counts(hand: RunLease, worker: str, asked: int, now: int) -> RunLease | None:
    return None if hand.adopted or hand.worker not in ("", worker) else RunLease(worker, asked, now)


def _no_longer_adopted(hand: RunLease, worker: str, now: int) -> RunLease | None:
    if hand.worker == worker or hand.adopted:
        return RunLease(worker, hand.asked if hand.worker == worker else 0, now)
    return None


def _lost_after(duration: Callable[[], int]) -> Callable[[RunLease, int], RunFate]:
    def fate(hand: RunLease, now: int) -> RunFate:
        somebody = bool(hand.worker) or hand.adopted
        return RunFate.LOST if somebody and now - hand.renewed_at >= duration() else RunFate.STAY

    return fate


def _adopted_is_lost_at_once(hand: RunLease, now: int) -> RunFate:
    held = bool(hand.worker) and now - hand.renewed_at >= run_lease.RUN_LEASE_DURATION + run_lease.RUN_LEASE_MARGIN
    return RunFate.LOST if held or (hand.adopted and not hand.worker) else RunFate.STAY


def _untaken_at_once(hand: RunLease, worker: str, settled: int) -> bool:
    return not hand.adopted and hand.worker == worker


def _adopted_is_untaken(hand: RunLease, worker: str, settled: int) -> bool:
    return hand.adopted or (hand.worker == worker and hand.asked <= settled)


def _buried_unseen(state: ModelCluster, dead: int) -> ModelCluster:
    node = state.nodes[dead]
    if state.leases[dead] != LONG_GONE and node is not None and node.until > 0 and any(node.parts):
        raise PropertyBroken("cluster: in time", f"node {dead} is buried")
    holders = tuple(NOBODY if h == dead else h for h in state.holders)
    return state._replace(leases=replaced_at(state.leases, dead, LONG_GONE), holders=holders)


def _released_first(state: ModelCluster, i: int, p: int, part: ModelPartition) -> ModelCluster:
    return state._replace(holders=replaced_at(state.holders, p, NOBODY))


def _killed_and_forgotten(state: ModelCluster, w: int, held: ModelRun) -> ModelCluster:
    worker = state.workers[w]
    assert worker is not None
    rest = tuple(h for h in worker.held if h != held)
    return state._replace(workers=replaced_at(state.workers, w, ModelWorker(worker.asked, rest)))


def _any_permission(worker: ModelWorker, message: ModelMessage) -> bool:
    fresh = run_lease.is_permission_valid(NOW - message.sent, NOW)
    return fresh and all(h.token != message.tokens[0] for h in worker.held)


def _share_cut(*given: int, others_need: bool, running: int = 0) -> int:
    return _share(*given, others_need=others_need)


def _share_beyond(*given: int, others_need: bool, running: int = 0) -> int:
    limit, others, need, fair = given
    return _share(limit + 1, others, need, fair, others_need=others_need, running=running)


def _request_for_more(demand: LimitDemand, *given: Any, **named: Any) -> ShareRequest:
    more = demand._replace(limit=demand.limit + 1)
    return ShareRequest(more, more.limit, more.limit, others_need=False)


def _within_share(member: LimitNode) -> bool:
    return member.asked == cluster_limits.NOTHING and member.running + member.given < member.share


def _while_it_asks(member: LimitNode) -> bool:
    return member.running + member.given < member.room


def _without_what_it_gave(member: LimitNode) -> bool:
    return member.asked == cluster_limits.NOTHING and member.running < member.room


def _not_adopted(book: StoredTask, fence: int, silent: int) -> ModelPartition:
    return ModelPartition("serving", fence)


def _silent_for_longer(hand: RunLease, now: int) -> int:
    return 2 * _silent_for(hand, now) + 1


_share: Final = limit_shares.limit_share
_silent_for: Final = run_lease.unanswered_for

PLANTED_BUGS: Final = (
    PlantedBug("a run is granted to two workers", run_lease, "granted_lease", _granted_twice, TWO_WORKERS),
    PlantedBug("an adopted run is granted", run_lease, "granted_lease", _adopted_is_granted, TWO_NODES),
    PlantedBug("the question that came last counts", run_lease, "granted_lease", _last_question_counts, ONE_WORKER),
    PlantedBug("an adopted run is forgotten to be so", run_lease, "renewed_lease", _no_longer_adopted, TWO_NODES),
    PlantedBug("no margin", run_lease, "run_fate", _lost_after(lambda: run_lease.RUN_LEASE_DURATION), ONE_WORKER),
    PlantedBug("lost too early", run_lease, "run_fate", _lost_after(lambda: run_lease.PERMISSION_DURATION), ONE_WORKER),
    PlantedBug("never lost", run_lease, "run_fate", lambda hand, now: RunFate.STAY, A_DEATH),
    PlantedBug("an adopted run is lost at once", run_lease, "run_fate", _adopted_is_lost_at_once, TWO_NODES),
    PlantedBug("untaken too eagerly", run_lease, "was_never_started", _untaken_at_once, ONE_WORKER),
    PlantedBug("an adopted run is untaken", run_lease, "was_never_started", _adopted_is_untaken, TWO_NODES),
    PlantedBug("a permission is good for ever", run_lease, "is_permission_valid", lambda asked, now: True, STEADY),
    PlantedBug("a run is never ended", run_lease, "has_lease_expired", lambda renewed_at, now: False, STEADY),
    PlantedBug(
        "a run is ended late",
        run_lease,
        "has_lease_expired",
        lambda at, now: now - at >= run_lease.RUN_LEASE_DURATION + 1,
        ONE_WORKER,
    ),
    PlantedBug(
        "a node acts after its lease", partition_ownership, "acts_until", lambda asked, lease: asked + lease + 2, LEASES
    ),
    PlantedBug("no margin of the lease", partition_ownership, "acts_until", lambda asked, lease: asked + lease, SKEW),
    PlantedBug(
        "a lease counts from its answer", partition_ownership, "acts_until", lambda asked, lease: lease - 1, LEASES
    ),
    PlantedBug("a lease ends early", partition_ownership, "is_over", lambda expires, now: now >= expires - 2, LEASES),
    PlantedBug("a lease is taken without looking again", cluster_node, "buried", _buried_unseen, LEASES),
    PlantedBug("a record does not check the lease", cluster_node, "has_lease", lambda state, i: True, LEASES),
    PlantedBug("tokens are used again", cluster_node, "next_token", lambda part, p: 2 | p, LEASES),
    PlantedBug(
        "open claims are not adopted",
        cluster_node,
        "loaded",
        lambda book, fence, _: ModelPartition("serving", fence),
        LEASES,
    ),
    PlantedBug(
        "silence is counted twice",
        run_lease,
        "unanswered_for",
        lambda hand, now: 2 * _silent_for(hand, now) + 1,
        TWO_NODES,
    ),
    PlantedBug("released before it is dropped", cluster_node, "dropped", _released_first, LEASES),
    PlantedBug("a worker counts from the answer", cluster_worker, "counts_from", lambda message: 0, TWO_WORKERS),
    PlantedBug("a worker forgets what it ended", cluster_worker, "killed", _killed_and_forgotten, TWO_WORKERS),
    PlantedBug("a worker takes any permission", cluster_worker, "accepts", _any_permission, ONE_WORKER),
    PlantedBug("questions are settled at once", cluster_worker, "settled", lambda worker: 0, ONE_WORKER),
    PlantedBug("a worker asks for what it has", cluster_worker, "may_ask", lambda *_: True, ONE_WORKER),
    PlantedBug("what runs is cut", limit_shares, "limit_share", _share_cut, SMALL_LIMIT),
    PlantedBug("a share beyond what is free", limit_shares, "limit_share", _share_beyond, SMALL_LIMIT),
    PlantedBug(
        "a decision forgets what runs", ShareRequest, "decide", lambda self, others: self.room(others), SMALL_LIMIT
    ),
    PlantedBug(
        "a limit that is divided is exceeded", limit_shares, "request_for_large_limit", _request_for_more, LIMIT
    ),
    PlantedBug("a small limit is exceeded", limit_shares, "request_for_small_limit", _request_for_more, SMALL_LIMIT),
    PlantedBug(
        "what came with a partition is not counted",
        cluster_limits,
        "with_running_counted",
        lambda member: member,
        LIMIT,
    ),
    PlantedBug("what is kept for runs is used for others", cluster_limits, "may_begin", _within_share, MOVES),
    PlantedBug("runs begin while the share is decided", cluster_limits, "may_begin", _while_it_asks, MOVES),
    PlantedBug("what was given is not counted", cluster_limits, "may_begin", _without_what_it_gave, MOVES),
)


@contextmanager
def with_bug(bug: PlantedBug) -> Iterator[None]:
    """Run with the bug planted."""
    honest = getattr(bug.module, bug.attribute)
    setattr(bug.module, bug.attribute, bug.instead)
    try:
        yield
    finally:
        setattr(bug.module, bug.attribute, honest)


def find_bug(bug: PlantedBug, most: int = MOST_STATES) -> Counterexample | None:
    """The shortest counterexample that a bug leads to; None if it is not found."""
    with with_bug(bug):
        if isinstance(bug.shape, LimitShape):
            return explore_limit(bug.shape, most).counterexample
        return explore_cluster(bug.shape, most).counterexample


def try_all_bugs(say: Callable[[str], object]) -> int:
    """Try all bugs and report each; returns how many are not found."""
    survivors = 0
    for bug in PLANTED_BUGS:
        found = find_bug(bug)
        survivors += found is None
        fate = "SURVIVES" if found is None else f"{found.property}, {len(found.events)} events"
        say(f"{bug.name}: {fate} ({bug.shape.name})\n")
    say(f"{len(PLANTED_BUGS) - survivors} found, {survivors} survive\n")
    return survivors


if __name__ == "__main__":
    sys.exit(try_all_bugs(sys.stdout.write) != 0)
