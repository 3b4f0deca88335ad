"""What lists, documents, `why` and problems say of tasks that are unreachable."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hand_driven_node import HandDrivenNode

from evenbeat.model import MINUTE, SECOND, Instant
from evenbeat.report.documents import task_document
from evenbeat.report.problems import find_problem, problem_document, read_problems
from evenbeat.report.task_status import ConditionReader
from evenbeat.report.why import explain
from evenbeat.report.why_facts import Answer
from evenbeat.store.contract import OPEN_PROBLEMS, Condition, Filter, ProblemFilter, Store
from evenbeat.store.memory import MemoryStore


def result(node: HandDrivenNode, name: str, status: int) -> None:
    node.now += SECOND
    node.turns.passive.submit(node.row(name), status, "", Instant(node.now), Instant(node.now))
    node.turn()


def why(node: HandDrivenNode, name: str, at: str | None = None) -> Answer:
    return explain(node.store, name, at, Instant(node.now), lambda _: (True, None))


def reader(node: HandDrivenNode) -> ConditionReader:
    return ConditionReader(node.store, Instant(node.now))


def document(node: HandDrivenNode, name: str) -> dict[str, Any]:
    (found,) = reader(node).conditions(Filter(names=(name,)))
    return task_document(found, secrets=True)


@pytest.fixture
def node() -> HandDrivenNode:
    """A gateway, a switch behind it, and what is behind the switch."""
    node = HandDrivenNode()
    parents: dict[str, list[str]] = {"gw": [], "switch": ["gw"], "web": ["switch"], "dns": []}
    for name, depends in parents.items():
        node.add(name, check=True, every="1h", phase="30m", attempts=1, depends=depends)
    node.add("job", depends=["switch"], when_unreachable="skip")
    node.add("mail", depends_any=["switch", "dns"])
    return node


def test_a_document_says_whether_it_is_unreachable_and_through_what(node: HandDrivenNode) -> None:
    assert [document(node, "web")[key] for key in ("unreachable", "unreachable_through")] == [False, []]
    result(node, "gw", 2)
    assert [document(node, "web")[key] for key in ("unreachable", "unreachable_through")] == [True, ["switch"]]
    assert document(node, "mail")["unreachable"] is False
    result(node, "dns", 3)
    assert document(node, "mail")["unreachable_through"] == ["switch", "dns"]
    assert document(node, "gw")["unreachable"] is False
    assert document(node, "web")["task"]["depends"] == ("switch",)


def test_a_list_can_be_filtered_by_it(node: HandDrivenNode) -> None:
    only = Filter(state="unreachable")
    assert list(reader(node).entries(only)) == []
    result(node, "gw", 2)
    assert [entry.task.name for entry in reader(node).entries(only)] == ["job", "switch", "web"]
    assert reader(node).count(only) == 3
    page = Filter(state="unreachable", after="job", most=1)
    assert [condition.entry.task.name for condition in reader(node).conditions(page)] == ["switch"]


def test_a_long_list_asks_for_the_checks_of_many_tasks_at_once(node: HandDrivenNode) -> None:
    for i in range(600):
        node.add(f"t{i:03}", depends=["web"])
    result(node, "gw", 2)

    class Counting(MemoryStore):
        asked = 0

        def conditions(self, only: Filter = Filter()) -> Any:  # noqa: B008 - frozen
            Counting.asked += 1
            return node.store.conditions(only)

    store: Store = Counting()
    counted = ConditionReader(store, Instant(node.now))
    found: list[Condition] = list(counted.of_all(node.store.conditions(Filter(names=("t*",)))))
    assert {condition.unreachable_through for condition in found} == {("web",)}
    assert Counting.asked == 3, "one question for each level: web, switch, gw"


def test_an_unreachable_task_is_not_stale(node: HandDrivenNode) -> None:
    node.add("sensor", passive=True, timebox="10s", grace="5s", depends=["gw"])
    result(node, "sensor", 0)
    node.advance(3 * MINUTE)
    assert document(node, "sensor")["stale"]
    result(node, "gw", 2)
    assert not document(node, "sensor")["stale"]


def test_why_says_through_which_checks(node: HandDrivenNode) -> None:
    assert "unreachable" not in str(why(node, "job"))
    result(node, "gw", 2)
    skips = why(node, "job")
    assert skips.answer == "job does not run now: it is unreachable, as a check that it depends on is not fine."
    assert skips.reasons[1:3] == ["'switch' is unreachable itself, through 'gw'", "'gw' is CRITICAL"]
    assert any(reason.startswith("its next time is on ") for reason in skips.reasons)
    runs = why(node, "web")
    assert "does not run" not in runs.answer
    assert "it is unreachable: 'switch' is not fine; it runs all the same" in runs.reasons
    assert "'gw' is CRITICAL" in runs.reasons


def test_why_of_a_time_in_the_past_names_the_problems_of_the_checks(node: HandDrivenNode) -> None:
    result(node, "gw", 2)
    node.advance(3 * MINUTE)
    then = datetime.fromtimestamp((node.now - MINUTE) / SECOND, UTC).strftime("%Y-%m-%dT%H:%M")
    result(node, "gw", 0)
    node.advance(3 * MINUTE)
    found = why(node, "job", then)
    assert found.answer == "job did not run then: unreachable."
    assert 'a check that it depended on was not fine (when_unreachable = "skip")' in found.reasons
    assert any(reason.startswith("'gw', which it depends on: problem 1 was open then") for reason in found.reasons)
    later = datetime.fromtimestamp(node.now / SECOND, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    assert not any("which it depends on" in reason for reason in why(node, "job", later).reasons)


def test_problems_say_whether_their_tasks_are_unreachable(node: HandDrivenNode) -> None:
    result(node, "web", 2)
    result(node, "gw", 2)
    now = Instant(node.now)
    assert {p.task: p.unreachable for p in read_problems(node.store, OPEN_PROBLEMS, now)} == {"web": True, "gw": False}
    (web,) = [p for p in read_problems(node.store, ProblemFilter(acknowledged=False), now) if p.task == "web"]
    assert problem_document(web, now)["unreachable"] is True
    assert find_problem(node.store, web.id, now)[0].unreachable
    result(node, "gw", 0)
    assert not find_problem(node.store, web.id, Instant(node.now))[0].unreachable


def test_a_name_that_looks_like_a_pattern_is_a_name(node: HandDrivenNode) -> None:
    node.add("g*", check=True, every="1h", phase="30m", attempts=1)
    node.add("x", depends=["g*"])
    result(node, "gw", 2)
    assert not document(node, "x")["unreachable"]
    result(node, "g*", 2)
    assert document(node, "x")["unreachable_through"] == ["g*"]
