"""What tasks may depend on: checks that exist, never in a circle; and which changes take away what others depend on."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Final

from evenbeat.core.task_graph import (
    OtherTasks,
    ParentError,
    ancestors,
    cycle_error,
    cycles,
    similar_name,
    used_parents,
)
from evenbeat.model import Entry, Task, WhenUnreachable

DEPENDENCY_KEYS: Final = ("depends", "depends_any")
_MOST_SUGGESTIONS: Final = 20
"""Unknown names of one change for which a similar check is searched."""


def definition_errors(task: Task) -> Iterator[tuple[str, str]]:
    """What is wrong with the dependencies of a task whatever other tasks there are: the key and a message."""
    if not (task.depends or task.depends_any):
        if task.when_unreachable is not WhenUnreachable.RUN:
            yield "when_unreachable", "`when_unreachable` has no effect here: the task depends on nothing"
        return
    for key, names in _named_by(task):
        if task.name in names:
            yield key, f"{task.name!r} cannot depend on itself"
        if len(set(names)) < len(names):
            twice = next(name for i, name in enumerate(names) if name in names[:i])
            yield key, f"{twice!r} is named twice"


def dependency_errors(
    tasks: Collection[Task], others: OtherTasks, hidden: Collection[str] = ()
) -> Iterator[ParentError]:
    """What these tasks, as a change defines them, cannot depend on: what is no check, and what depends on them. Of
    `hidden` checks the caller may not know: they are as if they did not exist.
    """
    depending = sorted((task for task in tasks if task.depends or task.depends_any), key=lambda task: task.name)
    if not depending:
        return
    given = {task.name: task for task in tasks}
    known = {**ancestors(depending, given, others, _parents), **given}
    checks: list[str] | None = None
    suggestions = _MOST_SUGGESTIONS
    for task in depending:
        for key, names in _named_by(task):
            for name in names:
                parent = known.get(name)
                if parent is None or name in hidden:
                    if checks is None:
                        checks = sorted(one.name for one in tasks if one.check)
                    near = similar_name(name, checks, others.checks_near(name)) if suggestions > 0 else ""
                    suggestions -= 1
                    yield ParentError(
                        task.name, key, f"there is no check {name!r}, {near or 'accepted: names of checks'}"
                    )
                elif not parent.check:
                    message = f"{name!r} is no check: only the state of a check says whether it is fine"
                    yield ParentError(task.name, key, message)
    for cycle in cycles(depending, known, _parents):
        found = cycle_error(cycle, given, _key_of, "tasks depend on each other in a circle")
        if found is not None:
            yield found


def lost_checks(before: Iterable[Entry], after: Collection[Task]) -> dict[str, Entry]:
    """The checks among tasks that a change removes or redefines which are no checks any more, or have another name."""
    checks = {task.name for task in after if task.check}
    return {entry.task.name: entry for entry in before if entry.task.check and entry.task.name not in checks}


def blocked_losses(
    lost: Collection[str], dependents: Iterable[Entry], is_shown: Callable[[Entry], bool] = lambda _: True
) -> Iterator[tuple[str, str]]:
    """Of checks that are about to be lost: those that tasks depend on, and a message that names some of these, of those
    that are shown to the caller.
    """
    return used_parents(
        lost,
        dependents,
        _parents,
        lambda name: f"the check {name!r} must stay, under this name: tasks depend on it",
        is_shown,
    )


def _named_by(task: Task) -> Iterator[tuple[str, Sequence[str]]]:
    yield "depends", task.depends
    yield "depends_any", task.depends_any


def _parents(task: Task) -> Sequence[str]:
    return (*task.depends, *task.depends_any)


def _key_of(task: Task, parent: str) -> str:
    return "depends" if parent in task.depends else "depends_any"
