"""The load wheel: an hour of one-second slots onto which every schedule folds its expected load.

It answers one question: which phase adds a task where the load is least? Adding or removing a task moves no other.
Loads are fixed-point integers, so that what is removed is exactly what was added, after any number of changes.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from heapq import heapify, heapreplace
from math import gcd
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.model import HOUR, SECOND

SLOTS: Final = 3_600
UNIT: Final = 1 << 24
"""One run per hour of weight 1, in fixed point: fine enough for yearly tasks, and a million heavy ones fit int64."""
GOLDEN: Final = 0.6180339887498949
"""Fraction of the golden ratio: its multiples modulo 1 stay spread out however many are taken."""
_FEW: Final = 32
"""From this many tasks of one interval on, a heap of residues beats looking at the whole wheel for each."""
_MOST_LOAD: Final = 1 << 60
"""Beyond it sums might not fit int64 any more."""
_LAP_CANDIDATES: Final = 16
_MOST_LAPS: Final = 4_096
"""Longest table of laps; beyond it the golden sequence alone spreads well enough."""

Ints = NDArray[np.int64]


class PlacedTask(NamedTuple):
    """An interval task on the wheel: what `remove` needs to take it off again."""

    every: int
    phase: int
    weight: float = 1.0


class _Laps:
    """Tasks of one interval that does not divide the hour, by the lap of it they start in.

    The hour cannot tell 03:10 from 04:10; these counts spread daily tasks over the day and 7-second ones over 7 s.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.tasks = 0
        self.placed = 0
        self.load = np.zeros(count if count <= _MOST_LAPS else 0, dtype=np.int64)
        self.exact: dict[tuple[int, int], int] = {}

    def choose(self, residue: int) -> int:
        if not len(self.load):
            return int(self.placed * GOLDEN % 1 * self.count)
        order = _golden_order(self.count)
        if self.count > _LAP_CANDIDATES:
            order = order[np.argsort(self.load[order], kind="stable")[:_LAP_CANDIDATES]]
        laps = order.tolist()
        loads = self.load[order].tolist()
        best: int = min(zip(laps, loads, strict=True), key=lambda c: (self.exact.get((residue, c[0]), 0), c[1]))[0]
        return best

    def change(self, lap: int, residue: int, units: int) -> None:
        self.tasks += 1 if units > 0 else -1
        self.placed += units > 0
        if len(self.load):
            self.load[lap] += units
            left = self.exact.get((residue, lap), 0) + units
            if left:
                self.exact[residue, lap] = left
            else:
                self.exact.pop((residue, lap), None)

    def add_all(self, laps: Ints, residues: Ints, units: int) -> None:
        """`change` for many."""
        self.tasks += len(laps)
        self.placed += len(laps)
        if len(self.load):
            self.load += np.bincount(laps, minlength=self.count) * units
            where, times = np.unique(np.stack((residues, laps)), axis=1, return_counts=True)
            for residue, lap, n in zip(*where.tolist(), times.tolist(), strict=True):
                self.exact[residue, lap] = self.exact.get((residue, lap), 0) + n * units


class LoadWheel:
    """Expected starts per second of the hour, weighted by expected run time."""

    def __init__(self) -> None:
        self._load: Ints = np.zeros(SLOTS, dtype=np.int64)
        self._visitors = np.zeros(SLOTS, dtype=np.int64)
        """Tasks ever placed in each slot: where its golden sequence goes on."""
        self._laps: dict[int, _Laps] = {}

    @property
    def load(self) -> NDArray[np.float64]:
        """Expected load of each second of the hour."""
        return self._load / UNIT

    # Interval tasks

    def place(self, every: int, weight: float = 1.0) -> int:
        """Choose the least-loaded phase for one task, add it, and return the phase in microseconds."""
        return self._place_few(every, [weight])[0]

    def place_all(self, tasks: Sequence[tuple[int, float]]) -> list[int]:
        """Place many (every, weight) at once, short intervals and heavy tasks first; phases in the order given.

        For intervals that divide each other and equal weights the result is as even as can be: max - min <= 1.
        """
        every = np.array([every for every, _ in tasks], dtype=np.int64)
        weight = np.array([weight for _, weight in tasks], dtype=np.float64)
        order = np.lexsort((-weight, every))
        phases = np.zeros(len(tasks), dtype=np.int64)
        for same in np.split(order, np.flatnonzero(np.diff(every[order])) + 1):
            if len(same):
                phases[same] = self._place_same(int(every[same[0]]), weight[same])
        placed: list[int] = phases.tolist()
        return placed

    def _place_same(self, every: int, weights: NDArray[np.float64]) -> Sequence[int] | Ints:
        """Tasks of the same interval, heavy ones first."""
        if len(weights) < _FEW or gcd(every, HOUR) % SECOND:
            return self._place_few(every, weights.tolist())
        if HOUR % every == 0 and weights[0] == weights[-1]:
            units = _units(every, every, float(weights[0]))
            if len(weights) * units * HOUR // every < _MOST_LOAD:
                return self._place_alike(every, units, len(weights))
        return self._place_many(every, weights.tolist())

    def add(self, task: PlacedTask) -> None:
        """Count a task whose phase is known already (it was persisted, or another strategy chose it)."""
        self._change(task, 1)
        self._count_visit(task.every, task.phase)

    def add_all(self, every: int, weight: float, phases: Ints) -> None:
        """`add` for many tasks of the same interval and weight: the same wheel, without a step for each of them."""
        step = gcd(every, HOUR)
        if step % SECOND:
            for phase in phases.tolist():
                self.add(PlacedTask(every, phase, weight))
            return
        residues, units = step // SECOND, _units(every, step, weight)
        residue = phases % step // SECOND
        count = np.bincount(residue, minlength=residues)
        self._load.reshape(-1, residues)[:] += count * units
        if step == every:
            self._visitors.reshape(-1, residues)[:] += count
        elif len(phases):
            self._visitors += np.bincount(phases // SECOND % SLOTS, minlength=SLOTS)
            self._laps_of(every, step).add_all(phases // step, residue, units)

    def remove(self, task: PlacedTask) -> None:
        """Free the slots of a task; exactly undoes its `add` or `place`."""
        self._change(task, -1)

    def _change(self, task: PlacedTask, sign: int) -> None:
        step = gcd(task.every, HOUR)
        units = sign * _units(task.every, step, task.weight)
        if step % SECOND == 0:
            self._load[task.phase % step // SECOND :: step // SECOND] += units
        else:
            # Rounded per second, not per visit: with a step of microseconds one visit is far less than a unit.
            visits = _visits(task.phase % step, step)
            self._load += sign * np.rint(task.weight * UNIT * step / task.every * visits).astype(np.int64)
        self._count_lap(task.every, step, task.phase, units)

    def _count_visit(self, every: int, phase: int) -> None:
        if HOUR % every == 0 and every % SECOND == 0:
            self._visitors[phase // SECOND :: every // SECOND] += 1
        else:
            # On different laps they never meet; the slot a task starts from is what it shares with its like.
            self._visitors[phase // SECOND % SLOTS] += 1

    def _count_lap(self, every: int, step: int, phase: int, units: int) -> None:
        if step == every:
            return
        laps = self._laps_of(every, step)
        laps.change(phase // step, phase % step // SECOND, units)
        if laps.tasks == 0:
            del self._laps[every]

    def _laps_of(self, every: int, step: int) -> _Laps:
        laps = self._laps.get(every)
        if laps is None:
            laps = self._laps[every] = _Laps(every // step)
        return laps

    def _place_few(self, every: int, weights: Iterable[float]) -> list[int]:
        phases = []
        for weight in weights:
            phases.append(self._phase(every, self._least_loaded(gcd(every, HOUR))))
            self.add(PlacedTask(every, phases[-1], weight))
        return phases

    def _place_many(self, every: int, weights: Sequence[float]) -> list[int]:
        step = gcd(every, HOUR)
        residues = step // SECOND
        by_residue = self._load.reshape(-1, residues)
        peak, total = by_residue.max(axis=0).tolist(), by_residue.sum(axis=0).tolist()
        heap = [(peak[r], total[r], rank, r) for rank, r in enumerate(_golden_order(residues).tolist())]
        heapify(heap)
        if step == every:
            return self._place_on_grid(every, weights, heap)
        added = [0] * residues
        visits = SLOTS // residues
        phases = []
        for weight in weights:
            highest, sum_, rank, r = heap[0]
            units = _units(every, step, weight)
            phase = self._phase(every, r)
            phases.append(phase)
            heapreplace(heap, (highest + units, sum_ + visits * units, rank, r))
            added[r] += units
            self._count_visit(every, phase)
            self._count_lap(every, step, phase, units)
        by_residue += np.array(added, dtype=np.int64)
        return phases

    def _place_alike(self, every: int, units: int, count: int) -> Ints:
        """`_place_many` for tasks that differ in nothing, and an interval that divides the hour: as most do.

        The n-th task that a second takes finds there what was there before, and n others. So all that might be taken
        are put in order at once: by peak, by sum, by rank.
        """
        residues = every // SECOND
        by_residue = self._load.reshape(-1, residues)
        peak, total = by_residue.max(axis=0), by_residue.sum(axis=0)
        room = _room(peak, units, count)
        second = np.repeat(np.arange(residues), room)
        nth = np.arange(len(second)) - np.repeat(np.cumsum(room) - room, room)
        found = peak[second] + nth * units, total[second] + nth * (units * len(by_residue))
        chosen = np.lexsort((_golden_rank(residues)[second], *found[::-1]))[:count]
        second, nth = second[chosen], nth[chosen]
        visitors = self._visitors[:residues][second] + nth
        taken = np.bincount(second, minlength=residues)
        by_residue += taken * units
        self._visitors.reshape(-1, residues)[:] += taken
        within = ((second + visitors) * GOLDEN % 1 * SECOND).astype(np.int64)
        return second * SECOND + within

    def _place_on_grid(self, every: int, weights: Sequence[float], heap: list[tuple[int, int, int, int]]) -> list[int]:
        """`_place_many` for an interval that divides the hour, as nearly all do: plain numbers until all are placed."""
        residues = every // SECOND
        visits = SLOTS // residues
        added, visitors = [0] * residues, self._visitors[:residues].tolist()
        before = visitors.copy()
        known: dict[float, int] = {}
        phases = []
        for weight in weights:
            units = known.get(weight)
            if units is None:
                units = known[weight] = _units(every, every, weight)
            highest, sum_, rank, r = heap[0]
            phases.append(r * SECOND + int((r + visitors[r]) * GOLDEN % 1 * SECOND))
            heapreplace(heap, (highest + units, sum_ + visits * units, rank, r))
            added[r] += units
            visitors[r] += 1
        self._load.reshape(-1, residues)[:] += np.array(added, dtype=np.int64)
        self._visitors.reshape(-1, residues)[:] += np.array(visitors, dtype=np.int64) - np.array(before, dtype=np.int64)
        return phases

    def _least_loaded(self, step: int) -> int:
        """The second below `step` whose slots have the lowest peak, then sum; of equals the first in golden order."""
        residues = -(-step // SECOND)
        if residues == 1:
            return 0
        if step % SECOND == 0:
            by_residue = self._load.reshape(-1, residues)
        else:
            slots = (np.arange(HOUR // step)[:, None] * step + np.arange(residues) * SECOND) // SECOND % SLOTS
            by_residue = self._load[slots]
        peak = by_residue.max(axis=0)
        least = np.flatnonzero(peak == peak.min())
        if len(least) > 1:
            total = by_residue[:, least].sum(axis=0)
            least = least[total == total.min()]
        return int(least[_golden_rank(residues)[least].argmin()])

    def _phase(self, every: int, residue: int) -> int:
        step = gcd(every, HOUR)
        lap = 0
        if step != every:
            lap = self._laps_of(every, step).choose(residue)
        whole = lap * step + residue * SECOND
        slot = whole // SECOND % SLOTS
        room = min(SECOND, step - residue * SECOND)
        # Each slot continues its own sequence, and neighbouring slots begin at different fractions of the second.
        return whole + int((slot + int(self._visitors[slot])) * GOLDEN % 1 * room)

    # Cron tasks: their slots are given, they only count

    def add_slots(self, slots: Mapping[int, float], weight: float = 1.0) -> None:
        """Count a schedule by its expected starts per hour in each slot (see `cron_slots`)."""
        for slot, starts in slots.items():
            self._load[slot] += round(starts * weight * UNIT)

    def remove_slots(self, slots: Mapping[int, float], weight: float = 1.0) -> None:
        """Exactly undo `add_slots`."""
        for slot, starts in slots.items():
            self._load[slot] -= round(starts * weight * UNIT)


def _units(every: int, step: int, weight: float) -> int:
    """Load of one visited point per hour, in fixed point: `HOUR / every` runs share `HOUR / step` points."""
    return max(round(weight * UNIT * step / every), 1)


def _room(peak: Ints, units: int, count: int) -> Ints:
    """How many tasks go into each slot, filling up to the lowest level that has room for all of them."""
    low, high = int(peak.min()), int(peak.min()) + units * count
    while low < high:
        level = (low + high) // 2
        if np.maximum((level - peak) // units + 1, 0).sum() < count:
            low = level + 1
        else:
            high = level
    return np.maximum((low - peak) // units + 1, 0)


def _visits(residue: int, step: int) -> Ints:
    """How many of the points `residue + k * step` of the hour fall into each of its seconds, for broken seconds."""
    edges = -((residue - np.arange(SLOTS + 1, dtype=np.int64) * SECOND) // step)
    return np.diff(edges)


@lru_cache(maxsize=256)
def _golden_order(n: int) -> Ints:
    """The numbers below n in an order whose every beginning is spread out: where equal loads leave the choice."""
    seen: set[int] = set()
    order: list[int] = []
    k = 0
    while len(order) < n and k < 8 * n:
        if (i := int(k * GOLDEN % 1 * n)) not in seen:
            seen.add(i)
            order.append(i)
        k += 1
    order.extend(i for i in range(n) if i not in seen)
    return np.array(order, dtype=np.int64)


@lru_cache(maxsize=256)
def _golden_rank(n: int) -> Ints:
    return np.argsort(_golden_order(n))
