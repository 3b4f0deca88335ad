"""Periods: named calendar filters. When is one open, and when does it open and close next?

A period is compiled into windows, year by year as they are asked for; each answer is then a search in a sorted
list, and the last one is remembered: one evaluation per period and instant serves all its tasks.
"""

from bisect import bisect_right
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenbeat.did_you_mean import list_known, nearest_words
from evenbeat.model import DAY, SECOND, Instant, Invalid, Prefer, prefix_place
from evenbeat.model import Period as PeriodNoun
from evenbeat.when.holidays import check_holidays, holiday_dates
from evenbeat.when.period_line import WHOLE_DAY, PeriodLine, parse_line
from evenbeat.when.windows import FOREVER, NEVER, Window, clip, difference, union
from evenbeat.when.zone import Zone, zone

HORIZON_YEARS: Final = 50
"""How far ahead an opening or closing is looked for: the rarest recurring day (29 February, a Monday) comes sooner."""
MOST_NESTED: Final = 32
MOST_HOURS: Final = 500
"""Of all lines of a period together: its windows are worked out for decades where it takes that to find an edge."""

HORIZON: Final = HORIZON_YEARS * 366 * DAY
SEARCH_BLOCK: Final = 366 * DAY
"""How far a search goes is the same for all of a block of time, so that no answer depends on what was asked before."""
_NOTHING: Final[tuple[Instant, Instant, list[Window]]] = (Instant(0), Instant(0), [])
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()


class PeriodState(NamedTuple):
    """The state of a period at an instant: it holds from `since` until `until`, when it changes."""

    inside: bool
    since: Instant
    until: Instant


class CompiledPeriod:
    """One compiled period."""

    def __init__(
        self,
        lines: tuple[PeriodLine, ...],
        zone_: Zone,
        *,
        include: tuple["CompiledPeriod", ...] = (),
        exclude: tuple["CompiledPeriod", ...] = (),
        prefer: Prefer = Prefer.INCLUDE,
    ) -> None:
        self.lines = lines
        self.zone = zone_
        self.include = include
        self.exclude = exclude
        self.prefer = prefer
        # Without lines of its own it is what it includes; without those either, always.
        self._own_always = any(_is_always(line) for line in lines) or not (lines or include)
        self._years: dict[int, list[Window]] = {}
        self._known = _NOTHING
        self._recent = _NOTHING
        self._last = (NEVER, NEVER, PeriodState(inside=False, since=NEVER, until=NEVER))

    def contains(self, t: Instant) -> bool:
        """Is the period open at this instant? Start inclusive, end exclusive."""
        return self.state(t).inside

    def contains_many(self, times: NDArray[np.int64]) -> NDArray[np.bool_]:
        """`contains` for an array of instants."""
        if not len(times):
            return np.zeros(0, dtype=bool)
        windows = self.windows(Instant(int(times.min())), Instant(int(times.max()) + 1))
        edges = np.array([edge for window in windows for edge in window], dtype=np.int64)
        inside: NDArray[np.bool_] = np.searchsorted(edges, times, side="right") % 2 == 1
        return inside

    def next_open(self, t: Instant) -> Instant | None:
        """The next time it opens, strictly after `t`; None if it does not within 50 years."""
        now = self.state(t)
        if now.until == FOREVER:
            return None
        return self._edge(self.state(now.until).until if now.inside else now.until)

    def next_close(self, t: Instant) -> Instant | None:
        """The next time it closes, strictly after `t`; None if it does not within 50 years."""
        now = self.state(t)
        if now.until == FOREVER:
            return None
        return self._edge(now.until if now.inside else self.state(now.until).until)

    @staticmethod
    def _edge(t: Instant) -> Instant | None:
        return None if t == FOREVER else t

    def state(self, t: Instant) -> PeriodState:
        """Open or closed, since when (NEVER: for as long as we look back) and until when (FOREVER: likewise)."""
        start, end, answer = self._last
        if not start <= t < end:
            answer = _look_up(t, *self._known) or self._search(t)
            start, end = answer.since, answer.until
            if start == NEVER or end == FOREVER:
                # As far as we look from this block of time; from another one there may be more to see.
                block = t // SEARCH_BLOCK * SEARCH_BLOCK
                start, end = Instant(max(start, block)), Instant(min(end, block + SEARCH_BLOCK))
            self._last = (start, end, answer)
        return answer

    def _search(self, t: Instant) -> PeriodState:
        """Learn the windows around `t`, as far as it takes to see both edges of its state."""
        reach = 40 * DAY
        while reach < HORIZON:
            start, end = Instant(t - reach), Instant(t + reach)
            windows = self.windows(start, end)
            if answer := _look_up(t, start, end, windows):
                self._known = (start, end, windows)
                return answer
            reach *= 8
        # Half a century shows no further edge on one side or both: there it lasts. What is looked at is the same for
        # all of a block of time, so an answer does not depend on what was asked before.
        block = t // SEARCH_BLOCK * SEARCH_BLOCK
        start, end = Instant(block - HORIZON), Instant(block + SEARCH_BLOCK + HORIZON)
        lasting = [(NEVER if o == start else o, FOREVER if c == end else c) for o, c in self.windows(start, end)]
        final = _look_up(t, NEVER, FOREVER, lasting)
        assert final is not None
        return final

    def windows(self, start: Instant, end: Instant) -> list[Window]:
        """The open stretches within [start, end), disjoint and in order, cut at both ends."""
        if end <= start:
            return []
        # A period that others refer to in many ways is still worked out once for one question.
        recent = self._recent
        if recent[:2] != (start, end):
            included = union(*(p.windows(start, end) for p in self.include))
            excluded = union(*(p.windows(start, end) for p in self.exclude))
            own = self._own_windows(start, end)
            if self.prefer is Prefer.INCLUDE:
                found = union(difference(own, excluded), included)
            else:
                found = difference(union(own, included), excluded)
            self._recent = recent = (start, end, found)
        return recent[2].copy()

    def _own_windows(self, start: Instant, end: Instant) -> list[Window]:
        if self._own_always:
            return [(start, end)]
        if not self.lines:
            return []
        # Hours may pass midnight, so a window can begin on the last day of the year before.
        first, last = _year(self.zone.local(start)) - 1, _year(self.zone.local(end))
        found: list[Window] = []
        for year in range(max(first, 1), min(last, 9998) + 1):
            if year not in self._years:
                self._years[year] = self._windows_of_year(year)
            found.extend(self._years[year])
        return clip(union(found), start, end)

    def _windows_of_year(self, year: int) -> list[Window]:
        """Windows that begin on a day of this year, merged."""
        new_year = date(year, 1, 1).toordinal()
        length = date(year, 12, 31).toordinal() - new_year + 1
        opens, closes = [], []
        for line in self.lines:
            chosen = np.zeros(length, dtype=bool)
            if line.holidays:
                for day in holiday_dates(line.holidays, year):
                    chosen[day.toordinal() - new_year] = True
            elif line.first is None:
                # "Every 2nd day" without a first day counts from 1970-01-01.
                chosen[(_EPOCH_ORDINAL - new_year) % line.step :: line.step] = True
            else:
                for first, last in line.days(year):
                    start = first.toordinal() - new_year
                    # A range that began in an earlier year goes on in its own step.
                    start = start if start >= 0 else start % line.step
                    chosen[start : max(last.toordinal() - new_year + 1, 0) : line.step] = True
            midnights = (np.flatnonzero(chosen) + new_year - _EPOCH_ORDINAL) * DAY
            for begin, finish in line.hours:
                opens.append(self.zone.utc_many(midnights + begin * SECOND))
                closes.append(self.zone.utc_many(midnights + finish * SECOND))
        pairs = zip(np.concatenate(opens).tolist(), np.concatenate(closes).tolist(), strict=True)
        # Hours that a DST change swallows whole have no length left.
        return union(sorted((Instant(o), Instant(c)) for o, c in pairs if o < c))


def _look_up(t: Instant, start: Instant, end: Instant, windows: list[Window]) -> PeriodState | None:
    """The state at `t` by the windows known from `start` to `end`; None if one of its edges is not among them."""
    i = bisect_right(windows, (t, FOREVER)) - 1
    inside = i >= 0 and t < windows[i][1]
    since = windows[i][0] if inside else windows[i][1] if i >= 0 else start
    until = windows[i][1] if inside else windows[i + 1][0] if i + 1 < len(windows) else end
    # What touches the ends may have been cut there.
    if since == start > NEVER or until == end < FOREVER or not start <= t < end:
        return None
    return PeriodState(inside, since, until)


def _is_always(line: PeriodLine) -> bool:
    return line.first is None and line.holidays is None and line.step == 1 and line.hours == WHOLE_DAY


def _year(local: int) -> int:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=local)).year


def compile_period(noun: PeriodNoun, others: Mapping[str, CompiledPeriod] | None = None) -> CompiledPeriod:
    """Compile one period whose included and excluded ones are compiled already."""
    others = others or {}
    lines = []
    for i, text in enumerate(noun.ranges):
        with prefix_place(f"ranges[{i}]"):
            lines.append(parse_line(text))
            if lines[-1].holidays:
                check_holidays(lines[-1].holidays)
    if noun.holidays:
        where = noun.holidays.upper()
        with prefix_place("holidays"):
            check_holidays(where)
        lines.append(PeriodLine(f"holidays {where}", holidays=where))
    if sum(len(line.hours) for line in lines) > MOST_HOURS:
        raise Invalid(f"more than {MOST_HOURS} hours in all its lines", place="ranges")
    with prefix_place("zone"):
        zone_ = zone(noun.zone)
    return CompiledPeriod(
        tuple(lines),
        zone_,
        include=tuple(others[n] for n in noun.include),
        exclude=tuple(others[n] for n in noun.exclude),
        prefer=noun.prefer,
    )


def compile_periods(nouns: Mapping[str, PeriodNoun]) -> dict[str, CompiledPeriod]:
    """Compile periods that refer to each other; a cycle or an unknown name is an error that names it."""
    done: dict[str, CompiledPeriod] = {}

    def visit(name: str, path: tuple[str, ...]) -> None:
        if name in done:
            return
        if name in path:
            cycle = " -> ".join((*path[path.index(name) :], name))
            raise Invalid(f"periods refer to each other in a circle: {cycle}", place=f"periods.{path[-1]}")
        if len(path) > MOST_NESTED:
            raise Invalid(f"periods are nested more than {MOST_NESTED} deep", place=f"periods.{path[0]}")
        noun = nouns[name]
        for field, names in (("include", noun.include), ("exclude", noun.exclude)):
            for other in names:
                if other not in nouns:
                    near = nearest_words(other, nouns)
                    hint = f", did you mean {near[0]!r}?" if near else f", known: {list_known(sorted(nouns))}"
                    raise Invalid(f"there is no period {other!r}{hint}", place=f"periods.{name}.{field}")
                visit(other, (*path, name))
        with prefix_place(f"periods.{name}", "."):
            done[name] = compile_period(noun, done)

    for name in nouns:
        visit(name, ())
    return done
