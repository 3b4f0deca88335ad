"""The model of a small cluster: its shape, its states, and the properties that must always hold.

Time goes in ticks, and every time is told as how long ago it was, on the clock of whoever keeps it: no state is there
because a number went up. Messages stay on their way until they are too old to matter; whoever they are for may get one
then at any moment, several times, or never. So loss, doubling, reordering and delay need no events of their own.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple, TypeVar

from evenbeat.core import partition_ownership, run_lease
from evenbeat.core.run_lease import RunLease

T = TypeVar("T")

NOW: Final = 1_000
"""The present on every clock, in every state: the past is negative."""
LONG_GONE: Final = -99
"""In the place of a lease that does not exist."""
NOBODY: Final = -1


class ClusterShape(NamedTuple):
    """How large a cluster is and what can happen to it. Durations are ticks."""

    name: str
    nodes: int = 1
    """Nodes that can ever come up. The first is there at the beginning; a node that comes again is another."""
    workers: int = 2
    """Workers that can ever come up; all are there at the beginning."""
    tasks: int = 1
    """Tasks, each in a partition of its own."""
    claims: int = 2
    """Nominal times of each task."""
    tries: int = 3
    """Claims of each task, those that make up for lost runs included."""
    fences: int = 3
    """How often partitions change hands at most."""
    deaths: int = 1
    """How many processes may die."""
    skips: int = 0
    """How often clocks differ by a tick from then on."""
    stall: int = 0
    """How long a worker may be stopped while its runs go on."""
    delay: int = 3
    """The greatest age at which a message still arrives."""
    asks: int = 1
    """Questions for the same run that a worker may have out at the same time."""
    tidings: int = 1
    """How many status messages of a worker, and answers to them, may be on their way."""
    steady: bool = False
    """Workers send their status with every tick, and only then."""
    late_answers: bool = False
    """Whether a node may learn late that its lease was renewed."""
    lease: int = 3
    permit: int = 1
    hold: int = 2
    margin: int = 1


class ModelMessage(NamedTuple):
    """A message on its way. Its times are relative to now, on the clock of the worker."""

    kind: str
    worker: int
    tokens: tuple[int, ...]
    sent: int
    settled: int = 0


class PendingWrite(NamedTuple):
    """A write that a node has decided on and that is not in the store yet."""

    what: str
    """claim, finish, again (a result that asks for another run), lose."""
    token: int


class ModelPartition(NamedTuple):
    """What a node knows of a partition that it holds, and of the task in it."""

    stage: str
    """taken, serving, dropped (it serves it no longer, and the store does not know it yet)."""
    fence: int
    tokens: int = 0
    """How many tokens were given with it."""
    claims: int = 0
    """How many of its nominal times were claimed."""
    makes_up: bool = False
    """Is one more run due, for one that was lost?"""
    token: int = 0
    """Of the open claim."""
    hand: RunLease = RunLease()
    phase: PendingWrite | None = None
    silent: int = 0
    """How long the open run had not been answered for: when it was dropped, or as known when it was taken."""


class PartitionPlan(NamedTuple):
    """What a node is about to do about partitions: `authority.PartitionSteps`, by number."""

    bury: tuple[int, ...]
    take: tuple[int, ...]
    release: tuple[int, ...]


class ModelNode(NamedTuple):
    """A node that is up."""

    until: int
    """How long it may act, on its own clock."""
    answer: int
    """How long ago it asked for the lease of which it will learn; LONG_GONE if it waits for none."""
    plan: PartitionPlan | None
    """What to do about partitions, as it was when it asked."""
    parts: tuple[ModelPartition | None, ...]


class ModelRun(NamedTuple):
    """A run of a worker."""

    token: int
    stage: str
    """starting (it may, and has not yet), running, ended, killed (by the worker itself)."""
    renewed: int
    waited: int = 0
    """How long the worker has been stopped in between."""


class ModelWorker(NamedTuple):
    """A worker that is up."""

    asked: tuple[tuple[int, int], ...] = ()
    """Token and time of each question that is neither answered nor given up."""
    held: tuple[ModelRun, ...] = ()


class StoredTask(NamedTuple):
    """What the store knows of a task."""

    claims: int = 0
    makes_up: bool = False
    token: int = 0
    """Of the open claim."""
    last: int = 0
    """The highest token until now."""
    tries: int = 0
    """How many claims there were, for the explorer only."""
    is_started: bool = False
    """Was the run of the open claim begun? For the properties only."""
    silent: int = 0
    """How long the open run had not been answered for when its last owner released it."""


class ModelCluster(NamedTuple):
    """A cluster at one moment."""

    leases: tuple[int, ...]
    """When each ends, from now, on the clock of the store."""
    holders: tuple[int, ...]
    fence: int
    books: tuple[StoredTask, ...]
    born: int
    """How many nodes there have been."""
    nodes: tuple[ModelNode | None, ...]
    workers: tuple[ModelWorker | None, ...]
    messages: frozenset[ModelMessage]
    deaths: int
    skips: int
    """How many of both are left."""

    def __str__(self) -> str:
        books = "; ".join(
            f"task {t}: {b.claims} claimed, {f'run {b.token} open' if b.token else 'none open'}"
            for t, b in enumerate(self.books)
        )
        workers = "; ".join(
            f"worker {w} {'is gone' if k is None else ', '.join(f'{h.stage} {h.token}' for h in k.held) or 'is idle'}"
            for w, k in enumerate(self.workers)
        )
        return f"{books}; {workers}; held by {self.holders}"


def task_of(token: int) -> int:
    """The task of a run."""
    return token & 1


def replaced_at(row: tuple[T, ...], i: int, new: T) -> tuple[T, ...]:
    """The tuple with another item in one place."""
    return (*row[:i], new, *row[i + 1 :])


def initial_cluster(shape: ClusterShape) -> ModelCluster:
    """One node that serves all, idle workers, and the first nominal times have come."""
    parts = tuple(ModelPartition("serving", 1 + t) for t in range(shape.tasks))
    first = ModelNode(partition_ownership.acts_until(0, shape.lease), LONG_GONE, None, parts)
    rest = shape.nodes - 1
    return ModelCluster(
        leases=(shape.lease, *(LONG_GONE,) * rest),
        holders=(0,) * shape.tasks,
        fence=shape.tasks,
        books=(StoredTask(),) * shape.tasks,
        born=1,
        nodes=(first, *(None,) * rest),
        workers=(ModelWorker(),) * shape.workers,
        messages=frozenset(),
        deaths=shape.deaths,
        skips=shape.skips,
    )


@contextmanager
def scaled_durations(shape: ClusterShape) -> Iterator[None]:
    """The production decisions with the durations of a shape: their order is what matters, not their length."""
    kept = (
        partition_ownership.LEASE_MARGIN,
        vars(partition_ownership)["PARTITION_COUNT"],
        run_lease.RUN_LEASE_DURATION,
        run_lease.PERMISSION_DURATION,
        run_lease.RUN_LEASE_MARGIN,
    )
    changed = (shape.margin, shape.tasks, shape.hold, shape.permit, shape.margin)
    _set_constants(changed)
    try:
        yield
    finally:
        _set_constants(kept)


def _set_constants(constants: tuple[int, int, int, int, int]) -> None:
    here, there = vars(partition_ownership), vars(run_lease)
    here["LEASE_MARGIN"], here["PARTITION_COUNT"] = constants[:2]
    there["RUN_LEASE_DURATION"], there["PERMISSION_DURATION"], there["RUN_LEASE_MARGIN"] = constants[2:]


class PropertyBroken(Exception):
    """A property does not hold: which one, and what was done."""

    def __init__(self, name: str, event: str) -> None:
        super().__init__(name, event)
        self.name = name
        self.event = event


CLUSTER_SENTENCES: Final = {
    "cluster: once": "Each nominal time of a task is claimed once, in order, and one at a time.",
    "cluster: one result": "A claim ends once: by one result, or because its run is lost.",
    "cluster: alone": "Never do two runs of a task go on at the same time.",
    "cluster: permitted": "A run begins only while its claim is open, and only once; another try has a higher token.",
    "cluster: really lost": "A run is taken for lost only when it has ended, or was never begun.",
    "cluster: fenced": "No claim, result or loss is recorded by a node whose lease, or partition, is somebody else's.",
    "cluster: in time": "A lease is taken only from a node that has stopped acting by its own clock.",
    "cluster: one master": "No two nodes act for the same task at the same time.",
    "cluster: kept": "A worker forgets the result of a run only when its claim has ended.",
    "cluster: liveness": "From every state, if nothing else fails, every claim ends and every nominal time is claimed.",
    "cluster: limits": "What runs on all nodes together never exceeds a limit.",
    "cluster: errors": "Nothing that can happen in a cluster raises an error.",
}
"""What must hold on every step, and be true of every state."""
