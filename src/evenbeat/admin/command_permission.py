"""Who may define commands, according to the store: `[node] commands` of files, and the files named at `up`."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from evenbeat.admin.stored_references import node_settings_by_owner
from evenbeat.admin.tasks_of_files import file_of_owner, file_owner_of, is_file_owner
from evenbeat.admin.trusted_files import check_trusted_file
from evenbeat.core.permission import CommandPolicy, may_define
from evenbeat.model import CommandSource, Job, Task
from evenbeat.store.contract import Filter, Store
from evenbeat.wire.replies import Forbidden

NAMED_FILES_KEY: Final = "files named at up"
"""The setting of the store that lists the owners of these files."""
_FORGED_OWNER_TEXT: Final = (
    "only a node that reads the file itself makes tasks of this owner; accepted: any name that does not"
)


def named_files(store: Store) -> frozenset[str]:
    """The owners of the files that the node, or a node of the cluster, was last started with."""
    return frozenset(msgspec.json.decode(store.setting(NAMED_FILES_KEY) or "[]", type=list[str]))


def permission_of(store: Store) -> CommandPolicy:
    """Who may define commands. Only files decide that, and the strictest of them wins."""
    strict = any(
        settings.commands is CommandSource.FILES
        for owner, settings in node_settings_by_owner(store).items()
        if is_file_owner(owner)
    )
    return CommandPolicy(CommandSource.FILES, named_files(store)) if strict else CommandPolicy()


def refuse_forged_owner(*owners: str) -> None:
    """Raise Forbidden for an owner that is a file."""
    for owner in filter(is_file_owner, owners):
        raise Forbidden(
            f"{owner!r} stands for a file of the node: {_FORGED_OWNER_TEXT} begin with 'file:'", place="owner"
        )


def check_may_define(permission: CommandPolicy, owner: str, before: Task | None, after: Task) -> None:
    """With commands = "files": raise Forbidden if a change defines what is executed and is not from a file."""
    if may_define(permission, owner, Job() if before is None else before.job, after.job):
        return
    if owner in permission.files:
        file = owner.removeprefix("file:")
        raise Forbidden(f'commands = "files": what {after.name!r} executes is defined in {file}; change it there')
    raise Forbidden(
        f'commands = "files": {after.name!r} has something to execute, and only files named at `evenbeat up` may say '
        "that; write it into one of them, or leave out `command` and `function` and say `passive = true`"
    )


def check_files_are_authorised(store: Store, files: Sequence[Path], *, at_up: bool) -> None:
    """With commands = "files": raise unless the files were named at `up` and no other user can change them."""
    named = named_files(store)
    for path in files:
        if not at_up and file_owner_of(path) not in named:
            known = ", ".join(sorted(owner.removeprefix("file:") for owner in named)) or "none"
            raise Forbidden(
                f'{path}: with commands = "files" only the files named at `evenbeat up` are applied, which are: '
                f"{known}; `evenbeat up {shlex.quote(str(path))}` names this one"
            )
        check_trusted_file(path)


def count_unauthorised_tasks(store: Store) -> int:
    """With commands = "files": the number of tasks that no file named at `up` defines."""
    permission = permission_of(store)
    if permission.commands is CommandSource.ANYONE:
        return 0
    return store.count() - sum(store.count(Filter(owner=owner)) for owner in permission.files)


def blocked_advice(owner: str) -> str:
    """What to do about a task that is not executed."""
    file = file_of_owner(owner) if is_file_owner(owner) else None
    if file is None:
        return f"it is of {owner}; write it into a file that is named at `evenbeat up`"
    return f"its file was not named when the node was started; `evenbeat up {shlex.quote(str(file))}` names it"
