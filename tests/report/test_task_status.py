"""Which tasks are late or stale, as a list and in the numbers of the node: the same ones."""

import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.cli.output.task_words import condition_words
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Invalid, Outcome
from evenbeat.report.documents import task_document
from evenbeat.report.task_status import ConditionReader
from evenbeat.report.words import timebox_words
from evenbeat.store.contract import FILTER_STATES, Condition, Filter


def listed(driven: HandDrivenNode, state: str, most: int = 1_000) -> list[str]:
    found = ConditionReader(driven.store, driven.node.clock.now()).conditions(Filter(state=state, most=most))
    return [condition.entry.task.name for condition in found]


def condition(driven: HandDrivenNode, name: str) -> Condition:
    (found,) = ConditionReader(driven.store, driven.node.clock.now()).conditions(Filter(names=(name,)))
    return found


def agree(driven: HandDrivenNode) -> tuple[list[str], list[str]]:
    """Those that are late and those that are stale, as often as the status says."""
    late, stale, status = listed(driven, "late"), listed(driven, "stale"), driven.node.status()
    upcoming = ConditionReader(driven.store, driven.node.clock.now())
    assert (len(late), len(stale)) == (status.late, status.stale)
    assert (upcoming.count(Filter(state="late")), upcoming.count(Filter(state="stale"))) == (len(late), len(stale))
    return late, stale


class TestUnusuallyLong:
    @pytest.fixture
    def driven(self) -> HandDrivenNode:
        driven = HandDrivenNode(slots=4)
        driven.add("watched", every="1d", phase="1m", longer_than="30s")
        driven.add("daily", every="1d", phase="1m")
        driven.add("hourly", cron="1 * * * *", second=0)
        assert len(driven.turn(MINUTE)) == 3
        return driven

    def test_is_a_run_that_lasts_longer_than_its_task_says_or_than_twice_its_interval(
        self, driven: HandDrivenNode
    ) -> None:
        known = [condition(driven, name) for name in ("watched", "daily", "hourly")]
        assert [one.longer_than for one in known] == [30 * SECOND, 48 * HOUR, 2 * HOUR]
        assert listed(driven, "long") == []
        driven.turn(31 * SECOND)
        assert listed(driven, "long") == ["watched"]
        driven.turn(2 * HOUR)
        assert listed(driven, "long") == ["hourly", "watched"]

    def test_a_list_and_a_document_say_so_until_it_ends(self, driven: HandDrivenNode) -> None:
        driven.turn(31 * SECOND)
        found = condition(driven, "watched")
        assert condition_words(found)[0] == "running, unusually long"
        document = task_document(found, secrets=True)
        assert (document["long"], document["longer_than"]) == (True, 30)
        driven.end("watched")
        driven.turn()
        assert condition(driven, "watched").long is False
        assert listed(driven, "long") == []

    def test_the_words_name_what_ends_a_run_and_what_is_unusual(self, driven: HandDrivenNode) -> None:
        driven.add("boxed", every="1h", phase="1m", timebox="2h", longer_than="1h")
        driven.add("short", every="1h", phase="1m", timebox="10s")
        assert [timebox_words(condition(driven, name)) for name in ("watched", "boxed", "short")] == [
            "no timebox; a run longer than 30 s is unusual",
            "timebox 2 h; a run longer than 1 h is unusual",
            "timebox 10 s",
        ]


class TestAtTheLimit:
    @pytest.fixture
    def driven(self) -> HandDrivenNode:
        driven = HandDrivenNode(slots=1)
        driven.add("long", every="1h", phase="1m", timebox="50m")
        driven.add("quick", every="1m", phase="0s", timebox="10s")
        driven.add("later", every="1h", phase="30m")
        driven.add("off", every="1m", phase="0s", timebox="10s")
        driven.pause("off")
        (run,) = driven.turn(MINUTE)
        assert run.name == "long"
        return driven

    def test_what_waits_is_late_and_then_stale(self, driven: HandDrivenNode) -> None:
        assert agree(driven) == ([], [])
        driven.turn(LATER)
        assert agree(driven) == (["quick"], [])
        driven.turn(10 * SECOND)
        assert agree(driven) == (["quick"], ["quick"])

    def test_one_that_has_run_is_neither(self, driven: HandDrivenNode) -> None:
        driven.turn(30 * SECOND)
        driven.end("long")
        driven.turn()
        assert agree(driven) == ([], [])
        driven.end("quick")
        driven.turn()
        assert agree(driven) == ([], [])

    def test_its_document_says_so(self, driven: HandDrivenNode) -> None:
        due = driven.now
        driven.turn(LATER)
        document = task_document(condition(driven, "quick"), secrets=True)
        assert (document["late"], document["stale"]) == (True, False)
        assert condition(driven, "quick").expected_by == due + 10 * SECOND
        assert task_document(condition(driven, "off"), secrets=True)["expected_by"] is None

    def test_a_list_has_pages(self, driven: HandDrivenNode) -> None:
        for name in "abc":
            driven.add(name, every="1m", phase="0s")
        driven.turn(MINUTE + LATER)
        assert listed(driven, "late", most=2) == ["a", "b"]
        only = Filter(state="late", after="b", most=2)
        found = ConditionReader(driven.store, driven.node.clock.now()).entries(only)
        assert [entry.task.name for entry in found] == ["c", "quick"]

    def test_they_can_be_paused_by_it(self, driven: HandDrivenNode) -> None:
        driven.turn(LATER)
        changed = driven.admin.pause(Filter(state="late"), "ana", paused=True)
        assert [entry.task.name for entry in changed.changed] == ["quick"]


LATER = 2 * SECOND


def test_a_passive_check_without_a_result_is_stale_until_one_comes() -> None:
    driven = HandDrivenNode()
    driven.add("backup", check=True, passive=True, every="1h", phase="0s", timebox="1m", grace="1m")
    driven.turn(HOUR)
    assert agree(driven) == ([], [])
    driven.turn(2 * HOUR + 3 * MINUTE)
    assert agree(driven) == ([], ["backup"])
    row = driven.row("backup")
    driven.turns.passive.submit(row, 0, "done", Instant(driven.now), Instant(driven.now))
    assert agree(driven) == ([], [])


def test_a_problem_is_a_hard_check_or_a_failed_task_and_paused_is_by_hand() -> None:
    driven = HandDrivenNode()
    driven.add("soft", check=True, attempts=3)
    driven.add("hard", check=True, attempts=1)
    driven.add("job")
    driven.add("well")
    driven.add("off", enabled=False)
    driven.add("resting")
    driven.pause("resting")
    driven.turn(MINUTE)
    for name in ("soft", "hard", "job"):
        driven.end(name, Outcome.FAILED, 2)
    driven.end("well")
    driven.turn()
    assert listed(driven, "problem") == ["hard", "job"]
    assert listed(driven, "paused") == ["resting"]
    assert listed(driven, "disabled") == ["off", "resting"]
    assert {"problem", "paused"} < set(FILTER_STATES)


def test_a_task_that_is_gone_when_it_is_looked_at_is_named() -> None:
    driven = HandDrivenNode()
    driven.add("gone", every="1m")
    entry = driven.store.find("gone")
    assert entry is not None
    driven.store.remove([entry.number], driven.node.clock.now())
    with pytest.raises(Invalid, match="'gone' cannot be read: it was removed a moment ago"):
        ConditionReader(driven.store, driven.node.clock.now()).condition(entry)
