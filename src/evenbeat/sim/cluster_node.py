"""The nodes of a small cluster, and their store: leases, partitions, claims, and what workers ask them.

A transaction of the store is one step. What a node decides and what it does in the store are two, and between them
anything can happen; so it is with what it answers and when that arrives.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from evenbeat.core import partition_ownership, run_lease
from evenbeat.core.run_lease import RunFate, RunLease
from evenbeat.sim.cluster_model import (
    LONG_GONE,
    NOBODY,
    NOW,
    ClusterShape,
    ModelCluster,
    ModelNode,
    ModelPartition,
    PartitionPlan,
    PendingWrite,
    PropertyBroken,
    StoredTask,
    replaced_at,
)

NAMES: Final = ("node 4", "node 1", "node 0", "node 2")
"""Names of the nodes, in the order in which they come up."""

NextState = tuple[str, ModelCluster]


def lease_events(shape: ClusterShape, state: ModelCluster) -> Iterator[NextState]:
    """Nodes join, renew, learn that they did, bury, take, load, drop and release. A node alone needs no lease."""
    born = state.born
    if shape.nodes == 1:
        return
    if born < shape.nodes:
        newcomer = ModelNode(0, 0, None, (None,) * shape.tasks)
        newcomer = newcomer if shape.late_answers else renewed(shape, newcomer)
        joined = replaced_at(state.leases, born, shape.lease)
        yield (
            f"node {born} joins",
            state._replace(born=born + 1, leases=joined, nodes=replaced_at(state.nodes, born, newcomer)),
        )
    for i, node in enumerate(state.nodes):
        if node is None:
            continue
        if state.leases[i] == LONG_GONE:
            yield f"node {i} learns that it is fenced", state._replace(nodes=replaced_at(state.nodes, i, None))
        elif node.answer == LONG_GONE:
            asked = node._replace(answer=0, plan=_planned(i, state.leases, state.holders))
            after = state._replace(leases=replaced_at(state.leases, i, shape.lease))
            event = f"node {i} renews its lease"
            if shape.late_answers:
                yield event, after._replace(nodes=replaced_at(state.nodes, i, asked))
            else:
                yield event, after._replace(nodes=replaced_at(state.nodes, i, renewed(shape, asked)))
        if node.answer != LONG_GONE:
            known = replaced_at(state.nodes, i, renewed(shape, node))
            yield f"node {i} learns that its lease was renewed", state._replace(nodes=known)
        if node.plan is not None and state.leases[i] != LONG_GONE:
            yield from _partition_events(shape, state, i, node, node.plan)
        yield from _stages(state, i, node)


def _stages(state: ModelCluster, i: int, node: ModelNode) -> Iterator[NextState]:
    for p, part in enumerate(node.parts):
        if part is None:
            continue
        if part.stage == "taken":
            yield f"node {i} loads task {p}", with_part(state, i, p, loaded(state.books[p], part.fence, part.silent))
        elif part.stage == "dropped" and state.leases[i] != LONG_GONE:
            book = state.books[p]._replace(silent=part.silent)
            free = state._replace(
                holders=replaced_at(state.holders, p, NOBODY), books=replaced_at(state.books, p, book)
            )
            yield f"node {i} releases task {p}", with_part(free, i, p, None)


def renewed(shape: ClusterShape, node: ModelNode) -> ModelNode:
    """A node has learned of its lease, which counts from when it asked."""
    until = max(partition_ownership.acts_until(-node.answer, shape.lease), 0)
    return node._replace(until=until, answer=LONG_GONE)


def _partition_events(
    shape: ClusterShape, state: ModelCluster, i: int, node: ModelNode, plan: PartitionPlan
) -> Iterator[NextState]:
    for dead in plan.bury:
        after = _with_plan(state, i, plan._replace(bury=tuple(n for n in plan.bury if n != dead)))
        yield f"node {i} buries node {dead}", buried(after, dead)
    for p in plan.take:
        if state.holders[p] == NOBODY and node.parts[p] is None and state.fence < shape.fences:
            after = _with_plan(state, i, plan._replace(take=tuple(q for q in plan.take if q != p)))
            silent, book = without_reported_silence(state.books[p])
            held = after._replace(
                holders=replaced_at(state.holders, p, i), fence=state.fence + 1, books=replaced_at(state.books, p, book)
            )
            yield (
                f"node {i} takes task {p}",
                with_part(held, i, p, ModelPartition("taken", state.fence + 1, silent=silent)),
            )
    for p in plan.release:
        part = node.parts[p]
        if part is not None and part.stage == "serving" and may_drop(part):
            after = _with_plan(state, i, plan._replace(release=tuple(q for q in plan.release if q != p)))
            yield f"node {i} drops task {p}", dropped(after, i, p, part)


def dropped(state: ModelCluster, i: int, p: int, part: ModelPartition) -> ModelCluster:
    """A node stops serving a partition; only then may the store know it."""
    return with_part(
        state, i, p, ModelPartition("dropped", part.fence, silent=run_lease.unanswered_for(part.hand, NOW))
    )


def without_reported_silence(book: StoredTask) -> tuple[int, StoredTask]:
    """What the last owner recorded of the open run is for the next owner only: after that it may be outdated."""
    return book.silent, book._replace(silent=0)


def _with_plan(state: ModelCluster, i: int, plan: PartitionPlan) -> ModelCluster:
    node = state.nodes[i]
    assert node is not None
    return state._replace(nodes=replaced_at(state.nodes, i, node._replace(plan=plan if any(plan) else None)))


def may_drop(part: ModelPartition) -> bool:
    """May a node drop a partition? Not with a write on its way to the store."""
    return part.phase is None


def buried(state: ModelCluster, dead: int) -> ModelCluster:
    """The transaction that takes a lease away. It checks the lease again."""
    expires = state.leases[dead]
    if expires == LONG_GONE or not partition_ownership.is_over(expires, 0):
        return state
    node = state.nodes[dead]
    if node is not None and node.until > 0 and any(part is not None for part in node.parts):
        raise PropertyBroken("cluster: in time", f"node {dead} is buried")
    holders = tuple(NOBODY if h == dead else h for h in state.holders)
    return state._replace(leases=replaced_at(state.leases, dead, LONG_GONE), holders=holders)


def loaded(book: StoredTask, fence: int, silent: int) -> ModelPartition:
    """A new owner reads what the store knows, which is not the worker of an open claim."""
    hand = run_lease.adopted_lease(silent, NOW) if book.token else RunLease()
    return ModelPartition("serving", fence, 0, book.claims, book.makes_up, book.token, hand)


def _planned(i: int, leases: tuple[int, ...], holders: tuple[int, ...]) -> PartitionPlan | None:
    return _asked_steps(partition_ownership.partition_steps, i, leases, holders, len(holders))


@lru_cache(50_000)
def _asked_steps(
    steps: Callable[..., partition_ownership.PartitionSteps],
    i: int,
    leases: tuple[int, ...],
    holders: tuple[int, ...],
    _: int,
) -> PartitionPlan | None:
    known = {NAMES[n]: 1 if n == i else expires for n, expires in enumerate(leases) if expires != LONG_GONE}
    found = steps(NAMES[i], known, [None if h == NOBODY else NAMES[h] for h in holders], 0)
    return (
        PartitionPlan(tuple(map(NAMES.index, found.bury)), tuple(found.take), tuple(found.release))
        if any(found)
        else None
    )


def with_part(state: ModelCluster, i: int, p: int, part: ModelPartition | None) -> ModelCluster:
    """The cluster with another state of one partition of a node."""
    node = state.nodes[i]
    assert node is not None
    return state._replace(nodes=replaced_at(state.nodes, i, node._replace(parts=replaced_at(node.parts, p, part))))


# Claims


def claim_events(shape: ClusterShape, state: ModelCluster) -> Iterator[NextState]:
    """A node decides to claim, or that a run is lost; then that comes into the store."""
    for i, node in enumerate(state.nodes):
        if node is None:
            continue
        for p, part in enumerate(node.parts):
            if part is None or part.stage != "serving":
                continue
            if part.phase is not None:
                yield f"node {i}: {part.phase.what} {part.phase.token} is committed", committed(state, i, p, part)
            elif node.until <= 0:
                continue
            elif part.token == 0:
                if (part.makes_up or part.claims < shape.claims) and state.books[p].tries < shape.tries:
                    token = next_token(part, p)
                    yield f"node {i} claims {token}", with_part(state, i, p, claiming(part, token))
            elif run_lease.run_fate(part.hand, NOW) is RunFate.LOST:
                lost = part._replace(phase=PendingWrite("lose", part.token))
                yield f"node {i} takes {part.token} for lost", with_part(state, i, p, lost)


def next_token(part: ModelPartition, p: int) -> int:
    """A token that is higher than all of this fence and of earlier ones."""
    return part.fence << 5 | part.tokens << 1 | p


def claiming(part: ModelPartition, token: int) -> ModelPartition:
    """A node claims: no worker can ask for the run before the claim is committed."""
    return part._replace(phase=PendingWrite("claim", token), tokens=part.tokens + 1)


def committed(state: ModelCluster, i: int, p: int, part: ModelPartition) -> ModelCluster:
    """A write is committed in a transaction that checks the lease. Without it, the node has lost its partitions."""
    if not has_lease(state, i):
        return state._replace(nodes=replaced_at(state.nodes, i, None))
    book, phase = state.books[p], part.phase
    assert phase is not None
    done = f"node {i}: {phase.what} {phase.token} is committed"
    if state.leases[i] == LONG_GONE or state.holders[p] != i:
        raise PropertyBroken("cluster: fenced", done)
    if phase.what == "claim":
        if book.token or (book.claims, book.makes_up) != (part.claims, part.makes_up):
            raise PropertyBroken("cluster: once", done)
        if phase.token <= book.last:
            raise PropertyBroken("cluster: permitted", done)
        claims = book.claims + (not book.makes_up)
        new = StoredTask(claims, token=phase.token, last=phase.token, tries=book.tries + 1)
        known = ModelPartition("serving", part.fence, part.tokens, claims, token=phase.token)
    else:
        if book.token != phase.token:
            raise PropertyBroken("cluster: one result", done)
        if phase.what == "lose" and is_alive(state, phase.token):
            raise PropertyBroken("cluster: really lost", done)
        new = StoredTask(book.claims, phase.what != "finish", last=book.last, tries=book.tries)
        known = ModelPartition("serving", part.fence, part.tokens, book.claims, new.makes_up)
    return with_part(state._replace(books=replaced_at(state.books, p, new)), i, p, known)


def has_lease(state: ModelCluster, i: int) -> bool:
    """Does the store find the lease of a node when it has locked its row?"""
    return state.leases[i] != LONG_GONE


def is_alive(state: ModelCluster, token: int) -> bool:
    """Does a worker have this run?"""
    return any(h.token == token and h.stage == "running" for w in state.workers if w is not None for h in w.held)
