"""Downtimes in the store: what stays and for how long, what a period that is used forbids, and what the audit says."""

from collections.abc import Sequence
from typing import Any

import pytest

from evenbeat.admin import downtimes as module
from evenbeat.admin.downtimes import change_downtimes, is_within
from evenbeat.admin.stored_downtimes import KEPT, stored_downtimes
from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.core.scope import Scope
from evenbeat.load.config import Config
from evenbeat.load.downtimes import IN_FILE
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import DAY, HOUR, Downtime, DowntimeLimit, Instant, Invalid, Period
from evenbeat.store.contract import Conflict, Filter
from evenbeat.store.memory import MemoryStore
from evenbeat.testing.samples import T0
from evenbeat.wire.replies import NotFound
from evenbeat.wire.requests import AddDowntime, EndDowntime


class World:
    """A store with a task, and its clock."""

    def __init__(self) -> None:
        self.store, self.now = MemoryStore(), T0
        self.admin = TaskAdmin(self.store, lambda: self.now)
        self.admin.add([task_from_table("web", {"every": "1m", "command": ["true"]}, check=True)], "ana", "ana")
        self.admin.set_periods({"night": Period(("22:00-06:00",))}, "ana", "ana")

    def add(self, *names: str, length: int = HOUR, **keys: Any) -> Downtime:
        asked = AddDowntime("bo", names, end=Instant(self.now + length), **keys)
        made = change_downtimes(self.admin, asked).downtime
        assert made is not None
        return made

    def declare(self, *some: Downtime, owner: str = "file", periods: Sequence[str] = ()) -> None:
        config = Config((), {name: Period() for name in periods}, {}, None, downtimes=some)
        self.admin.apply_config(owner, config, "ana")

    def known(self) -> list[Downtime]:
        return stored_downtimes(self.store)

    def audit(self) -> list[tuple[str, str]]:
        return [(line.action, line.detail) for line in self.store.changes() if line.name.startswith("downtime ")]


@pytest.fixture
def world() -> World:
    return World()


def weekly(**keys: Any) -> Downtime:
    return Downtime(IN_FILE, **{"names": ("web*",), "period": "night", **keys})


def test_one_that_is_over_is_forgotten_after_thirty_days(world: World) -> None:
    first = world.add("web")
    world.now = Instant(first.end + KEPT - 1 if first.end else 0)
    second = world.add("web")
    assert world.known() == [first, second]
    world.now = Instant(world.now + 1)
    third = world.add("web")
    assert world.known() == [second, third]


def test_there_are_not_more_than_so_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_DOWNTIMES", 2)
    for _ in range(2):
        world.add("web")
    with pytest.raises(Invalid, match="there are 2 downtimes already"):
        world.add("web")


def test_there_are_not_more_patterns_than_a_node_compares_in_time(world: World) -> None:
    for _ in range(10):
        last = world.add(*(f"{i}*" for i in range(100)))
    with pytest.raises(Invalid, match="names: 1,001 patterns in all downtimes, accepted: up to 1,000"):
        world.add("web*")
    world.add("web")
    change_downtimes(world.admin, EndDowntime(last.id, "bo"))
    world.now = Instant(world.now + 1)
    world.declare(*(weekly(names=tuple(f"{i}.{j}*" for j in range(100))) for i in range(10)))
    with pytest.raises(Invalid, match="1,001 patterns in all downtimes"):
        world.declare(weekly(), *(weekly(names=tuple(f"{i}.{j}*" for j in range(100))) for i in range(10)))


def test_an_id_means_the_task_by_its_name(world: World) -> None:
    one = world.admin.find_or_raise("web")
    assert world.add(one.id, "w*", "web").names == ("web", "w*")


def test_a_period_that_a_downtime_uses_stays_until_that_is_over(world: World) -> None:
    one = world.add("web", period="night")
    with pytest.raises(Conflict, match=f"the period 'night' cannot go: the downtime {one.id} of bo uses it"):
        world.admin.remove_period("night", "ana")
    world.declare(weekly())
    world.now = Instant(world.now + 2 * HOUR)
    with pytest.raises(Conflict, match=r"the period 'night' cannot go: the downtime f.* of file uses it"):
        world.admin.remove_period("night", "ana")
    world.declare()
    world.admin.remove_period("night", "ana")
    assert len(world.known()) == 2


def test_a_file_that_drops_a_period_that_anothers_downtime_uses_is_refused(world: World) -> None:
    world.declare(owner="periods", periods=("day",))
    world.declare(weekly(period="day"))
    with pytest.raises(Conflict, match=r"periods: periods.day: the period 'day' cannot go: the downtime f.* of file"):
        world.declare(owner="periods")
    world.admin.remove(Filter(owner="periods"), "ana")
    assert "day" in world.store.periods()
    world.admin.apply_configs({"periods": Config((), {}, {}, None), "file": Config((), {}, {}, None)}, "ana")
    assert "day" not in world.store.periods()


def test_one_that_is_declared_keeps_its_id_and_time_and_ends_with_its_declaration(world: World) -> None:
    world.declare(weekly(), weekly(comment="later", start=Instant(world.now + DAY)))
    (one, later) = world.known()
    assert (one.who, one.created, one.start) == ("file", world.now, None)
    world.now = Instant(world.now + HOUR)
    world.declare(weekly(), weekly(comment="later", start=later.start))
    assert world.known() == [one, later]
    world.declare(weekly(comment="other"))
    ended, other = sorted(world.known(), key=lambda downtime: downtime.end is None)
    assert (ended.start, ended.end, ended.ended_by) == (one.created, world.now, "file")
    assert (other.comment, other.created) == ("other", world.now)
    world.now = Instant(world.now + HOUR)
    world.declare(weekly())
    assert len({downtime.id for downtime in world.known()}) == len(world.known()) == 3
    assert [action for action, _ in world.audit()].count("removed") == 3
    world.now = Instant(world.now + HOUR)
    world.admin.remove(Filter(owner="file"), "ana")
    assert all(downtime.end is not None for downtime in world.known())


def test_who_is_limited_ends_only_what_can_include_no_other_task(world: World) -> None:
    ops, free = Scope(None, {"team": "ops"}), world.add("web")
    limited = world.add("*", scope=ops)
    assert limited.limited_to == DowntimeLimit(None, {"team": "ops"})
    own = world.add(labels={"team": "ops", "site": "a"}, dependents=False)
    for downtime, scope, expected in (
        (limited, ops, True),
        (limited, Scope("ana", {"team": "ops"}), False),
        (limited, Scope(None, {"team": "ops", "site": "a"}), False),
        (free, ops, False),
        (own, ops, True),
        (own, Scope("ana"), False),
        (world.add(labels={"team": "ops"}), ops, False),
        (world.add(owner="ana", dependents=False), Scope("ana"), True),
    ):
        assert is_within(downtime, scope) is expected
    with pytest.raises(NotFound):
        change_downtimes(world.admin, EndDowntime(free.id, "eve", ops))
    change_downtimes(world.admin, EndDowntime(limited.id, "eve", ops))
    with pytest.raises(NotFound, match="there is no task 'web'"):
        world.add("web", scope=ops)
