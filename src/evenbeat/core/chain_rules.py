"""What tasks may follow: other tasks that exist and are no checks, never in a circle; and which changes take away what
others follow.
"""

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
from evenbeat.model import Entry, Task

CHAIN_KEYS: Final = ("after", "after_failure")
_MOST_SUGGESTIONS: Final = 20
"""Unknown names of one change for which a similar task is searched."""


def chain_definition_errors(task: Task) -> Iterator[tuple[str, str]]:
    """What is wrong with the parents that a task follows whatever other tasks there are: the key and a message."""
    names = task.schedule.parents
    if not names:
        return
    if task.passive:
        yield _key(task), "a passive check needs times at which results are expected"
    if task.start_at is not None:
        yield "start_at", f"`start_at` has no effect here: the task runs {_key(task).replace('_', ' ')} of others"
    if task.name in names:
        yield _key(task), f"{task.name!r} cannot run after itself"
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        yield _key(task), f"{twice!r} is named twice"


def chain_errors(tasks: Collection[Task], others: OtherTasks, hidden: Collection[str] = ()) -> Iterator[ParentError]:
    """What these tasks, as a change defines them, cannot follow: what does not exist, is a check, or follows them. Of
    `hidden` tasks the caller may not know: they are as if they did not exist.
    """
    after_others = (task for task in tasks if (when := task.schedule).after or when.after_failure)
    following = sorted(after_others, key=lambda task: task.name)
    if not following:
        return
    given = {task.name: task for task in tasks}
    known = {**ancestors(following, given, others, _parents), **given}
    names: list[str] | None = None
    suggestions = _MOST_SUGGESTIONS
    for task in following:
        for name in task.schedule.parents:
            parent = known.get(name)
            if parent is None or name in hidden:
                if names is None:
                    names = sorted(one.name for one in tasks if not one.check)
                near = similar_name(name, names, others.tasks_near(name)) if suggestions > 0 else ""
                suggestions -= 1
                yield ParentError(
                    task.name, _key(task), f"there is no task {name!r}, {near or 'accepted: names of tasks'}"
                )
            elif parent.check:
                message = f"{name!r} is a check: tasks run after tasks; use `depends` for what a check says"
                yield ParentError(task.name, _key(task), message)
    for cycle in cycles(following, known, _parents):
        found = cycle_error(cycle, given, lambda task, _: _key(task), "tasks run after each other in a circle")
        if found is not None:
            yield found


def lost_parents(before: Iterable[Entry], after: Collection[Task]) -> dict[str, Entry]:
    """The tasks among those that a change removes or redefines which others cannot follow any more: they are gone, are
    checks now, or have another name.
    """
    tasks = {task.name for task in after if not task.check}
    return {entry.task.name: entry for entry in before if not entry.task.check and entry.task.name not in tasks}


def blocked_parents(
    lost: Collection[str], followers: Iterable[Entry], is_shown: Callable[[Entry], bool] = lambda _: True
) -> Iterator[tuple[str, str]]:
    """Of tasks that are about to be lost: those that others run after, and a message that names some of these, of those
    that are shown to the caller.
    """
    words = "the task {!r} must stay, under this name: tasks run after it"
    return used_parents(lost, followers, _parents, words.format, is_shown)


def _parents(task: Task) -> Sequence[str]:
    return task.schedule.parents


def _key(task: Task) -> str:
    return "after" if task.schedule.after else "after_failure"
