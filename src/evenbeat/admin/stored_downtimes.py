"""Downtimes as the settings of a store: those of an owner together, those that people set one by one."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import msgspec
from msgspec.structs import replace

from evenbeat.admin.tasks_of_files import file_of_owner
from evenbeat.core.downtimes import is_over
from evenbeat.model import DAY, Downtime, Instant
from evenbeat.store.contract import Store

DOWNTIMES_PREFIX: Final = "downtimes:"
"""Prefix before an owner: the downtimes that it declares."""
DOWNTIME_PREFIX: Final = "downtime:"
"""Prefix before the id of a downtime that a person has set, or that an owner has declared and does not any more."""
KEPT: Final = 30 * DAY
"""How long a downtime is known after its end."""
_ID_BYTES: Final = 4


def stored_downtimes(store: Store) -> list[Downtime]:
    """All of them, also those that are over and still kept; those that begin first come first."""
    found = [downtime for owner in declared_downtimes(store).values() for downtime in owner]
    found += (msgspec.json.decode(text, type=Downtime) for text in store.settings(DOWNTIME_PREFIX).values())
    return sorted(found, key=lambda downtime: (downtime.start or 0, downtime.created, downtime.id))


def declared_downtimes(store: Store) -> dict[str, list[Downtime]]:
    """Those that owners declare, by owner."""
    found = store.settings(DOWNTIMES_PREFIX)
    return {key.removeprefix(DOWNTIMES_PREFIX): decode_downtimes(text) for key, text in sorted(found.items())}


def decode_downtimes(text: str | None) -> list[Downtime]:
    """What an owner declares, as the store keeps it."""
    return [] if text is None else msgspec.json.decode(text, type=list[Downtime])


def find_downtime(store: Store, id_: str) -> Downtime | None:
    """The downtime with this id."""
    return next((downtime for downtime in stored_downtimes(store) if downtime.id == id_), None)


def downtimes_in_force(store: Store, now: Instant, without: Collection[str] = ()) -> Iterator[Downtime]:
    """Those that are not over, but not what these owners declare."""
    owners = {key: some for key, some in declared_downtimes(store).items() if key not in without}
    declared = (downtime for some in owners.values() for downtime in some if not is_over(downtime, now))
    return chain(declared, downtimes_of_people(store, now))


def downtimes_of_people(store: Store, now: Instant) -> Iterator[Downtime]:
    """Those that people have set and that are not over."""
    found = (msgspec.json.decode(text, type=Downtime) for text in store.settings(DOWNTIME_PREFIX).values())
    return (downtime for downtime in found if not is_over(downtime, now))


def declaration(store: Store, owner: str, said: Sequence[Downtime], now: Instant) -> dict[str, str | None]:
    """The settings by which an owner declares these downtimes, and no others. One that it declared before keeps its
    time of creation; one that it does not declare any more is kept as ended.
    """
    before = {one.id: one for one in decode_downtimes(store.setting(DOWNTIMES_PREFIX + owner))}
    words = file_of_owner(owner) or owner
    present = {}
    for downtime in said:
        id_ = _id_of(owner, downtime)
        present[id_] = before.get(id_) or replace(downtime, id=id_, who=words, created=now)
    gone = (one for id_, one in before.items() if id_ not in present and not is_over(one, now))
    ended = [_ended(one, words, now) for one in gone if (one.start is None or one.start < now) and one.created < now]
    declared = msgspec.json.encode(list(present.values())).decode() if present else None
    forgotten = forgotten_settings(stored_downtimes(store), now) if ended else {}
    return {
        DOWNTIMES_PREFIX + owner: declared,
        **forgotten,
        **{DOWNTIME_PREFIX + one.id: encode_downtime(one) for one in ended},
    }


def _ended(downtime: Downtime, who: str, now: Instant) -> Downtime:
    """A downtime that is not declared any more. It may be declared again, so this one gets an id of its own."""
    id_ = _id_of(f"{who} {now}", downtime)
    return replace(downtime, id=id_, start=downtime.start or downtime.created, end=now, ended_by=who)


def encode_downtime(downtime: Downtime) -> str:
    """As the store keeps it."""
    return msgspec.json.encode(downtime).decode()


def forgotten_settings(downtimes: Iterable[Downtime], now: Instant) -> dict[str, str | None]:
    """What deletes those that were over long ago."""
    return {
        DOWNTIME_PREFIX + downtime.id: None
        for downtime in downtimes
        if downtime.end is not None and downtime.end + KEPT <= now
    }


def _id_of(owner: str, downtime: Downtime) -> str:
    """Always the same for the same downtime of an owner."""
    content = msgspec.json.encode([owner, downtime])
    return f"f{hashlib.blake2b(content, digest_size=_ID_BYTES).hexdigest()}"
