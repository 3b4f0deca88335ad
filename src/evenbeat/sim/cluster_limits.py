"""A limit that holds for all nodes together, explored: nodes with shares of it, runs, deaths, runs that move.

Only the store decides, one node at a time; the nodes go on meanwhile with the shares they know.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

from evenbeat.core import limit_shares
from evenbeat.core.limit_shares import LimitDemand, ShareRequest
from evenbeat.model import SECOND
from evenbeat.sim.cluster_model import replaced_at

NOTHING: Final = -1
LONG_AGO: Final = 60 * SECOND


class LimitShape(NamedTuple):
    """The size of a model."""

    name: str
    nodes: int
    limit: int
    most: int
    """Runs that a node may want to have at once."""
    deaths: int = 1
    moves: int = 1
    """How often a run goes over to another node with its partition, while both live."""


class LimitNode(NamedTuple):
    """A node with its share of the limit."""

    share: int = 0
    """Its share as the store has it."""
    room: int = 0
    """Up to how many runs it may have when it begins another: less than the share if too many came with partitions."""
    running: int = 0
    given: int = 0
    """Runs that it handed over with their partition, and that the new owner may not have counted yet."""
    waiting: int = 0
    asked: int = NOTHING
    """How many ran when it asked for another share, if it waits for the answer."""
    is_dead: bool = False


LimitNodes = tuple[LimitNode, ...]
LimitState = tuple[int, int, LimitNodes]
"""Deaths and moves that are left, and the nodes."""


def initial_limit_state(shape: LimitShape) -> LimitState:
    """No node has a share or a run."""
    return shape.deaths, shape.moves, (LimitNode(),) * shape.nodes


def limit_is_broken(shape: LimitShape, state: LimitState) -> bool:
    """Are there more runs than the limit?"""
    return sum(m.running for m in state[2]) > shape.limit


def limit_events(shape: LimitShape, state: LimitState) -> Iterator[tuple[str, LimitState]]:
    """Runs come up, begin and end; nodes decide about their shares, die, and take over what others ran."""
    deaths, moves, members = state
    living = [i for i, m in enumerate(members) if not m.is_dead]
    for i in living:
        m = members[i]
        if m.running + m.waiting < shape.most:
            yield (
                f"a run comes up on node {i}",
                (deaths, moves, replaced_at(members, i, m._replace(waiting=m.waiting + 1))),
            )
        if m.waiting and may_begin(m):
            begun = m._replace(waiting=m.waiting - 1, running=m.running + 1)
            yield f"node {i} begins a run", (deaths, moves, replaced_at(members, i, begun))
        if m.running:
            yield f"a run of node {i} ends", (deaths, moves, replaced_at(members, i, m._replace(running=m.running - 1)))
        if m.asked == NOTHING:
            yield f"node {i} asks", (deaths, moves, replaced_at(members, i, m._replace(asked=m.running + m.given)))
        for turn in range(shape.nodes) if m.asked != NOTHING else ():
            decided = _decided(shape, members, i, turn)
            yield f"node {i} has a new share, turn {turn}", (deaths, moves, replaced_at(members, i, decided))
        for got, is_first in product((0, LONG_AGO), (False, True)) if m.asked != NOTHING else ():
            decided = _decided_by_need(shape, members, i, got, is_first=is_first)
            event = f"node {i} has what it needs, {'is first, ' if is_first else ''}and got some {got} ago"
            yield event, (deaths, moves, replaced_at(members, i, decided))
        if deaths and len(living) > 1:
            dead = m._replace(waiting=0, asked=NOTHING, is_dead=True)
            yield f"node {i} dies", (deaths - 1, moves, replaced_at(members, i, dead))
        if m.given and m.asked == NOTHING:
            # Time enough has passed for the new owner to have counted it, and only a new decision uses that.
            anew = m._replace(given=0, asked=m.running)
            anew = _decided(shape, replaced_at(members, i, anew), i, 0)
            yield f"node {i} decides without what it gave", (deaths, moves, replaced_at(members, i, anew))
    yield from _moves(shape, state, living)
    for i, m in enumerate(members):
        if m.is_dead and m.share and not m.running:
            # Time enough has passed for the new owner to have counted what it adopted.
            yield f"the share of node {i} is free", (deaths, moves, replaced_at(members, i, m._replace(share=0)))


def _moves(shape: LimitShape, state: LimitState, living: list[int]) -> Iterator[tuple[str, LimitState]]:
    deaths, moves, members = state
    for i, j in product(range(shape.nodes), living):
        m, n = members[i], members[j]
        if i == j or not m.running:
            continue
        adopting = n._replace(running=n.running + 1, asked=n.asked if n.asked == NOTHING else n.asked + 1)
        if m.is_dead:
            without_run = replaced_at(members, i, m._replace(running=m.running - 1))
            adopted = replaced_at(without_run, j, with_running_counted(adopting))
            yield f"node {j} adopts a run of node {i}", (deaths, moves, adopted)
        elif moves:
            less = m._replace(running=m.running - 1, given=m.given + 1)
            yield f"a run goes from node {i} to node {j}", (
                deaths, moves - 1, replaced_at(replaced_at(members, i, less), j, with_running_counted(adopting)),
            )  # fmt: skip


def may_begin(member: LimitNode) -> bool:
    """May a node begin a run? Not while its share may shrink. Runs that it handed over count until it decides anew."""
    return member.asked == NOTHING and member.running + member.given < member.room


def with_running_counted(member: LimitNode) -> LimitNode:
    """A node that gets runs with a partition has them in its share before it serves it, even if that is too much."""
    return member._replace(share=max(member.share, member.running + member.given))


def _decided(shape: LimitShape, members: LimitNodes, i: int, turn: int) -> LimitNode:
    """As nodes decide about a limit that is divided."""
    living = [str(j) for j, n in enumerate(members) if not n.is_dead]
    demand = LimitDemand(shape.limit, members[i].asked, members[i].waiting)
    need = _others_need(members, i)
    return _with_share(members, i, limit_shares.request_for_large_limit(demand, living, str(i), turn, others_need=need))


def _decided_by_need(shape: LimitShape, members: LimitNodes, i: int, since_got: int, *, is_first: bool) -> LimitNode:
    """As nodes decide about a small limit."""
    m = members[i]
    demand = LimitDemand(shape.limit, m.asked, m.waiting)
    need = limit_shares.small_limit_need(
        demand.running,
        demand.waiting,
        m.share,
        others_need=_others_need(members, i),
        is_first=is_first,
        since_got=since_got,
        since_free=0,
    )
    return _with_share(members, i, limit_shares.request_for_small_limit(demand, need))


def _others_need(members: LimitNodes, i: int) -> bool:
    return any(n.running + n.waiting > n.room for j, n in enumerate(members) if j != i and not n.is_dead)


def _with_share(members: LimitNodes, i: int, request: ShareRequest) -> LimitNode:
    others = sum(n.share for j, n in enumerate(members) if j != i)
    return members[i]._replace(share=request.decide(others), room=request.room(others), asked=NOTHING)
