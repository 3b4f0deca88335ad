"""What a store keeps of chains: how runs of parents ended, and which of these ends the tasks after them have used."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import replace


class ChainEnd(NamedTuple):
    """The latest success, or the latest failure that was final, of a task that others may follow."""

    task: int
    succeeded: bool
    nominal: int
    generation: int
    at: int
    """When the node learned of it."""


class ChainUse(NamedTuple):
    """The ends of its parents that a task has used, as `core.chains` writes them."""

    task: int
    used: bytes
    """Empty: nothing is kept of this task any more."""


class ChainParent(Struct, frozen=True):
    """A task that others may follow, and the latest of its ends."""

    name: str
    number: int
    success: ChainEnd | None = None
    failure: ChainEnd | None = None


def chain_parents(rows: Iterable[Any]) -> list[ChainParent]:
    """Of rows of name, number and end, one for each end of a task; of a task without any, one that has None instead."""
    found: dict[int, ChainParent] = {}
    for name, number, succeeded, *end in rows:
        known = found.setdefault(number, ChainParent(name, number))
        if succeeded is not None:
            which = "success" if succeeded else "failure"
            found[number] = replace(known, **{which: ChainEnd(number, bool(succeeded), *end)})
    return list(found.values())
