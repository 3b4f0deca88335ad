"""Moves runs from layer to layer of history as they grow old: packs, merges, summarizes, thins out, drops.

Each step is one commit of the store. What a step is about follows from what the store has, so that a round continues
what a node that died has left; a step that was half done is begun anew. A round is made in slices: each `next` of it is
a few milliseconds of work.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from itertools import compress, groupby
from operator import attrgetter
from typing import Final

from evenbeat.core.history_size import LEAST_MEASURED
from evenbeat.core.retention import (
    FREE_SHARE,
    RARE_RUNS,
    RECORDS_PER_HOUR,
    OlderRuns,
    Retention,
    frequent_tasks,
    has_summary_of_hour,
    hour_of,
    is_day_over,
    is_hour_over,
    is_kept_longer,
    thin_hour,
)
from evenbeat.core.run_summaries import by_day, one_per_time, summarize
from evenbeat.model import DAY, HOUR, MINUTE, Instant
from evenbeat.node.history.part_streams import (
    BLOCK,
    RUN_ORDER,
    Pace,
    RunsWriter,
    SummariesWriter,
    merged_summaries,
    runs_in_order,
    summaries_in_order,
)
from evenbeat.store.history_contract import Layer, LayeredHistory, PackedRun, Part

PACKED_AT_ONCE: Final = 2 * BLOCK
"""Rows that one commit packs: it takes as long as a few turns."""
_PACKED_AFTER: Final = MINUTE
"""Fewer rows wait so long, as few parts are better than many."""
_COUNTED_RUNS: Final = 1_000_000
_HOURS_OF_DAY: Final = 24
_MERGED_AT_ONCE: Final = 16
"""Parts of about the same size that are merged: of each, readers have a block in memory."""
_LEAST_TRIMMED_SHARE: Final = 10
"""A part is written anew if at least one of so many of its runs goes."""
_SWEPT_AT_ONCE: Final = 50
"""Blocks."""
_GIVEN_BACK_AT_ONCE: Final = 1 << 20


class Compactor:
    """Of the one node that compacts a store."""

    def __init__(
        self,
        store: LayeredHistory,
        now: Callable[[], Instant],
        retention: Callable[[], Retention],
        tasks: Callable[[], Iterable[Collection[int]]],
    ) -> None:
        """`tasks`: the numbers of the tasks that exist, some at a time."""
        self._store = store
        self._now = now
        self._retention = retention
        self._tasks = tasks
        self._is_clean = False
        """Whether nothing was left half done by a round before, or a node before."""
        self._counted = self._notable = 0
        """Of the latest runs of tasks that run often: all, and those that are kept for longer."""
        self._trimmed_on: int | None = None
        """The day on which old runs were looked through last."""

    def round(self) -> Generator[None, None, None]:
        """Everything that is due now, in slices; raises PartGone if another node has done some of it meanwhile."""
        if not self._is_clean:
            self._store.discard_unfinished()
        self._is_clean = False
        yield from self._pack()
        yield from self._merge_recent()
        yield from self._thin()
        yield from self._merge_hours()
        yield from self._merge_kept()
        yield from self._trim()
        self._drop_old_summaries()
        yield from self._give_back()
        self._is_clean = True

    # Every run, for a while

    def _pack(self) -> Iterator[None]:
        """Rows of runs become parts of the hour in which they ended."""
        while runs := (unpacked := self._store.unpacked(PACKED_AT_ONCE)).runs:
            is_full = len(runs) >= PACKED_AT_ONCE
            if not is_full and min(run.ended for run in runs) > self._now() - _PACKED_AFTER:
                return
            hours: defaultdict[int, list[PackedRun]] = defaultdict(list)
            for run in sorted(runs, key=RUN_ORDER):
                hours[hour_of(run)].append(run)
            self._store.pack(unpacked, sorted(hours.items()))
            yield
            if not is_full:
                return

    def _merge_recent(self) -> Iterator[None]:
        """Many parts of an hour become fewer, and all of an hour that is over become one, with its summaries."""
        recent = _by_time(self._store.parts(Layer.RECENT), HOUR)
        for hour, found in recent.items():
            parts = found
            while many := _of_one_size(parts):
                yield from self._merge_some(hour, many)
                parts = [part for part in self._store.parts(Layer.RECENT) if part.since == hour]
            if is_hour_over(hour, self._now()):
                yield from self._finish_hour(hour, parts)

    def _merge_some(self, hour: int, parts: Sequence[Part]) -> Iterator[None]:
        writer = RunsWriter(self._store, Layer.RECENT, hour)
        yield from self._copy((yield from runs_in_order(self._store, parts)), writer)
        self._store.complete([writer.finish()], _numbers(parts))
        yield

    def _copy(self, runs: Iterable[PackedRun], writer: RunsWriter) -> Iterator[None]:
        pace = Pace()
        for run in runs:
            writer.add((run,))
            if pace.is_pause_due(1):
                yield

    def _finish_hour(self, hour: int, recent: Sequence[Part]) -> Iterator[None]:
        """Late results of an hour come to its runs, and get summaries of their own beside those that it has."""
        known = [part for part in self._store.parts(Layer.RUNS) if part.since == hour]
        runs, summaries = RunsWriter(self._store, Layer.RUNS, hour), SummariesWriter(self._store, Layer.HOURS, hour)
        pace = Pace()
        for _, of_task in groupby((yield from runs_in_order(self._store, recent)), attrgetter("task")):
            group = list(of_task)
            summaries.add(summarize(group, hour))
            self._count(group)
            if not known:
                runs.add(group)
            if pace.is_pause_due(len(group)):
                yield
        if known:
            yield from self._copy((yield from runs_in_order(self._store, [*known, *recent])), runs)
        self._store.complete([runs.finish(), summaries.finish()], _numbers([*known, *recent]))
        yield

    def _count(self, runs: Sequence[PackedRun]) -> None:
        if len(runs) > RARE_RUNS:
            self._counted += len(runs)
            self._notable += min(sum(map(is_kept_longer, runs)), RECORDS_PER_HOUR)
            if self._counted > _COUNTED_RUNS:
                self._counted, self._notable = self._counted // 2, self._notable // 2

    @property
    def notable_share(self) -> float | None:
        """The share of runs, of tasks that run often, that are kept for longer; None if too few were seen."""
        return self._notable / self._counted if self._counted >= LEAST_MEASURED else None

    def age(self) -> int:
        """How old the oldest part of the history is."""
        oldest = [part.since for layer in Layer for part in self._store.parts(layer)[:1]]
        return max(self._now() - min(oldest, default=self._now()), 0)

    # Of older runs, some

    def _thin(self) -> Iterator[None]:
        """Of an hour that is old enough only those runs stay that are kept for longer."""
        for part in self._store.parts(Layer.RUNS):
            if part.since + HOUR + self._retention().keep_runs > self._now():
                continue
            with_output = self._with_whole_output([part])
            gone: list[tuple[int, int]] = []
            writer = RunsWriter(self._store, Layer.KEPT, part.since)
            pace = Pace()
            for kept, left_out in thin_hour((yield from runs_in_order(self._store, [part]))):
                gone += _outputs_of(left_out, with_output)
                writer.add(kept)
                if pace.is_pause_due(len(kept) + len(left_out)):
                    yield
            self._store.complete([writer.finish()], [part.number], gone)
            yield

    def _merge_kept(self) -> Iterator[None]:
        """The runs of a day that are kept for longer become one part, once all of its hours are thinned out."""
        busy = {part.since // DAY for layer in (Layer.RECENT, Layer.RUNS) for part in self._store.parts(layer)}
        for day, parts in _by_time(self._store.parts(Layer.KEPT), DAY).items():
            if len(parts) == 1 or day // DAY in busy or not is_day_over(day, self._now()):
                continue
            writer = RunsWriter(self._store, Layer.KEPT, day, is_merged=True)
            yield from self._copy((yield from runs_in_order(self._store, parts)), writer)
            self._store.complete([writer.finish()], _numbers(parts))
            yield

    def _trim(self) -> Iterator[None]:
        """Once a day: of the runs that were kept for longer, those that are too old now go."""
        today = self._now() // DAY
        if today == self._trimmed_on:
            return
        days = self._store.parts(Layer.DAYS)
        frequent = frequent_tasks(summaries_in_order(self._store, days[-1:])) if days else ()
        tasks: set[int] = set()
        for some in self._tasks():
            tasks.update(some)
            yield
        older = OlderRuns(self._retention(), self._now(), tasks, frequent)
        for part in reversed(self._store.parts(Layer.KEPT)):
            stay, pace = bytearray(), Pace()
            for one in older.stay((yield from runs_in_order(self._store, [part]))):
                stay.append(one)
                if pace.is_pause_due(1):
                    yield
            if stay.count(0) * _LEAST_TRIMMED_SHARE >= len(stay):
                yield from self._rewrite(part, stay)
        self._trimmed_on = today

    def _rewrite(self, part: Part, stay: bytearray) -> Iterator[None]:
        with_output = self._with_whole_output([part])
        writer = RunsWriter(self._store, Layer.KEPT, part.since, is_merged=part.is_merged)
        yield from self._copy(compress((yield from runs_in_order(self._store, [part])), stay), writer)
        gone: list[tuple[int, int]] = []
        if with_output:
            left_out = compress((yield from runs_in_order(self._store, [part])), map(_is_zero, stay))
            gone = _outputs_of(left_out, with_output)
        self._store.complete([writer.finish()], [part.number], gone)
        yield

    def _with_whole_output(self, parts: Sequence[Part]) -> set[tuple[int, int]]:
        """Of runs of these parts, and maybe others: task and claim."""
        first, last = min(part.first_claimed for part in parts), max(part.last_claimed for part in parts)
        return set(self._store.whole_outputs_between(first, last))

    # Summaries

    def _merge_hours(self) -> Iterator[None]:
        """The summaries of the hours of a day become one part, without those of rare tasks, and make those of the day.

        Late results of a day add to what it has.
        """
        busy = {part.since // DAY for part in self._store.parts(Layer.RECENT)}
        for day, parts in _by_time(self._store.parts(Layer.HOURS), DAY).items():
            new = [part for part in parts if not part.is_merged]
            if not new or day // DAY in busy or not is_day_over(day, self._now()):
                continue
            hours = SummariesWriter(self._store, Layer.HOURS, day, is_merged=True)
            pace = Pace()
            for summary in one_per_time(summaries_in_order(self._store, parts)):
                if has_summary_of_hour(summary):
                    hours.add(summary)
                if pace.is_pause_due(1):
                    yield
            days = SummariesWriter(self._store, Layer.DAYS, day, is_merged=True)
            known = [part for part in self._store.parts(Layer.DAYS) if part.since == day]
            new_days = by_day(summaries_in_order(self._store, new), day)
            for summary in one_per_time(merged_summaries(summaries_in_order(self._store, known), new_days)):
                days.add(summary)
                if pace.is_pause_due(_HOURS_OF_DAY):
                    yield
            self._store.complete([hours.finish(), days.finish()], _numbers([*parts, *known]))
            yield

    def _drop_old_summaries(self) -> None:
        now, (_, keep, keep_days) = self._now(), self._retention()
        for part in self._store.parts(Layer.HOURS):
            if part.since + (DAY if part.is_merged else HOUR) + keep <= now:
                self._store.complete([], [part.number])
        for part in self._store.parts(Layer.DAYS):
            if part.since + DAY + keep_days <= now:
                self._store.complete([], [part.number])

    # The file

    def _give_back(self) -> Iterator[None]:
        while self._store.sweep(_SWEPT_AT_ONCE):
            yield
        size = self._store.size()
        to_give = size.free - size.size // FREE_SHARE
        while to_give > 0 and (given := self._store.give_back(min(to_give, _GIVEN_BACK_AT_ONCE))):
            to_give -= given
            yield


def _numbers(parts: Iterable[Part]) -> list[int]:
    return [part.number for part in parts]


def _by_time(parts: Iterable[Part], length: int) -> dict[int, list[Part]]:
    """Parts by the hour or day that they are about."""
    found: defaultdict[int, list[Part]] = defaultdict(list)
    for part in parts:
        found[part.since - part.since % length].append(part)
    return dict(sorted(found.items()))


def _of_one_size(parts: Iterable[Part]) -> list[Part]:
    """The smallest parts of about one size, if there are many of them."""
    sizes: defaultdict[int, list[Part]] = defaultdict(list)
    for part in parts:
        sizes[round(math.log(max(part.rows / PACKED_AT_ONCE, 1), _MERGED_AT_ONCE))].append(part)
    return next((some[:_MERGED_AT_ONCE] for _, some in sorted(sizes.items()) if len(some) >= _MERGED_AT_ONCE), [])


def _outputs_of(runs: Iterable[PackedRun], with_output: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(run.task, run.claimed) for run in runs if (run.task, run.claimed) in with_output] if with_output else []


def _is_zero(flag: int) -> bool:
    return not flag
