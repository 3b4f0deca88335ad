"""A history that is compacted on a clock of its own: tasks run by arithmetic, and their runs go through a store."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from evenbeat.core.retention import Retention
from evenbeat.model import DAY, HOUR, MINUTE, Instant
from evenbeat.node.history.compactor import Compactor
from evenbeat.past_runs import RunSummary
from evenbeat.store.contract import Batch, Finish, RunRecord, Store, WholeOutput
from evenbeat.store.history_contract import Layer, LayeredHistory
from evenbeat.testing.samples import a_claim, a_finish, a_task

START = Instant(20_000 * DAY)
"""A midnight."""
FOREVER_AHEAD = Instant(START + 10_000 * DAY)


class LayeredStore(Store, LayeredHistory, Protocol):
    """What the tests need of a store."""


class History(NamedTuple):
    """All that a store says of its runs."""

    runs: list[RunRecord]
    hours: dict[int, list[RunSummary]]
    days: dict[int, list[RunSummary]]


class CompactedHistory:
    """A store with some tasks, the time, and a node that compacts it."""

    def __init__(self, store: LayeredStore, retention: Retention, tasks: int = 3) -> None:
        self.store = store
        self.retention = retention
        self.now = START
        entries = store.create([a_task(f"task-{i}", check=True) for i in range(tasks)], "test", START)
        self.tasks = [entry.number for entry in entries]
        self.compactor = self.new_compactor()

    def new_compactor(self, store: LayeredHistory | None = None) -> Compactor:
        """As a node makes it that has just started."""
        return Compactor(store or self.store, lambda: self.now, lambda: self.retention, lambda: [self.tasks])

    def compact(self) -> None:
        """Do all that is due."""
        for _ in self.compactor.round():
            pass

    def record(
        self,
        task: int,
        nominal: int,
        output: str = "OK",
        *,
        outcome: str = "succeeded",
        state: int = 0,
        notable: bool = False,
        whole: bool = False,
        kind: int = 0,
        took: int = 1_000_000,
    ) -> Finish:
        """A run of a task from claim to end."""
        claim = a_claim(task, nominal)._replace(kind=kind)
        finish = a_finish(task, nominal, output, outcome=outcome, state=state, notable=notable)
        finish = finish._replace(ended=finish.started + took)
        outputs = [WholeOutput(task, claim.at, b"whole")] if whole else []
        self.store.record(Batch(claims=[claim]), Batch(finishes=[finish], outputs=outputs)).result()
        return finish

    def live(self, until: int, step: int = MINUTE, each: Callable[[int], None] = lambda _: None) -> Iterator[Instant]:
        """Let time pass; `each` records what ends in a step. Yields after each of them, for the caller to compact."""
        while self.now < until:
            each(self.now)
            self.now = Instant(self.now + step)
            yield self.now

    def history(self) -> History:
        """All that the store says."""
        return History(
            self.store.runs(most=1_000_000),
            {task: self.summaries(task, Layer.HOURS) for task in self.tasks},
            {task: self.summaries(task, Layer.DAYS) for task in self.tasks},
        )

    def summaries(self, task: int, layer: Layer) -> list[RunSummary]:
        """Of all times."""
        return self.store.summaries(task, layer, Instant(0), FOREVER_AHEAD)


def hourly(records: Sequence[RunRecord]) -> dict[int, int]:
    """How many of the runs ended in each hour."""
    found: dict[int, int] = {}
    for run in records:
        assert run.ended is not None
        hour = run.ended - run.ended % HOUR
        found[hour] = found.get(hour, 0) + 1
    return found
