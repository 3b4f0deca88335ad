"""A cluster whose checks notify receivers: two schedulers, killed, stopped and held at random."""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from breakable_cluster import BreakableCluster, Servers, children_of, is_called
from cluster_records import connect
from notification_oracle import Evidence
from notifying_node import NotifyingWorld, Receivers, check_tables, kill_senders

from evenbeat.client.node_or_database import open_client
from evenbeat.client.store_based import LocalClient
from evenbeat.core.partition_ownership import LEASE_DURATION
from evenbeat.model import SECOND

SCHEDULERS: Final = ("s0", "s1")
WORKERS: Final = ("w0", "w1")


class NotifyingCluster(NotifyingWorld):
    """Contacts belong to one scheduler each, and change hands."""

    def __init__(self, folder: Path, servers: Servers, receivers: Receivers, chance: random.Random) -> None:
        super().__init__(folder, receivers, chance)
        tasks = "[node]\nmax_concurrent = 10\n" + receivers.contacts() + check_tables(folder)
        self.cluster = BreakableCluster(folder, servers, tasks, planted={name: {"eager": True} for name in SCHEDULERS})
        self.cluster.begin()

    def close(self) -> None:
        self.cluster.close()

    def client(self) -> LocalClient:
        return open_client(self.cluster.dsn, "ana")

    def evidence(self) -> Evidence:
        return super().evidence()._replace(had_takeovers=True)

    @contextmanager
    def connection(self) -> Iterator[Any]:
        with connect(self.cluster.dsn) as connection:
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            yield connection

    def assert_alive(self) -> None:
        for program in self.cluster.programs.values():
            assert program.is_alive, f"{program.name} is gone:\n{program.output}"

    # What happens to processes

    def kill_scheduler(self) -> None:
        self._replace(is_killed=True)

    def stop_scheduler(self) -> None:
        self._replace(is_killed=False)

    def _replace(self, *, is_killed: bool) -> None:
        """One ends, the other goes on alone for a moment, and another comes."""
        victim = self.cluster.programs[self.chance.choice(SCHEDULERS)]
        if is_killed:
            victim.kill()
        else:
            victim.terminate()
            victim.wait_until_stopped()
        self.flip()
        victim.start()
        victim.wait_until_ready()

    def hold_scheduler(self) -> None:
        """Until the other one has its contacts; its sender goes on."""
        victim = self.cluster.programs[self.chance.choice(SCHEDULERS)]
        victim.hold()
        deadline = time.monotonic() + LEASE_DURATION / SECOND + 2
        while time.monotonic() < deadline:
            self.flip()
            time.sleep(0.1)
        victim.go_on()

    def kill_sender(self) -> None:
        for name in SCHEDULERS:
            kill_senders(self.cluster.programs[name].pid)

    def kill_workers(self) -> None:
        """What runs the commands of one program."""
        for child in children_of(self.cluster.programs[self.chance.choice(WORKERS)].pid):
            with suppress(OSError):
                if is_called(child, b"evenbeat.work.runner"):
                    os.kill(child, signal.SIGKILL)
