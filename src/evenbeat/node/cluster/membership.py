"""Membership in a cluster: the lease of a node, the partitions it holds, the database's clock. All calls block."""

from collections.abc import Callable, Collection, Mapping, Sequence
from secrets import token_hex
from typing import Final

from evenbeat.core.authority import LEASE_DURATION, QUIET_AFTER_FORGETTING, acts_until
from evenbeat.node.loop.clock import boot_time
from evenbeat.store.cluster_contract import ClusterSnapshot, ClusterStore, TakenPartitions

_CLOCK_SAMPLES: Final = 8
"""Readings of the database's clock of which the one with the shortest way counts."""


class DatabaseClock:
    """What time it is for the database, by the boot-time clock of this machine in between."""

    def __init__(self, boot: Callable[[], int] = boot_time) -> None:
        self._boot = boot
        self._samples: list[tuple[int, int]] = []
        """The length of each question, and the offset by it."""
        self._offset = 0

    def learn(self, asked: int, told: int, answered: int) -> None:
        """Somebody asked then, on the boot-time clock, and was told the time."""
        self._samples = [*self._samples[1 - _CLOCK_SAMPLES :], (answered - asked, told - (asked + answered) // 2)]
        length, offset = min(self._samples)
        newest, latest = self._samples[-1]
        # A clock that was set differs by more than the way can explain: then only what is new counts.
        if abs(latest - offset) > length + newest:
            self._samples, offset = [(newest, latest)], latest
        self._offset = offset

    def now(self) -> int:
        return self._boot() + self._offset


class HeldLease:
    """One node among several. Its identity is drawn by lot; a node that lost its lease is another one afterwards."""

    def __init__(self, store: ClusterStore, clock: DatabaseClock) -> None:
        self._store = store
        self._clock = clock
        self.id = ""
        self.epoch = 0
        self.until = 0
        """It may act before that, on the boot-time clock."""
        self.holds: set[int] = set()

    def may_act(self) -> bool:
        """Is the lease good, whatever has happened since it was last renewed?"""
        return boot_time() < self.until

    def join(self, about: bytes, *, forgot: bool = False) -> None:
        self.id, self.holds = token_hex(8), set()
        asked = boot_time()
        self.epoch = self._store.join(self.id, LEASE_DURATION, about, quiet=QUIET_AFTER_FORGETTING, forgot=forgot)
        self.until = acts_until(asked, LEASE_DURATION)

    def renew(self, about: bytes, *, is_hint: bool = False) -> ClusterSnapshot:
        asked = boot_time()
        view = self._store.renew(LEASE_DURATION, about, is_hint=is_hint)
        self._clock.learn(asked, view.now, boot_time())
        self.until = acts_until(asked, LEASE_DURATION)
        return view

    def take(self, partitions: Collection[int]) -> TakenPartitions:
        taken = self._store.take(sorted(partitions))
        self.holds |= set(taken.partitions)
        return taken

    def release(
        self, partitions: Collection[int], untaken: Sequence[int], silent: Mapping[int, Mapping[int, int]]
    ) -> None:
        self._store.release(sorted(partitions), untaken, silent)
        self.holds -= set(partitions)

    def read_clock(self) -> None:
        """Ask the database what time it is, often enough to know it well."""
        for _ in range(_CLOCK_SAMPLES):
            asked = boot_time()
            self._clock.learn(asked, self._store.clock(), boot_time())
