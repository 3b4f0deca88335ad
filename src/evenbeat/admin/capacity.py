"""How many runs may be made at the same time, in all and under each limit, and who says so.

What was set at run time counts until it is reset, also after a restart; then the command line; then files; then the
default.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from evenbeat.admin.stored_references import limits_by_owner, node_settings_by_owner
from evenbeat.admin.tasks_of_files import file_of_owner
from evenbeat.did_you_mean import list_known
from evenbeat.model import Instant, Invalid
from evenbeat.store.contract import Store

DEFAULT_MAX_CONCURRENT: Final = 512
"""The default number of slots."""
MAX_CAPACITY: Final = 1_000_000
SET_BY_HAND_PREFIX: Final = "set by hand:"
"""Prefix of settings of the store, before "slots" or "limit:NAME": values set at run time."""
_SLOTS_KEY: Final = SET_BY_HAND_PREFIX + "slots"
_LIMIT_PREFIX: Final = SET_BY_HAND_PREFIX + "limit:"


class EffectiveLimit(Struct, frozen=True):
    """How many, and who says so: "default", "command line", the name of a file or owner, "set by ana"."""

    most: int
    source: str


class _CapacitySetByHand(Struct, frozen=True):
    most: int
    who: str
    at: int


def slot_capacity(store: Store, command_line: int | None = None) -> EffectiveLimit:
    """The number of slots of a node, started with or without `--max-concurrent`; in a cluster, of all nodes."""
    if (setting := store.setting(_SLOTS_KEY)) is not None:
        return _decode_capacity(setting)
    if command_line is not None:
        return EffectiveLimit(command_line, "command line")
    for owner, node in node_settings_by_owner(store).items():
        if node.max_concurrent is not None:
            return EffectiveLimit(node.max_concurrent, file_of_owner(owner) or owner)
    return EffectiveLimit(DEFAULT_MAX_CONCURRENT, "default")


def limit_capacities(store: Store) -> dict[str, EffectiveLimit]:
    """All declared limits, by name."""
    declared = limits_by_owner(store)
    found = {
        n: EffectiveLimit(most, file_of_owner(owner) or owner)
        for owner, limits in declared.items()
        for n, most in limits.items()
    }
    by_hand = store.settings(_LIMIT_PREFIX)
    return found | {n: _decode_capacity(by_hand[_LIMIT_PREFIX + n]) for n in found if _LIMIT_PREFIX + n in by_hand}


def set_slots(store: Store, most: int | None, who: str, now: Instant) -> None:
    """Set the number of slots from now on; None returns to the value of the command line or files."""
    store.set_settings({_SLOTS_KEY: _encode_capacity(most, who, now)})


def set_limit(store: Store, name: str, most: int | None, who: str, now: Instant) -> None:
    """Set a limit from now on, or return to its declared value; raise Invalid if there is no such limit."""
    known = limit_capacities(store)
    if name not in known:
        raise Invalid(f"there is no limit {name!r}, known: {list_known(sorted(known), 'none is defined')}")
    store.set_settings({_LIMIT_PREFIX + name: _encode_capacity(most, who, now)})


def overridden_slot_settings(files: Mapping[str, int], slots: EffectiveLimit) -> list[str]:
    """What files say of `max_concurrent`, by owner, and does not count; in words."""
    why = {"command line": f"--max-concurrent {slots.most} of the command line is"}
    return [
        f"max_concurrent = {most} of {file_of_owner(owner) or owner} is not in force: "
        + why.get(slots.source, f"{slots.most} is, {slots.source}; `evenbeat slots --reset` takes that back")
        for owner, most in files.items()
        if most != slots.most
    ]


def _encode_capacity(most: int | None, who: str, now: Instant) -> str | None:
    if most is None:
        return None
    if not 1 <= most <= MAX_CAPACITY:
        raise Invalid(f"{most} is out of range, accepted: 1 to {MAX_CAPACITY:,}")
    return msgspec.json.encode(_CapacitySetByHand(most, who, now)).decode()


def _decode_capacity(text: str) -> EffectiveLimit:
    setting = msgspec.json.decode(text, type=_CapacitySetByHand)
    return EffectiveLimit(setting.most, f"set by {setting.who}")
