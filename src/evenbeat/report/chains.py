"""What tasks that run after others wait for, by what a store knows: a live node has the same answer."""

from collections.abc import Callable, Sequence
from typing import Final

from evenbeat.core.chains import NO_END, ChainStatus, LatestEnds, ParentEnd, chain_status, used_from_bytes
from evenbeat.model import Entry, Instant, Task
from evenbeat.report.parents import conditions_named
from evenbeat.store.chain_records import ChainEnd
from evenbeat.store.contract import Condition, Store

_MAX_PARENTS_SHOWN: Final = 10


class ChainReader:
    """Reads the ends of parents and what has been used of them: what it says is as of one moment."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def statuses(self, entries: Sequence[Entry]) -> dict[int, ChainStatus]:
        """Where the chained ones among these tasks stand, by their numbers."""
        chained = [entry for entry in entries if entry.task.schedule.parents]
        if not chained:
            return {}
        # What was used first: an end that comes in between makes a run look due, not the use of it a run look owed.
        uses = self._store.chain_uses([entry.number for entry in chained])
        names = sorted({name for entry in chained for name in entry.task.schedule.parents})
        latest = {
            parent.name: LatestEnds(parent.number, _end(parent.success), _end(parent.failure))
            for parent in self._store.chain_parents(names)
        }
        return {
            entry.number: chain_status(
                entry.task.schedule, used_from_bytes(uses.get(entry.number, b"")), entry.changed, latest
            )
            for entry in chained
        }


def _end(end: ChainEnd | None) -> ParentEnd:
    return NO_END if end is None else ParentEnd(end.nominal, end.generation, end.at)


def waiting_words(task: Task, waits_for: Sequence[str]) -> str:
    """ "after backup and dump", as a list shows what stands for the next time of a task."""
    kind = "after" if task.schedule.after else "after failure of"
    names = list(waits_for or task.schedule.parents)
    return f"{kind} {listed_names(names, 'and' if task.schedule.after else 'or')}"


def parent_sentences(
    store: Store, names: Sequence[str], complete: Callable[[Condition], Condition], time_words: Callable[[Instant], str]
) -> list[str]:
    """What each of these parents does now, or when it runs next."""
    shown = names[:_MAX_PARENTS_SHOWN]
    found = {condition.entry.task.name: complete(condition) for condition in conditions_named(store, shown)}
    return [f"{name!r} {_does(found[name], time_words)}" for name in shown if name in found]


def _does(parent: Condition, time_words: Callable[[Instant], str]) -> str:
    task = parent.entry.task
    if parent.running_since is not None:
        return "runs now"
    if task.paused or not task.enabled:
        return f"is {'paused' if task.paused else 'disabled'}: it does not run until it is {_again(task)}"
    if parent.blocked:
        return f"never runs: {parent.blocked}"
    if parent.next_run is not None:
        return f"runs next {time_words(parent.next_run)}"
    if task.schedule.parents:
        return f"runs {waiting_words(task, parent.waits_for)}"
    return "has no next time: it runs only if it is forced"


def _again(task: Task) -> str:
    return "resumed" if task.paused else "enabled"


def listed_names(names: Sequence[str], word: str) -> str:
    """ "backup, dump and report"."""
    if len(names) <= 1:
        return "".join(names)
    more = len(names) - _MAX_PARENTS_SHOWN
    if more > 0:
        return f"{', '.join(names[:_MAX_PARENTS_SHOWN])} {word} {more:,} more"
    return f"{', '.join(names[:-1])} {word} {names[-1]}"
