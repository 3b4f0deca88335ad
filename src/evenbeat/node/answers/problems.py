"""What keeps a live node from executing or recording anything, whatever task is asked about."""

from typing import Final

from evenbeat.node.scheduler import Scheduler
from evenbeat.report.status import NO_WORKERS_TEXT

SLOW_COMMIT: Final = 5.0
"""Seconds after which a batch that is not committed yet is reported as a problem."""


def node_problems_of(node: Scheduler) -> list[str]:
    """What is wrong: as long as one of these lasts, nothing new is executed or recorded."""
    found, outbox, others = [], node.outbox, node.others
    if outbox.store_error:
        found.append(f"the store fails: {outbox.store_error}")
    elif (age := outbox.oldest_age()) > SLOW_COMMIT:
        found.append(f"the store has not committed anything for {age:.0f} s")
    if node.queue.problem:
        found.append(node.queue.problem)
    if others is not None and others.problem:
        found.append(others.problem)
    return found


def obstacles_of(node: Scheduler) -> list[str]:
    """The problems, and that the node has no workers if it was started so."""
    return node_problems_of(node) + ([] if node.membership.has_workers else [NO_WORKERS_TEXT])
