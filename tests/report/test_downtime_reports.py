"""Which downtimes a task is in, as lists, `show`, `why` and problems tell it: now, and at a time in the past."""

import pytest
from problem_seeds import seed_problem

from evenbeat.admin.downtimes import change_downtimes
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import HOUR, MINUTE, SECOND, Downtime, Instant, State
from evenbeat.report.documents import task_document
from evenbeat.report.downtimes import downtimes_during
from evenbeat.report.problems import find_problem, problem_document, read_problems
from evenbeat.report.task_status import ConditionReader
from evenbeat.report.why import explain
from evenbeat.store.contract import OPEN_PROBLEMS, Filter
from evenbeat.store.memory import MemoryStore
from evenbeat.testing.samples import T0
from evenbeat.wire.documents import DowntimeOfTask, TaskDocument
from evenbeat.wire.requests import AddDowntime, EndDowntime


class World:
    """A store with a switch and what is behind it, and its clock."""

    def __init__(self) -> None:
        self.store, self.now = MemoryStore(), T0
        self.admin = TaskAdmin(self.store, lambda: self.now)
        for name, parents in (("switch", []), ("web1", ["switch"]), ("web2", ["switch"]), ("other", [])):
            keys = {"every": "1m", "command": ["true"], **({"depends": parents} if parents else {})}
            self.admin.add([task_from_table(name, keys, check=True)], "ana", "ana")

    def begin(self, *names: str, start: int = 0, length: int = HOUR, comment: str = "disks") -> Downtime:
        at, end = Instant(self.now + start), Instant(self.now + start + length)
        changed = change_downtimes(self.admin, AddDowntime("bo", names, start=at, end=end, comment=comment))
        assert changed.downtime is not None
        return changed.downtime

    def end(self, downtime: Downtime) -> None:
        change_downtimes(self.admin, EndDowntime(downtime.id, "bo"))

    def listed(self, **only: object) -> dict[str, list[str]]:
        found = ConditionReader(self.store, self.now).conditions(Filter(**only))  # type: ignore[arg-type]
        return {one.entry.task.name: [downtime.id for downtime in one.downtimes] for one in found}

    def why(self, name: str, at: str | None = None) -> list[str]:
        return explain(self.store, name, at, self.now, lambda _: (False, None)).reasons


@pytest.fixture
def world() -> World:
    return World()


def test_lists_know_the_downtimes_of_each_task_also_those_of_its_parents(world: World) -> None:
    first, second = world.begin("switch"), world.begin("web1")
    assert world.listed() == {"other": [], "switch": [first.id], "web1": [second.id, first.id], "web2": [first.id]}
    assert list(world.listed(state="downtime")) == ["switch", "web1", "web2"]
    assert list(world.listed(state="downtime", most=2)) == ["switch", "web1"]
    assert list(world.listed(state="downtime", after="switch", names=("web*",))) == ["web1", "web2"]
    reader = ConditionReader(world.store, world.now)
    assert reader.count(Filter(state="downtime", most=1)) == 3
    assert [entry.task.name for entry in reader.entries(Filter(state="downtime"))] == ["switch", "web1", "web2"]
    world.end(first)
    assert list(world.listed(state="downtime")) == ["web1"]


def test_a_task_document_has_the_shape_that_the_reference_describes(world: World) -> None:
    one = world.begin("switch")
    reader = ConditionReader(world.store, world.now)
    document = task_document(reader.condition(world.admin.find_or_raise("web1")), secrets=True)
    assert list(document) == list(TaskDocument.__struct_fields__)
    assert document["downtime"] is True
    (inner,) = document["downtimes"]
    assert list(inner) == list(DowntimeOfTask.__struct_encode_fields__)
    assert (inner["id"], inner["who"], inner["comment"]) == (one.id, "bo", "disks")


def test_open_problems_of_such_tasks_are_marked(world: World) -> None:
    for name in ("web1", "other"):
        seed_problem(world.store, name, State.CRITICAL)
    assert [problem.downtime for problem in read_problems(world.store, OPEN_PROBLEMS, world.now)] == [False, False]
    world.begin("switch")
    found = {problem.task: problem for problem in read_problems(world.store, OPEN_PROBLEMS, world.now)}
    assert {name: problem.downtime for name, problem in found.items()} == {"web1": True, "other": False}
    assert find_problem(world.store, found["web1"].id, world.now)[0].downtime
    assert problem_document(found["web1"], world.now)["downtime"] is True
    assert "downtime" not in problem_document(found["other"], world.now)


def test_why_tells_of_it_now_and_for_a_time_in_the_past_or_future(world: World) -> None:
    one = world.begin("switch", start=10 * MINUTE, comment="new disks")
    assert not any("downtime" in reason for reason in world.why("web1"))
    world.now = Instant(world.now + 20 * MINUTE)
    assert any(f"it is in downtime {one.id} until" in r and "set by bo: new disks" in r for r in world.why("web1"))
    world.end(one)
    assert not any("downtime" in reason for reason in world.why("web1"))
    world.now = Instant(world.now + HOUR)
    later = world.begin("web1", start=24 * HOUR)
    entry = world.admin.find_or_raise("web1")
    for start, end, expected in (
        (0, 10 * MINUTE, []),
        (0, 10 * MINUTE + 1, [one.id]),
        (15 * MINUTE, 15 * MINUTE + SECOND, [one.id]),
        (20 * MINUTE, 21 * MINUTE, []),
        (0, 48 * HOUR, [one.id, later.id]),
    ):
        found = downtimes_during(world.store, entry, Instant(T0 + start), Instant(T0 + end))
        assert [downtime.id for downtime in found] == expected
