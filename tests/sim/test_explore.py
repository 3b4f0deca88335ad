"""Reachable states of small worlds (`make faults`: every one) hold the properties; and planted bugs are found."""

from collections.abc import Callable

import numpy as np
import pytest
from budget import IS_FULL

from evenbeat.core import gate, lifecycle
from evenbeat.core.columns import Column, Ints
from evenbeat.core.gate import Arrivals, GateAction, Verdicts
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.stopped_runs import withdraw_planned
from evenbeat.core.task import Flag, ReleaseResult, SkipColumns, TaskColumns
from evenbeat.model import Instant
from evenbeat.sim import properties, world
from evenbeat.sim import verify as verifier
from evenbeat.sim.explore import Counterexample, explore
from evenbeat.sim.properties import PROPERTIES, WORLD_SENTENCES
from evenbeat.sim.state import RELEASE, WorldEvent, WorldShape, WorldState
from evenbeat.sim.verify import WORLDS, verify
from evenbeat.sim.world import World

EVERY_SWITCH = WorldShape(
    "one task, every switch",
    1,
    (1,),
    ("enabled", "open", "mine", "reachable", "skips_unreachable", "permitted", "soon"),
    occasions=True,
)
SATURATION = WorldShape("two tasks, one slot", 2, (1,), ("enabled",))
TWO_SLOTS = WorldShape("one task, two slots", 1, (2, 1), ())
LIMIT = WorldShape("a limit of one within two slots", 2, (2,), (), limits=(1, 0))
BACKLOG = WorldShape("a backlog", 2, (1,), (), each=2, behind=True)
OFF_GRID = WorldShape("off-grid runs", 2, (1,), (), occasions=True, each=1)
URGENT = WorldShape("one is urgent", 2, (1,), (), urgent=True)
SMALL = [EVERY_SWITCH, SATURATION, LIMIT, BACKLOG, OFF_GRID, URGENT]


@pytest.mark.parametrize("shape", SMALL, ids=lambda s: s.name)
def test_all_properties_hold_in_every_reachable_state(shape: WorldShape) -> None:
    explored = explore(shape, most=None if IS_FULL else 300)
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states > 200


def walk(world: World, *events: WorldEvent) -> list[WorldState]:
    """The states that the events lead to, one after the other."""
    states = [world.current_state()]
    for event in events:
        world.put(states[-1])
        states.append(world.step(event).after)
    return states


def test_saturation_is_reached() -> None:
    state = walk(World(SATURATION), WorldEvent("arrive", 0), WorldEvent("arrive", 1), RELEASE)[-1]
    assert state.pending == state.slots == 1
    assert state.waiting == (1,)


WAY = (
    WorldEvent("arrive", 1),
    WorldEvent("force", 0),
    WorldEvent("arrive", 0),
    RELEASE,
    WorldEvent("arrive", 1),
    WorldEvent("arrive", 1),
    WorldEvent("remove", 0),
    WorldEvent("complete", 1),
    WorldEvent("slots", 0),
)


def test_a_world_put_into_a_state_looks_like_it_and_packing_loses_nothing() -> None:
    shape = WorldShape("a way", 2, (1, 0), limits=(2, 1), behind=True)
    world = World(shape)
    states = walk(world, *WAY)
    assert len(set(states)) == len(states)
    for state in (*states, *reversed(states)):
        world.put(state)
        assert world.current_state() == state
        assert WorldState.unpacked(state.packed(), shape) == state


def test_a_step_leaves_the_state_it_began_in() -> None:
    world = World(SATURATION)
    for state in walk(world, WorldEvent("arrive", 0), WorldEvent("force", 1), RELEASE, WorldEvent("arrive", 0)):
        world.put(state)
        first = [world.step(event) for event in world.events(state)]
        again = [world.step(event) for event in reversed(list(world.events(state)))]
        assert first == again[::-1]


def test_the_lifecycle_remembers_nothing_that_a_state_does_not_tell() -> None:
    compared = {"used", "flags", "nominal", "off_grid_due", "due"}
    settled = {"off_grid_kind", "last_start", "limit", "priority", "tolerance"}
    written = {"accounted"}  # for stores; no decision looks at it
    columns = {name: c for room in TaskColumns.__mro__ for name, c in vars(room).items() if isinstance(c, Column)}
    assert compared | settled < set(columns)
    world = World(EVERY_SWITCH)
    states, seen = [world.current_state()], set[WorldState]()
    while states and len(seen) < 60:
        state = states.pop(0)
        seen.add(state)
        world.put(state)
        for event in world.events(state):
            after = world.step(event).after
            for name in set(columns) - compared - settled - written:
                assert (getattr(world.columns, name)[:] == columns[name].default).all(), (name, event)
            states += [after] if after not in seen else []


def test_several_processes_find_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = explore(LIMIT)
    monkeypatch.setattr(verifier, "_PARALLEL_THRESHOLD", 50)
    assert [one.explored for one in verify([LIMIT])] == [alone]


def test_the_named_worlds_have_every_event_and_every_switch() -> None:
    assert {s for shape in WORLDS for s in shape.switches} == {
        *("enabled", "open", "mine", "reachable", "skips_unreachable", "permitted", "soon")
    }
    assert any(shape.tasks > shape.slots[0] for shape in WORLDS)
    assert all(any(getattr(s, feature) for s in WORLDS) for feature in ("limits", "each", "occasions", "behind"))
    assert any(len(shape.slots) > 1 for shape in WORLDS)


# Planted bugs: each is a change of the production code, and the property that must find it.

Patch = pytest.MonkeyPatch


def with_verdicts(patch: Patch, change: Callable[[Arrivals, Verdicts], None]) -> None:
    honest = gate.verify

    def verify(arrivals: Arrivals, free: int, by_limit: Ints) -> Verdicts:
        verdicts = honest(arrivals, free, by_limit)
        change(arrivals, verdicts)
        return verdicts

    patch.setattr(lifecycle, "verify", verify)


def with_arrivals(patch: Patch, change: Callable[[Arrivals], Arrivals]) -> None:
    honest = gate.verify
    patch.setattr(lifecycle, "verify", lambda a, free, by_limit: honest(change(a), free, by_limit))


def after_release(patch: Patch, change: Callable[[Lifecycle, ReleaseResult], ReleaseResult]) -> None:
    honest = Lifecycle.release
    patch.setattr(Lifecycle, "release", lambda self, now: change(self, honest(self, now)))


def after(patch: Patch, method: str, change: Callable[[Lifecycle, Ints], None]) -> None:
    honest = getattr(Lifecycle, method)

    def changed(self: Lifecycle, rows: Ints, *rest: object) -> object:
        answer = honest(self, rows, *rest)
        change(self, rows)
        return answer

    patch.setattr(Lifecycle, method, changed)


def the_period_is_ignored(patch: Patch) -> None:
    with_arrivals(patch, lambda a: a._replace(period_open=np.ones_like(a.forced)))


def disabled_tasks_run(patch: Patch) -> None:
    with_arrivals(patch, lambda a: a._replace(enabled=np.ones_like(a.forced)))


def forced_bypasses_the_slots(patch: Patch) -> None:
    def bypass(arrivals: Arrivals, verdicts: Verdicts) -> None:
        verdicts.action[arrivals.forced & ~arrivals.running] = GateAction.EXECUTE

    with_verdicts(patch, bypass)


def slots_are_checked_with_one_too_many(patch: Patch) -> None:
    honest = gate.verify
    patch.setattr(lifecycle, "verify", lambda a, free, by_limit: honest(a, free + 1, by_limit))


def a_limit_is_checked_with_one_too_many(patch: Patch) -> None:
    honest = gate.verify
    patch.setattr(lifecycle, "verify", lambda a, free, by_limit: honest(a, free, by_limit + 1))


def _count_idle_twice(self: Lifecycle, rows: Ints) -> None:
    self.idle += len(rows)


def a_new_task_is_counted_twice(patch: Patch) -> None:
    after(patch, "add_new", _count_idle_twice)


def a_finished_run_is_inserted_into_idle_twice(patch: Patch) -> None:
    after(patch, "complete", _count_idle_twice)


def pending_is_not_counted_down(patch: Patch) -> None:
    def keep(self: Lifecycle, rows: Ints) -> None:
        self.pending += len(rows)

    after(patch, "complete", keep)


def force_begins_by_itself(patch: Patch) -> None:
    after(patch, "force", lambda self, rows: self.set_flag(rows, Flag.RUNNING, on=True))


def a_begun_task_stays_idle(patch: Patch) -> None:
    def stay(self: Lifecycle, released: ReleaseResult) -> ReleaseResult:
        self.idle += len(released.claims.rows)
        return released

    after_release(patch, stay)


def forced_runs_wait_for_ever(patch: Patch) -> None:
    def starve(arrivals: Arrivals, verdicts: Verdicts) -> None:
        verdicts.action[arrivals.forced] = GateAction.WAIT

    with_verdicts(patch, starve)


def the_guard_is_forgotten(patch: Patch) -> None:
    with_arrivals(patch, lambda a: a._replace(too_soon=np.zeros_like(a.forced)))


def authority_is_forgotten(patch: Patch) -> None:
    with_arrivals(patch, lambda a: a._replace(mine=np.ones_like(a.forced)))


def unreachable_tasks_run(patch: Patch) -> None:
    with_arrivals(patch, lambda a: a._replace(reachable=np.ones_like(a.forced)))


def anybody_says_what_is_executed(patch: Patch) -> None:
    with_arrivals(patch, lambda a: a._replace(permitted=np.ones_like(a.forced)))


def running_tasks_are_begun_again(patch: Patch) -> None:
    with_arrivals(patch, lambda a: a._replace(running=np.zeros_like(a.forced)))


def skips_are_not_recorded(patch: Patch) -> None:
    after_release(patch, lambda _, released: released._replace(skips=[]))


def the_youngest_comes_first(patch: Patch) -> None:
    with_arrivals(patch, lambda a: a._replace(nominal=-a.nominal))


def priority_is_forgotten(patch: Patch) -> None:
    with_arrivals(patch, lambda a: a._replace(priority=np.zeros_like(a.priority)))


def a_forced_run_that_waits_is_forgotten(patch: Patch) -> None:
    def forget(self: Lifecycle, released: ReleaseResult) -> ReleaseResult:
        self.set_flag(self.waiting, Flag.FORCED, on=False)
        return released

    after_release(patch, forget)


def a_backlog_is_merged(patch: Patch) -> None:
    patch.setattr(lifecycle, "_QUEUES", 0)


def skips_are_of_nothing(patch: Patch) -> None:
    honest = Lifecycle.skip_until

    def none(self: Lifecycle, rows: Ints, t: Instant, reason: gate.Reason) -> list[SkipColumns]:
        return [skip._replace(times=0 * skip.times) for skip in honest(self, rows, t, reason)]

    patch.setattr(Lifecycle, "skip_until", none)


def a_forced_task_is_not_made_due(patch: Patch) -> None:
    patch.setattr(Lifecycle, "force", lambda self, rows: self.set_flag(rows, Flag.FORCED, on=True))


def who_finds_no_slot_is_skipped(patch: Patch) -> None:
    def skip(_: Arrivals, verdicts: Verdicts) -> None:
        verdicts.action[verdicts.action == GateAction.WAIT] = GateAction.SKIP

    with_verdicts(patch, skip)


def a_run_does_not_settle_an_off_grid_one(patch: Patch) -> None:
    patch.setattr(Lifecycle, "_clear_off_grid", lambda self, rows, off_grid, now: None)


def refusals_are_silent(patch: Patch) -> None:
    after_release(patch, lambda _, released: released._replace(refused=lifecycle._NONE_REFUSED))


def a_task_is_lost_when_deleted_while_pending(patch: Patch) -> None:
    def remove(self: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
        running = (self.columns.flags[rows] & int(Flag.RUNNING)) != 0
        self.idle -= int((~running).sum())
        skips = self.skip_until(rows, now, gate.Reason.REMOVED)
        self.columns.free(rows)
        self.waiting = self.waiting[~np.isin(self.waiting, rows)]
        return skips

    patch.setattr(Lifecycle, "remove", remove)


def a_removed_task_forgets_what_it_owes(patch: Patch) -> None:
    honest = Lifecycle.remove
    patch.setattr(Lifecycle, "remove", lambda self, rows, now: honest(self, rows, now)[:0])


def removing_a_running_task_raises(patch: Patch) -> None:
    def remove(self: Lifecycle, rows: Ints, now: Instant) -> list[SkipColumns]:
        self.columns.free(np.repeat(rows, 2))
        return []

    patch.setattr(Lifecycle, "remove", remove)


def every_wait_is_said_to_be_for_the_running_instance(patch: Patch) -> None:
    def rename(_: Arrivals, verdicts: Verdicts) -> None:
        verdicts.reason[verdicts.action == GateAction.WAIT] = gate.REASONS.index(gate.Reason.RUNNING)

    with_verdicts(patch, rename)


def a_stop_leaves_the_forced_run(patch: Patch) -> None:
    patch.setattr(world, "withdraw_planned", lambda life, rows, now: None)


def a_stop_ends_the_count_of_what_runs(patch: Patch) -> None:
    def stop(life: Lifecycle, rows: Ints, now: Instant) -> None:
        withdraw_planned(life, rows, now)
        life.complete(rows[life.columns.flags[rows] & int(Flag.RUNNING) != 0])

    patch.setattr(world, "withdraw_planned", stop)


def a_stop_takes_a_nominal_time(patch: Patch) -> None:
    def stop(life: Lifecycle, rows: Ints, now: Instant) -> None:
        withdraw_planned(life, rows, now)
        life.skip_until(rows, now, gate.Reason.DISABLED)

    patch.setattr(world, "withdraw_planned", stop)


Plant = Callable[[Patch], None]
PLANTED: list[tuple[Plant, str, WorldShape]] = [
    (the_period_is_ignored, "1", EVERY_SWITCH),
    (disabled_tasks_run, "2", EVERY_SWITCH),
    (forced_bypasses_the_slots, "3", SATURATION),
    (slots_are_checked_with_one_too_many, "3", SATURATION),
    (a_new_task_is_counted_twice, "4", SATURATION),
    (force_begins_by_itself, "5", SATURATION),
    (a_begun_task_stays_idle, "6", SATURATION),
    (pending_is_not_counted_down, "7", SATURATION),
    (a_finished_run_is_inserted_into_idle_twice, "7", SATURATION),
    (forced_runs_wait_for_ever, "8", SATURATION),
    (authority_is_forgotten, "9", EVERY_SWITCH),
    (unreachable_tasks_run, "9", EVERY_SWITCH),
    (anybody_says_what_is_executed, "9", EVERY_SWITCH),
    (the_guard_is_forgotten, "9", EVERY_SWITCH),
    (running_tasks_are_begun_again, "10", TWO_SLOTS),
    (skips_are_not_recorded, "11", SATURATION),
    (a_removed_task_forgets_what_it_owes, "11", SATURATION),
    (the_youngest_comes_first, "12", SATURATION),
    (priority_is_forgotten, "12", URGENT),
    (a_forced_run_that_waits_is_forgotten, "13", SATURATION),
    (a_limit_is_checked_with_one_too_many, "14", LIMIT),
    (a_backlog_is_merged, "backlog", BACKLOG),
    (skips_are_of_nothing, "skips", SATURATION),
    (a_forced_task_is_not_made_due, "timetable", SATURATION),
    (a_stop_leaves_the_forced_run, "stops", SATURATION),
    (a_stop_ends_the_count_of_what_runs, "stops", SATURATION),
    (a_stop_takes_a_nominal_time, "11", SATURATION),
    (who_finds_no_slot_is_skipped, "patience", SATURATION),
    (a_run_does_not_settle_an_off_grid_one, "off the grid", OFF_GRID),
    (refusals_are_silent, "refusals", EVERY_SWITCH),
    (a_task_is_lost_when_deleted_while_pending, "books", SATURATION),
    (every_wait_is_said_to_be_for_the_running_instance, "reasons", LIMIT),
    (removing_a_running_task_raises, "errors", SATURATION),
    (forced_runs_wait_for_ever, "liveness", LIMIT),
]


def caught(shape: WorldShape) -> Counterexample:
    found = explore(shape).counterexample
    assert found is not None
    assert len(found.events) <= 6
    return found


def alone(patch: Patch, name: str) -> None:
    """Let no other property find it first."""
    patch.setattr(properties, "PROPERTIES", {n: p for n, p in PROPERTIES.items() if n == name})
    properties._concerned.cache_clear()
    patch.setattr(properties, "_concerned", properties._concerned.__wrapped__)


@pytest.mark.parametrize(("plant", "name", "shape"), PLANTED, ids=lambda x: getattr(x, "__name__", None))
def test_a_planted_bug_is_found(monkeypatch: Patch, plant: Plant, name: str, shape: WorldShape) -> None:
    plant(monkeypatch)
    caught(shape)
    alone(monkeypatch, name)
    assert caught(shape).property == name


def test_every_property_is_shown_to_fail() -> None:
    assert {name for _, name, _ in PLANTED} == set(WORLD_SENTENCES)


def test_a_counterexample_tells_the_way_to_it(monkeypatch: Patch) -> None:
    slots_are_checked_with_one_too_many(monkeypatch)
    text = str(caught(SATURATION))
    assert "property 3 fails in the world 'two tasks, one slot'" in text
    assert "Pending never exceeds max_concurrent" in text
    assert "3. release" in text
    assert "2 pending" in text


def test_a_counterexample_is_the_shortest(monkeypatch: Patch) -> None:
    pending_is_not_counted_down(monkeypatch)
    assert [str(event) for event in caught(SATURATION).events] == ["force 0", "release", "complete 0"]
