"""Changes of tasks that were made while no node ran: each counts from the instant at which it was made.

A changed task comes in with the definition that its recorded progress belongs to. Then its changes are replayed in
order: what was due until each of them is settled by the definition before it, as a live node would have done.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from evenbeat.core.columns import Ints
from evenbeat.core.task import SkipColumns
from evenbeat.model import Entry, Instant, Task
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.store.contract import PastDefinition, SettledDefinitions

ResumeRows = Callable[[Ints, Instant], list[SkipColumns]]
"""Records what rows missed until an instant at which no node ran, and makes up for it."""


class UnsettledEdits:
    """The changes of tasks that are not settled yet."""

    def __init__(self, tasks: TaskTable, past: Iterable[PastDefinition]) -> None:
        self._tasks = tasks
        self._past: dict[int, list[PastDefinition]] = {}
        for some in past:
            self._past.setdefault(some.task, []).append(some)
        self._now: dict[int, Entry] = {}
        self._numbered: dict[bytes, dict[str, int]] = {}
        self.created: dict[int, Instant] = {}
        """When tasks with a `start_at` were created."""

    @property
    def settled(self) -> list[SettledDefinitions]:
        """All changes of these tasks as settled, for the store."""
        return [SettledDefinitions(number, past[-1].until) for number, past in self._past.items()]

    @property
    def changed(self) -> Collection[int]:
        """The numbers of the tasks that have changed."""
        return self._past.keys()

    def unchanged(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        """Of all tasks, those that have not changed; the others are kept for `add_changed`."""
        for entry in entries:
            if entry.task.start_at is not None:
                self.created[entry.number] = entry.created
            if entry.number in self._past:
                self._now[entry.number] = entry
            else:
                yield entry

    def add_changed(self) -> list[Ints]:
        """Give the changed tasks their rows, with the definitions before these changes."""
        return [self._tasks.add(some, periods) for periods, some in self._defined([(n, 0) for n in self._now])]

    def settle(self, known: Ints, now: Instant, resume: ResumeRows, skips: list[SkipColumns]) -> Ints:
        """Replay the changes, add what that skips to `skips`, and return the rows of changed tasks.

        Only rows that a node has `known` before have anything to settle.
        """
        if not self._now:
            return known[:0]
        seen = set(self._tasks.columns.number[known].tolist())
        steps: dict[int, list[tuple[int, int]]] = {}
        for number in self._now:
            past = self._past[number]
            for i, some in enumerate(past):
                if number in seen or i == len(past) - 1:
                    steps.setdefault(min(some.until, now), []).append((number, i))
        for then, changes in sorted(steps.items()):
            self._make(changes, seen, Instant(then), resume, skips)
        return self._tasks.rows([number for number in self._now if number in seen])

    def _make(
        self,
        changes: list[tuple[int, int]],
        seen: set[int],
        then: Instant,
        resume: ResumeRows,
        skips: list[SkipColumns],
    ) -> None:
        rows = self._tasks.active(self._tasks.rows([number for number, _ in changes if number in seen]))
        skips += resume(rows, then)
        for periods, entries in self._defined([(number, i + 1) for number, i in changes]):
            _, more = self._tasks.change(entries, then, periods)
            skips += more

    def _defined(self, which: Iterable[tuple[int, int]]) -> Iterator[tuple[dict[str, int] | None, list[Entry]]]:
        """Past definitions of tasks, grouped by the numbers of the periods that counted then."""
        found: dict[int, tuple[dict[str, int] | None, list[Entry]]] = {}
        for number, i in which:
            past, entry = self._past[number], self._now[number]
            periods = self._periods(past[i:])
            if i < len(past):
                entry = replace(entry, task=self._as_it_was(past[i].definition, periods))
            found.setdefault(id(periods), (periods, []))[1].append(entry)
        yield from found.values()

    def _as_it_was(self, task: Task, periods: Mapping[str, int] | None) -> Task:
        """A past definition. Its limit does not matter for what is settled, and may not exist any more."""
        known = self._tasks.period_numbers if periods is None else periods
        return replace(task, limit=None, period=task.period if task.period in known else None)

    def _periods(self, past: list[PastDefinition]) -> dict[str, int] | None:
        """The numbers of the periods that counted with the first of these definitions; None for the current ones."""
        then = next((some.periods for some in past if some.periods is not None), None)
        if then is None:
            return None
        key = msgspec.json.encode(then)
        if key not in self._numbered:
            self._numbered[key] = self._tasks.number_periods(then)
        return self._numbered[key]
