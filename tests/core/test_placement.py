"""Phases: even when given, kept over edits, and moved by nobody else."""

from collections.abc import Sequence
from itertools import count
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from evenbeat.core import placement
from evenbeat.core.placement import PhasePlacement, fill_wheel, keep_phase, remove_task_from_wheel
from evenbeat.core.placement import add_task_to_wheel as put_on
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Entry, Instant, Invalid, Schedule, Spread, Task
from evenbeat.when.wheel import LoadWheel, PlacedTask

EVERYS = [
    SECOND,
    7 * SECOND,
    10 * SECOND,
    MINUTE,
    5 * MINUTE,
    90 * MINUTE,
    HOUR,
    DAY,
    1_500_000,
    3_000_001,
    5_003 * SECOND,
]
everys = st.sampled_from(EVERYS)
weights = st.sampled_from([0.5, 1.0, 3.0])
spreads = st.sampled_from([Spread.EVEN, Spread.EVEN, Spread.HASH, Spread.ALIGNED, Spread.BERGAMOT])
_names = count()


def task(name: str, every: int = MINUTE, spread: Spread = Spread.EVEN, weight: float = 1.0) -> Task:
    return (
        replace(task_from_table(name, {"every": every / SECOND, "command": ["x"]}, check=False), weight=weight)
        if (spread is Spread.EVEN)
        else Task(name, Schedule(every=every, spread=spread), weight=weight)
    )


tasks = st.lists(
    st.builds(lambda every, spread, weight: task(f"t{next(_names)}", every, spread, weight), everys, spreads, weights),
    max_size=20,
)


def place_on_wheel(wheel: LoadWheel, some: Sequence[Task]) -> list[Task]:
    return placement.place_on_wheel(wheel, some, Random(7).random)


def loads(wheel: LoadWheel) -> list[float]:
    return [float(load) for load in wheel.load]


def entry(number: int, task: Task) -> Entry:
    return Entry(number, str(number), 1, "ana", Instant(0), Instant(0), task)


def test_many_tasks_of_one_interval_are_spread_evenly_over_it() -> None:
    wheel = LoadWheel()
    placed = place_on_wheel(wheel, [task(f"t{i}", MINUTE) for i in range(600)])
    seconds = np.bincount([(t.schedule.phase or 0) // SECOND for t in placed], minlength=60)
    assert (seconds.min(), seconds.max()) == (10, 10)


def test_one_by_one_they_are_as_even_as_together() -> None:
    wheel = LoadWheel()
    placed = [place_on_wheel(wheel, [task(f"t{i}", MINUTE)])[0] for i in range(120)]
    seconds = np.bincount([(t.schedule.phase or 0) // SECOND for t in placed], minlength=60)
    assert (seconds.min(), seconds.max()) == (2, 2)


@given(tasks)
def test_everybody_gets_a_phase_within_the_interval_or_has_one(some: list[Task]) -> None:
    for before, after in zip(some, place_on_wheel(LoadWheel(), some), strict=True):
        schedule = after.schedule
        assert replace(after, schedule=before.schedule) == before
        if before.schedule.spread in (Spread.HASH, Spread.ALIGNED):
            assert after == before
        else:
            assert schedule.phase is not None
            assert 0 <= schedule.phase < (schedule.every or 0)


@given(tasks, tasks)
def test_who_comes_later_moves_nobody(first: list[Task], second: list[Task]) -> None:
    wheel = LoadWheel()
    placed = place_on_wheel(wheel, first)
    place_on_wheel(wheel, second)
    assert place_on_wheel(wheel, placed) == placed


@given(tasks)
def test_a_wheel_that_is_filled_has_the_load_of_the_one_they_were_placed_on(some: list[Task]) -> None:
    wheel = LoadWheel()
    placed = place_on_wheel(wheel, some)
    assert loads(fill_wheel(placed)) == loads(wheel)


@given(tasks)
def test_who_is_taken_off_leaves_nothing_behind(some: list[Task]) -> None:
    wheel = LoadWheel()
    cron = [task_from_table(f"c{i}", {"cron": f"H H * * {i}", "command": ["x"]}, check=False) for i in range(3)]
    for t in (placed := place_on_wheel(wheel, [*some, *cron])):
        remove_task_from_wheel(wheel, t)
    assert len(placed) == len(some) + 3
    assert not wheel.load.any()


@given(everys, weights, st.lists(st.integers(0, 10 * DAY), max_size=60), st.lists(st.integers(0, DAY), max_size=5))
def test_many_at_once_make_exactly_the_wheel_that_they_make_one_by_one(
    every: int, weight: float, phases: list[int], before: list[int]
) -> None:
    one_by_one, at_once = LoadWheel(), LoadWheel()
    for phase in before:
        one_by_one.add(PlacedTask(every, phase % every, 2.0))
        at_once.add(PlacedTask(every, phase % every, 2.0))
    some = [phase % every for phase in phases]
    for phase in some:
        one_by_one.add(PlacedTask(every, phase, weight))
    at_once.add_all(every, weight, np.array(some, dtype=np.int64))
    assert loads(one_by_one) == loads(at_once)
    # What else it knows shows in what it would say next.
    for _ in range(3):
        assert at_once.place(every, weight) == one_by_one.place(every, weight)
    for phase in some:
        at_once.remove(PlacedTask(every, phase, weight))
        one_by_one.remove(PlacedTask(every, phase, weight))
    assert loads(one_by_one) == loads(at_once)


def test_an_edit_keeps_the_phase() -> None:
    old = place_on_wheel(LoadWheel(), [task("a")])[0]
    assert keep_phase(replace(task("a"), priority=5), old).schedule == old.schedule


@pytest.mark.parametrize("new", [task("a", 5 * MINUTE), task("a", MINUTE, Spread.ALIGNED)])
def test_another_interval_or_spread_asks_for_a_new_one(new: Task) -> None:
    old = place_on_wheel(LoadWheel(), [task("a")])[0]
    assert keep_phase(new, old).schedule.phase is None


def test_a_phase_that_is_asked_for_is_given() -> None:
    old = place_on_wheel(LoadWheel(), [task("a")])[0]
    asked = replace(old, schedule=replace(old.schedule, phase=17 * SECOND))
    assert keep_phase(asked, old) == asked


class TestPlaces:
    """The wheel that goes with a store."""

    def setup_method(self) -> None:
        self.entries: list[Entry] = []
        self.fills = 0
        self.places = PhasePlacement(self.all, Random(7).random)

    def all(self) -> list[Entry]:
        self.fills += 1
        return self.entries

    def add(self, *new: Task) -> list[Entry]:
        entries = [entry(len(self.entries) + i, t) for i, t in enumerate(self.places.place_new(new))]
        self.entries = [*self.entries, *entries]
        return entries

    def must_be_right(self) -> None:
        wheel = self.places._wheel
        assert wheel is not None
        assert loads(wheel) == loads(fill_wheel(e.task for e in self.entries))

    def test_it_is_filled_once_and_stays_right(self) -> None:
        some = self.add(*(task(f"t{i}", EVERYS[i % len(EVERYS)]) for i in range(30)))
        self.entries = [e for e in self.entries if e not in some[:10]]
        self.places.remove(some[:10])
        self.must_be_right()
        self.add(task("late"))
        self.must_be_right()
        assert self.fills == 1

    @pytest.mark.parametrize("is_filled", [True, False])
    def test_who_moves_weighs_only_where_it_is_now(self, is_filled: bool) -> None:
        a, b = self.add(task("a"), task("b"))
        if not is_filled:
            self.places = PhasePlacement(self.all, Random(7).random)
        ((number, moved),) = self.places.place_changed([(a, task("a", 5 * MINUTE, weight=3.0))])
        assert number == a.number
        self.entries = [entry(a.number, moved), b]
        self.must_be_right()

    def test_who_makes_the_same_load_as_before_stays_and_nobody_else_is_asked(self) -> None:
        (a,) = self.add(task("a"))
        self.places = PhasePlacement(self.all, Random(7).random)
        fills, new = self.fills, replace(a.task, timebox=3 * SECOND)
        assert self.places.place_changed([(a, new)]) == [(a.number, new)]
        assert self.fills == fills

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (task("a"), task("b")),
            (task("a", spread=Spread.HASH), task("b", spread=Spread.HASH)),
            (task("a", spread=Spread.HASH), task("a", spread=Spread.HASH, weight=9.0)),
        ],
    )
    def test_another_name_or_weight_is_another_load(self, old: Task, new: Task) -> None:
        other, before = self.add(task("other"), old)
        ((number, moved),) = self.places.place_changed([(before, new)])
        assert moved.schedule.spread is not Spread.EVEN or moved.schedule.phase is not None
        self.entries = [other, entry(number, moved)]
        self.must_be_right()

    def test_what_was_refused_weighs_nothing(self) -> None:
        def refused(some: Sequence[Task]) -> None:
            with self.places.invalidated_on_error():
                self.places.place_new(some)
                raise Invalid("the name is taken")

        self.add(task("a"))
        with pytest.raises(Invalid):
            refused([task("b", weight=1_000.0)])
        self.add(task("c"))
        self.must_be_right()


def test_a_cron_task_counts_where_it_runs() -> None:
    wheel = LoadWheel()
    put_on(wheel, task_from_table("a", {"cron": "7 * * * *", "second": 30, "command": ["x"]}, check=False))
    assert np.flatnonzero(wheel.load).tolist() == [7 * 60 + 30]
