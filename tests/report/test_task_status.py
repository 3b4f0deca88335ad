"""Which tasks are late or stale, as a list and in the numbers of the node: the same ones."""

import pytest
from hand_driven_node import Hand

from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Invalid, Outcome
from evenbeat.report.documents import task_document
from evenbeat.report.task_status import ConditionReader
from evenbeat.store.contract import FILTER_STATES, Condition, Filter


def listed(hand: Hand, state: str, most: int = 1_000) -> list[str]:
    found = ConditionReader(hand.store, hand.node.clock.now()).conditions(Filter(state=state, most=most))
    return [condition.entry.task.name for condition in found]


def condition(hand: Hand, name: str) -> Condition:
    (found,) = ConditionReader(hand.store, hand.node.clock.now()).conditions(Filter(names=(name,)))
    return found


def agree(hand: Hand) -> tuple[list[str], list[str]]:
    """Those that are late and those that are stale, as often as the status says."""
    late, stale, status = listed(hand, "late"), listed(hand, "stale"), hand.node.status()
    upcoming = ConditionReader(hand.store, hand.node.clock.now())
    assert (len(late), len(stale)) == (status.late, status.stale)
    assert (upcoming.count(Filter(state="late")), upcoming.count(Filter(state="stale"))) == (len(late), len(stale))
    return late, stale


class TestAtTheLimit:
    @pytest.fixture
    def hand(self) -> Hand:
        hand = Hand(slots=1)
        hand.add("long", every="1h", phase="1m", timebox="50m")
        hand.add("quick", every="1m", phase="0s", timebox="10s")
        hand.add("later", every="1h", phase="30m")
        hand.add("off", every="1m", phase="0s", timebox="10s")
        hand.pause("off")
        (run,) = hand.turn(MINUTE)
        assert run.name == "long"
        return hand

    def test_what_waits_is_late_and_then_stale(self, hand: Hand) -> None:
        assert agree(hand) == ([], [])
        hand.turn(LATER)
        assert agree(hand) == (["quick"], [])
        hand.turn(10 * SECOND)
        assert agree(hand) == (["quick"], ["quick"])

    def test_one_that_has_run_is_neither(self, hand: Hand) -> None:
        hand.turn(30 * SECOND)
        hand.end("long")
        hand.turn()
        assert agree(hand) == ([], [])
        hand.end("quick")
        hand.turn()
        assert agree(hand) == ([], [])

    def test_its_document_says_so(self, hand: Hand) -> None:
        due = hand.now
        hand.turn(LATER)
        document = task_document(condition(hand, "quick"), secrets=True)
        assert (document["late"], document["stale"]) == (True, False)
        assert condition(hand, "quick").expected_by == due + 10 * SECOND
        assert task_document(condition(hand, "off"), secrets=True)["expected_by"] is None

    def test_a_list_has_pages(self, hand: Hand) -> None:
        for name in "abc":
            hand.add(name, every="1m", phase="0s")
        hand.turn(MINUTE + LATER)
        assert listed(hand, "late", most=2) == ["a", "b"]
        only = Filter(state="late", after="b", most=2)
        found = ConditionReader(hand.store, hand.node.clock.now()).entries(only)
        assert [entry.task.name for entry in found] == ["c", "quick"]

    def test_they_can_be_paused_by_it(self, hand: Hand) -> None:
        hand.turn(LATER)
        changed = hand.desk.pause(Filter(state="late"), "ana", paused=True)
        assert [entry.task.name for entry in changed.changed] == ["quick"]


LATER = 2 * SECOND


def test_a_passive_check_without_a_result_is_stale_until_one_comes() -> None:
    hand = Hand()
    hand.add("backup", check=True, passive=True, every="1h", phase="0s", timebox="1m", grace="1m")
    hand.turn(HOUR)
    assert agree(hand) == ([], [])
    hand.turn(2 * HOUR + 3 * MINUTE)
    assert agree(hand) == ([], ["backup"])
    row = hand.row("backup")
    hand.beat.passive.submit(row, 0, "done", Instant(hand.now), Instant(hand.now))
    assert agree(hand) == ([], [])


def test_a_problem_is_a_hard_check_or_a_failed_task_and_paused_is_by_hand() -> None:
    hand = Hand()
    hand.add("soft", check=True, attempts=3)
    hand.add("hard", check=True, attempts=1)
    hand.add("job")
    hand.add("well")
    hand.add("off", enabled=False)
    hand.add("resting")
    hand.pause("resting")
    hand.turn(MINUTE)
    for name in ("soft", "hard", "job"):
        hand.end(name, Outcome.FAILED, 2)
    hand.end("well")
    hand.turn()
    assert listed(hand, "problem") == ["hard", "job"]
    assert listed(hand, "paused") == ["resting"]
    assert listed(hand, "disabled") == ["off", "resting"]
    assert {"problem", "paused"} < set(FILTER_STATES)


def test_a_task_that_is_gone_when_it_is_looked_at_is_named() -> None:
    hand = Hand()
    hand.add("gone", every="1m")
    entry = hand.store.find("gone")
    assert entry is not None
    hand.store.remove([entry.number], hand.node.clock.now())
    with pytest.raises(Invalid, match="'gone' cannot be read: it was removed a moment ago"):
        ConditionReader(hand.store, hand.node.clock.now()).condition(entry)
