"""Who may say what is executed: whoever may change tasks, or only the files that the node was started with."""

from typing import NamedTuple

from evenbeat.model import Commands, Job, Task


class Permission(NamedTuple):
    """What `[node] commands` says, and whom that leaves."""

    commands: Commands = Commands.ANYONE
    files: frozenset[str] = frozenset()
    """The owners that stand for files named at `up`."""


def may_execute(permission: Permission, owner: str) -> bool:
    """Is what a task of this owner says executed?"""
    return permission.commands is Commands.ANYONE or owner in permission.files


def is_blocked(permission: Permission, owner: str, task: Task) -> bool:
    """Would the task execute something that it may not? A passive check without a command never is."""
    return runs_something(task) and not may_execute(permission, owner)


def may_define(permission: Permission, owner: str, before: Job, after: Job) -> bool:
    """May somebody who is no file make this of a task: of what it executed, that? `before` is Job() for a new one.

    What a file says is executed stays as the file says it, and nobody else says anything that is executed. To take a
    command away from a task of anybody else's is no harm.
    """
    if permission.commands is Commands.ANYONE or before == after:
        return True
    return owner not in permission.files and not has_something(after)


def runs_something(task: Task) -> bool:
    """Has it a command or a function?"""
    return has_something(task.job)


def has_something(job: Job) -> bool:
    """A command or a function."""
    return bool(job.command) or job.function is not None
