"""Who may say what is executed: everybody who may change tasks, or only the files that the node was started with."""

from typing import NamedTuple

from evenbeat.model import CommandSource, Job, Task


class CommandPolicy(NamedTuple):
    """What `[node] commands` says, and the owners that it trusts."""

    commands: CommandSource = CommandSource.ANYONE
    files: frozenset[str] = frozenset()
    """The owners that stand for files named at `up`."""


def may_execute(permission: CommandPolicy, owner: str) -> bool:
    """Is what a task of this owner says executed?"""
    return permission.commands is CommandSource.ANYONE or owner in permission.files


def is_blocked(permission: CommandPolicy, owner: str, task: Task) -> bool:
    """Would the task execute something that it may not? A passive check without a command never is."""
    return has_runnable_job(task) and not may_execute(permission, owner)


def may_define(permission: CommandPolicy, owner: str, before: Job, after: Job) -> bool:
    """May a caller other than a file change the job of a task like this? `before` is Job() for a new task.

    What a trusted file says stays as the file says it, and no other caller says what is executed. To take the command
    away from a task of another owner is allowed.
    """
    if permission.commands is CommandSource.ANYONE or before == after:
        return True
    return owner not in permission.files and not is_runnable(after)


def has_runnable_job(task: Task) -> bool:
    """Has it a command or a function?"""
    return is_runnable(task.job)


def is_runnable(job: Job) -> bool:
    """Has the job a command or a function?"""
    return bool(job.command) or job.function is not None
