"""What a filter means for one task, and which filters are refused."""

import string
from collections.abc import Collection, Iterator
from typing import Final

from msgspec.structs import replace

from evenbeat.model import NAME_LIMIT, Cause, Entry, Invalid, Outcome, State
from evenbeat.name_patterns import is_pattern, matches_pattern
from evenbeat.store.contract import FAILURES, FILTER_STATES, Filter, ProblemFilter, Store

_TO_LOWER: Final = {ord(letter): letter.lower() for letter in string.ascii_uppercase}
_NAMES_AT_ONCE: Final = 1_000
MAX_PATTERNS: Final = 100
"""Each pattern is compared with every name."""


def check_filter(only: Filter) -> None:
    """Refuse a state that does not exist, a part longer than any name, and too many patterns."""
    patterns = sum(map(is_pattern, only.names))
    if patterns > MAX_PATTERNS:
        raise Invalid(f"{patterns} patterns, accepted: up to {MAX_PATTERNS}, and any number of names", place="names")
    if only.contains is not None and len(only.contains) > NAME_LIMIT:
        raise Invalid(f"{len(only.contains)} characters, accepted: up to {NAME_LIMIT}", place="contains")
    if only.state is not None and only.state not in FILTER_STATES:
        raise Invalid(f"found {only.state!r}, accepted: {', '.join(FILTER_STATES)}", place="state")


def check_problem_filter(only: ProblemFilter) -> None:
    """Refuse a cause that does not exist, and what `check_filter` refuses; the state of tasks is ignored."""
    check_filter(replace(only.tasks, state=None))
    if only.cause is not None and only.cause not in set(Cause):
        raise Invalid(f"found {only.cause!r}, accepted: {', '.join(Cause)}", place="cause")


def matches(only: Filter, entry: Entry) -> bool:
    """Whether a task meets all conditions of a filter but the state, which is not part of its definition."""
    task = entry.task
    return (
        (only.owner is None or entry.owner == only.owner)
        and all(task.labels.get(key) == value for key, value in only.labels.items())
        and (only.contains is None or folded(only.contains) in folded(task.name))
        and (not only.names or any(_is_named(entry, name) for name in only.names))
    )


def matches_state(
    word: str | None,
    entry: Entry,
    state: State | None,
    outcome: Outcome | None,
    *,
    hard: bool,
    running: bool,
    has_failed: bool,
) -> bool:
    """Whether a task is in the state that a filter asks for; `has_failed`: it has an open problem of that cause."""
    match word:
        case None:
            return True
        case "running":
            return running
        case "unchecked":
            return entry.task.check and state is None
        case "disabled":
            return entry.task.paused or not entry.task.enabled
        case "failed":
            return outcome in FAILURES
        case "paused":
            return entry.task.paused
        case "problem":
            return hard and state not in (None, State.OK) if entry.task.check else has_failed
        case _:
            return state is State[word.upper()]


def folded(text: str) -> str:
    """The text in lower case as SQLite makes it: only ASCII letters change."""
    return text.translate(_TO_LOWER)


def filters_for_names(store: Store, names: Collection[str]) -> Iterator[Filter]:
    """What selects the tasks with these names, some at a time; others too, if an id is like one of the names."""
    exact = sorted(name for name in names if not is_pattern(name))
    ids = [entry.id for name in sorted(set(names).difference(exact)) if (entry := store.find(name)) is not None]
    asked = [*exact, *ids]
    return (Filter(names=tuple(asked[at : at + _NAMES_AT_ONCE])) for at in range(0, len(asked), _NAMES_AT_ONCE))


def _is_named(entry: Entry, name: str) -> bool:
    if name in (entry.task.name, entry.id):
        return True
    return matches_pattern(name, entry.task.name)
