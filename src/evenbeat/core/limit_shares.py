"""Shares of limits that hold for all nodes together: each node has a share, and starts no more runs than that.

All slots are one such limit, with the key "". The store decides about one node at a time; between two decisions the
nodes go on with the shares they have. Times are microseconds.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from evenbeat.model import SECOND

ALL_SLOTS_KEY: Final = ""
_ROTATION: Final = 10_000_000
"""Microseconds after which what cannot be divided goes to the next node."""


def limit_share(
    limit: int,
    others: int,
    need: int,
    fair: int,
    *,
    others_need: bool,
    running: int = 0,
) -> int:
    """The new share of a node that needs `need`, if all others together have `others`.

    It never grows beyond what is free, and shrinks to that if the limit was lowered. What it does not need goes back;
    while others need more, also what is more than fair. What is `running` is never cut, nor what came with a partition:
    another node would use the same slot at the same time.
    """
    wanted = min(need, fair) if others_need else need
    free = max(limit - others, 0)
    return max(min(wanted, free), running)


def fair_limit_share(limit: int, nodes: Sequence[str], me: str, turn: int) -> int:
    """What a node may keep while others need more. The remainder of the division goes round with `turn`."""
    if me not in nodes:
        return 0
    each, rest = divmod(limit, len(nodes))
    place = (sorted(nodes).index(me) + turn) % len(nodes)
    return each + (place < rest)


SMALL_LIMIT_PER_NODE: Final = 4
"""A limit of which each node would have fewer than this goes from node to node as it is needed."""
SMALL_LIMIT_MIN_USE: Final = SECOND // 10
"""A node that got some of a small limit begins runs with it for so long; then it goes to others that need it."""
SMALL_LIMIT_PAUSE: Final = SECOND // 10
"""For so long a node leaves what is free to another node that has waited longer."""


def is_small_limit(limit: int, nodes: int) -> bool:
    """Is there too little of a limit to divide it among the nodes?"""
    return limit < SMALL_LIMIT_PER_NODE * nodes


def small_limit_need(
    running: int, waiting: int, mine: int, *, others_need: bool, is_first: bool, since_got: int, since_free: int
) -> int:
    """How many runs a node may have when it begins another, of a small limit of which `mine` is its share.

    While no other node needs any, it keeps what it has. Otherwise it begins runs for a moment only; what runs then
    keeps its part until it ends, and goes back. What is free goes to the node that `is_first`, which has waited
    longest; to others if that does not take it. Times are microseconds.
    """
    if not others_need:
        return max(running + waiting, mine)
    if mine and (since_got >= SMALL_LIMIT_MIN_USE or not waiting):
        return 0
    return running + waiting if is_first or since_free >= SMALL_LIMIT_PAUSE else mine


class LimitDemand(NamedTuple):
    """Of one key: how many runs all nodes together may have, how many this node has, how many wait here."""

    limit: int
    running: int
    waiting: int


class ShareRequest(NamedTuple):
    """What this node wants of one key, and what the decision goes by."""

    demand: LimitDemand
    need: int
    fair: int
    others_need: bool

    def room(self, others: int) -> int:
        """Up to how many runs this node may begin more, given the shares of all others."""
        return limit_share(self.demand.limit, others, self.need, self.fair, others_need=self.others_need)

    def decide(self, others: int) -> int:
        """The new share of this node: what runs here keeps its part until it ends."""
        running = self.demand.running
        return limit_share(
            self.demand.limit, others, self.need, self.fair, others_need=self.others_need, running=running
        )


class SharesView(NamedTuple):
    """What the store says of all nodes."""

    now: int
    """On the clock of the store."""
    nodes: Sequence[str]
    """Those that have a lease."""
    shares: Mapping[str, Mapping[str, int]]
    """By key and node."""


class LimitShares:
    """The shares of one node, decided anew as often as its lease is renewed.

    The node stops using what it gives back before another node can have it, and uses what it gets once the store has
    decided.
    """

    def __init__(self) -> None:
        self.ours: dict[str, int] = {}
        """The shares as the store has them."""
        self._rooms: dict[str, int] = {}
        """How much of each share new runs may use: less than the share while more runs here than should."""
        self.needs: set[str] = set()
        """Keys of which this node wants more than it has. Other nodes see it and give back what they do not need."""
        self.waits_since: dict[str, int] = {}
        """Since when this node has waited for more of these keys, by the clock of the store."""
        self.wanted_by_others: set[str] = set()
        """Small limits of which this node has some and that other nodes wait for."""
        self._got: dict[str, int] = {}
        """When the share of a small limit last grew."""
        self._free_since: dict[str, int] = {}
        """Since when some of a small limit has been seen to be free."""
        self.is_soon_again = False
        """Runs wait here that may ask for more in a moment, or that begin with what this node got."""

    def forget(self) -> None:
        """This node has lost its lease: others have its shares."""
        self.ours, self._rooms, self.needs = {}, {}, set()
        self.waits_since, self.wanted_by_others, self._got, self._free_since = {}, set(), {}, {}

    def room(self, key: str) -> int:
        """Up to how many runs there may be here when one more begins."""
        ours = self.ours.get(key, 0)
        return min(ours, self._rooms.get(key, ours))

    def carry(self, shares: Mapping[str, int]) -> None:
        """This node has taken partitions, and with them the shares of what runs there."""
        self.ours |= shares

    def put_down(self, running: Mapping[str, int]) -> None:
        """Runs are handed over to another node, and their shares with them."""
        for key, count in running.items():
            self.ours[key] = max(self.ours.get(key, 0) - count, 0)

    def wish(
        self,
        me: str,
        view: SharesView,
        needed: Mapping[str, Mapping[str, int]],
        demands: Mapping[str, LimitDemand],
        now: int,
    ) -> dict[str, ShareRequest]:
        """The decisions to ask the store for. What is given back is no longer used when this returns.

        `needed` says which other nodes want more of each key, and since when; `now` is on a clock that cannot be set.
        """
        nodes = sorted({*view.nodes, me})
        wishes: dict[str, ShareRequest] = {}
        self.is_soon_again = False
        for key, demand in demands.items():
            waiting = {node: since for node, since in needed.get(key, {}).items() if node != me}
            mine = self.ours.get(key, 0)
            others = sum(amount for node, amount in view.shares.get(key, {}).items() if node != me)
            if is_small_limit(demand.limit, len(nodes)):
                place = self.waits_since.get(key, view.now), me
                is_first = all(place < (since, node) for node, since in waiting.items())
                is_free = others + mine < demand.limit
                _track_since(self._free_since, key, now, is_so=is_free)
                wish = self._wish_of_small(key, demand, others_need=bool(waiting), is_first=is_first, now=now)
            else:
                wish = request_for_large_limit(demand, nodes, me, view.now // _ROTATION, others_need=bool(waiting))
            wanted = wish.decide(others)
            self._rooms[key] = wish.room(others)
            if wanted != mine or key not in self.ours:
                wishes[key] = wish
                self.ours[key] = min(mine, wanted)
            is_needed = bool(demand.waiting) and self.room(key) <= demand.running
            (self.needs.add if is_needed else self.needs.discard)(key)
            _track_since(self.waits_since, key, view.now, is_so=is_needed)
        return wishes

    def _wish_of_small(
        self, key: str, demand: LimitDemand, *, others_need: bool, is_first: bool, now: int
    ) -> ShareRequest:
        mine = self.ours.get(key, 0)
        need = small_limit_need(
            demand.running,
            demand.waiting,
            mine,
            others_need=others_need,
            is_first=is_first,
            since_got=now - self._got.get(key, 0),
            since_free=now - self._free_since.get(key, now),
        )
        if others_need and demand.waiting and need < demand.running + demand.waiting:
            self.is_soon_again = True
        if others_need and mine:
            self.wanted_by_others.add(key)
        else:
            self.wanted_by_others.discard(key)
        return request_for_small_limit(demand, need)

    def is_to_be_settled(self, demands: Mapping[str, LimitDemand]) -> bool:
        """Has a run begun to wait that no other node knows of, or is something idle that others wait for?"""
        for key, demand in demands.items():
            if demand.waiting and key not in self.needs and self.room(key) <= demand.running < demand.limit:
                return True
            if key in self.wanted_by_others and demand.running < self.ours.get(key, 0):
                return True
        return False

    def learn(self, shares: Mapping[str, int], now: int) -> None:
        """Take over the shares that the store has decided."""
        for key, amount in shares.items():
            if amount > self.ours.get(key, 0):
                self._got[key] = now
                self.waits_since.pop(key, None)
            self.ours[key] = amount


def _track_since(times: dict[str, int], key: str, now: int, *, is_so: bool) -> None:
    """Remember since when a condition holds for a key."""
    if is_so:
        times.setdefault(key, now)
    else:
        times.pop(key, None)


def request_for_large_limit(
    demand: LimitDemand, nodes: Sequence[str], me: str, turn: int, *, others_need: bool
) -> ShareRequest:
    """What a node asks for of a limit that is divided: while others need more, at most its fair part."""
    fair = fair_limit_share(demand.limit, nodes, me, turn)
    busy = demand.running + demand.waiting
    need = busy + max(1, fair // 4) if others_need else max(fair, busy)
    return ShareRequest(demand, min(need, demand.limit), fair, others_need)


def request_for_small_limit(demand: LimitDemand, need: int) -> ShareRequest:
    """What a node asks for of a limit that goes from node to node: `need` is by `small_limit_need`."""
    return ShareRequest(demand, min(need, demand.limit), demand.limit, others_need=False)
