"""What a node keeps in the store's settings of checks that others tell of: tokens, and what must outlive the node."""

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

from evenbeat.admin.worker_killers import DEATHS_PREFIX
from evenbeat.model import Entry
from evenbeat.store.contract import Store

if TYPE_CHECKING:
    from evenbeat.node.loop.passive_checks import PassiveChecks
    from evenbeat.node.loop.task_table import TaskTable

HEARTBEAT_TOKEN_PREFIX: Final = "beat:"  # noqa: S105
"""Before the digest of a token; the value is the id of its task."""
BEGUN_PREFIX: Final = "begun:"
GOOD_UNTIL_PREFIX: Final = "good until:"
"""Before the id of a task: when its sender began; and until when the result of which time is good."""


def restore_passive_state(passive: "PassiveChecks", roster: "TaskTable", store: Store) -> None:
    """What the last node remembered."""
    found = load_passive_state(store)
    named = {key for some in found.values() for key in some}
    entries = [entry for id_ in sorted(named) if (entry := store.find(id_)) is not None]
    restore_passive_rows(passive, roster, found, entries)


def load_passive_state(store: Store) -> dict[str, dict[str, str]]:
    """What nodes have remembered, by what it is and the id of the task."""
    return {
        what: {key.removeprefix(what): value for key, value in store.settings(what).items()}
        for what in (BEGUN_PREFIX, GOOD_UNTIL_PREFIX)
    }


def restore_passive_rows(
    passive: "PassiveChecks", roster: "TaskTable", found: Mapping[str, Mapping[str, str]], entries: Iterable[Entry]
) -> None:
    """The same for these tasks."""
    ways = ((BEGUN_PREFIX, passive.restore_begun), (GOOD_UNTIL_PREFIX, passive.restore_ttl))
    for entry in entries if any(found.values()) else ():
        row = roster.row(entry.number)
        for what, again in ways:
            value = found[what].get(entry.id)
            if value is not None and row is not None:
                again(row, *map(int, value.split()))


def forget_removed_tasks(store: Store, removed: Collection[Entry]) -> None:
    """Tasks are gone, and with them all that was kept for them."""
    ids = {entry.id for entry in removed}
    found = heartbeat_tokens_of(store, ids)
    found += list({f"{DEATHS_PREFIX}{entry.number}" for entry in removed} & store.settings(DEATHS_PREFIX).keys())
    found += [
        key
        for what in (BEGUN_PREFIX, GOOD_UNTIL_PREFIX)
        for key in store.settings(what)
        if key.removeprefix(what) in ids
    ]
    if found:
        store.set_settings(dict.fromkeys(found))


def heartbeat_tokens_of(store: Store, ids: Collection[str]) -> list[str]:
    """The settings that are tokens of these tasks."""
    return [key for key, id_ in store.settings(HEARTBEAT_TOKEN_PREFIX).items() if id_ in ids]
