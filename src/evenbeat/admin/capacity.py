"""How many runs may be made at the same time, in all and under each limit, and who says so.

What was set at run time counts until it is reset, also after a restart; then the command line; then files; then the
default.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from evenbeat.admin.cross_check import said_limits, said_node
from evenbeat.admin.file_owner import file_of
from evenbeat.model import Instant, Invalid
from evenbeat.store.contract import Store
from evenbeat.when.nearest import listed

MAX_CONCURRENT: Final = 512
"""Slots, if nobody says how many."""
MOST: Final = 1_000_000
BY_HAND: Final = "set by hand:"
"""Settings of the store: before "slots" or "limit:NAME", what was set at run time."""
_SLOTS: Final = BY_HAND + "slots"
_LIMIT: Final = BY_HAND + "limit:"


class Capacity(Struct, frozen=True):
    """How many, and who says so: "default", "command line", the name of a file or owner, "set by ana"."""

    most: int
    source: str


class _ByHand(Struct, frozen=True):
    most: int
    who: str
    at: int


def slots_of(store: Store, command_line: int | None = None) -> Capacity:
    """Slots of a node that was started with `--max-concurrent`, or without; in a cluster those of all nodes."""
    if (said := store.setting(_SLOTS)) is not None:
        return _set_by(said)
    if command_line is not None:
        return Capacity(command_line, "command line")
    for owner, node in said_node(store).items():
        if node.max_concurrent is not None:
            return Capacity(node.max_concurrent, file_of(owner) or owner)
    return Capacity(MAX_CONCURRENT, "default")


def limits_of(store: Store) -> dict[str, Capacity]:
    """All limits that are declared, by name."""
    declared = said_limits(store)
    found = {n: Capacity(most, file_of(owner) or owner) for owner, some in declared.items() for n, most in some.items()}
    by_hand = store.settings(_LIMIT)
    return found | {n: _set_by(by_hand[_LIMIT + n]) for n in found if _LIMIT + n in by_hand}


def set_slots(store: Store, most: int | None, who: str, now: Instant) -> None:
    """From now on so many; None for what is said elsewhere."""
    store.set_settings({_SLOTS: _packed(most, who, now)})


def set_limit(store: Store, name: str, most: int | None, who: str, now: Instant) -> None:
    """The same for a limit; raise Invalid if none has this name."""
    known = limits_of(store)
    if name not in known:
        raise Invalid(f"there is no limit {name!r}, known: {listed(sorted(known), 'none is defined')}")
    store.set_settings({_LIMIT + name: _packed(most, who, now)})


def not_in_force(files: Mapping[str, int], slots: Capacity) -> list[str]:
    """What files say of `max_concurrent`, by owner, and does not count; in words."""
    why = {"command line": f"--max-concurrent {slots.most} of the command line is"}
    return [
        f"max_concurrent = {most} of {file_of(owner) or owner} is not in force: "
        + why.get(slots.source, f"{slots.most} is, {slots.source}; `evenbeat slots --reset` takes that back")
        for owner, most in files.items()
        if most != slots.most
    ]


def _packed(most: int | None, who: str, now: Instant) -> str | None:
    if most is None:
        return None
    if not 1 <= most <= MOST:
        raise Invalid(f"{most} is out of range, accepted: 1 to {MOST:,}")
    return msgspec.json.encode(_ByHand(most, who, now)).decode()


def _set_by(text: str) -> Capacity:
    said = msgspec.json.decode(text, type=_ByHand)
    return Capacity(said.most, f"set by {said.who}")
