"""`evenbeat` in its own process, with a fault: `cluster_process_launcher.py PLANTED ARGUMENT...` (PLANTED in JSON).

Nothing in evenbeat knows of faults, nor of the bugs that the oracle must find. They are planted before it is run.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

SECOND = 1_000_000_000


def plant_clock(seconds: float) -> None:
    """The wall clock of this process, and of nothing else, is so far ahead."""
    read, read_ns = time.time, time.time_ns
    time.time = lambda: read() + seconds
    time.time_ns = lambda: read_ns() + round(seconds * SECOND)


def plant_two_minds() -> None:
    """The bug of a double claim: a node takes its lease for good whatever happens, and no claim is fenced."""
    from evenbeat.node.cluster.lease import HeldLease
    from evenbeat.node.cluster.membership import ClusterMembership
    from evenbeat.store.postgres.write_session import WriteSession

    begin = WriteSession.begin

    async def stay(self: ClusterMembership, why: BaseException) -> None:
        await asyncio.sleep(0.5)

    def unfenced(self: WriteSession, connection: Any, number: int, held: object) -> None:
        begin(self, connection, number, None)

    WriteSession.begin = unfenced  # type: ignore[method-assign]
    HeldLease.may_act = lambda self: True  # type: ignore[method-assign]
    ClusterMembership._rejoin = stay  # type: ignore[method-assign]


def plant_deafness(every: int) -> None:
    """The bug of a lost run: one result in so many is told to be safe, and is not."""
    from evenbeat.node.loop.turn import TurnLoop

    hear = TurnLoop.add_results
    heard = 0

    def planted(self: TurnLoop, results: Sequence[Any]) -> None:
        nonlocal heard
        kept = []
        for result in results:
            heard += 1
            if heard % every:
                kept.append(result)
            else:
                self._queue.confirm_stored([result.token])
        hear(self, kept)

    TurnLoop.add_results = planted  # type: ignore[method-assign]


def plant(planted: dict[str, Any]) -> None:
    if "clock" in planted:
        plant_clock(planted["clock"])
    if "two minds" in planted:
        plant_two_minds()
    if "deaf" in planted:
        plant_deafness(planted["deaf"])
    if "eager" in planted:
        from notification_faults import plant_eager_delivery

        plant_eager_delivery()


if __name__ == "__main__":
    plant(json.loads(sys.argv[1]))
    sys.argv = ["evenbeat", *sys.argv[2:]]
    from evenbeat.cli.main import run

    sys.exit(run())
