"""A pause that ends by itself: who set it, why and until when; neither a file nor an edit nor a restart undoes it."""

import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.load.config import Config
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, Invalid, Task, TaskPause
from evenbeat.report.documents import task_document
from evenbeat.report.why import explain
from evenbeat.store.contract import Filter
from evenbeat.wire.documents import PauseOfTask


@pytest.fixture
def node() -> HandDrivenNode:
    node = HandDrivenNode()
    node.add("web")
    return node


def pause(node: HandDrivenNode, length: int | None = HOUR, reason: str = "disks") -> None:
    until = None if length is None else Instant(node.now + length)
    node.admin.pause(Filter(names=("web",)), "bo", paused=True, until=until, reason=reason)
    node.node.apply_changes()


def look(node: HandDrivenNode) -> list[str]:
    """What a node does once a second. Returns whom it resumed."""
    names = node.tasks.paused_too_long(Instant(node.now))
    resumed = node.admin.end_pauses(names).changed if names else []
    node.node.apply_changes()
    return [entry.task.name for entry in resumed]


def the_task(node: HandDrivenNode) -> Task:
    return node.admin.find_or_raise("web").task


def test_it_ends_on_time_and_the_task_runs_again(node: HandDrivenNode) -> None:
    pause(node, 10 * MINUTE)
    assert node.advance(10 * MINUTE - SECOND) == []
    assert look(node) == []
    node.now += SECOND
    assert look(node) == ["web"]
    assert (the_task(node).paused, the_task(node).pause) == (False, None)
    assert [run.name for run in node.advance(MINUTE)] == ["web"]
    lines = [(line.action, line.who, line.detail) for line in node.audit() if line.action in ("paused", "resumed")]
    assert lines[0] == ("resumed", "end of the pause", "")
    assert lines[1][:2] == ("paused", "bo")
    assert lines[1][2].startswith("until ")
    assert lines[1][2].endswith("Z: disks")


def test_what_is_known_of_it_is_shown(node: HandDrivenNode) -> None:
    pause(node)
    document = task_document(node.condition("web"), secrets=True)
    assert list(document["pause"]) == list(PauseOfTask.__struct_fields__)
    assert (document["paused"], document["pause"]["by"], document["pause"]["reason"]) == (True, "bo", "disks")
    answer = explain(node.store, "web", None, Instant(node.now), lambda _: (True, None)).answer
    assert "does not run: it is paused by bo until" in answer
    assert answer.endswith(": disks.")


def test_why_knows_who_paused_it_without_an_end_and_a_reason(node: HandDrivenNode) -> None:
    def why() -> tuple[str, list[str]]:
        found = explain(node.store, "web", None, Instant(node.now), lambda _: (True, None))
        return found.answer, found.reasons

    pause(node, None, "")
    assert the_task(node).pause is None
    answer, reasons = why()
    assert answer == "web does not run: it is paused by bo."
    assert any(reason.startswith("it has been paused since ") for reason in reasons)
    node.admin.pause(Filter(names=("web",)), "ana", paused=False)
    assert "paused" not in why()[0]
    node.admin.pause(Filter(names=("web",)), "ana", paused=True)
    assert why()[0] == "web does not run: it is paused by ana."


def test_neither_a_file_nor_an_edit_ends_it_or_makes_it_last(node: HandDrivenNode) -> None:
    node.remove("web")
    config = Config((task_from_table("web", {"every": "1m", "command": ["true"]}, check=False),), {}, {}, None)
    node.admin.apply_config("file", config, "ana")
    pause(node)
    before = the_task(node).pause
    changed = Config((task_from_table("web", {"every": "2m", "command": ["true"]}, check=False),), {}, {}, None)
    node.admin.apply_config("file", changed, "ana")
    node.set("web", every="3m", command=["true"])
    assert (the_task(node).paused, the_task(node).pause) == (True, before)
    assert isinstance(before, TaskPause)
    node.now += HOUR
    assert look(node) == ["web"]


@pytest.mark.parametrize("after", [30 * MINUTE, 90 * MINUTE])
def test_a_restart_does_not_undo_it_and_one_after_its_end_ends_it(node: HandDrivenNode, after: int) -> None:
    pause(node)
    node.restart(after=after)
    assert look(node) == (["web"] if after >= HOUR else [])
    node.now += HOUR
    look(node)
    assert not the_task(node).paused


def test_a_later_word_counts(node: HandDrivenNode) -> None:
    pause(node, HOUR)
    pause(node, 3 * HOUR)
    node.now += 2 * HOUR
    assert look(node) == []
    pause(node, None, "")
    node.now += 2 * HOUR
    assert look(node) == []
    assert node.admin.pause(Filter(names=("web",)), "bo", paused=True).unchanged == 1
    pause(node, HOUR)
    node.pause("web", paused=False)
    assert (the_task(node).paused, the_task(node).pause) == (False, None)
    node.pause("web")
    node.now += 2 * HOUR
    assert look(node) == []
    assert node.admin.end_pauses(["web"]).changed == []


@pytest.mark.parametrize(
    ("length", "reason", "problem"),
    [
        (0, "", "until: accepted: a time in the future, at most 366 days ahead"),
        (367 * DAY, "", "until: accepted: a time in the future"),
        (None, "a\x00", "reason: "),
        (None, "x" * 1_001, "reason: 1,001 characters"),
    ],
)
def test_what_is_refused(node: HandDrivenNode, length: int | None, reason: str, problem: str) -> None:
    with pytest.raises(Invalid) as refused:
        pause(node, length, reason)
    assert problem in str(refused.value)
    assert not the_task(node).paused
    with pytest.raises(Invalid, match="a resumed task"):
        node.admin.pause(Filter(names=("web",)), "bo", paused=False, reason="x")
