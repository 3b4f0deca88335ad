"""The contract of a store that several nodes share, beyond `contract`: leases, partitions, requests, one clock."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from evenbeat.model import Entry
from evenbeat.store.alert_records import AlertProblem
from evenbeat.store.contract import PastDefinition, Store, StoreError, TaskProgress
from evenbeat.store.problem_records import OpenProblem


class LeaseLost(StoreError):
    """The lease was taken away: the node holds nothing any more, and nothing of this change was kept."""


class CommitsForgotten(LeaseLost):
    """The store has lost commits that it had confirmed, as an asynchronous standby that was promoted does.

    The node knows more than the store does, but only what the store knows counts.
    """


class NodeLease(Struct, frozen=True):
    """The right of a node to act in the cluster."""

    node: str
    epoch: int
    """Higher than that of any lease before it."""
    expires: int
    """By the clock of the store."""
    about: bytes
    """What the node publishes about itself: JSON, for people and other nodes."""


class ClusterSnapshot(Struct, frozen=True):
    """The nodes of the cluster and what each of them holds, at one moment."""

    now: int
    """The clock of the store."""
    leases: list[NodeLease]
    """Expired leases are among them until they are revoked."""
    holders: list[str | None]
    """The node that holds each partition, if any."""
    shares: dict[str, dict[str, int]]
    """The shares of each limit key, by node; "" is the key of `max_concurrent`."""


class TakenPartitions(NamedTuple):
    """Partitions that a node has just taken."""

    partitions: list[int]
    new: list[int]
    """Those of them that no node has held since the cluster was started."""
    fence: int
    """Higher than any fence or epoch before: no other node makes tokens that begin with it."""
    shares: dict[str, int]
    """The shares of limits that grew by the runs that are under way in these partitions, by key."""
    silent: Mapping[int, int] = {}
    """By the token of a run: for how many microseconds no node had answered for it when the last owner released it."""
    quiet_until: int = 0
    """Until then, by the clock of the store, no run in these partitions may be claimed: the store has lost its last
    commits, and workers may be executing runs that it does not know."""


class StoreChanges(Struct):
    """What other processes have changed."""

    stamp: int
    """Next time, ask for changes since this stamp."""
    entries: list[Entry] = []
    """New tasks, and those with a new definition."""
    removed: list[Entry] = []
    settings: bool = False
    """Whether periods, limits or settings of the node have changed."""


class CheckPosition(NamedTuple):
    """Where a task stands, as far as others that depend on it ask."""

    name: str
    number: int
    version: int
    is_check: bool
    is_off: bool
    """It is paused or disabled."""
    state: int
    """0 for a check that has never run."""
    hard: bool
    result_at: int
    """When the run of its latest result began; NEVER for a check that has never run."""


class ProblemRevision(NamedTuple):
    """Up to where a node has seen the changes of problems: every transaction before `transaction` had ended when it
    looked, and it saw every change of tasks up to `stamp`.

    Times would not do: transactions become visible in another order than that of the times that they write. While a
    transaction of anybody on the server lasts, what has changed since it began is returned again and again.
    """

    transaction: int
    stamp: int


class ChangedProblems(NamedTuple):
    """The problems that have changed since a revision."""

    revision: ProblemRevision
    """Next time, ask for changes since this one."""
    problems: list[AlertProblem]


class ForwardedRequest(Struct, frozen=True):
    """A request to the node that holds a task."""

    id: int
    task: int
    request: bytes


@runtime_checkable
class ClusterStore(Store, Protocol):
    """A store that any thread may use, as any store, and several processes at the same time.

    After `join`, the store records only while the lease is valid: the row of the lease is locked and its epoch checked
    in the same transaction, else LeaseLost. A lost answer is no error: the store finds out what was kept.
    """

    def exclusive_change(self) -> AbstractContextManager[None]:
        """A lock among all processes, for changes that take several steps."""

    def clock(self) -> int:
        """What time it is, by the clock of the store."""

    # Authority

    def join(self, node: str, lease: int, about: bytes, *, quiet: int = 0, forgot: bool = False) -> int:
        """Get a lease for this many microseconds; return its epoch. From now on `record` is fenced by it.

        If no other lease is valid, the cluster starts now: every partition is new (see TakenPartitions). A lease that
        this store held before is given back. `forgot`: the node knew of something that the store does not. Once it is
        noticed that the store has lost commits, no run may be claimed for `quiet` microseconds in partitions that are
        taken.
        """

    def renew(self, lease: int, about: bytes, *, is_hint: bool = False) -> ClusterSnapshot:
        """Extend the lease, also an expired one that was not revoked. With a hint, other nodes look at shares at once.

        Raise LeaseLost if it was revoked, CommitsForgotten if the store has lost what it had confirmed to this node.
        """

    def view(self) -> ClusterSnapshot:
        """The state of the cluster, also for a process that has not joined."""

    def revoke_expired_lease(self, node: str, epoch: int) -> bool:
        """Revoke a lease that has expired, and free what its node held; False if it was renewed or is gone.

        Waits for a transaction of that node that is under way: none of its claims is kept afterwards.
        """

    def take(self, partitions: Sequence[int]) -> TakenPartitions:
        """Take those of these partitions that no node holds; raise LeaseLost."""

    def release(
        self,
        partitions: Sequence[int],
        untaken: Sequence[int] = (),
        silent: Mapping[int, Mapping[int, int]] | None = None,
    ) -> None:
        """Release partitions; raise LeaseLost. `untaken` are the tokens of runs that are known to be with no worker.

        `silent`: by partition and token, for how long this node has not answered for a run. The next node that takes
        the partition learns of it, and no node after that.
        """

    def retake(self, tokens: Sequence[int]) -> None:
        """Runs that were untaken are handed to workers again, so they no longer count as untaken; raise LeaseLost."""

    def may_leave(self) -> bool:
        """Announce that this node is about to leave, unless no other node stays; whether it did. Raise LeaseLost."""

    def leave(self) -> None:
        """Release all partitions and shares, and give the lease back."""

    def set_share(self, key: str, limit: int, decide: Callable[[int], int], running: int = 0) -> int:
        """Set the share of a limit that this node has to `decide(others)`, one node at a time; return the share.

        `others` is what all other nodes have together, plus what runs in partitions that no node holds. The share never
        grows beyond what they leave, except for what is `running` here already. With a partition a node also gets, or
        gives away, the share of the runs in it.
        """

    # The tasks of some partitions

    def entries_in(self, partitions: Sequence[int]) -> Iterator[Entry]: ...

    def progress_in(self, partitions: Sequence[int]) -> Iterator[TaskProgress]:
        """The progress of their tasks, with tokens, in the order of the tasks' numbers."""

    def past_definitions_in(self, partitions: Sequence[int]) -> Iterator[PastDefinition]: ...

    def open_problems_in(self, partitions: Sequence[int]) -> Iterator[OpenProblem]: ...

    # Problems of all partitions, for the node that tells a contact of them

    def problem_revision(self) -> ProblemRevision:
        """The present revision. Ask for it before `open_alert_problems`, so that no change is missed in between."""

    def problems_changed_since(self, since: ProblemRevision) -> ChangedProblems:
        """The problems that opened, changed, were held, acknowledged or closed, or whose tasks were removed or
        restored, by id. A few may be returned again.
        """

    # Tasks of any partition, by their names

    def positions_of(self, names: Sequence[str]) -> list[CheckPosition]:
        """Where the tasks with these names stand, of those that exist."""

    def entries_named(self, names: Sequence[str]) -> list[Entry]:
        """The tasks with these names, of those that exist."""

    # Changes and requests of other processes

    def stamp(self) -> int:
        """The stamp of the newest change. Ask for it before `entries_in`, so that no change is missed in between."""

    def changes_since(self, since: int, partitions: Sequence[int]) -> StoreChanges: ...

    def forward_request(self, task: int, request: bytes) -> int:
        """Send a request to the node that holds a task; return the id of the request."""

    def take_requests(self, partitions: Sequence[int]) -> list[ForwardedRequest]:
        """Take the requests for these partitions that no node has taken, oldest first: this node must answer them."""

    def return_request(self, id_: int) -> None:
        """Leave a request that was taken to another node."""

    def answer(self, id_: int, reply: bytes) -> None:
        """Store the answer to a request."""

    def reply(self, id_: int) -> bytes | None:
        """Fetch and delete the answer to a request; None if there is none yet. Answers that are not fetched expire."""

    def listen(self, heard: Callable[[str], None]) -> Callable[[], None]:
        """Call `heard`, on a thread of the store, with what has changed: "tasks", "settings", "orders", "answers",
        "partitions", "shares" (a node gave up a part of a limit). Return a function that ends this.

        A call is only a hint to look: some are missed while the connection is lost.
        """
