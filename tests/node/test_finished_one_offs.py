"""Finished one-offs disappear after `keep`, like their history; other tasks stay."""

from hand_driven_node import HandDrivenNode

from evenbeat.model import DAY, HOUR, SECOND, Instant
from evenbeat.node.finished_one_offs import FinishedOneOffs
from evenbeat.store.contract import Filter


def names(driven: HandDrivenNode) -> list[str]:
    return [entry.task.name for entry in driven.store.entries()]


def test_those_of_people_and_programs_disappear_and_all_others_stay() -> None:
    driven = HandDrivenNode()
    at = "2024-10-04T01:00:00Z"
    driven.add("done", at=at)
    driven.add("of a file", at=at, owner="file:/a.toml")
    driven.add("of a program", at=at, owner="app:/shop.py")
    driven.add("to come", at="2150-01-01")
    driven.add("paused", at="2150-01-01")
    driven.pause("paused")
    driven.add("at start", cron="@reboot")
    driven.add("again and again", every="1h")
    driven.advance(2 * HOUR, step=HOUR)
    removing = FinishedOneOffs(driven.tasks, driven.admin)
    everything = names(driven)
    driven.now = driven.now - HOUR + DAY - 2 * SECOND
    assert removing.find(Instant(driven.now), DAY)() == 0
    driven.now += HOUR
    assert removing.find(Instant(driven.now), DAY)() == 1
    driven.node.apply_changes()
    assert names(driven) == sorted(set(everything) - {"done"})
    assert (driven.audit()[0].name, driven.audit()[0].who) == ("done", "keep")
    assert removing.find(Instant(driven.now), DAY)() == 0


def test_a_run_that_was_forced_lately_keeps_it() -> None:
    driven = HandDrivenNode()
    driven.add("done", at="2024-10-04T01:00:00Z")
    driven.advance(2 * HOUR, step=HOUR)
    driven.now += 3 * DAY
    driven.force("done")
    driven.turn()
    removing = FinishedOneOffs(driven.tasks, driven.admin)
    assert removing.find(Instant(driven.now), DAY)() == 0
    driven.end("done")
    driven.turn()
    assert removing.find(Instant(driven.now), DAY)() == 0
    assert len(list(driven.store.entries(Filter(names=("done",))))) == 1
    driven.now += 2 * DAY
    assert removing.find(Instant(driven.now), DAY)() == 1
