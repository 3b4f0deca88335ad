"""Packing, merging and sweeping change no answer: SQLite does all that, and says the same as a store that does not."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from budget import examples
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from evenbeat.model import HOUR, MINUTE, Instant, Outcome
from evenbeat.store.contract import Batch, RunRecord, Store, WholeOutput
from evenbeat.store.history_contract import RUN_LAYERS, Layer
from evenbeat.store.memory import MemoryStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_claim, a_finish, a_load_line, a_submitted_result, a_task

TASKS = range(1, 5)
tasks = st.sampled_from(TASKS)
outputs = st.sampled_from(["", "fine", "x" * 300, "\0\1é"]) | st.floats(0, 9).map(
    lambda load: a_load_line(load, 1.5, 2)
)
layers = st.sampled_from(RUN_LAYERS)


class Layers(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x.db"

    @initialize()
    def begin(self) -> None:
        self.now = T0
        self.model: Store = MemoryStore()
        self.store = SqliteStore(self.path)
        self.removed: set[int] = set()
        self.on_both(lambda store: store.create([a_task(f"t{i}", check=i % 2 == 0) for i in TASKS], "me", T0))

    def on_both(self, do: Callable[[Store], object]) -> None:
        for store in (self.model, self.store):
            do(store)

    @rule(
        task=tasks,
        back=st.integers(0, 2),
        took=st.integers(1, 2 * HOUR),
        outcome=st.sampled_from(["succeeded", "failed", "lost"]),
        output=outputs,
        notable=st.booleans(),
        whole=st.booleans(),
        is_latest=st.booleans(),
    )
    def run(
        self, task: int, back: int, took: int, outcome: str, output: str, notable: bool, whole: bool, is_latest: bool
    ) -> None:
        """A run ends; now and then a clock was set back before it, so that it has a time of its own even then."""
        if task in self.removed:
            return
        self.now = Instant(self.now + 7 * MINUTE + 1)
        nominal = self.now - back * 20 * MINUTE
        claim = a_claim(task, nominal)
        finish = a_finish(task, nominal, output, outcome=Outcome(outcome), notable=notable)
        finish = finish._replace(ended=nominal + took, result_at=finish.started + (not is_latest))
        outputs = [WholeOutput(task, claim.at, b"whole")] if whole else []
        self.on_both(lambda store: store.record(Batch(claims=[claim])).result())
        self.on_both(lambda store: store.record(Batch(finishes=[finish], outputs=outputs)).result())

    @rule(task=tasks, output=outputs, notable=st.booleans(), made=st.none() | st.integers(0, 3))
    def submit(self, task: int, output: str, notable: bool, made: int | None) -> None:
        if task in self.removed:
            return
        self.now = Instant(self.now + 3 * MINUTE + 1)
        submitted = a_submitted_result(task, self.now, output, made=made, notable=notable)
        self.on_both(lambda store: store.record(Batch(told=[submitted])).result())

    @rule(outputs=st.lists(outputs, min_size=2, max_size=20), notable=st.booleans())
    def submit_many(self, outputs: list[str], notable: bool) -> None:
        """Results that come together are one commit."""
        known = [task for task in TASKS if task not in self.removed]
        told = []
        for i, output in enumerate(outputs):
            self.now = Instant(self.now + 11 * MINUTE + 1)
            task = known[i % len(known)]
            told.append(a_submitted_result(task, self.now, output, made=i % 4, notable=notable and i % 3 == 0))
        self.on_both(lambda store: store.record(Batch(told=told)).result())

    @rule(task=tasks)
    def remove(self, task: int) -> None:
        if len(self.removed) < 2:
            self.removed.add(task)
            self.on_both(lambda store: store.remove([task], self.now))

    @rule(most=st.integers(1, 20))
    def pack(self, most: int) -> None:
        unpacked = self.store.unpacked(most)
        hours = {run.ended // HOUR * HOUR for run in unpacked.runs}
        by_hour = [(hour, [run for run in unpacked.runs if run.ended // HOUR * HOUR == hour]) for hour in hours]
        self.store.pack(unpacked, [(hour, sorted(runs, key=lambda run: run[:3])) for hour, runs in by_hour])

    @rule(data=st.data(), layer=layers, at_once=st.integers(1, 9))
    def merge(self, data: st.DataObject, layer: Layer, at_once: int) -> None:
        """Some parts become one or two."""
        known = [part.number for some in RUN_LAYERS for part in self.store.parts(some)]
        if not known:
            return
        old = data.draw(st.lists(st.sampled_from(known), unique=True, min_size=1))
        runs = [run for part in old for block in self.store.part_runs(part) for run in block]
        runs.sort(key=lambda run: run[:3])
        cut = data.draw(st.integers(0, len(runs)))
        new = []
        for some in (runs[:cut], runs[cut:]):
            new.append(self.store.begin_part(layer, T0))
            for i in range(0, len(some), at_once):
                self.store.add_runs(new[-1], some[i : i + at_once])
        self.store.complete(new, old)

    @rule(most=st.integers(1, 5))
    def clear_up(self, most: int) -> None:
        self.store.begin_part(Layer.RUNS, T0)
        self.store.discard_unfinished()
        self.store.sweep(most)
        self.store.give_back(1 << 20)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = SqliteStore(self.path)

    @rule(keep=st.just(1_000 * HOUR))
    def prune_nothing_that_is_kept(self, keep: int) -> None:
        self.on_both(lambda store: store.prune(self.now, keep))

    @rule(
        task=st.none() | tasks,
        back=st.integers(0, 500),
        most=st.integers(1, 9),
        notable=st.booleans(),
        since=st.integers(0, 500),
    )
    def ask(self, task: int | None, back: int, most: int, notable: bool, since: int) -> None:
        before = Instant(self.now - back * MINUTE)

        def answers(store: Store) -> tuple[list[RunRecord], dict[int, int]]:
            starts = store.starts(Instant(before - since * MINUTE), before)
            # A page of rows follows the order in which runs ended: after a clock was set back, it is compared whole.
            return sorted(store.runs(task, before, 10_000, notable=notable), key=repr), starts

        assert answers(self.store) == answers(self.model)
        page = self.store.runs(task, before, most, notable=notable)
        assert len(page) == min(most, len(self.model.runs(task, before, most, notable=notable)))

    @invariant()
    def they_hold_the_same(self) -> None:
        if not hasattr(self, "store"):
            return
        for task in (None, *TASKS):
            found, expected = (store.runs(task, most=10_000) for store in (self.store, self.model))
            assert sorted(found, key=repr) == sorted(expected, key=repr)
            assert [run.claimed for run in found] == [run.claimed for run in expected]
        for run in self.model.runs(most=10_000):
            expected_output = self.model.whole_output(run.number, run.claimed)
            assert self.store.whole_output(run.number, run.claimed) == expected_output
        assert self.store.size().unpacked + sum(self.store.size().layers[layer].rows for layer in RUN_LAYERS) == len(
            [run for run in self.model.runs(most=10_000) if run.ended is not None]
        )

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
        self.folder.cleanup()


TestLayers = Layers.TestCase
TestLayers.settings = settings(
    max_examples=examples(30), stateful_step_count=25, phases=[Phase.explicit, Phase.generate]
)
