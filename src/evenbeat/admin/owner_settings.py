"""What an owner, often a file, declares beside its tasks: periods, limits and settings of the node."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final

import msgspec

from evenbeat.admin.audit_lines import audit_of_settings
from evenbeat.admin.command_permission import NAMED_FILES_KEY, named_files, permission_of
from evenbeat.admin.cross_check import LIMITS_PREFIX, NODE_PREFIX
from evenbeat.admin.file_owner import is_file_owner
from evenbeat.admin.period_changes import definitions_before_change
from evenbeat.load.config import Config, NodeSettings
from evenbeat.model import CommandSource, Entry, Instant, Period
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
        """Store new periods, limits and settings; removed ones stay until no task needs them."""
        different = False
        for owner, config in configs.items():
            known = self.periods()
            new = {name: period for name, period in config.periods.items() if known.get(name) != period}
            if new:
                self.set_periods(new, owner, now, who)
            limits = self._limits_of(owner) | config.limits
            different |= bool(new) | self.put(
                {LIMITS_PREFIX + owner: _encode(limits), NODE_PREFIX + owner: _encode(config.node)}, who
            )
        return different

    def remove_old(self, configs: Mapping[str, Config], changed: Sequence[Entry], now: Instant, who: str) -> bool:
        """Remove periods and limits that these owners do not declare any more."""
        different = False
        declared = {name for config in configs.values() for name in config.periods}
        for owner, config in configs.items():
            gone = [name for name, (of, _) in self._store.periods().items() if of == owner and name not in declared]
            if gone:
                self.set_periods(dict.fromkeys(gone), owner, now, who, changed)
            different |= bool(gone) | self.put({LIMITS_PREFIX + owner: _encode(config.limits)}, who)
        return different

    def forget(self, owner: str, now: Instant, who: str) -> bool:
        """Remove the leftovers of an owner without tasks: its node settings, and its unused periods and limits."""
        limits = self._limits_of(owner)
        periods = {name: None for name, (of, _) in self._store.periods().items() if of == owner}
        if limits or periods:
            for entry in self._store.entries():
                limits.pop(entry.task.limit or "", None)
                periods.pop(entry.task.period or "", None)
            for _, period in self._store.periods().values():
                for name in (*period.include, *period.exclude):
                    periods.pop(name, None)
            self.set_periods(periods, owner, now, who)
        kept = {name: most for name, most in self._limits_of(owner).items() if name not in limits}
        settings = {NODE_PREFIX + owner: None, LIMITS_PREFIX + owner: _encode(kept)}
        if is_file_owner(owner) and permission_of(self._store).commands is CommandSource.FILES:
            del settings[NODE_PREFIX + owner]  # a right to delete tasks is no right to define commands
        if isinstance(self._store, ClusterStore) and owner in (named := named_files(self._store)):
            settings[NAMED_FILES_KEY] = _encode_owners(named - {owner})
        return self.put(settings, who) or bool(periods)

    def set_named_files(self, owners: Collection[str]) -> bool:
        """Store which files a node was started with, by their owners; in a cluster, beside those of the other nodes."""
        known = named_files(self._store) if isinstance(self._store, ClusterStore) else frozenset()
        return self.put({NAMED_FILES_KEY: _encode_owners(known.union(owners))})

    def _limits_of(self, owner: str) -> dict[str, int]:
        return msgspec.json.decode(self._store.setting(LIMITS_PREFIX + owner) or "{}", type=dict[str, int])


def _encode_owners(owners: Collection[str]) -> str | None:
    return msgspec.json.encode(sorted(owners)).decode() if owners else None


def _encode(value: dict[str, int] | NodeSettings | None) -> str | None:
    return msgspec.json.encode(value).decode() if value else None
