"""The lease of a node of a cluster: joined, renewed, and checked before the node acts. All calls block."""

from secrets import token_hex

from evenbeat.clock.database_clock import CLOCK_SAMPLES, DatabaseClock
from evenbeat.clock.system_clock import boot_time
from evenbeat.core.partition_ownership import LEASE_DURATION, QUIET_AFTER_FORGETTING, acts_until
from evenbeat.store.cluster_contract import ClusterSnapshot, ClusterStore


class HeldLease:
    """The lease of this node. Its id is random; a node that lost its lease gets a new one."""

    def __init__(self, store: ClusterStore, clock: DatabaseClock) -> None:
        self._store = store
        self._clock = clock
        self.id = ""
        self.epoch = 0
        self.until = 0
        """Until then the node may act, on the boot-time clock."""

    def may_act(self) -> bool:
        """Is the lease valid now, whatever has happened since it was last renewed?"""
        return boot_time() < self.until

    def join(self, about: bytes, *, forgot: bool = False) -> None:
        self.id = token_hex(8)
        asked = boot_time()
        self.epoch = self._store.join(self.id, LEASE_DURATION, about, quiet=QUIET_AFTER_FORGETTING, forgot=forgot)
        self.until = acts_until(asked, LEASE_DURATION)

    def renew(self, about: bytes, *, is_hint: bool = False) -> ClusterSnapshot:
        asked = boot_time()
        snapshot = self._store.renew(LEASE_DURATION, about, is_hint=is_hint)
        self._clock.learn(asked, snapshot.now, boot_time())
        self.until = acts_until(asked, LEASE_DURATION)
        return snapshot

    def read_clock(self) -> None:
        """Read the database's clock often enough to know its offset well."""
        for _ in range(CLOCK_SAMPLES):
            asked = boot_time()
            self._clock.learn(asked, self._store.clock(), boot_time())
