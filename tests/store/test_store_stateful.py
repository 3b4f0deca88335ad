"""The store in memory is the model: after any sequence of operations, SQLite returns the same."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from budget import examples
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec import structs

from evenbeat.model import DAY, Entry, Instant, Period, RunKind
from evenbeat.store.contract import (
    FILTER_STATES,
    Batch,
    Claim,
    Conflict,
    Filter,
    Finish,
    ProgressRecord,
    Refusal,
    RunStart,
    Skip,
    Store,
    StoreError,
    SubmittedResult,
)
from evenbeat.store.memory import MemoryStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_task

numbers = st.integers(1, 6)
names = st.sampled_from(["a", "b", "ab", "a*", "[b]", "é"])
times = st.integers(0, 20).map(lambda n: T0 + n * DAY)
kinds = st.sampled_from([int(kind) for kind in RunKind])
tasks = st.builds(
    lambda name, check, enabled, site: a_task(name, check=check, enabled=enabled, site=site),
    names,
    st.booleans(),
    st.booleans(),
    st.sampled_from("xy"),
)
finishes = st.builds(
    Finish,
    numbers,
    times,
    times,
    st.sampled_from(["succeeded", "failed", "lost", "dropped"]),
    st.none() | st.integers(-9, 3),
    st.sampled_from(["", "fine", "x" * 300]),
    st.none() | st.sampled_from([b"", b"here"]),
    times,
    st.integers(0, 3),
    st.booleans(),
    st.integers(1, 3),
    st.integers(0, 7),
    st.booleans(),
    times,
    times,
    kinds,
    st.booleans(),
)
skips = st.builds(
    lambda task, first, length, reason, at: Skip(
        task, first, first + (length - 1) * DAY, length, reason, at, first + length * DAY, at, first + length * DAY, 0
    ),
    numbers,
    times,
    st.integers(1, 3),
    st.sampled_from(["disabled", "coalesced"]),
    times,
)
submitted = st.builds(
    SubmittedResult,
    numbers,
    times,
    st.integers(0, 1),
    kinds,
    times,
    times,
    times,
    st.sampled_from(["succeeded", "failed"]),
    st.none() | st.integers(0, 3),
    st.sampled_from(["", "fine", "x" * 300]),
    st.none() | st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.integers(1, 3),
    st.integers(0, 7),
    st.booleans(),
    times,
    times,
    times,
    kinds,
    st.booleans(),
)
batches = st.builds(
    Batch,
    st.lists(st.builds(RunStart, numbers, times), max_size=2),
    st.lists(finishes, max_size=3),
    st.lists(st.builds(ProgressRecord, numbers, times, times, kinds, times, times), max_size=2),
    st.lists(skips, max_size=3),
    st.lists(st.builds(Refusal, numbers, times, kinds, st.just("period_closed"), times), max_size=1),
    st.lists(st.builds(Claim, numbers, times, st.integers(0, 1), kinds, times, times, times, kinds), max_size=3),
    st.lists(submitted, max_size=3),
)
filters = st.builds(
    Filter,
    st.lists(names | st.sampled_from(["*", "a*", "?", "[b*"]), max_size=2).map(tuple),
    st.none() | st.sampled_from(["me", "you"]),
    st.just({}) | st.just({"site": "x"}),
    st.none() | st.sampled_from(FILTER_STATES),
    st.sampled_from(["", "a"]),
    st.sampled_from([2, 100]),
    st.none() | st.sampled_from(["", "A", "b", "%", "_"]),
)


def without_id(entry: Entry) -> Entry:
    return structs.replace(entry, id="")


class Stores(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x.db"

    @initialize()
    def begin(self) -> None:
        self.now = T0
        self.model: Store = MemoryStore(plain_runs=3)
        self.store: Store = SqliteStore(self.path, plain_runs=3)
        self.both(lambda store: store.create([a_task("a", check=True), a_task("b", check=True)], "me", T0))

    def both(self, do: Callable[[Store], object]) -> None:
        """Both do the same, or refuse it in the same way."""
        outcomes: list[object] = []
        for store in (self.model, self.store):
            try:
                answer = do(store)
                outcomes.append(list(map(without_id, answer)) if isinstance(answer, list) else answer)
            except (Conflict, StoreError) as e:
                outcomes.append((type(e), str(e)))
        assert outcomes[0] == outcomes[1]

    @rule(days=st.integers(1, 5))
    def wait(self, days: int) -> None:
        self.now = Instant(self.now + days * DAY)

    @rule(new=st.lists(tasks, max_size=2), owner=st.sampled_from(["me", "you"]))
    def create(self, new: list[object], owner: str) -> None:
        self.both(lambda store: store.create(new, owner, self.now, "ann"))  # type: ignore[arg-type]

    @rule(
        changes=st.lists(st.tuples(numbers, tasks), max_size=2),
        version=st.none() | st.integers(1, 2),
        owner=st.none() | st.sampled_from(["me", "you"]),
    )
    def update(self, changes: list[object], version: int | None, owner: str | None) -> None:
        self.both(lambda store: store.update(changes, self.now, "bob", version, owner))  # type: ignore[arg-type]

    @rule(some=st.lists(numbers, max_size=2))
    def remove(self, some: list[int]) -> None:
        self.both(lambda store: store.remove(some, self.now, "cyd"))

    @rule(batch=batches)
    def record(self, batch: Batch) -> None:
        batch = Batch(
            batch.starts,
            [finish._replace(ended=self.now) for finish in batch.finishes],
            batch.standings,
            [skip._replace(at=self.now) for skip in batch.skips],
            [refusal._replace(at=self.now) for refusal in batch.refusals],
            [claim._replace(at=self.now) for claim in batch.claims],
        )

        def refused(store: Store) -> type | None:
            error = store.record(batch).exception()
            return None if error is None else type(error)

        self.both(refused)

    @rule(task=numbers, nominal=times, finish=finishes)
    def run(self, task: int, nominal: int, finish: Finish) -> None:
        claim = Claim(task, nominal, 0, 0, nominal, nominal + DAY, nominal, 0)
        self.record(Batch(claims=[claim]))
        self.record(Batch(finishes=[finish._replace(task=task)]))

    @rule(name=names, period=st.none() | st.builds(Period, zone=st.sampled_from(["UTC", "Asia/Tokyo"])))
    def set_period(self, name: str, period: Period | None) -> None:
        self.both(lambda store: store.set_periods({name: period}, "me", self.now, "dan"))

    @rule(keep=st.integers(0, 10))
    def prune(self, keep: int) -> None:
        def all_of_it(store: Store) -> None:
            while store.prune(self.now, keep * DAY):
                pass

        self.both(all_of_it)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteStore(self.path, plain_runs=3)

    @rule(only=filters)
    def find(self, only: Filter) -> None:
        self.both(lambda store: list(store.entries(only)))
        self.both(lambda store: store.count(only))
        self.both(lambda store: store.removed_running())
        for name in ("a", "b", "ab"):
            self.both(lambda store, asked=name: [e for e in [store.find_removed(asked)] if e])  # type: ignore[misc]

    @rule(task=st.none() | numbers, before=st.none() | times, most=st.integers(1, 5), notable=st.booleans())
    def page(self, task: int | None, before: Instant | None, most: int, notable: bool) -> None:
        for store in (self.model, self.store):
            runs = store.runs(task, before, most, notable=notable)
            assert len(runs) <= most
            assert all(before is None or run.claimed < before for run in runs)
            assert runs == sorted(runs, key=lambda run: run.claimed, reverse=True)
        self.both(lambda store: len(store.runs(task, before, most, notable=notable)))
        self.both(lambda store: len(store.skips(task, before, most)))

    @invariant()
    def they_hold_the_same(self) -> None:
        if not hasattr(self, "store"):
            return
        contents = [
            (
                [structs.replace(c, entry=without_id(c.entry)) for c in store.conditions()],
                list(store.progress()),
                # What was submitted for several tasks at the same instant has no order.
                sorted(map(repr, store.skips())),
                *(store.skips(task) for task in range(1, 7)),
                store.changes(most=1_000),
                store.periods(),
                store.cursors(range(1, 10)),
                # Runs that were claimed and ended in the same instant have no order.
                *({repr(run) for run in store.runs(task)} for task in (None, 1, 2, 3)),
                {repr(run) for run in store.runs(notable=True)},
            )
            for store in (self.model, self.store)
        ]
        for model, store in zip(*contents, strict=True):
            assert model == store

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        self.folder.cleanup()


TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=examples(30), stateful_step_count=25, phases=[Phase.explicit, Phase.generate]
)
