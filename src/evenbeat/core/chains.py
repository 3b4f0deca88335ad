"""Chains: tasks that are due by what becomes of other tasks, their parents (`after`, `after_failure`).

A chained task is due when each of its parents has an end (a success, or for `after_failure` a final failure of one of
them) that it has not used yet. It uses them when its run is claimed or skipped. Both are stored - the latest ends of
parents with the batch that learns them, the ends that were used with the claim or skip - so whether a run is owed
follows from what is committed, whenever and wherever a node asks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.gate import REASONS, Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import ClaimColumns, Flag, ReleaseResult, SkipColumns
from evenbeat.model import Instant, RunKind, Schedule
from evenbeat.when.windows import FOREVER, NEVER

_CHAINED: Final = int(Flag.CHAINED)
_ENABLED: Final = int(Flag.ENABLED)


class ParentEnd(NamedTuple):
    """A run of a parent that succeeded, or failed for good."""

    nominal: int
    generation: int
    """Of the clock, when the end was learned."""
    at: int
    """When the end was learned."""

    def is_newer_than(self, other: "ParentEnd") -> bool:
        """Was it learned later? A clock that is set back begins a new generation."""
        return (self.generation, self.at) > (other.generation, other.at)


NO_END: Final = ParentEnd(NEVER, 0, NEVER)


class LatestEnds(NamedTuple):
    """What is known of a parent."""

    number: int
    success: ParentEnd = NO_END
    failure: ParentEnd = NO_END

    def or_newer(self, other: "LatestEnds") -> "LatestEnds":
        """The newer of each end."""
        return LatestEnds(
            self.number,
            other.success if other.success.is_newer_than(self.success) else self.success,
            other.failure if other.failure.is_newer_than(self.failure) else self.failure,
        )

    def end(self, *, of_failure: bool) -> ParentEnd:
        """The latest success, or the latest failure that was final."""
        return self.failure if of_failure else self.success


class EndedParent(NamedTuple):
    """A run of a parent has ended."""

    name: str
    number: int
    succeeded: bool
    end: ParentEnd


UsedEnds = Mapping[int, ParentEnd]
"""By the numbers of parents: the end that a chained task used last."""


def used_to_bytes(used: UsedEnds) -> bytes:
    """As a store keeps them."""
    return np.array([(number, *end) for number, end in used.items()], dtype="<i8").tobytes()


def used_from_bytes(stored: bytes) -> dict[int, ParentEnd]:
    """The reverse of `used_to_bytes`."""
    rows = np.frombuffer(stored, dtype="<i8").reshape(-1, 4).tolist()
    return {number: ParentEnd(*end) for number, *end in rows}


class ChainStatus(NamedTuple):
    """Where a chained task stands."""

    waits_for: tuple[str, ...]
    """The parents without an end that it has not used."""
    due: ParentEnd | None
    """The end whose nominal time its next run has; None if it is not due yet."""
    due_since: int = FOREVER
    """When the last end came that it needed."""


def chain_status(schedule: Schedule, used: UsedEnds, since: int, latest: Mapping[str, LatestEnds]) -> ChainStatus:
    """Where a chained task stands. An end of a parent that is not among `used` counts if it came after `since`."""
    of_failure = bool(schedule.after_failure)
    unused: dict[str, ParentEnd] = {}
    for name in schedule.parents:
        if name in latest:
            end = latest[name].end(of_failure=of_failure)
            last = used.get(latest[name].number)
            if end.at > since if last is None else end.is_newer_than(last):
                unused[name] = end
    missing = tuple(name for name in schedule.parents if name not in unused)
    if not unused or (missing and not of_failure):
        return ChainStatus(missing, None)
    # The first one listed gives the nominal time.
    times = [end.at for end in unused.values()]
    return ChainStatus((), next(iter(unused.values())), min(times) if of_failure else max(times))


class _ChainedTask:
    __slots__ = ("schedule", "since", "used")

    def __init__(self, schedule: Schedule, since: int, used: dict[int, ParentEnd]) -> None:
        self.schedule = schedule
        self.since = since
        self.used = used


class Chains:
    """The chained tasks among the rows of a node, and the latest ends of their parents.

    A chained task that is due has the moment at which it became so in the column `nominal`, from which it is released
    like any other. Claims and skips get the nominal time of its parent by `settle`.
    """

    def __init__(self, life: Lifecycle) -> None:
        self._life = life
        self._tasks: dict[int, _ChainedTask] = {}
        self._followers: dict[str, set[int]] = {}
        """By the name of a parent: the rows of its chained tasks."""
        self._latest: dict[str, LatestEnds] = {}
        self._changed: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._tasks)

    # Tasks come, change and go

    def define(self, row: int, schedule: Schedule, since: int) -> None:
        """A row has this definition since then. Ends of parents that it had before stay used; what new parents did
        before the definition does not count.
        """
        before = self._tasks.get(row)
        for name in schedule.parents:
            self._followers.setdefault(name, set()).add(row)
        if before is not None:
            self._unfollow(row, set(before.schedule.parents).difference(schedule.parents))
        self._tasks[row] = _ChainedTask(schedule, since, {} if before is None else before.used)
        self._establish(row)
        self._life.has_chains = True

    def restore_used(self, row: int, used: UsedEnds) -> None:
        """What a row has used, as a store keeps it."""
        self._tasks[row].used = dict(used)
        self._changed.discard(row)
        self._establish(row)

    def forget(self, rows: Iterable[int]) -> None:
        """These rows are removed, or another node has them."""
        for row in rows:
            if row in self._tasks:
                self._unfollow(row, self._tasks.pop(row).schedule.parents)
            self._changed.discard(row)

    def _unfollow(self, row: int, names: Iterable[str]) -> None:
        for name in set(names):
            self._followers[name].discard(row)
            if not self._followers[name]:
                del self._followers[name]
                self._latest.pop(name, None)

    def _establish(self, row: int) -> None:
        """What a new parent did before the chained task was defined counts as used; so do ends of parents that it does
        not have any more: these are forgotten.
        """
        task = self._tasks[row]
        known = [self._latest[name] for name in task.schedule.parents if name in self._latest]
        start = ParentEnd(NEVER, self._life.generation, task.since)
        used = {parent.number: task.used.get(parent.number, start) for parent in known}
        if len(known) < len(task.schedule.parents):
            used = {**task.used, **used}
        if used != task.used:
            task.used = used
            self._changed.add(row)

    def leave(self, rows: Iterable[int], now: Instant) -> list[SkipColumns]:
        """Those of these rows that are chained are about to be due by time: a run that they owe is made up for."""
        c, skips = self._life.columns, []
        for row in rows:
            if row not in self._tasks:
                continue
            due = self.status(row).due
            if due is not None:
                skips.append(_skip(row, due, Reason.COALESCED))
                c.nominal[row] = FOREVER
                c.off_grid_due[row], c.off_grid_kind[row] = now, RunKind.CATCH_UP
            self._unfollow(row, self._tasks.pop(row).schedule.parents)
            self._changed.add(row)
        return skips

    def know_parents(self, number_of: Callable[[str], int | None]) -> None:
        """Parents that are here are known by their numbers, also before any run of them has ended."""
        for name in list(self._followers):
            number = number_of(name)
            if number is not None and (name not in self._latest or self._latest[name].number != number):
                self.restore_parents({name: LatestEnds(number)})

    def parent_names(self) -> list[str]:
        """The tasks after which others run."""
        return sorted(self._followers)

    def is_parent(self, name: str) -> bool:
        """Does a task run after this one?"""
        return name in self._followers

    def restore_parents(self, parents: Mapping[str, LatestEnds]) -> None:
        """What a store knows of parents: where it is newer than what is known here, that counts from now on."""
        for name in parents.keys() & self._followers.keys():
            found, known = parents[name], self._latest.get(name)
            is_known = known is not None and known.number == found.number
            self._latest[name] = found.or_newer(known) if known is not None and is_known else found
            for row in self._followers[name]:
                self._establish(row)

    # Runs of parents end

    def learn(self, ended: Sequence[EndedParent], now: Instant) -> list[SkipColumns]:
        """Runs of parents have ended: what is due by that, and what that skips."""
        skips: list[SkipColumns] = []
        for name, number, succeeded, end in ended:
            followers = sorted(self._followers.get(name, ()))
            if not followers:
                continue
            before = {row: self.status(row).due for row in followers}
            known = self._latest.get(name)
            if known is None or known.number != number:
                known = LatestEnds(number)
            self._latest[name] = known._replace(success=end) if succeeded else known._replace(failure=end)
            for row in followers:
                self._establish(row)
                skips += self._follow(row, before[row])
        self.make_due(self._rows_of(ended), now)
        return skips

    def learn_from_store(self, parents: Mapping[str, LatestEnds], now: Instant) -> list[SkipColumns]:
        """What other nodes have recorded of parents that are not here."""
        rows = sorted({row for name in parents for row in self._followers.get(name, ())})
        before = {row: self.status(row).due for row in rows}
        self.restore_parents(parents)
        skips = [skip for row in rows for skip in self._follow(row, before[row])]
        self.make_due(rows, now)
        return skips

    def _rows_of(self, ended: Sequence[EndedParent]) -> list[int]:
        return sorted({row for parent in ended for row in self._followers.get(parent.name, ())})

    def _follow(self, row: int, before: ParentEnd | None) -> list[SkipColumns]:
        """A parent of a row has ended: a nominal time that waits is replaced by a newer one; one that comes while the
        row is disabled is skipped.
        """
        due = self.status(row).due
        if due is None or due == before:
            return []
        if before is not None:
            return [_skip(row, before, Reason.COALESCED)]
        if int(self._life.columns.flags[row]) & _ENABLED:
            return []
        self._use(row)
        return [_skip(row, due, Reason.DISABLED)]

    def status(self, row: int) -> ChainStatus:
        """Where a chained row stands."""
        task = self._tasks[row]
        return chain_status(task.schedule, task.used, task.since, self._latest)

    # In the timetable

    def make_due(self, rows: Iterable[int], now: Instant) -> None:
        """Put those of these rows into the timetable that are enabled and have a run to make."""
        c = self._life.columns
        for row in rows:
            if row not in self._tasks or not int(c.flags[row]) & _ENABLED or c.nominal[row] < FOREVER:
                continue
            status = self.status(row)
            if status.due is not None:
                self._life.make_due(row, Instant(min(status.due_since, now)))

    def suspend(self, rows: Ints) -> None:
        """Take these chained rows out of the timetable: what they owe is decided anew by `make_due`."""
        waiting = rows[self._life.columns.flags[rows] & _CHAINED != 0]
        self._life.columns.nominal[waiting] = FOREVER
        self._life.reset_due(waiting)

    # Claims and skips

    def settle(self, released: ReleaseResult) -> ReleaseResult:
        """Give claims and skips of chained rows the nominal times of their parents, whose ends are used by that."""
        claims = released.claims
        chained = np.flatnonzero(claims.kind == RunKind.CHAIN)
        skips = self.settle_skips(released.skips)
        if not len(chained):
            return released._replace(skips=skips)
        nominal = claims.nominal.copy()
        for i in chained.tolist():
            row = int(claims.rows[i])
            due = self.status(row).due
            if due is not None:
                nominal[i] = due.nominal
                self._use(row)
        return released._replace(claims=ClaimColumns(claims.rows, nominal, claims.kind), skips=skips)

    def settle_skips(self, skips: list[SkipColumns]) -> list[SkipColumns]:
        """`settle` for skips that came about without a release."""
        return [self._settle_skip(some) for some in skips] if self._tasks else skips

    def _settle_skip(self, skips: SkipColumns) -> SkipColumns:
        first, last = skips.first, skips.last
        for i, row in enumerate(skips.rows.tolist()):
            due = self.status(row).due if row in self._tasks else None
            # Skips that `learn` made have their nominal time already, and nothing is due with them any more.
            if due is None or int(self._life.columns.nominal[row]) < FOREVER:
                continue
            if first is skips.first:
                first, last = first.copy(), last.copy()
            first[i] = last[i] = due.nominal
            self._use(row)
        return skips._replace(first=first, last=last)

    def _use(self, row: int) -> None:
        task = self._tasks[row]
        of_failure = bool(task.schedule.after_failure)
        parents = [self._latest[name] for name in task.schedule.parents if name in self._latest]
        ends = {parent.number: parent.end(of_failure=of_failure) for parent in parents}
        # Of a new parent only the number may be known, and not what it did before: that stays used.
        newer = {number: end for number, end in ends.items() if end.is_newer_than(task.used.get(number, NO_END))}
        task.used = {**task.used, **newer}
        self._changed.add(row)

    # For the store

    @property
    def has_changes(self) -> bool:
        """Has `take_changes` something to return?"""
        return bool(self._changed)

    def take_changes(self) -> list[tuple[int, bytes]]:
        """The rows whose used ends have changed since the last call, with these; empty for a row that is not chained
        any more.
        """
        changed, self._changed = sorted(self._changed), set()
        return [(row, used_to_bytes(self._tasks[row].used) if row in self._tasks else b"") for row in changed]


def _skip(row: int, end: ParentEnd, reason: Reason) -> SkipColumns:
    one, nominal = np.array([row], dtype=np.int64), np.array([end.nominal], dtype=np.int64)
    return SkipColumns(one, nominal, nominal, np.ones(1, dtype=np.int64), np.full(1, REASONS.index(reason), np.uint8))
