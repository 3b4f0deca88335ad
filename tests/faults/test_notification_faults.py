"""Real nodes, workers, senders and receivers fail while checks turn bad and good, and an oracle looks at what arrived.

`make test` makes a short pass, `make faults` (EVENBEAT_FAULTS=full) crosses every boundary, and makes many storms.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from budget import IS_FULL
from notification_faults import ALERT_BOUNDARIES
from notification_oracle import findings
from notifying_node import PASSIVE, NotifyingNode, Receivers

CHAINS = (
    [(point,) * 3 for point in ALERT_BOUNDARIES]
    if IS_FULL
    else [("after message commit", "before end commit"), ("in attempt commit", "after order", "after failure commit")]
)
STORMS = range(1, 31) if IS_FULL else range(1)
STORM_SECONDS = 20.0 if IS_FULL else 4.0
STORE_FAULTS = ("slow", "full", "write error", "locked", "read-only")
_STEP = 0.05
"""Seconds between two things that happen."""

Make = Callable[[int], NotifyingNode]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    made: list[NotifyingNode] = []
    with Receivers() as receivers:

        def node(seed: int) -> NotifyingNode:
            made.append(NotifyingNode(tmp_path, receivers, random.Random(seed)))
            return made[-1]

        yield node
        for one in made:
            one.close()


def live_until_crash(node: NotifyingNode) -> None:
    """Checks become better and worse until the node dies as planted."""
    while node.is_alive:
        node.flip()
        time.sleep(_STEP)
    node.wait_for_crash()


@pytest.mark.parametrize("points", CHAINS, ids="; ".join)
def test_a_node_is_killed_at_every_boundary_of_its_notifications(make: Make, points: tuple[str, ...]) -> None:
    node = make(len(points))
    for i, point in enumerate(points):
        node.receivers.http.behaviour = "500" if "failure" in point else "ok"
        node.start_eager(crash=(point, 3 if i % 2 else 1))
        live_until_crash(node)
    node.start_eager()
    node.calm_down()
    node.stop()
    assert findings(node.evidence()) == []


@pytest.mark.parametrize("seed", STORMS)
def test_a_storm_of_notifications(make: Make, seed: int) -> None:
    """Checks, receivers, people and processes do what they want at random."""
    node = make(seed)
    chance = node.chance
    node.start_eager()
    deadline = time.monotonic() + STORM_SECONDS
    while time.monotonic() < deadline:
        node.flip_and_more()
        if chance.random() < 0.06:
            happen(node, chance)
        time.sleep(chance.random() * 2 * _STEP)
    if not node.is_alive:
        node.start_eager()
    node.calm_down()
    node.stop()
    assert findings(node.evidence()) == []


def happen(node: NotifyingNode, chance: random.Random) -> None:
    """Something happens to a process or to the files."""
    match chance.choice(["node", "crash", "store", "sender", "sender", "worker", "reload", "remove", "stop"]):
        case "node":
            node.kill()
            node.start_eager()
        case "crash":
            node.kill()
            node.start_eager(crash=(chance.choice(ALERT_BOUNDARIES), chance.choice([1, 1, 2, 3, 5])))
            deadline = time.monotonic() + 3
            while node.is_alive and time.monotonic() < deadline:
                node.flip()
                time.sleep(_STEP)
            if node.is_alive:
                node.kill()
            node.start_eager()
        case "store":
            node.kill()
            node.start_eager(store=(chance.choice(STORE_FAULTS), chance.randrange(1, 9), 0.5 + chance.random()))
        case "sender":
            node.kill_sender()
        case "worker":
            node.kill_workers()
        case "reload":
            node.reload()
        case "remove":
            node.remove_leaving()
        case "stop":
            node.stop()
            node.start_eager()


def test_receivers_are_down_for_a_while(make: Make) -> None:
    """Whatever happens meanwhile: what waits arrives at last, in order."""
    node = make(1)
    node.start_eager()
    for how in ("close", "500", "hang", "take-and-close") if IS_FULL else ("close", "take-and-close"):
        node.receivers.http.behaviour = node.receivers.boss.behaviour = how
        node.receivers.mail.behaviour = "refuse mail" if how == "500" else "close"
        for _ in range(4):
            for name in PASSIVE:
                node.set_state(name, node.chance.choice([0, 1, 2]))
            time.sleep(0.3)
    node.calm_down()
    node.stop()
    assert findings(node.evidence()) == []
