"""What a node keeps in the store's settings of checks that others tell of: tokens, and what must outlive the node."""

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from evenbeat.model import Entry
from evenbeat.store.contract import Store

if TYPE_CHECKING:
    from evenbeat.node.passive import Passive
    from evenbeat.node.roster import Roster

BEATS: Final = "beat:"
"""Before the digest of a token; the value is the id of its task."""
BEGUN: Final = "begun:"
GOOD_UNTIL: Final = "good until:"
"""Before the id of a task: when its sender began; and until when the result of which time is good."""


def restore_told(passive: "Passive", roster: "Roster", store: Store) -> None:
    """What the last node remembered."""
    for what, restore in ((BEGUN, passive.restore_begun), (GOOD_UNTIL, passive.restore_ttl)):
        for key, value in store.settings(what).items():
            entry = store.find(key.removeprefix(what))
            row = None if entry is None else roster.row(entry.number)
            if row is not None:
                restore(row, *map(int, value.split()))


def forget_told(store: Store, removed: Collection[Entry]) -> None:
    """Tasks are gone, and with them all that was kept for them."""
    ids = {entry.id for entry in removed}
    found = tokens_of(store, ids)
    found += [key for what in (BEGUN, GOOD_UNTIL) for key in store.settings(what) if key.removeprefix(what) in ids]
    if found:
        store.set_settings(dict.fromkeys(found))


def tokens_of(store: Store, ids: Collection[str]) -> list[str]:
    """The settings that are tokens of these tasks."""
    return [key for key, id_ in store.settings(BEATS).items() if id_ in ids]
