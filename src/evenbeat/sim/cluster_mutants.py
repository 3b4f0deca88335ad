"""Can the verifier of the cluster fail? Bugs planted in the decisions, and in how they are used; each must be found.

`python -m evenbeat.sim.cluster_mutants` tries them all; it exits with 1 if one survives.
"""
# ruff: noqa: ARG001, ARG005 - a bug is often something that is not looked at

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final, NamedTuple

from evenbeat.core import authority, run_lease
from evenbeat.core.run_lease import Fate, Hand
from evenbeat.sim import cluster_limits, cluster_node, cluster_worker
from evenbeat.sim.cluster_explore import explore_cluster, explore_limit
from evenbeat.sim.cluster_limits import Limit, Member
from evenbeat.sim.cluster_model import GONE, NOBODY, NOW, Book, Broken, Held, Message, Part, Shape, State, Worker, put
from evenbeat.sim.explore import Counterexample

ONE_WORKER: Final = Shape("one node, one worker", workers=1, claims=1, tries=2, deaths=0, asks=2)
STEADY: Final = Shape("one node, one steady worker", workers=1, claims=1, tries=1, deaths=0, steady=True)
A_DEATH: Final = Shape("a worker dies", workers=1, claims=1, tries=1, delay=2, steady=True)
TWO_WORKERS: Final = Shape("one node, two workers", claims=1, tries=2, deaths=1, delay=2, tidings=2, steady=True)
TWO_NODES: Final = Shape(
    "two nodes, one worker", 2, 1, claims=1, tries=2, fences=2, delay=2, lease=2, tidings=2, steady=True
)
LEASES: Final = Shape("leases", 2, 0, claims=1, tries=2, fences=2, lease=2, late_answers=True)
SKEW: Final = Shape("leases, clocks that differ", 2, 0, claims=1, tries=1, fences=2, deaths=0, skips=2, lease=2)
LIMIT: Final = Limit("a limit", 3, 2, 2)
MOVES: Final = Limit("a limit, runs that move", 2, 2, 2, deaths=0, moves=2)
SMALL_LIMIT: Final = Limit("a limit of one", 2, 1, 2)

MOST_STATES: Final = 200_000
"""Of one shape, for one mutant."""


class Planted(NamedTuple):
    """One bug: what is in the place of what."""

    name: str
    module: ModuleType
    attribute: str
    instead: Callable[..., Any]
    shape: Shape | Limit


def _granted_twice(hand: Hand, worker: str, asked: int, now: int) -> Hand | None:
    return None if hand.adopted else Hand(worker, asked, now)


def _adopted_is_granted(hand: Hand, worker: str, asked: int, now: int) -> Hand | None:
    return Hand(worker, asked, now) if hand.worker in ("", worker) else None


def _last_question_counts(hand: Hand, worker: str, asked: int, now: int) -> Hand | None:
    return None if hand.adopted or hand.worker not in ("", worker) else Hand(worker, asked, now)


def _no_longer_adopted(hand: Hand, worker: str, now: int) -> Hand | None:
    if hand.worker == worker or hand.adopted:
        return Hand(worker, hand.asked if hand.worker == worker else 0, now)
    return None


def _lost_after(duration: Callable[[], int]) -> Callable[[Hand, int], Fate]:
    def fate(hand: Hand, now: int) -> Fate:
        somebody = bool(hand.worker) or hand.adopted
        return Fate.LOST if somebody and now - hand.renewed >= duration() else Fate.STAY

    return fate


def _adopted_is_lost_at_once(hand: Hand, now: int) -> Fate:
    held = bool(hand.worker) and now - hand.renewed >= run_lease.HOLD + run_lease.MARGIN
    return Fate.LOST if held or (hand.adopted and not hand.worker) else Fate.STAY


def _untaken_at_once(hand: Hand, worker: str, settled: int) -> bool:
    return not hand.adopted and hand.worker == worker


def _adopted_is_untaken(hand: Hand, worker: str, settled: int) -> bool:
    return hand.adopted or (hand.worker == worker and hand.asked <= settled)


def _buried_unseen(state: State, dead: int) -> State:
    node = state.nodes[dead]
    if state.leases[dead] != GONE and node is not None and node.until > 0 and any(node.parts):
        raise Broken("cluster: in time", f"node {dead} is buried")
    holders = tuple(NOBODY if h == dead else h for h in state.holders)
    return state._replace(leases=put(state.leases, dead, GONE), holders=holders)


def _released_first(state: State, i: int, p: int, part: Part) -> State:
    return state._replace(holders=put(state.holders, p, NOBODY))


def _killed_and_forgotten(state: State, w: int, held: Held) -> State:
    worker = state.workers[w]
    assert worker is not None
    rest = tuple(h for h in worker.held if h != held)
    return state._replace(workers=put(state.workers, w, Worker(worker.asked, rest)))


def _any_permission(worker: Worker, message: Message) -> bool:
    fresh = run_lease.may_start(NOW - message.sent, NOW)
    return fresh and all(h.token != message.tokens[0] for h in worker.held)


def _share_cut(*given: int, others_need: bool, running: int = 0) -> int:
    return _share(*given, others_need=others_need)


def _share_beyond(*given: int, others_need: bool, running: int = 0) -> int:
    limit, others, need, fair = given
    return _share(limit + 1, others, need, fair, others_need=others_need, running=running)


def _within_share(member: Member) -> bool:
    return member.asked == cluster_limits.NOTHING and member.running + member.given < member.share


def _while_it_asks(member: Member) -> bool:
    return member.running + member.given < member.room


def _without_what_it_gave(member: Member) -> bool:
    return member.asked == cluster_limits.NOTHING and member.running < member.room


def _not_adopted(book: Book, fence: int, silent: int) -> Part:
    return Part("serving", fence)


def _silent_for_longer(hand: Hand, now: int) -> int:
    return 2 * _silent_for(hand, now) + 1


_share: Final = authority.share
_silent_for: Final = run_lease.silent_for

PLANTED: Final = (
    Planted("a run is granted to two workers", run_lease, "granted", _granted_twice, TWO_WORKERS),
    Planted("an adopted run is granted", run_lease, "granted", _adopted_is_granted, TWO_NODES),
    Planted("the question that came last counts", run_lease, "granted", _last_question_counts, ONE_WORKER),
    Planted("an adopted run is forgotten to be so", run_lease, "renewed", _no_longer_adopted, TWO_NODES),
    Planted("no margin", run_lease, "fate", _lost_after(lambda: run_lease.HOLD), ONE_WORKER),
    Planted("lost too early", run_lease, "fate", _lost_after(lambda: run_lease.PERMIT), ONE_WORKER),
    Planted("never lost", run_lease, "fate", lambda hand, now: Fate.STAY, A_DEATH),
    Planted("an adopted run is lost at once", run_lease, "fate", _adopted_is_lost_at_once, TWO_NODES),
    Planted("untaken too eagerly", run_lease, "is_untaken", _untaken_at_once, ONE_WORKER),
    Planted("an adopted run is untaken", run_lease, "is_untaken", _adopted_is_untaken, TWO_NODES),
    Planted("a permission is good for ever", run_lease, "may_start", lambda asked, now: True, STEADY),
    Planted("a run is never ended", run_lease, "must_end", lambda renewed_at, now: False, STEADY),
    Planted("a run is ended late", run_lease, "must_end", lambda at, now: now - at >= run_lease.HOLD + 1, ONE_WORKER),
    Planted("a node acts after its lease", authority, "acts_until", lambda asked, lease: asked + lease + 2, LEASES),
    Planted("no margin of the lease", authority, "acts_until", lambda asked, lease: asked + lease, SKEW),
    Planted("a lease counts from its answer", authority, "acts_until", lambda asked, lease: lease - 1, LEASES),
    Planted("a lease ends early", authority, "is_over", lambda expires, now: now >= expires - 2, LEASES),
    Planted("a lease is taken without looking again", cluster_node, "buried", _buried_unseen, LEASES),
    Planted("a record does not check the lease", cluster_node, "has_lease", lambda state, i: True, LEASES),
    Planted("tokens are used again", cluster_node, "next_token", lambda part, p: 2 | p, LEASES),
    Planted(
        "open claims are not adopted", cluster_node, "loaded", lambda book, fence, _: Part("serving", fence), LEASES
    ),
    Planted(
        "silence is counted twice", run_lease, "silent_for", lambda hand, now: 2 * _silent_for(hand, now) + 1, TWO_NODES
    ),
    Planted("released before it is dropped", cluster_node, "dropped", _released_first, LEASES),
    Planted("a worker counts from the answer", cluster_worker, "counts_from", lambda message: 0, TWO_WORKERS),
    Planted("a worker forgets what it ended", cluster_worker, "killed", _killed_and_forgotten, TWO_WORKERS),
    Planted("a worker takes any permission", cluster_worker, "accepts", _any_permission, ONE_WORKER),
    Planted("questions are settled at once", cluster_worker, "settled", lambda worker: 0, ONE_WORKER),
    Planted("a worker asks for what it has", cluster_worker, "may_ask", lambda *_: True, ONE_WORKER),
    Planted("what runs is cut", authority, "share", _share_cut, SMALL_LIMIT),
    Planted("a share beyond what is free", authority, "share", _share_beyond, SMALL_LIMIT),
    Planted("what came with a partition is not counted", cluster_limits, "counted", lambda member: member, LIMIT),
    Planted("what is kept for runs is used for others", cluster_limits, "may_begin", _within_share, MOVES),
    Planted("runs begin while the share is decided", cluster_limits, "may_begin", _while_it_asks, MOVES),
    Planted("what was given is not counted", cluster_limits, "may_begin", _without_what_it_gave, MOVES),
)


@contextmanager
def planted(bug: Planted) -> Iterator[None]:
    """The code as it is with the bug."""
    honest = getattr(bug.module, bug.attribute)
    setattr(bug.module, bug.attribute, bug.instead)
    try:
        yield
    finally:
        setattr(bug.module, bug.attribute, honest)


def find(bug: Planted, most: int = MOST_STATES) -> Counterexample | None:
    """The shortest way to notice it; None if it goes unnoticed."""
    with planted(bug):
        if isinstance(bug.shape, Limit):
            return explore_limit(bug.shape, most).counterexample
        return explore_cluster(bug.shape, most).counterexample


def run(say: Callable[[str], object]) -> int:
    """Try all, tell of each; the number of survivors."""
    survivors = 0
    for bug in PLANTED:
        found = find(bug)
        survivors += found is None
        fate = "SURVIVES" if found is None else f"{found.property}, {len(found.events)} events"
        say(f"{bug.name}: {fate} ({bug.shape.name})\n")
    say(f"{len(PLANTED) - survivors} found, {survivors} survive\n")
    return survivors


if __name__ == "__main__":
    sys.exit(run(sys.stdout.write) != 0)
