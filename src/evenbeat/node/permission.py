"""What a store says of who may say what is executed: `[node] commands` of files, and the files named at `up`."""

from typing import Final

import msgspec

from evenbeat.core.permission import Permission
from evenbeat.model import Commands, Invalid
from evenbeat.node.agreement import said_node
from evenbeat.node.file_owner import file_of, is_file
from evenbeat.store.contract import Store

NAMED_FILES: Final = "files named at up"
"""A setting of the store: the owners of these files, as a list."""
_FORGED: Final = "only a node that reads the file itself makes tasks of this owner; accepted: any name that does not"


class Forbidden(Invalid):
    """Something that nobody may do, whatever their role."""


def named_files(store: Store) -> frozenset[str]:
    """The owners that stand for the files that the node, or a node of the cluster, was last started with."""
    return frozenset(msgspec.json.decode(store.setting(NAMED_FILES) or "[]", type=list[str]))


def permission_of(store: Store) -> Permission:
    """Only files say who may say what is executed, and the strictest of them counts."""
    strict = any(said.commands is Commands.FILES for owner, said in said_node(store).items() if is_file(owner))
    return Permission(Commands.FILES, named_files(store)) if strict else Permission()


def must_not_be_forged(*owners: str) -> None:
    """Raise Forbidden for an owner that stands for a file."""
    for owner in filter(is_file, owners):
        raise Forbidden(f"{owner!r} stands for a file of the node: {_FORGED} begin with 'file:'", place="owner")


def why_blocked(owner: str) -> str:
    """What to do about a task that is not executed."""
    file = file_of(owner) if is_file(owner) else None
    if file is None:
        return f"it is of {owner}; write it into a file that is named at `evenbeat up`"
    return f"its file was not named when the node was started; `evenbeat up {file}` names it"
