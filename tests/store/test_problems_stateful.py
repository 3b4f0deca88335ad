"""After any sequence of batches, removals and people's changes, every store has the problems that MemoryStore has."""

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from budget import examples
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from evenbeat.model import DAY, SEVERITY, Acknowledgement, Cause, Instant, Outcome, State
from evenbeat.store.contract import Batch, Conflict, Filter, ProblemFilter, Store, StoreError
from evenbeat.store.memory import MemoryStore
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.problem_records import ProblemChange, ProblemHold
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_claim, a_finish, a_task

ANY: Final = ProblemFilter(is_open=None)
MAX_ID: Final = 12

numbers = st.integers(1, 4)
names = st.sampled_from(["a", "b", "ab", "é[b]"])
times = st.integers(0, 6).map(lambda n: Instant(T0 + n * DAY))
states = st.sampled_from(State)
ids = st.lists(st.integers(0, MAX_ID), max_size=4)
tasks = st.builds(
    lambda name, check, site: a_task(name, check=check, site=site), names, st.booleans(), st.sampled_from("xy")
)
changes = st.builds(
    lambda task, cause, opened, at, state, is_open, reason: ProblemChange(
        task, cause.value, opened, at, int(state), SEVERITY[state], is_open, reason
    ),
    numbers,
    st.sampled_from(Cause),
    times,
    times,
    states,
    st.booleans(),
    st.sampled_from(["", "changed"]),
)
holds = st.builds(
    ProblemHold, numbers, st.sampled_from([cause.value for cause in Cause]), times,
    st.sampled_from(["", "downtime", "outside period"]), times,
)  # fmt: skip
acknowledgements = st.builds(
    Acknowledgement, times, st.sampled_from(["ann", "bob"]), st.sampled_from(["", "on it"]), st.none() | times,
    st.booleans(),
)  # fmt: skip
filters = st.builds(
    ProblemFilter,
    st.builds(
        Filter,
        st.lists(names | st.sampled_from(["*", "a*", "?", "*[b]"]), max_size=2).map(tuple),
        st.none() | st.sampled_from(["me", "you"]),
        st.just({}) | st.just({"site": "x"}),
        contains=st.none() | st.sampled_from(["", "A", "[", "%"]),
    ),
    st.none() | st.sampled_from([cause.value for cause in Cause]),
    st.none() | states,
    st.none() | st.booleans(),
    ids.map(tuple),
    st.none() | st.integers(0, MAX_ID),
    st.sampled_from([1, 3, 1_000]),
    st.none() | st.booleans(),
    times,
)


class ProblemStores(RuleBasedStateMachine):
    """A model, and another store that must answer alike."""

    make_store: Callable[[Path], Store]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = T0
        self.model: Store = MemoryStore()
        self.store = self.make_store(Path(self.folder.name))
        for name in "ab":
            self.both(lambda store, name=name: len(store.create([a_task(name, check=True)], "me", T0)))  # type: ignore[misc]

    def both(self, do: Callable[[Store], object]) -> Any:
        """Both do the same, or refuse it in the same way."""
        outcomes: list[object] = []
        for store in (self.model, self.store):
            try:
                outcomes.append(do(store))
            except (Conflict, StoreError) as e:
                outcomes.append(type(e))
        assert outcomes[0] == outcomes[1]
        return outcomes[0]

    @rule(days=st.integers(1, 3))
    def wait(self, days: int) -> None:
        self.now = Instant(self.now + days * DAY)

    @rule(new=tasks, owner=st.sampled_from(["me", "you"]))
    def create(self, new: Any, owner: str) -> None:
        self.both(lambda store: [entry.number for entry in store.create([new], owner, self.now)])

    @rule(number=numbers, task=tasks)
    def update(self, number: int, task: Any) -> None:
        self.both(lambda store: [entry.version for entry in store.update([(number, task)], self.now)])

    @rule(some=st.lists(numbers, max_size=2))
    def remove(self, some: Sequence[int]) -> None:
        self.both(lambda store: store.remove(some, self.now))

    @rule(some=st.lists(st.tuples(st.lists(changes, max_size=6), st.lists(holds, max_size=4)), min_size=1, max_size=3))
    def record(self, some: list[tuple[list[ProblemChange], list[ProblemHold]]]) -> None:
        batches = [Batch(problems=problems, holds=held) for problems, held in some]
        self.both(lambda store: store.record(*batches).result())

    @rule(place=st.integers(0, 3), word=st.sampled_from(["", "downtime", "paused"]), at=times)
    def hold(self, place: int, word: str, at: int) -> None:
        known = list(self.model.open_problems())[place : place + 1]
        held = [ProblemHold(problem.task, problem.cause, problem.opened, word, at) for problem in known]
        self.both(lambda store: store.record(Batch(holds=held)).result())

    @rule(change=changes)
    def refuse(self, change: ProblemChange) -> None:
        self.both(lambda store: store.record(Batch(finishes=[a_finish(77)], problems=[change])).result())

    @rule(task=numbers, ends=st.booleans(), state=states, flapping=st.booleans(), change=changes)
    def run(self, task: int, ends: bool, state: State, flapping: bool, change: ProblemChange) -> None:
        """A removed task that still runs may be restored."""
        self.both(lambda store: store.record(Batch(claims=[a_claim(task)])).result())
        outcome = Outcome.FAILED if state else Outcome.SUCCEEDED
        finish = a_finish(task, output=state.name, outcome=outcome.value, state=int(state))
        finish = finish._replace(ended=self.now, flapping=flapping)
        if ends:
            self.both(lambda store: store.record(Batch(finishes=[finish], problems=[change])).result())

    @rule(some=ids, ack=st.none() | acknowledgements)
    def acknowledge(self, some: list[int], ack: Acknowledgement | None) -> None:
        self.both(lambda store: store.acknowledge(some, ack, self.now, "ann"))

    @rule(some=ids, text=st.sampled_from(["seen", "\0'"]))
    def comment(self, some: list[int], text: str) -> None:
        self.both(lambda store: store.comment(some, text, self.now, "bob"))

    @rule(keep=st.integers(0, 6))
    def prune(self, keep: int) -> None:
        def all_of_it(store: Store) -> None:
            while store.prune(self.now, keep * DAY):
                pass

        self.both(all_of_it)

    @rule(only=filters)
    def find(self, only: ProblemFilter) -> None:
        found = self.both(lambda store: store.problems(only))
        assert len(found) <= only.most
        self.both(lambda store: store.count_problems(only))

    @invariant()
    def they_have_the_same(self) -> None:
        found = self.both(lambda store: store.problems(ANY))
        is_open = [problem for problem in found if problem.closed is None]
        assert len({(problem.number, problem.cause) for problem in is_open}) == len(is_open)
        listed = self.both(lambda store: list(store.open_problems()))
        assert {(p.number, p.cause, p.opened, p.state, p.worst, p.hold, p.held_since or 0) for p in is_open} == set(
            listed
        )
        assert all(bool(p.hold) is (p.held_since is not None) for p in found)
        self.both(lambda store: [store.problem_notes(problem.id) for problem in found])

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


def must_agree(make: Callable[[Path], Store], most: int) -> None:
    class Machine(ProblemStores):
        make_store = staticmethod(make)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=most,
            stateful_step_count=25,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow],
            deadline=None,
        ),
    )


@pytest.mark.hypothesis
def test_sqlite_has_what_memory_has() -> None:
    must_agree(lambda folder: SqliteStore(folder / "x.db"), examples(40))


@pytest.mark.hypothesis
def test_postgres_has_what_memory_has(dsn: str, empty_database: Callable[[], None]) -> None:
    def make(_: Path) -> Store:
        empty_database()
        return PostgresStore(dsn)

    must_agree(make, examples(15))
