"""Downtimes of a live node: its flags say who is in downtime, by every way that leads there, and as reports say it."""

from typing import Any

import pytest
from budget import examples
from hand_driven_node import T0, HandDrivenNode
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.admin.downtimes import change_downtimes
from evenbeat.core.task import Flag
from evenbeat.load.config import Config
from evenbeat.load.config_errors import DocumentErrors
from evenbeat.load.downtimes import downtime_from_table
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Downtime, Instant, Period
from evenbeat.report.downtimes import DowntimeReader
from evenbeat.wire.requests import AddDowntime, EndDowntime


@pytest.fixture
def node() -> HandDrivenNode:
    return HandDrivenNode()


def add_check(node: HandDrivenNode, name: str, **keys: Any) -> None:
    node.add(name, check=True, owner=keys.pop("owner", "ana"), **{"every": "1h", "phase": "30m", "attempts": 1, **keys})


def begin(node: HandDrivenNode, *names: str, length: int = HOUR, start: int = 0, **keys: Any) -> str:
    """Set a downtime; its id."""
    at = Instant(node.now + start) if start else None
    asked = AddDowntime("ana", names, start=at, end=Instant(node.now + start + length), **keys)
    made = change_downtimes(node.admin, asked)
    node.node.apply_changes()
    assert made.downtime is not None
    return made.downtime.id


def end(node: HandDrivenNode, id_: str) -> None:
    change_downtimes(node.admin, EndDowntime(id_, "ana"))
    node.node.apply_changes()


def declare(node: HandDrivenNode, *tables: dict[str, Any]) -> None:
    """As a file with these downtimes would."""
    node.admin.apply_config("file", Config((), {}, {}, None, downtimes=tuple(map(from_table, tables))), "ana")
    node.node.apply_changes()


def from_table(table: dict[str, Any]) -> Downtime:
    errors = DocumentErrors()
    found = downtime_from_table(errors, ("downtimes", 0), table)
    assert found is not None, errors.errors
    return found


def in_downtime(node: HandDrivenNode) -> set[str]:
    """By the flags of the live node, after a turn."""
    node.turn()
    rows = node.tasks.all_rows()
    return set(node.tasks.names.names(rows[node.columns.flags[rows] & int(Flag.DOWNTIME) != 0]))


def by_store(node: HandDrivenNode) -> set[str]:
    """As a report derives it."""
    return set(DowntimeReader(node.store, Instant(node.now)).of(list(node.store.entries())))


def test_it_begins_and_ends_by_the_clock_and_runs_go_on(node: HandDrivenNode) -> None:
    node.add("web1")
    node.add("db")
    begin(node, "web*", start=10 * MINUTE, length=5 * MINUTE)
    assert in_downtime(node) == set()
    node.advance(10 * MINUTE - SECOND)
    assert in_downtime(node) == set()
    node.advance(SECOND)
    assert in_downtime(node) == {"web1"}
    assert "web1" in {run.name for run in node.advance(2 * MINUTE)}
    node.advance(3 * MINUTE)
    assert in_downtime(node) == set()


def test_the_node_makes_a_turn_when_a_downtime_begins_or_ends(node: HandDrivenNode) -> None:
    """One timer for all: the one of the turns."""
    add_check(node, "web1", every="1d", phase="23h")
    begin(node, "web1", start=10 * MINUTE, length=5 * MINUTE)
    node.turn()
    assert node.tasks.downtimes.next_change == node.now + 10 * MINUTE
    node.turn(10 * MINUTE)
    assert node.tasks.downtimes.next_change == node.now + 5 * MINUTE


def test_new_and_changed_tasks_are_in_it_from_the_first_moment(node: HandDrivenNode) -> None:
    add_check(node, "switch", labels={"site": "b"})
    begin(node, labels={"site": "a"})
    assert in_downtime(node) == set()
    add_check(node, "web1", labels={"site": "a"})
    add_check(node, "behind", depends=["web1"])
    assert in_downtime(node) == {"web1", "behind"}
    node.set("switch", every="1h", phase="30m", command=["true"], labels={"site": "a"})
    node.set("web1", every="1h", phase="30m", command=["true"], labels={"site": "c"})
    assert in_downtime(node) == {"switch"}
    node.remove("switch")
    add_check(node, "other")
    assert in_downtime(node) == set()


def test_one_that_is_declared_ends_when_it_is_not_declared_any_more_and_stays_known(node: HandDrivenNode) -> None:
    node.add("web1")
    table = {"names": ["web*"], "from": "2020-01-01", "comment": "moving"}
    declare(node, table)
    assert in_downtime(node) == {"web1"}
    node.turn(HOUR)
    declare(node, table)
    declare(node)
    assert in_downtime(node) == set()
    then = DowntimeReader(node.store, Instant(node.now - MINUTE)).of([node.admin.find_or_raise("web1")])
    assert [(one.comment, one.who, one.end) for one in then["web1"]] == [("moving", "file", node.now)]


def test_a_period_opens_and_closes_it_also_when_it_is_changed(node: HandDrivenNode) -> None:
    node.admin.set_periods({"night": Period(("01:00-02:00",))}, "ana", "ana")
    node.node.apply_changes()
    node.add("web1")
    begin(node, "web1", length=7 * DAY, period="night")
    assert in_downtime(node) == set()
    node.turn(HOUR)
    assert in_downtime(node) == {"web1"}
    node.admin.set_periods({"night": Period(("03:00-04:00",))}, "ana", "ana")
    node.node.apply_changes()
    assert in_downtime(node) == by_store(node) == set()
    node.turn(2 * HOUR)
    assert in_downtime(node) == by_store(node) == {"web1"}


@pytest.mark.parametrize("by", [-2 * HOUR, 2 * HOUR])
def test_when_the_clock_is_set_it_counts_by_the_new_time(node: HandDrivenNode, by: int) -> None:
    node.add("web1")
    begin(node, "web1", start=30 * MINUTE, length=30 * MINUTE)
    node.turn(45 * MINUTE)
    assert in_downtime(node) == {"web1"}
    node.clock_is_set(by)
    assert in_downtime(node) == by_store(node) == set()


NAMES = ("web1", "web2", "db", "lb")
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            ("begin", "later", "label", "end", "wait", "labels", "depends", "restart", "remove", "declare")
        ),
        st.integers(0, 3),
        st.integers(0, 3),
    ),
    max_size=16,
)


@settings(max_examples=examples(60), deadline=None)
@given(events=EVENTS)
def test_live_or_restarted_they_are_as_the_store_says(events: list[tuple[str, int, int]]) -> None:
    node = HandDrivenNode(now=Instant(T0 + HOUR))
    keys: dict[str, dict[str, Any]] = {name: {} for name in NAMES}
    known: list[str] = []
    for i, name in enumerate(NAMES):
        add_check(node, name, owner=("ana", "bo")[i % 2])

    def change(name: str, **new: Any) -> None:
        before, keys[name] = keys[name], keys[name] | new
        if keys[name] != before:
            node.set(name, every="1h", phase="30m", command=["true"], attempts=1, **keys[name])

    for what, i, j in events:
        name, low, high = NAMES[i], min(i, j), max(i, j)
        node.now += SECOND
        match what:
            case "begin":
                known.append(begin(node, ("web*", "*b?", name)[j % 3], dependents=j > 0))
            case "later":
                known.append(begin(node, name, start=(1 + j) * 20 * MINUTE))
            case "label":
                known.append(begin(node, labels={"site": "ab"[j % 2]}, owner=(None, "bo")[i % 2]))
            case "end" if known:
                end(node, known.pop(i % len(known)))
            case "wait":
                node.now += (1 + j) * 15 * MINUTE
                known.clear()
            case "labels":
                change(name, labels={"site": "ab"[j % 2]})
            case "depends" if low != high:
                change(NAMES[high], depends=[NAMES[low]])
            case "restart":
                node.restart(after=j * 10 * MINUTE)
                known.clear()
            case "remove" if not any(name in k.get("depends", ()) for k in keys.values()):
                node.remove(name)
                keys[name] = {}
                add_check(node, name)
            case "declare":
                declare(node, *[{"names": [name], "from": "2020-01-01", "dependents": j == 1}][: j % 3])
        assert in_downtime(node) == by_store(node)
