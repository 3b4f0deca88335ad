"""Authority: which node decides about which tasks, and how long it may go on doing so.

Tasks fall into partitions; a live node holds some of them. Its right to act is one lease, in the store, by the clock of
the store. A node stops before its lease can be taken from it: it counts from the moment at which it asked for it, on a
clock of its own that cannot be set, and keeps a margin. Another node takes a lease away in a transaction that no
claim of the old holder can pass: a lease has a number, and every claim checks it.

Everything here is a function of its arguments: the node and the explorer run the same code. Times are microseconds.
"""

from collections.abc import Collection, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from evenbeat.core.run_lease import RUN_LEASE_DURATION
from evenbeat.model import PARTITION_COUNT, SECOND

LEASE_DURATION: Final = 5 * SECOND
"""A node that has not renewed its lease for this long is taken for dead."""
LEASE_RENEWAL_INTERVAL: Final = SECOND
"""How often a lease is renewed."""
LEASE_MARGIN: Final = SECOND
"""A node stops this long before its lease ends: clocks run at different speeds, and a process may not be scheduled."""


CUT_OFF_AFTER: Final = 5 * SECOND
"""A node that can reach no server of the queue for this long hands its tasks to other nodes."""
ELECTION_TIMEOUT: Final = 15 * SECOND
"""The same for a node that reaches servers which do not answer: they may be electing a leader, for all nodes."""
QUIET_AFTER_FORGETTING: Final = LEASE_DURATION + RUN_LEASE_DURATION
"""After the store has lost its last commits, nothing begins for this long in partitions that change hands. A node that
has not noticed answers workers for less than LEASE_DURATION, and workers end a run that is not renewed for
RUN_LEASE_DURATION. Then no run is left that the store does not know of."""


def partition_of_contact(name: str) -> int:
    """The part that a contact falls into: the node that holds it sends all messages to the contact."""
    return int.from_bytes(blake2b(name.encode(), digest_size=4).digest()) % PARTITION_COUNT


class PartitionSteps(NamedTuple):
    """What a node has to do about partitions now."""

    bury: list[str]
    """Nodes whose leases have ended: their partitions become free first."""
    take: list[int]
    """Free partitions that belong to this node."""
    release: list[int]
    """Partitions that it holds and that belong to another live node: handed over when everything is committed."""


def acts_until(asked: int, lease: int) -> int:
    """Until when a node may act by a lease, on the clock on which it read `asked` as it asked for it."""
    return asked + lease - LEASE_MARGIN


def is_over(expires: int, now: int) -> bool:
    """May a lease be taken from its holder? Both by the clock of the store."""
    return now > expires


def is_unwell(length: int, *, is_cut_off: bool) -> bool:
    """Should others have the tasks of a node whose queue has failed for so long?"""
    return length > (CUT_OFF_AFTER if is_cut_off else ELECTION_TIMEOUT)


def partition_owners(nodes: Sequence[str]) -> list[str]:
    """Which of these nodes each partition belongs to; "" without any node.

    The highest of the hashes of node and partition wins: a node that joins or leaves moves only its own share.
    """
    return [
        max(nodes, key=lambda node: _node_rank(node, partition), default="") for partition in range(PARTITION_COUNT)
    ]


def _node_rank(node: str, partition: int) -> bytes:
    return blake2b(f"{node} {partition}".encode(), digest_size=8).digest()


def partition_steps(
    me: str, leases: Mapping[str, int], holders: Sequence[str | None], now: int, unwell: Collection[str] = ()
) -> PartitionSteps:
    """What to do, given when each lease expires and who holds each partition, by the clock of the store.

    Nodes that are `unwell` live, but cannot do their work: others have it, if there are any.
    """
    dead = sorted(node for node, expires in leases.items() if node != me and is_over(expires, now))
    living = sorted(node for node in leases if node not in dead)
    if me not in living:
        return PartitionSteps(dead, [], [])
    wanted = partition_owners([node for node in living if node not in unwell] or living)
    free = [holder is None or holder in dead or holder not in leases for holder in holders]
    take = [p for p in range(PARTITION_COUNT) if free[p] and wanted[p] == me]
    release = [p for p in range(PARTITION_COUNT) if holders[p] == me and wanted[p] != me]
    return PartitionSteps(dead, take, release)
