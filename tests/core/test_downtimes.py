"""Downtimes: when they are active, and which tasks are in them, by any way that tasks and downtimes came to be."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from budget import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from evenbeat.core.columns import Ints
from evenbeat.core.downtimes import (
    DowntimeRows,
    downtimes_by_task,
    is_active,
    is_over,
    is_within_limit,
    next_change,
    selects,
)
from evenbeat.core.label_index import LabelIndex
from evenbeat.core.name_index import NameIndex
from evenbeat.core.reachability import Reachability, unreachable_names
from evenbeat.core.task import Flag, TaskColumns
from evenbeat.core.task_columns import enrol
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import (
    FOREVER,
    HOUR,
    MINUTE,
    Downtime,
    DowntimeLimit,
    Entry,
    Instant,
    Invalid,
    Period,
    Schedule,
    Task,
)
from evenbeat.when.instant import parse_instant
from evenbeat.when.period import compile_periods
from evenbeat.when.zone import zone

EVERY_MINUTE = Schedule(every=MINUTE, phase=0)
NIGHT = compile_periods({"night": Period(("22:00-06:00",))})
EVENING = parse_instant("2026-11-16T20:00", zone("UTC"))
T0 = Instant(0)


def at(hours: float) -> Instant:
    """So many hours after the evening."""
    return Instant(EVENING + int(hours * HOUR))


def downtime(*names: str, start: float | None = None, end: float | None = None, **more: Any) -> Downtime:
    """Of these names, with start and end in hours after the evening."""
    begin, finish = (None if hours is None else at(hours) for hours in (start, end))
    return Downtime("d", names or ("*",), start=begin, end=finish, **more)


# When


@pytest.mark.parametrize(
    ("one", "active", "changes"),
    [
        (downtime(), [True, True, True], [FOREVER, FOREVER, FOREVER]),
        (downtime(start=1, end=2), [False, True, False], [at(1), at(2), FOREVER]),
        (downtime(end=2), [True, True, False], [at(2), at(2), FOREVER]),
        (downtime(period="night"), [False, False, True], [at(2), at(2), at(10)]),
        (downtime(period="night", start=3), [False, False, False], [at(2), at(2), at(3)]),
        (downtime(period="night", end=2), [False, False, False], [at(2), at(2), FOREVER]),
        (downtime(period="gone", end=2), [False, False, False], [at(2), at(2), FOREVER]),
    ],
)
def test_when_a_downtime_is_active_and_when_that_may_change(
    one: Downtime, active: list[bool], changes: list[Instant]
) -> None:
    times = [at(0), at(1), at(2)]
    assert [is_active(one, NIGHT, t) for t in times] == active
    assert [next_change(one, NIGHT, t) for t in times] == changes


def test_whether_it_is_active_does_not_change_between_two_changes() -> None:
    for one in (downtime(start=1, end=30, period="night"), downtime(start=3.5, end=4), downtime(period="night")):
        t = at(0)
        for _ in range(6):
            following = min(next_change(one, NIGHT, t), at(48))
            times = range(t, following, 15 * MINUTE)
            assert len({is_active(one, NIGHT, Instant(some)) for some in times}) <= 1
            assert is_over(one, t) is (one.end is not None and t >= one.end)
            t = following


def test_a_downtime_of_no_tasks_or_of_no_length_is_refused() -> None:
    with pytest.raises(Invalid, match="a downtime of no tasks"):
        Downtime("d")
    with pytest.raises(Invalid, match="until: it ends before it begins"):
        downtime(start=2, end=2)


def test_a_task_has_to_fit_all_that_is_given() -> None:
    one = Downtime("d", names=("web*", "db"), owner="ops", labels={"site": "a"})
    assert selects(one, "web1", "ops", {"site": "a", "more": "b"})
    assert selects(one, "db", "ops", {"site": "a"})
    assert not selects(one, "db1", "ops", {"site": "a"})
    assert not selects(one, "db", "ana", {"site": "a"})
    assert not selects(one, "db", "ops", {"site": "b"})
    assert selects(Downtime("d", owner="ops"), "x", "ops", {})


# Which rows

NAMES = [f"check{i}" for i in range(6)]
OWNERS = ["ana", "ops"]
LABELS = st.dictionaries(st.sampled_from(["site", "team"]), st.sampled_from("ab"))
SOME_NAMES = st.lists(st.sampled_from([*NAMES, "*", "check?", "*3", "c*1", "nothing"]), max_size=2)


class Table:
    """Rows of tasks by name, as a node has them, beside the entries of those of other nodes."""

    def __init__(self) -> None:
        self.columns = TaskColumns()
        self.times = ScheduleTimes(self.columns)
        self.names, self.labels = NameIndex(), LabelIndex()
        self.reachability = Reachability(self.columns, self.names.find)
        find_owner = {owner: i for i, owner in enumerate(OWNERS)}.get
        self.rows = DowntimeRows(self.columns, self.names, self.labels, self.reachability, find_owner)
        self.here: dict[str, Entry] = {}

    def put(self, entry: Entry) -> None:
        """Add or change a task of this node."""
        name = entry.task.name
        row = self.names.find(name)
        if row is None:
            row = int(self.columns.allocate(1)[0])
            self.names.add(name, row)
        rows = np.array([row])
        self.here[name] = entry
        self.columns.owner[rows] = OWNERS.index(entry.owner)
        enrol(self.columns, self.times, rows, [entry.task], {}, {})
        self.reachability.define(rows, [entry.task])
        self.labels.put(rows, [entry.task.labels])
        self.rows.define(rows)

    def drop(self, name: str, *, hand_over: bool = False) -> Entry:
        """Remove a task, or give it to another node."""
        rows = self.row(name)
        if hand_over:
            self.rows.hand_over(rows)
            self.names.remove(int(rows[0]))
            self.reachability.hand_over(rows)
        else:
            self.names.remove(int(rows[0]))
            self.reachability.forget(rows)
        self.columns.free(rows)
        return self.here.pop(name)

    def row(self, name: str) -> Ints:
        found = self.names.find(name)
        assert found is not None
        return np.array([found])

    def settle(self, now: Instant) -> None:
        self.reachability.settle()
        before = self.in_downtime()
        changed = set(self.rows.settle(now).tolist())
        after = self.in_downtime()
        assert {name for name in self.here if int(self.row(name)[0]) in changed} == before ^ after

    def in_downtime(self) -> set[str]:
        return {name for name in self.here if self.columns.flags[self.row(name)] & int(Flag.DOWNTIME)}


def naive(entries: Mapping[str, Entry], active: list[Downtime]) -> set[str]:
    """One task after the other."""
    tasks = [entry.task for entry in entries.values()]

    def of(one: Downtime) -> set[str]:
        return {n for n, entry in entries.items() if selects(one, n, entry.owner, entry.task.labels)}

    found = {name for one in active for name in of(one)}
    free = [one for one in active if one.dependents and one.limited_to is None]
    found |= unreachable_names(tasks, {name for one in free for name in of(one)})
    for one in active:
        if one.dependents and one.limited_to is not None:
            behind = unreachable_names(tasks, of(one))
            found |= {n for n in behind if is_within_limit(one.limited_to, entries[n].owner, entries[n].task.labels)}
    return found


class Machine(RuleBasedStateMachine):
    """Tasks come, change, move and go, downtimes too, and time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.elsewhere: dict[str, Entry] = {}
        self.downtimes: dict[str, Downtime] = {}
        self.now = at(0)
        self.version = 0

    @rule(
        name=st.sampled_from(NAMES),
        depends=st.lists(st.sampled_from(NAMES), max_size=2),
        any_of=st.lists(st.sampled_from(NAMES), max_size=2),
        owner=st.sampled_from(OWNERS),
        labels=LABELS,
    )
    def define(self, name: str, depends: list[str], any_of: list[str], owner: str, labels: dict[str, str]) -> None:
        self.version += 1
        # Only earlier names, so that there is no cycle.
        parents = [tuple(dict.fromkeys(parent for parent in some if parent < name)) for some in (depends, any_of)]
        task = Task(name, EVERY_MINUTE, check=True, depends=parents[0], depends_any=parents[1], labels=labels)
        entry = Entry(NAMES.index(name), name, self.version, owner, T0, T0, task)
        if name in self.elsewhere:
            self.elsewhere[name] = entry
        else:
            self.table.put(entry)

    @precondition(lambda self: self.table.here)
    @rule(data=st.data(), hand_over=st.booleans())
    def go(self, data: st.DataObject, *, hand_over: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.table.here)))
        self.table.reachability.settle()
        entry = self.table.drop(name, hand_over=hand_over)
        if hand_over:
            self.elsewhere[name] = entry

    @precondition(lambda self: self.elsewhere)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        self.table.put(self.elsewhere.pop(data.draw(st.sampled_from(sorted(self.elsewhere)))))

    @rule(
        id_=st.sampled_from("xyz"),
        names=SOME_NAMES,
        owner=st.sampled_from([None, "nobody", *OWNERS]),
        labels=LABELS,
        start=st.sampled_from([None, 0, 1, 3]),
        length=st.sampled_from([None, 1, 5]),
        period=st.sampled_from([None, "night"]),
        dependents=st.booleans(),
        limit=st.none() | st.builds(DowntimeLimit, st.sampled_from([None, *OWNERS]), LABELS),
    )
    def add(
        self,
        id_: str,
        names: list[str],
        owner: str | None,
        labels: dict[str, str],
        start: int | None,
        length: int | None,
        period: str | None,
        limit: DowntimeLimit | None,
        *,
        dependents: bool,
    ) -> None:
        end = None if length is None else Instant(self.now + ((start or 0) + length) * HOUR)
        begin = None if start is None else Instant(self.now + start * HOUR)
        said = tuple(names) if names or owner or labels else ("*",)
        self.downtimes[id_] = Downtime(id_, said, owner, labels, begin, end, period, dependents, limited_to=limit)
        self.table.rows.set(list(self.downtimes.values()), NIGHT)

    @rule(id_=st.sampled_from("xyz"))
    def end(self, id_: str) -> None:
        self.downtimes.pop(id_, None)
        self.table.rows.set(list(self.downtimes.values()), NIGHT)

    @rule(hours=st.sampled_from([0.5, 1, 4]))
    def wait(self, hours: float) -> None:
        self.now = Instant(self.now + int(hours * HOUR))

    @invariant()
    def the_flags_say_who_is_in_downtime(self) -> None:
        table = self.table
        table.reachability.settle()
        seen: set[str] = set()
        while new := table.reachability.foreign_parents().keys() - seen:
            seen |= new
            known = table.reachability.foreign_parents()
            for name in new:
                entry = self.elsewhere.get(name)
                if entry is None or known[name] != (entry.number, entry.version):
                    table.reachability.define_foreign({name: entry})
                    table.rows.define_foreign({name: entry})
        table.settle(self.now)
        active = [one for one in self.downtimes.values() if is_active(one, NIGHT, self.now)]
        everything = table.here | self.elsewhere
        expected = naive(everything, active)
        assert table.in_downtime() == expected & table.here.keys()
        assert {name for name, ones in downtimes_by_task(everything, active).items() if ones} == expected


TestDowntimes = Machine.TestCase
TestDowntimes.settings = settings(deadline=None, max_examples=examples(150), stateful_step_count=25)


def test_what_depends_on_a_task_in_downtime_stays_in_it_when_that_task_goes_to_another_node() -> None:
    table = Table()
    for name, parents in (("check0", ()), ("check1", ("check0",))):
        task = Task(name, EVERY_MINUTE, check=True, depends=parents)
        table.put(Entry(NAMES.index(name), name, 1, "ops", T0, T0, task))
    table.rows.set([downtime("check0")], NIGHT)
    table.settle(at(0))
    assert table.in_downtime() == {"check0", "check1"}
    table.drop("check0", hand_over=True)
    table.settle(at(0))
    assert table.in_downtime() == {"check1"}, "there is no news of it yet"
    table.rows.define_foreign({"check0": None})
    table.settle(at(0))
    assert table.in_downtime() == set()


def an_entry(name: str, *depends: str, any_of: tuple[str, ...] = (), owner: str = "ops") -> Entry:
    task = Task(name, EVERY_MINUTE, check=True, depends=depends, depends_any=any_of)
    return Entry(NAMES.index(name), name, 1, owner, T0, T0, task)


def a_table(*entries: Entry) -> Table:
    table = Table()
    for entry in entries:
        table.put(entry)
    return table


def both(table: Table, *downtimes: Downtime) -> set[str]:
    """Who is in these downtimes, by rows and by the rule for a few tasks."""
    table.rows.set(list(downtimes), NIGHT)
    table.settle(at(0))
    found = downtimes_by_task(table.here, downtimes)
    assert {name for name, ones in found.items() if ones} == table.in_downtime()
    return table.in_downtime()


def test_all_of_depends_any_have_to_be_in_downtime_and_one_of_depends() -> None:
    table = a_table(
        an_entry("check0"),
        an_entry("check1"),
        an_entry("check2", any_of=("check0", "check1")),
        an_entry("check3", "check0", "check1"),
        an_entry("check4", "check2"),
    )
    one, two = Downtime("one", ("check0",)), Downtime("two", ("check1",))
    assert both(table, one) == {"check0", "check3"}
    assert both(table, one, two) == {"check0", "check1", "check2", "check3", "check4"}
    assert [d.id for d in downtimes_by_task(table.here, [one, two])["check4"]] == ["one", "two"]
    assert both(table, one, Downtime("two", ("check1",), dependents=False)) == {"check0", "check1", "check3"}


def test_one_with_a_limit_includes_dependents_within_it_only() -> None:
    table = a_table(
        an_entry("check0", owner="ana"),
        an_entry("check1", "check0", owner="ana"),
        an_entry("check2", "check0"),
        an_entry("check3", "check2", owner="ana"),
    )
    limit = DowntimeLimit("ana")
    assert both(table, Downtime("d", ("check*",), limited_to=limit)) == {"check0", "check1", "check3"}
    assert both(table, Downtime("d", ("check0",), limited_to=limit)) == {"check0", "check1", "check3"}
    assert both(table, Downtime("d", ("check0",), limited_to=limit, dependents=False)) == {"check0"}
    assert both(table, Downtime("d", ("check2",), limited_to=limit)) == set()


def test_a_task_that_comes_as_downtimes_change_is_in_the_old_and_in_the_new_ones() -> None:
    table = a_table(an_entry("check0"))
    old, new = Downtime("old", ("*1",)), Downtime("new", ("*2",))
    assert both(table, old) == set()
    table.put(an_entry("check1"))
    assert both(table, old, new) == {"check1"}
    table.put(an_entry("check2"))
    assert both(table, old, new) == {"check1", "check2"}


def test_what_was_in_downtime_when_it_went_to_another_node_is_not_so_for_ever() -> None:
    table = a_table(an_entry("check0"), an_entry("check1", "check0"), an_entry("check5"))
    assert both(table, Downtime("d", ("check0",))) == {"check0", "check1"}
    table.drop("check0", hand_over=True)
    table.rows.set([], NIGHT)
    table.settle(at(0))
    assert table.in_downtime() == set()
    table.rows.set([Downtime("d", ("check5",))], NIGHT)
    table.settle(at(0))
    assert table.in_downtime() == {"check5"}
