"""Changes of tasks that no node has taken over yet: each counts from the instant on at which it was made.

A task that was changed comes in as it was when its progress was recorded. Then its changes are made once more, one
after the other, as if a node had been there: what was due until each of them is settled by the definition before it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from evenbeat.core.columns import Ints
from evenbeat.core.task import SkipColumns
from evenbeat.model import Entry, Instant, Task
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.store.contract import PastDefinition, SettledDefinitions

ResumeRows = Callable[[Ints, Instant], list[SkipColumns]]
"""Record what some rows missed until an instant at which no node was there, and make up for it."""


class UnsettledEdits:
    """The changes of some tasks that are not settled."""

    def __init__(self, roster: TaskTable, past: Iterable[PastDefinition]) -> None:
        self._roster = roster
        self._past: dict[int, list[PastDefinition]] = {}
        for some in past:
            self._past.setdefault(some.task, []).append(some)
        self._now: dict[int, Entry] = {}
        self._numbered: dict[bytes, dict[str, int]] = {}
        self.created: dict[int, Instant] = {}
        """When tasks with a `start_at` were created."""

    @property
    def settled(self) -> list[SettledDefinitions]:
        """All of them, for the store."""
        return [SettledDefinitions(number, past[-1].until) for number, past in self._past.items()]

    def bring_in(self, entries: Iterable[Entry]) -> Ints:
        """All tasks, as they were before these changes."""
        rows = [self._roster.add(self._unchanged(entries))]
        for periods, some in self._defined([(number, 0) for number in self._now]):
            rows.append(self._roster.add(some, periods))
        return np.concatenate(rows)

    def _unchanged(self, entries: Iterable[Entry]) -> Iterable[Entry]:
        for entry in entries:
            if entry.task.start_at is not None:
                self.created[entry.number] = entry.created
            if entry.number in self._past:
                self._now[entry.number] = entry
            else:
                yield entry

    def settle(self, known: Ints, now: Instant, resume: ResumeRows, skips: list[SkipColumns]) -> Ints:
        """Make the changes. Rows of tasks that were changed; what that skips is added to `skips`.

        A task that no node has `known` has nothing to settle.
        """
        if not self._now:
            return known[:0]
        seen = set(self._roster.columns.number[known].tolist())
        steps: dict[int, list[tuple[int, int]]] = {}
        for number in self._now:
            past = self._past[number]
            for i, some in enumerate(past):
                if number in seen or i == len(past) - 1:
                    steps.setdefault(min(some.until, now), []).append((number, i))
        for then, changes in sorted(steps.items()):
            self._make(changes, seen, Instant(then), resume, skips)
        return self._roster.rows([number for number in self._now if number in seen])

    def _make(
        self,
        changes: list[tuple[int, int]],
        seen: set[int],
        then: Instant,
        resume: ResumeRows,
        skips: list[SkipColumns],
    ) -> None:
        rows = self._roster.active(self._roster.rows([number for number, _ in changes if number in seen]))
        skips += resume(rows, then)
        for periods, entries in self._defined([(number, i + 1) for number, i in changes]):
            _, more = self._roster.change(entries, then, periods)
            skips += more

    def _defined(self, which: Iterable[tuple[int, int]]) -> Iterator[tuple[dict[str, int] | None, list[Entry]]]:
        """Tasks as they were defined at one time or another, by the numbers of the periods that counted then."""
        found: dict[int, tuple[dict[str, int] | None, list[Entry]]] = {}
        for number, i in which:
            past, entry = self._past[number], self._now[number]
            periods = self._periods(past[i:])
            if i < len(past):
                entry = replace(entry, task=self._as_it_was(past[i].definition, periods))
            found.setdefault(id(periods), (periods, []))[1].append(entry)
        yield from found.values()

    def _as_it_was(self, task: Task, periods: Mapping[str, int] | None) -> Task:
        """A definition of then. The limit is of no importance to what is settled, and may be gone."""
        known = self._roster.period_numbers if periods is None else periods
        return replace(task, limit=None, period=task.period if task.period in known else None)

    def _periods(self, past: list[PastDefinition]) -> dict[str, int] | None:
        """The numbers of the periods that counted with the first of these definitions; None for those of now."""
        then = next((some.periods for some in past if some.periods is not None), None)
        if then is None:
            return None
        key = msgspec.json.encode(then)
        if key not in self._numbered:
            self._numbered[key] = self._roster.number_periods(then)
        return self._numbered[key]
