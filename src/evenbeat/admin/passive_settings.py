"""What a node keeps in the store's settings of checks that others tell of: tokens, and what must outlive the node."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from evenbeat.admin.worker_killers import DEATHS
from evenbeat.model import Entry
from evenbeat.store.contract import Store

if TYPE_CHECKING:
    from evenbeat.node.loop.passive_checks import Passive
    from evenbeat.node.loop.task_table import Roster

BEATS: Final = "beat:"
"""Before the digest of a token; the value is the id of its task."""
BEGUN: Final = "begun:"
GOOD_UNTIL: Final = "good until:"
"""Before the id of a task: when its sender began; and until when the result of which time is good."""


def restore_told(passive: "Passive", roster: "Roster", store: Store) -> None:
    """What the last node remembered."""
    found = remembered(store)
    named = {key for some in found.values() for key in some}
    entries = [entry for id_ in sorted(named) if (entry := store.find(id_)) is not None]
    restore(passive, roster, found, entries)


def remembered(store: Store) -> dict[str, dict[str, str]]:
    """What nodes have remembered, by what it is and the id of the task."""
    return {
        what: {key.removeprefix(what): value for key, value in store.settings(what).items()}
        for what in (BEGUN, GOOD_UNTIL)
    }


def restore(
    passive: "Passive", roster: "Roster", found: Mapping[str, Mapping[str, str]], entries: Iterable[Entry]
) -> None:
    """The same for these tasks."""
    ways = ((BEGUN, passive.restore_begun), (GOOD_UNTIL, passive.restore_ttl))
    for entry in entries if any(found.values()) else ():
        row = roster.row(entry.number)
        for what, again in ways:
            value = found[what].get(entry.id)
            if value is not None and row is not None:
                again(row, *map(int, value.split()))


def forget_told(store: Store, removed: Collection[Entry]) -> None:
    """Tasks are gone, and with them all that was kept for them."""
    ids = {entry.id for entry in removed}
    found = tokens_of(store, ids)
    found += list({f"{DEATHS}{entry.number}" for entry in removed} & store.settings(DEATHS).keys())
    found += [key for what in (BEGUN, GOOD_UNTIL) for key in store.settings(what) if key.removeprefix(what) in ids]
    if found:
        store.set_settings(dict.fromkeys(found))


def tokens_of(store: Store, ids: Collection[str]) -> list[str]:
    """The settings that are tokens of these tasks."""
    return [key for key, id_ in store.settings(BEATS).items() if id_ in ids]
