"""A workload under each spread strategy: who keeps its times, who gets a phase, and the load curve that results."""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.model import SECOND, Instant, Spread, Task
from evenbeat.when.curve import IntervalTasks, Stretch, grid_curve, icinga_curve, listed_curve, phases
from evenbeat.when.expected_load import fold_onto_wheel
from evenbeat.when.inside_period import CalendarWithinPeriod, substitutes_between, within_period
from evenbeat.when.interval import Interval
from evenbeat.when.nominal_times import ListedSchedule
from evenbeat.when.period import CompiledPeriod
from evenbeat.when.schedule import compile_schedule, has_own_phase
from evenbeat.when.wheel import LoadWheel
from evenbeat.when.windows import Window

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class SpreadWorkload(NamedTuple):
    """Interval tasks as columns, and the schedules whose times no strategy moves."""

    intervals: IntervalTasks
    pinned: Ints
    """The phase a task says itself, -1 where the strategy chooses."""
    periods: list[CompiledPeriod | None]
    others: list[tuple[ListedSchedule, float]]

    @classmethod
    def of_intervals(cls, names: list[str], every: Ints, uniform: Floats, offset: Floats) -> "SpreadWorkload":
        """Tasks that are nothing but intervals."""
        tasks = IntervalTasks(names, every, np.ones(len(names)), uniform, offset)
        return cls(tasks, np.full(len(names), -1, dtype=np.int64), [None] * len(names), [])

    @property
    def kept_phases(self) -> int:
        return int((self.pinned >= 0).sum())

    def describe(self) -> str:
        """The workload in a few words."""
        kinds = ((len(self.intervals.names), "interval"), (len(self.others), "cron, calendar or one-shot"))
        return " and ".join(f"{n:,} {kind} task{'s' if n > 1 else ''}" for n, kind in kinds if n)


def workload_of(
    tasks: Iterable[Task], periods: Mapping[str, CompiledPeriod], uniform: Floats, offset: Floats
) -> SpreadWorkload:
    """Sort tasks into interval columns and the rest; cron entries keep their times whatever the strategy."""
    intervals: list[tuple[Task, CompiledPeriod | None]] = []
    others: list[tuple[ListedSchedule, float]] = []
    for task in tasks:
        period = periods[task.period] if task.period else None
        if task.schedule.every is not None:
            intervals.append((task, period))
            continue
        others.append((within_period(compile_schedule(task.schedule, task.name), period), task.weight))
    count = len(intervals)
    every = np.array([t.schedule.every for t, _ in intervals], dtype=np.int64)
    weight = np.array([t.weight for t, _ in intervals], dtype=np.float64)
    pinned = [_own_phase(t) for t, _ in intervals]
    columns = IntervalTasks([t.name for t, _ in intervals], every, weight, uniform[:count], offset[:count])
    return SpreadWorkload(columns, np.array(pinned, dtype=np.int64), [p for _, p in intervals], others)


def _own_phase(task: Task) -> int:
    """The phase a task has whatever the others do, -1 if it has none."""
    if not has_own_phase(task.schedule):
        return -1
    times = compile_schedule(task.schedule, task.name)
    assert isinstance(times, Interval)
    return times.phase


def curves(workload: SpreadWorkload, strategies: Iterable[Spread], stretch: Stretch) -> dict[Spread, Floats]:
    """The load of each second of the stretch under each strategy."""
    others = listed_curve(workload.others, stretch)
    return {strategy: others + _interval_curve(workload, strategy, stretch) for strategy in strategies}


def least_peak(workload: SpreadWorkload, stretch: Stretch, mean: float) -> float:
    """No choice of phases has a lower peak: it is at least the mean, what cannot be moved, and the heaviest task."""
    tasks, kept = workload.intervals, workload.pinned >= 0
    fixed = listed_curve(workload.others, stretch) + _grid(workload, workload.pinned, kept, stretch)
    moved = (
        weight
        for weight, is_free, runs in zip(
            tasks.weight.tolist(), (~kept).tolist(), _runs_at_any_phase(workload, stretch), strict=True
        )
        if is_free and runs
    )
    weights = (*tasks.weight.tolist(), *(weight for _, weight in workload.others))
    has_whole_weights = all(weight.is_integer() for weight in map(float, weights))
    return max(math.ceil(mean) if has_whole_weights else mean, float(fixed.max()), max(moved, default=0.0))


def _runs_at_any_phase(workload: SpreadWorkload, stretch: Stretch) -> Iterator[bool]:
    """Does each interval task run within the stretch, whatever its phase?"""
    known: dict[tuple[int, int], bool] = {}
    for every, period in zip(workload.intervals.every.tolist(), workload.periods, strict=True):
        key = (every, id(period))
        if key not in known:
            is_rare = every > 2 * stretch.seconds * SECOND
            known[key] = not is_rare and _cover_every_phase(_times_with_a_run(period, every, stretch), every)
        yield known[key]


def _cover_every_phase(times: Iterable[Window], every: int) -> bool:
    """Is there a point of the grid in these times, whatever the phase?"""
    length = every // SECOND
    phases = np.zeros(length, dtype=bool)
    for start, end in times:
        if end - start >= every:
            return True
        phases[np.arange(start // SECOND, end // SECOND) % length] = True
    return bool(phases.all())


def _times_with_a_run(period: CompiledPeriod | None, every: int, stretch: Stretch) -> Iterator[Window]:
    """The times of which a point of the grid leads to a run in the stretch: open windows, and the gap before each."""
    if period is None:
        yield stretch.start, stretch.end
        return
    closed_since = Instant(stretch.start - every)
    for opens, closes in period.windows(closed_since, stretch.end):
        if closes > stretch.start:
            is_whole = opens > stretch.start and closes < stretch.end
            yield closed_since if is_whole else max(opens, stretch.start), closes
        closed_since = closes


def _interval_curve(workload: SpreadWorkload, strategy: Spread, stretch: Stretch) -> Floats:
    free = workload.pinned < 0
    if strategy is Spread.ICINGA:
        return _moving(workload, free, stretch) + _grid(workload, workload.pinned, ~free, stretch)
    phase = workload.pinned.copy()
    phase[free] = phases(workload.intervals.only(free), strategy, _wheel_before(workload), stretch.start)
    return _grid(workload, phase, np.ones(len(phase), dtype=bool), stretch)


def _wheel_before(workload: SpreadWorkload) -> LoadWheel:
    """The wheel with everything on it that has its times already."""
    wheel = LoadWheel()
    columns = (workload.intervals.every, workload.pinned, workload.intervals.weight)
    for every, phase, weight in zip(*(column.tolist() for column in columns), strict=True):
        if phase >= 0:
            fold_onto_wheel(wheel, Interval(every, phase), weight)
    for times, weight in workload.others:
        fold_onto_wheel(wheel, times.schedule if isinstance(times, CalendarWithinPeriod) else times, weight)
    return wheel


def _grid(workload: SpreadWorkload, phase: Ints, rows: NDArray[np.bool_], stretch: Stretch) -> Floats:
    """The load of tasks on fixed grids, inside their periods, substitutes included."""
    curve = np.zeros(stretch.seconds)
    for period, group in _by_period(workload, rows):
        tasks = workload.intervals.only(group)
        part = grid_curve(tasks.every, phase[group], tasks.weight, stretch)
        if period is not None:
            part *= _open_seconds(period, stretch)
            for which, times in substitutes_between(phase[group], tasks.every, period, stretch.start, stretch.end):
                np.add.at(part, (times - stretch.start) // SECOND, tasks.weight[which])
        curve += part
    return curve


def _moving(workload: SpreadWorkload, rows: NDArray[np.bool_], stretch: Stretch) -> Floats:
    """The load under Icinga's rule, which simply skips what falls outside a period."""
    curve = np.zeros(stretch.seconds)
    for period, group in _by_period(workload, rows):
        part = icinga_curve(workload.intervals.only(group), stretch)
        curve += part if period is None else part * _open_seconds(period, stretch)
    return curve


def _by_period(
    workload: SpreadWorkload, rows: NDArray[np.bool_]
) -> Iterator[tuple[CompiledPeriod | None, NDArray[np.bool_]]]:
    distinct = {id(period): period for period in workload.periods}
    ids = np.array([id(period) for period in workload.periods], dtype=np.int64)
    for key, period in distinct.items():
        yield period, rows & (ids == key)


def _open_seconds(period: CompiledPeriod, stretch: Stretch) -> NDArray[np.bool_]:
    # Windows open and close on whole seconds, so a second is wholly inside or outside.
    return period.contains_many(stretch.start + np.arange(stretch.seconds, dtype=np.int64) * SECOND)
