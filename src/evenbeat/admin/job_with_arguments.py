"""Runs with arguments of their own: which job such a run has, and whether the caller may ask for it."""

from collections.abc import Sequence

from msgspec.structs import replace

from evenbeat.admin.command_permission import check_may_define
from evenbeat.core.permission import CommandPolicy
from evenbeat.core.run_arguments import job_with_arguments
from evenbeat.model import Entry, Invalid, Job
from evenbeat.wire.requests import RunArguments


def own_job(entry: Entry, arguments: RunArguments) -> Job:
    """The job of one run of this task; raise Invalid if it cannot have these arguments."""
    return job_with_arguments(entry.task.job, arguments.args, arguments.kwargs, arguments.env)


def check_arguments(entries: Sequence[Entry], arguments: RunArguments, permission: CommandPolicy) -> None:
    """Raise Invalid unless one task is to run that can have these arguments, Forbidden if only files may say so."""
    if len(entries) != 1:
        raise Invalid("arguments are for the run of one task, accepted: one name")
    (entry,) = entries
    check_may_define(permission, entry.owner, entry.task, replace(entry.task, job=own_job(entry, arguments)))
