"""What a node does when another one asks for runs of its checks, as problems there wait for them."""

from collections.abc import Mapping

from evenbeat.model import Instant, partition_of
from evenbeat.node.scheduler import Scheduler
from evenbeat.wire.replies import HeldByOtherNode


async def ask_for_fresh_runs(node: Scheduler, checks: Mapping[int, Instant]) -> list[int]:
    """Another node asks for runs of these checks, which are all of one partition. Returns those that cannot run."""
    for number in checks:
        if partition_of(number) not in node.membership.held_partitions():
            raise HeldByOtherNode(number)
    now = node.clock.now()
    unable = node.turns.holds.ask_for_other_node(checks, now)
    if node.turns.settle_holds(now):
        await node.outbox.wait_committed()
    return unable
