"""The load wheel: what it counts, how evenly it places, and that it takes off exactly what it put on."""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import pairwise
from math import ceil, lcm
from random import Random

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenbeat.model import DAY, HOUR, MAX_EVERY, MINUTE, SECOND, WEEK
from evenbeat.when.wheel import SLOTS, LoadWheel, PlacedTask

Floats = NDArray[np.float64]
Place = Callable[[LoadWheel, list[int]], list[PlacedTask]]

NESTED = [10 * SECOND, 30 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR]
"""Intervals that divide each other, and the hour."""
ODD = [7 * SECOND, 25 * MINUTE, 90 * MINUTE, 2 * HOUR, DAY, 1_500_000, 1_100_000, 7_250_000, 61 * SECOND]
"""Intervals that do not divide the hour, or not in whole seconds."""
WEIGHTS = st.sampled_from([1.0, 1.0, 10.0, 0.25, 1 / 3])


def folded(tasks: Iterable[PlacedTask]) -> Floats:
    """The expected load the slow way: list all starts until the pattern repeats, and average over those hours."""
    load = np.zeros(SLOTS)
    for task in tasks:
        repeats = lcm(task.every, HOUR)
        starts = np.arange(task.phase, task.phase + repeats, task.every)
        per_slot = np.bincount(starts % HOUR // SECOND, minlength=SLOTS)
        load += per_slot * task.weight / (repeats // HOUR)
    return load


def true_counts(tasks: Iterable[PlacedTask], length: int = HOUR) -> NDArray[np.int64]:
    """How many tasks really start in each second of a stretch from the epoch on."""
    counts = np.zeros(length // SECOND, dtype=np.int64)
    for task in tasks:
        np.add.at(counts, np.arange(task.phase, length, task.every) // SECOND, 1)
    return counts


def bulk(wheel: LoadWheel, everies: list[int]) -> list[PlacedTask]:
    phases = wheel.place_all([(e, 1.0) for e in everies])
    return [PlacedTask(e, p) for e, p in zip(everies, phases, strict=True)]


def one_by_one(wheel: LoadWheel, everies: list[int]) -> list[PlacedTask]:
    return [PlacedTask(e, wheel.place(e)) for e in everies]


def gaps(points: Iterable[int], circle: int) -> list[int]:
    """Distances between neighbours on a circle."""
    around = sorted(points)
    return [b - a for a, b in pairwise([*around, around[0] + circle])]


# What it counts


OPERATIONS = st.one_of(
    st.tuples(st.just("place"), st.sampled_from(NESTED + ODD), WEIGHTS),
    st.tuples(st.just("add"), st.sampled_from(NESTED + ODD), WEIGHTS, st.floats(0, 1, exclude_max=True)),
    st.tuples(st.just("bulk"), st.lists(st.tuples(st.sampled_from(NESTED + ODD), WEIGHTS), max_size=6)),
    st.tuples(st.just("many"), st.sampled_from([MINUTE, 25 * MINUTE, DAY, 7 * SECOND]), WEIGHTS),
    st.tuples(st.just("remove"), st.integers(0, 10**6)),
)


def apply(wheel: LoadWheel, tasks: list[PlacedTask], operation: tuple[object, ...]) -> None:
    match operation:
        case ("place", int(every), float(weight)):
            tasks.append(PlacedTask(every, wheel.place(every, weight), weight))
        case ("add", int(every), float(weight), float(fraction)):
            tasks.append(PlacedTask(every, int(fraction * every), weight))
            wheel.add(tasks[-1])
        case ("bulk", list(wanted)):
            phases = wheel.place_all(wanted)
            tasks.extend(PlacedTask(e, p, w) for (e, w), p in zip(wanted, phases, strict=True))
        case ("many", int(every), float(weight)):
            # Enough of one interval for the heap.
            phases = wheel.place_all([(every, weight)] * 40)
            tasks.extend(PlacedTask(every, p, weight) for p in phases)
        case ("remove", int(which)) if tasks:
            wheel.remove(tasks.pop(which % len(tasks)))


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(OPERATIONS, max_size=12), st.randoms(use_true_random=False))
def test_the_load_is_the_folded_expected_load_after_any_changes(
    operations: list[tuple[object, ...]], random: Random
) -> None:
    """And when all are gone it is zero: exactly, everywhere, in whatever order they went."""
    wheel, tasks = LoadWheel(), list[PlacedTask]()
    for operation in operations:
        apply(wheel, tasks, operation)
    assert wheel.load == pytest.approx(folded(tasks), rel=1e-6, abs=1e-6)
    assert all(0 <= t.phase < t.every for t in tasks)
    random.shuffle(tasks)
    for task in tasks:
        wheel.remove(task)
    assert not wheel.load.any()


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.tuples(st.sampled_from(NESTED), st.booleans()), min_size=1, max_size=40))
def test_for_intervals_that_divide_the_hour_the_load_is_the_true_count(wanted: list[tuple[int, bool]]) -> None:
    wheel, tasks = LoadWheel(), list[PlacedTask]()
    for every, stays in wanted:
        task = PlacedTask(every, wheel.place(every))
        if stays:
            tasks.append(task)
        else:
            wheel.remove(task)
    assert wheel.load.tolist() == true_counts(tasks).tolist()


@pytest.mark.parametrize("every", [DAY + 1, WEEK + 1, MAX_EVERY - 1, 1_000_001, 86_400_001_000])
def test_an_interval_with_a_ragged_fraction_counts_as_much_as_its_neighbour(every: int) -> None:
    """A microsecond more than a day is, to the hour, as much load as a day."""
    wheel = LoadWheel()
    phase = wheel.place(every)
    assert wheel.load.sum() == pytest.approx(HOUR / every, rel=0.01, abs=SLOTS / 2**25)
    wheel.remove(PlacedTask(every, phase))
    assert not wheel.load.any()


def test_a_task_of_weight_10_counts_ten() -> None:
    wheel = LoadWheel()
    phase = wheel.place(HOUR, 10.0)
    assert wheel.load[phase // SECOND] == 10.0
    assert wheel.load.sum() == 10.0


def test_a_two_hourly_task_counts_half() -> None:
    wheel = LoadWheel()
    wheel.add(PlacedTask(2 * HOUR, HOUR + 5 * SECOND))
    assert dict(enumerate(wheel.load)) == {i: 0.5 if i == 5 else 0.0 for i in range(SLOTS)}


def test_a_task_of_ninety_minutes_touches_the_multiples_of_its_gcd_with_the_hour() -> None:
    wheel = LoadWheel()
    wheel.add(PlacedTask(90 * MINUTE, 40 * MINUTE + 5 * SECOND))
    assert np.flatnonzero(wheel.load).tolist() == [10 * 60 + 5, 40 * 60 + 5]
    assert wheel.load.max() == pytest.approx(1 / 3)


@pytest.mark.parametrize("every", [*NESTED, *ODD])
def test_adding_and_removing_a_task_touches_only_its_own_slots(every: int) -> None:
    wheel = LoadWheel()
    bulk(wheel, NESTED * 20)
    before = wheel.load
    task = PlacedTask(every, wheel.place(every))
    touched = folded([task]) > 0
    difference = wheel.load - before
    assert (difference[touched] > 0).all()
    assert not difference[~touched].any()
    wheel.remove(task)
    assert (wheel.load == before).all()


def test_the_answer_is_a_copy_that_later_changes_do_not_reach() -> None:
    wheel = LoadWheel()
    before = wheel.load
    wheel.place(MINUTE)
    assert not before.any()


# How evenly it places


@settings(deadline=None, max_examples=examples(40))
@given(st.lists(st.sampled_from(NESTED), max_size=30), st.lists(st.integers(0, SLOTS - 1), max_size=30), st.data())
def test_place_chooses_a_second_of_the_lowest_peak(crowd: list[int], spikes: list[int], data: st.DataObject) -> None:
    wheel = LoadWheel()
    bulk(wheel, crowd)
    for slot in spikes:
        wheel.add_slots({slot: 1.0})
    every = data.draw(st.sampled_from([*NESTED, 25 * MINUTE, 90 * MINUTE, DAY]))
    residues = int(np.gcd(every, HOUR)) // SECOND
    peaks = [wheel.load[r::residues].max() for r in range(residues)]
    phase = wheel.place(every)
    assert peaks[phase // SECOND % residues] == min(peaks)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from(NESTED), st.integers(1, 200)), max_size=10), st.randoms())
def test_bulk_placement_of_intervals_that_divide_each_other_is_as_even_as_can_be(
    counts: list[tuple[int, int]], random: Random
) -> None:
    everies = [e for e, n in counts for _ in range(n)]
    random.shuffle(everies)
    wheel = LoadWheel()
    bulk(wheel, everies)
    assert wheel.load.max() - wheel.load.min() <= 1


@pytest.mark.parametrize("seed", range(5))
def test_a_sparse_timetable_has_the_smallest_possible_peak_or_one_more(seed: int) -> None:
    everies = Random(seed).choices(NESTED, k=500)
    smallest = ceil(sum(HOUR // e for e in everies) / SLOTS)
    together = LoadWheel()
    bulk(together, everies)
    assert together.load.max() == smallest
    in_turn = LoadWheel()
    one_by_one(in_turn, everies)
    assert in_turn.load.max() <= smallest + 1


def test_a_hundred_thousand_tasks_stay_even_while_half_of_them_are_replaced() -> None:
    random = Random(1)
    wheel = LoadWheel()
    tasks = bulk(wheel, random.choices(NESTED, k=100_000))

    def peak_to_mean() -> float:
        return float(wheel.load.max() / wheel.load.mean())

    assert wheel.load.tolist() == true_counts(tasks).tolist()
    assert peak_to_mean() <= 1.01
    for replace in (bulk, one_by_one):
        random.shuffle(tasks)
        for task in tasks[50_000:]:
            wheel.remove(task)
        del tasks[50_000:]
        tasks += replace(wheel, random.choices(NESTED, k=50_000))
        assert peak_to_mean() <= 1.03
    assert wheel.load.tolist() == true_counts(tasks).tolist()


@pytest.mark.parametrize("weight", [1.0, 3.0])
@pytest.mark.parametrize("every", [10 * SECOND, MINUTE, HOUR, 25 * MINUTE, 7 * SECOND, DAY, WEEK])
def test_many_at_once_and_one_by_one_give_the_same_phases(every: int, weight: float) -> None:
    together, in_turn = LoadWheel(), LoadWheel()
    for wheel in (together, in_turn):
        wheel.place(30 * SECOND)
        wheel.place(5 * MINUTE, 2.0)
    phases = together.place_all([(every, weight)] * 500)
    assert phases == [in_turn.place(every, weight) for _ in range(500)]
    assert (together.load == in_turn.load).all()
    assert together.place_all([(every, weight)] * 100) == [in_turn.place(every, weight) for _ in range(100)]


@given(
    st.sampled_from([SECOND, 10 * SECOND, MINUTE, 20 * MINUTE, HOUR]),
    st.sampled_from([0.001, 1.0, 86_400.0]),
    st.lists(st.tuples(st.sampled_from([MINUTE, 5 * MINUTE, HOUR, 90 * MINUTE]), st.sampled_from([0.25, 1.0, 50.0]))),
    st.dictionaries(st.integers(0, SLOTS - 1), st.floats(0, 1_000)),
    st.integers(32, 300),
)
def test_alike_among_others_at_once_and_one_by_one_get_the_same_phases(
    every: int, weight: float, others: list[tuple[int, float]], spikes: dict[int, float], count: int
) -> None:
    together, in_turn = LoadWheel(), LoadWheel()
    for wheel in (together, in_turn):
        wheel.add_slots(spikes)
        for other in others:
            wheel.place(*other)
    for _ in range(2):
        assert together.place_all([(every, weight)] * count) == [in_turn.place(every, weight) for _ in range(count)]
        assert (together.load == in_turn.load).all()


def test_bulk_placement_goes_from_short_to_long_and_from_heavy_to_light() -> None:
    wanted = [(HOUR, 1.0), (MINUTE, 1.0), (HOUR, 5.0), (10 * SECOND, 1.0), (HOUR, 1.0)]
    together, in_turn = LoadWheel(), LoadWheel()
    phases = together.place_all(wanted)
    for i in (3, 1, 2, 0, 4):
        assert in_turn.place(*wanted[i]) == phases[i]


def test_placing_nothing_is_nothing() -> None:
    assert LoadWheel().place_all([]) == []


def test_heavy_tasks_are_kept_apart() -> None:
    """Sixty heavy checks among six hundred light ones: each second of the minute has exactly one."""
    wheel = LoadWheel()
    wanted = [(MINUTE, 10.0 if i % 11 == 0 else 1.0) for i in range(660)]
    phases = wheel.place_all(wanted)
    heavy = Counter(p // SECOND for p, (_, w) in zip(phases, wanted, strict=True) if w == 10)
    assert heavy == dict.fromkeys(range(60), 1)
    assert wheel.load.tolist() == [20.0] * SLOTS


def test_a_light_task_avoids_the_second_of_a_heavy_one() -> None:
    wheel = LoadWheel()
    heavy = wheel.place(10 * SECOND, 10.0) // SECOND
    light = Counter(wheel.place(10 * SECOND) // SECOND for _ in range(90))
    assert light == {second: 10 for second in range(10) if second != heavy}


@pytest.mark.parametrize("n", [2, 3, 5, 8, 13, 20])
def test_a_handful_of_hourly_tasks_are_far_apart(n: int) -> None:
    wheel = LoadWheel()
    phases = [wheel.place(HOUR) for _ in range(n)]
    assert min(gaps(phases, HOUR)) > HOUR / n / 3


# Beyond the hour


@pytest.mark.parametrize("place", [bulk, one_by_one])
def test_fifty_thousand_daily_tasks_are_spread_over_the_whole_day(place: Place) -> None:
    wheel = LoadWheel()
    tasks = place(wheel, [DAY] * 50_000)
    per_second = true_counts(tasks, DAY)
    assert per_second.max() <= 2
    per_hour = per_second.reshape(24, SLOTS).sum(axis=1)
    assert per_hour.max() / per_hour.mean() <= 1.01


def test_daily_tasks_stay_spread_over_the_day_while_half_of_them_are_replaced() -> None:
    random = Random(2)
    wheel = LoadWheel()
    tasks = bulk(wheel, [DAY] * 20_000)
    random.shuffle(tasks)
    for task in tasks[10_000:]:
        wheel.remove(task)
    tasks[10_000:] = one_by_one(wheel, [DAY] * 10_000)
    per_second = true_counts(tasks, DAY)
    assert per_second.max() <= 2
    per_hour = per_second.reshape(24, SLOTS).sum(axis=1)
    assert per_hour.max() / per_hour.mean() <= 1.03


def test_weekly_tasks_are_spread_over_the_week() -> None:
    tasks = bulk(LoadWheel(), [WEEK] * 20_000)
    per_second = true_counts(tasks, WEEK)
    assert per_second.max() == 1
    per_day = per_second.reshape(7, -1).sum(axis=1)
    assert per_day.max() / per_day.mean() <= 1.02


@pytest.mark.parametrize("n", [7, 70, 700])
def test_seven_second_tasks_are_even_over_their_seven_seconds(n: int) -> None:
    """The hour's fold cannot see it: a 7-second task touches every second of the hour alike."""
    seconds = Counter(t.phase // SECOND for t in bulk(LoadWheel(), [7 * SECOND] * n))
    assert seconds == dict.fromkeys(range(7), n // 7)


def test_a_seven_second_task_takes_the_place_of_one_that_has_gone() -> None:
    wheel = LoadWheel()
    tasks = bulk(wheel, [7 * SECOND] * 70)
    gone = [t for t in tasks if t.phase // SECOND == 3]
    for task in gone:
        wheel.remove(task)
    assert {wheel.place(7 * SECOND) // SECOND for _ in gone} == {3}


def test_intervals_of_years_are_spread_over_them() -> None:
    """Too many laps for a table: the golden sequence alone spreads them."""
    wheel = LoadWheel()
    phases = [wheel.place(MAX_EVERY) for _ in range(100)]
    assert max(gaps(phases, MAX_EVERY)) < MAX_EVERY / 100 * 3


# Within the second


@pytest.mark.parametrize("every", [10 * SECOND, MINUTE, 7 * SECOND, 1_500_000])
@pytest.mark.parametrize("per_slot", [5, 21, 100])
def test_tasks_of_one_second_are_spread_within_it(every: int, per_slot: int) -> None:
    tasks = bulk(LoadWheel(), [every] * (per_slot * -(-every // SECOND)))
    for second in range(every // SECOND):
        inside = [t.phase % SECOND for t in tasks if t.phase // SECOND == second]
        assert max(gaps(inside, SECOND)) < 3 * SECOND / len(inside)


def test_tasks_of_different_intervals_that_meet_in_a_second_are_spread_within_it() -> None:
    tasks = bulk(LoadWheel(), Random(1).choices(NESTED, k=5_000))
    meeting: list[list[int]] = [[] for _ in range(SLOTS)]
    for task in tasks:
        for t in range(task.phase, HOUR, task.every):
            meeting[t // SECOND].append(t % SECOND)
    assert max(max(gaps(starts, SECOND)) * len(starts) for starts in meeting) < 3 * SECOND


@settings(deadline=None)
@given(st.lists(st.integers(SECOND, MAX_EVERY), min_size=1, max_size=5), st.integers(1, 5))
def test_every_phase_is_inside_its_interval(everies: list[int], times: int) -> None:
    wheel = LoadWheel()
    for every in everies * times:
        assert 0 <= wheel.place(every) < every


# Cron tasks


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.dictionaries(st.integers(0, SLOTS - 1), st.floats(0, 60, exclude_min=True), max_size=20),
            st.floats(0.01, 100),
        ),
        max_size=8,
    ),
    st.randoms(),
)
def test_cron_slots_are_counted_and_taken_off_exactly(
    crons: list[tuple[dict[int, float], float]], random: Random
) -> None:
    wheel = LoadWheel()
    expected = np.zeros(SLOTS)
    for slots, weight in crons:
        wheel.add_slots(slots, weight)
        for slot, starts in slots.items():
            expected[slot] += starts * weight
    assert wheel.load == pytest.approx(expected, abs=1e-6)
    random.shuffle(crons)
    for slots, weight in crons:
        wheel.remove_slots(slots, weight)
    assert not wheel.load.any()


@pytest.mark.parametrize("place", [bulk, one_by_one])
def test_placing_avoids_the_spike_of_cron_tasks_pinned_at_second_0(place: Place) -> None:
    wheel = LoadWheel()
    every_minute = {minute * 60: 1.0 for minute in range(60)}
    for _ in range(10):
        wheel.add_slots(every_minute)
    tasks = place(wheel, [MINUTE] * 590)
    seconds = Counter(t.phase // SECOND for t in tasks)
    assert seconds == dict.fromkeys(range(1, 60), 10)
    assert wheel.load.tolist() == [10.0] * SLOTS
