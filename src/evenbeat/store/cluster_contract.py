"""What a store promises beyond `contract`, if several nodes share it: leases, partitions, orders, news, one clock."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from evenbeat.model import Entry
from evenbeat.store.contract import PastDefinition, Store, StoreError, TaskProgress


class LeaseLost(StoreError):
    """The lease is somebody else's by now, or nobody's: whoever had it has lost everything, and nothing was kept."""


class CommitsForgotten(LeaseLost):
    """The store has forgotten what it had confirmed, as an asynchronous standby that was promoted does.

    What we know is more than what is true by the store, and what it knows counts.
    """


class NodeLease(Struct, frozen=True):
    """The right of a node to act."""

    node: str
    epoch: int
    """Higher than that of any lease before it."""
    expires: int
    """By the clock of the store."""
    about: bytes
    """What the node tells of itself: JSON, for people and other nodes."""


class ClusterSnapshot(Struct, frozen=True):
    """Who there is, and who holds what, at one moment."""

    now: int
    """The clock of the store."""
    leases: list[NodeLease]
    """Those that have ended are among them until somebody takes them away."""
    holders: list[str | None]
    """Of each partition."""
    shares: dict[str, dict[str, int]]
    """Of each limit key, by node; "" is the key of all slots."""


class TakenPartitions(NamedTuple):
    """Partitions that a node has just taken."""

    partitions: list[int]
    new: list[int]
    """Those of them that nobody has held since the cluster was started."""
    fence: int
    """Higher than any before, also than any epoch: tokens that begin with it are nobody else's."""
    shares: dict[str, int]
    """Our shares of limits, as far as they have grown by the runs that are under way in these partitions."""
    silent: Mapping[int, int] = {}
    """By its token, how many microseconds nobody had answered for a run when its last owner released it."""
    quiet_until: int = 0
    """Before that, by the clock of the store, nothing of them may be claimed: the store has forgotten its last commits,
    and workers may be at runs of which it does not know."""


class StoreChanges(Struct):
    """What others have changed."""

    stamp: int
    """Ask for what is newer than this next time."""
    entries: list[Entry] = []
    """New, or with a new definition."""
    removed: list[Entry] = []
    settings: bool = False
    """Periods, limits or settings of the node."""


class ForwardedRequest(Struct, frozen=True):
    """Something asked of whichever node holds a task."""

    id: int
    task: int
    request: bytes


@runtime_checkable
class ClusterStore(Store, Protocol):
    """May be used from any thread, like any store; by several processes at the same time.

    A store that was joined records only while the lease is there: the row of the lease is locked and its epoch checked
    in the same transaction, else Fenced. An answer that got lost is not an error: what was kept is found out.
    """

    def exclusive_change(self) -> AbstractContextManager[None]:
        """Among all processes, nobody else is within it: for changes that take several steps."""

    def clock(self) -> int:
        """What time it is, by the clock of the store."""

    # Authority

    def join(self, node: str, lease: int, about: bytes, *, quiet: int = 0, forgot: bool = False) -> int:
        """A lease for so many microseconds; its epoch. From now on `record` is fenced by it.

        If no other lease is alive, the cluster starts with this: then every partition is new (see Taken). A lease that
        this store held before is given back. `forgot`: what we knew contradicted the store. Once it is seen that the
        store has forgotten something, nothing is to be claimed for `quiet` microseconds in partitions that are taken.
        """

    def renew(self, lease: int, about: bytes, *, is_hint: bool = False) -> ClusterSnapshot:
        """The same for another while, also if it has ended and nobody took it; raise Fenced if somebody did, and Forgot
        if the store does not know any more what it had confirmed to us. With a hint others look at shares at once.
        """

    def view(self) -> ClusterSnapshot:
        """Who there is, without being one of them."""

    def revoke_expired_lease(self, node: str, epoch: int) -> bool:
        """Take a lease away that has ended, and free what its holder held; False if it has been renewed or is gone.

        Waits for a transaction of the holder that is under way: none of its claims gets through afterwards.
        """

    def take(self, partitions: Sequence[int]) -> TakenPartitions:
        """Hold those of these partitions that nobody holds; raise Fenced."""

    def release(
        self,
        partitions: Sequence[int],
        untaken: Sequence[int] = (),
        silent: Mapping[int, Mapping[int, int]] | None = None,
    ) -> None:
        """Hold these no longer; raise Fenced. Of the runs with the tokens `untaken` nobody has any, that is known.

        `silent`: by partition and token, for how long we have not answered for a run. Whoever takes the partition next
        learns of it, and nobody after that.
        """

    def retake(self, tokens: Sequence[int]) -> None:
        """Runs that were untaken are handed over again: from now on that is not known any more; raise Fenced."""

    def may_leave(self) -> bool:
        """Say that we are about to leave; False, and not said, if nobody else stays; raise Fenced."""

    def leave(self) -> None:
        """Release all, and give the lease back."""

    def set_share(self, key: str, limit: int, decide: Callable[[int], int], running: int = 0) -> int:
        """Decide anew how much of a limit is ours; one node at a time: `decide(others)` says.

        `others` is what all others have together, and what runs in partitions that nobody holds. It never grows beyond
        what they leave, but for what is `running` here already. With its partitions a node gets, and gives away, the
        share of what runs in them.
        """

    # The tasks of some partitions

    def entries_in(self, partitions: Sequence[int]) -> Iterator[Entry]: ...

    def progress_in(self, partitions: Sequence[int]) -> Iterator[TaskProgress]:
        """With tokens; in the order of the tasks' numbers."""

    def past_definitions_in(self, partitions: Sequence[int]) -> Iterator[PastDefinition]: ...

    # What others do

    def stamp(self) -> int:
        """Of the newest change; asked before `entries_in`, so that nothing falls between."""

    def changes_since(self, since: int, partitions: Sequence[int]) -> StoreChanges: ...

    def forward_request(self, task: int, request: bytes) -> int:
        """Ask something of the node that holds a task; its id."""

    def take_orders(self, partitions: Sequence[int]) -> list[ForwardedRequest]:
        """Those that nobody has taken, oldest first: from now on they are ours to do, and nobody else's."""

    def give_back_order(self, id_: int) -> None:
        """Somebody else is to do it."""

    def answer(self, id_: int, reply: bytes) -> None:
        """What became of an order."""

    def reply(self, id_: int) -> bytes | None:
        """The answer, once; None if there is none yet. Answers that nobody fetches go after a while."""

    def listen(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """`heard` is told, on a thread of the store's: "tasks", "settings", "orders", "answers", "partitions",
        "shares" (there is more of a limit for others).

        Only a hint to look: some may be lost while the connection is. What it returns ends it.
        """
