"""Settings of the store for passive checks: heartbeat tokens, and times that the next node must know."""

from collections.abc import Collection
from typing import Final, NamedTuple

from evenbeat.admin.worker_killers import DEATHS_PREFIX
from evenbeat.model import Entry
from evenbeat.store.contract import Store

HEARTBEAT_TOKEN_PREFIX: Final = "beat:"  # noqa: S105
"""Prefix before the digest of a token; the value is the id of its task."""
BEGUN_PREFIX: Final = "begun:"
"""Prefix before the id of a task: when its sender reported a start."""
GOOD_UNTIL_PREFIX: Final = "good until:"
"""Prefix before the id of a task: until when its result is valid, and the time of that result."""


class PassiveTimes(NamedTuple):
    """Stored facts about passive checks, by the ids of their tasks."""

    begun: dict[str, int]
    good_until: dict[str, tuple[int, int]]

    @property
    def ids(self) -> set[str]:
        """All tasks with stored facts."""
        return {*self.begun, *self.good_until}


def load_passive_times(store: Store) -> PassiveTimes:
    """Read the stored facts."""
    good_until = (
        (key.removeprefix(GOOD_UNTIL_PREFIX), value.split()) for key, value in store.settings(GOOD_UNTIL_PREFIX).items()
    )
    return PassiveTimes(
        {key.removeprefix(BEGUN_PREFIX): int(value) for key, value in store.settings(BEGUN_PREFIX).items()},
        {id_: (int(until), int(known)) for id_, (until, known) in good_until},
    )


def forget_removed_tasks(store: Store, removed: Collection[Entry]) -> None:
    """Delete all settings of removed tasks."""
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
    """The keys of the heartbeat tokens of these tasks."""
    return [key for key, id_ in store.settings(HEARTBEAT_TOKEN_PREFIX).items() if id_ in ids]
