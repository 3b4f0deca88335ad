"""What keeps a live node from executing anything, whatever task is asked about."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from evenbeat.node.scheduler import Scheduler

SLOW_COMMIT: Final = 5.0
"""Seconds that the oldest batch may be on its way into the store before that is worth a word."""
NO_WORKERS_TEXT: Final = "no worker executes anything on this node: it was started with --workers 0"


def node_problems_of(node: "Scheduler") -> list[str]:
    """What is wrong: nothing new is executed, or recorded, as long as one of these lasts."""
    found, outbox = [], node.outbox
    if outbox.store_error:
        found.append(f"the store fails: {outbox.store_error}")
    elif (age := outbox.oldest_age()) > SLOW_COMMIT:
        found.append(f"the store has not committed anything for {age:.0f} s")
    if node.queue.problem:
        found.append(node.queue.problem)
    return found


def obstacles_of(node: "Scheduler") -> list[str]:
    """The same, and that nothing is to be executed here."""
    return node.problems() + ([] if node.has_workers else [NO_WORKERS_TEXT])
