"""What an owner, often a file, declares beside its tasks: periods, limits, contacts and settings of the node."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from evenbeat.admin.audit_lines import audit_of_settings
from evenbeat.admin.command_permission import NAMED_FILES_KEY, named_files, permission_of
from evenbeat.admin.contacts import CONTACTS_PREFIX, contacts_by_owner
from evenbeat.admin.period_changes import definitions_before_change
from evenbeat.admin.stored_downtimes import declaration, downtimes_in_force
from evenbeat.admin.stored_references import LIMITS_PREFIX, NODE_PREFIX, node_settings_by_owner
from evenbeat.admin.tasks_of_files import is_file_owner
from evenbeat.load.config import Config, NodeSettings
from evenbeat.model import CommandSource, Contact, Entry, Instant, Period
from evenbeat.store.cluster_contract import ClusterStore
from evenbeat.store.contract import Store


class OwnerSettings:
    """Stores and removes them. The caller holds the lock for changes."""

    def __init__(self, store: Store, now: Callable[[], Instant]) -> None:
        self._store: Final = store
        self._now: Final = now

    def periods(self) -> dict[str, Period]:
        """The periods of all owners."""
        return {name: period for name, (_, period) in self._store.periods().items()}

    def set_periods(
        self,
        periods: Mapping[str, Period | None],
        owner: str,
        now: Instant,
        who: str,
        changed: Iterable[Entry] = (),
    ) -> None:
        """Set or delete periods; what was due by the old ones is kept until a node settles it, also of tasks that were
        `changed` at the same time and went by them before.
        """
        before = self.periods()
        known = [name for name in periods if name in before]
        tasks = chain(self._store.entries(), changed) if known else ()
        self._store.set_periods(periods, owner, now, who, list(definitions_before_change(tasks, before, known, now)))

    def put(self, settings: dict[str, str | None], who: str = "") -> bool:
        """Store settings, and in the audit what an owner has changed by them. Returns whether they are different."""
        before = {key: self._store.setting(key) for key in settings}
        different = before != settings
        if different:
            self._store.set_settings(settings)
            if noted := audit_of_settings(before, settings, self._now(), who):
                self._store.note(noted)
        return different

    def add_new(self, configs: Mapping[str, Config], now: Instant, who: str) -> bool:
        """Store new periods, limits, contacts and settings; removed ones stay until no task needs them."""
        different = False
        for owner, config in configs.items():
            known = self.periods()
            new = {name: period for name, period in config.periods.items() if known.get(name) != period}
            if new:
                self.set_periods(new, owner, now, who)
            limits = self._limits_of(owner) | config.limits
            contacts = {**self.contacts_of(owner), **config.contacts}
            settings = {
                LIMITS_PREFIX + owner: _encode(limits),
                CONTACTS_PREFIX + owner: _encode(contacts),
                NODE_PREFIX + owner: _encode(config.node),
                **declaration(self._store, owner, config.downtimes, now),
            }
            different |= bool(new) | self.put(settings, who)
        return different

    def remove_old(self, configs: Mapping[str, Config], changed: Sequence[Entry], now: Instant, who: str) -> bool:
        """Remove periods, limits and contacts that these owners do not declare any more."""
        different = False
        declared = {name for config in configs.values() for name in config.periods}
        for owner, config in configs.items():
            gone = [name for name, (of, _) in self._store.periods().items() if of == owner and name not in declared]
            if gone:
                self.set_periods(dict.fromkeys(gone), owner, now, who, changed)
            different |= bool(gone) | self.put(
                {LIMITS_PREFIX + owner: _encode(config.limits), CONTACTS_PREFIX + owner: _encode(config.contacts)}, who
            )
        return different

    def contacts_of(self, owner: str) -> dict[str, Contact]:
        """The contacts of an owner."""
        return contacts_by_owner(self._store).get(owner, {})

    def set_contact(self, owner: str, name: str, contact: Contact | None, who: str) -> bool:
        """Set or delete a contact of an owner. Returns whether it is different."""
        contacts = self.contacts_of(owner)
        contacts.pop(name, None)
        if contact is not None:
            contacts[name] = contact
        return self.put({CONTACTS_PREFIX + owner: _encode(dict(sorted(contacts.items())))}, who)

    def forget(self, owner: str, now: Instant, who: str) -> bool:
        """Remove the leftovers of an owner without tasks: its node settings, and its unused periods, limits and
        contacts."""
        limits, contacts = self._limits_of(owner), self.contacts_of(owner)
        periods = {name: None for name, (of, _) in self._store.periods().items() if of == owner}
        if limits or periods or contacts:
            for entry in self._store.entries():
                limits.pop(entry.task.limit or "", None)
                periods.pop(entry.task.period or "", None)
                for one in entry.task.notify:
                    contacts.pop(one.to, None)
            for other, node in node_settings_by_owner(self._store).items():
                for one in (node.notify or ()) if other != owner else ():
                    contacts.pop(one.to, None)
            for other, some in contacts_by_owner(self._store).items():
                for name, contact in some.items():
                    if other != owner or name not in contacts:
                        periods.pop(contact.period or "", None)
            for name in self._periods_used(now, owner):
                periods.pop(name, None)
            self.set_periods(periods, owner, now, who)
        kept = {name: most for name, most in self._limits_of(owner).items() if name not in limits}
        stays = {name: contact for name, contact in self.contacts_of(owner).items() if name not in contacts}
        settings = {
            NODE_PREFIX + owner: None,
            LIMITS_PREFIX + owner: _encode(kept),
            CONTACTS_PREFIX + owner: _encode(stays),
            **declaration(self._store, owner, (), now),
        }
        if is_file_owner(owner) and permission_of(self._store).commands is CommandSource.FILES:
            del settings[NODE_PREFIX + owner]  # a right to delete tasks is no right to define commands
        if isinstance(self._store, ClusterStore) and owner in (named := named_files(self._store)):
            settings[NAMED_FILES_KEY] = _encode_owners(named - {owner})
        return self.put(settings, who) or bool(periods)

    def _periods_used(self, now: Instant, owner: str) -> Iterator[str]:
        """Periods that other periods, and downtimes that are not this owner's, refer to."""
        for _, period in self._store.periods().values():
            yield from (*period.include, *period.exclude)
        for downtime in downtimes_in_force(self._store, now, {owner}):
            if downtime.period is not None:
                yield downtime.period

    def set_named_files(self, owners: Collection[str]) -> bool:
        """Store which files a node was started with, by their owners; in a cluster, beside those of the other nodes."""
        known = named_files(self._store) if isinstance(self._store, ClusterStore) else frozenset()
        return self.put({NAMED_FILES_KEY: _encode_owners(known.union(owners))})

    def _limits_of(self, owner: str) -> dict[str, int]:
        return msgspec.json.decode(self._store.setting(LIMITS_PREFIX + owner) or "{}", type=dict[str, int])


def _encode_owners(owners: Collection[str]) -> str | None:
    return msgspec.json.encode(sorted(owners)).decode() if owners else None


def _encode(value: Mapping[str, int] | Mapping[str, Contact] | NodeSettings | None) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
