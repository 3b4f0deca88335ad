"""Every reachable state of small worlds holds the properties; and the explorer finds the bugs that are planted."""

from collections.abc import Callable

import numpy as np
import pytest

from evenbeat.core import gate, lifecycle
from evenbeat.core.gate import Action, Arrivals, Verdicts
from evenbeat.core.lifecycle import Flag, Lifecycle
from evenbeat.sim.explore import Explored, explore
from evenbeat.sim.world import RELEASE, Event, Shape, World

EVERY_SWITCH = Shape(
    "one task, every switch", 1, (1, 0), switches=("enabled", "open", "mine", "reachable", "soon"), occasions=True
)
SATURATION = Shape("two tasks, one slot", 2, (1, 0), switches=("enabled",))
LIMIT = Shape("a limit of one within two slots", 2, (2,), switches=("enabled",), limits=(1, 0))
BACKLOG = Shape("a backlog", 2, (1,), switches=("enabled",), each=True)
OFF_GRID = Shape("off-grid runs", 2, (1,), switches=("open",), occasions=True)


@pytest.mark.parametrize("shape", [EVERY_SWITCH, SATURATION, LIMIT, BACKLOG, OFF_GRID], ids=lambda s: s.name)
def test_all_properties_hold_in_every_reachable_state(shape: Shape) -> None:
    explored = explore(shape)
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states > 500


def test_saturation_is_reached() -> None:
    world = World(SATURATION)
    for event in (Event("arrive", 0), Event("arrive", 1), RELEASE):
        world.befall(event)
    state = world.look()
    assert state.pending == state.slots == 1
    assert state.waiting == (1,)


def test_a_world_put_into_a_state_looks_like_it() -> None:
    world = World(LIMIT)
    states = [world.look()]
    for event in (
        Event("arrive", 1),
        Event("force", 0),
        RELEASE,
        Event("remove", 0),
        Event("create"),
        Event("limit", 0),
    ):
        try:
            world.befall(event)
        except IndexError:
            continue
        states.append(world.look())
    for state in (*states, *reversed(states)):
        world.put(state)
        assert world.look() == state


def caught(shape: Shape) -> Explored:
    explored = explore(shape)
    assert explored.counterexample is not None
    assert len(explored.counterexample.events) <= 6
    return explored


def with_verdicts(change: Callable[[Arrivals, Verdicts], None]) -> Callable[..., Verdicts]:
    honest = gate.verify

    def verify(arrivals: Arrivals, free: int, by_limit: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Verdicts:
        verdicts = honest(arrivals, free, by_limit)
        change(arrivals, verdicts)
        return verdicts

    return verify


def test_forced_that_bypasses_the_slots_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def bypass(arrivals: Arrivals, verdicts: Verdicts) -> None:
        verdicts.action[arrivals.forced & ~arrivals.running] = Action.EXECUTE

    monkeypatch.setattr(lifecycle, "verify", with_verdicts(bypass))
    found = caught(SATURATION).counterexample
    assert found is not None
    assert found.property == "3"


def test_pending_not_counted_down_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Lifecycle.complete

    def complete(self: Lifecycle, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        honest(self, rows)
        self.pending += len(rows)

    monkeypatch.setattr(Lifecycle, "complete", complete)
    found = caught(SATURATION).counterexample
    assert found is not None
    assert found.property == "7"


def test_a_task_lost_when_deleted_while_pending_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def remove(self: Lifecycle, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        running = (self.columns.flags[rows] & int(Flag.RUNNING)) != 0
        self.idle -= int((~running).sum())
        self.columns.free(rows)
        self.waiting = self.waiting[~np.isin(self.waiting, rows)]

    monkeypatch.setattr(Lifecycle, "remove", remove)
    found = caught(SATURATION).counterexample
    assert found is not None
    assert found.property == "books"


def test_a_limit_checked_with_one_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = gate.verify
    monkeypatch.setattr(lifecycle, "verify", lambda a, free, by_limit: honest(a, free + 1, by_limit))
    found = caught(SATURATION).counterexample
    assert found is not None
    assert found.property == "3"


def test_a_limit_key_checked_with_one_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = gate.verify
    monkeypatch.setattr(lifecycle, "verify", lambda a, free, by_limit: honest(a, free, by_limit + 1))
    found = caught(LIMIT).counterexample
    assert found is not None
    assert found.property == "14"


def test_a_double_insert_into_idle_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Lifecycle.complete

    def complete(self: Lifecycle, rows: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> None:
        honest(self, rows)
        self.idle += len(rows)

    monkeypatch.setattr(Lifecycle, "complete", complete)
    found = caught(SATURATION).counterexample
    assert found is not None
    assert found.property == "7"


@pytest.mark.parametrize(
    ("field", "property_"),
    [("enabled", "2"), ("period_open", "1"), ("mine", "9"), ("reachable", "9"), ("running", "9"), ("too_soon", "9")],
)
def test_a_condition_that_the_gate_forgets_is_found(
    monkeypatch: pytest.MonkeyPatch, field: str, property_: str
) -> None:
    honest = gate.verify
    harmless = field not in ("running", "too_soon")

    def verify(arrivals: Arrivals, free: int, by_limit: "np.ndarray[tuple[int], np.dtype[np.int64]]") -> Verdicts:
        blind = np.full(len(arrivals.forced), harmless)
        return honest(arrivals._replace(**{field: blind}), free, by_limit)

    monkeypatch.setattr(lifecycle, "verify", verify)
    found = caught(EVERY_SWITCH).counterexample
    assert found is not None
    assert found.property == property_


def test_a_task_that_waits_for_ever_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def starve(arrivals: Arrivals, verdicts: Verdicts) -> None:
        verdicts.action[arrivals.forced] = Action.WAIT

    monkeypatch.setattr(lifecycle, "verify", with_verdicts(starve))
    found = caught(SATURATION).counterexample
    assert found is not None
    assert found.property == "8"


def test_a_counterexample_tells_the_way_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = gate.verify
    monkeypatch.setattr(lifecycle, "verify", lambda a, free, by_limit: honest(a, free + 1, by_limit))
    text = str(caught(SATURATION).counterexample)
    assert "property 3 fails in the world 'two tasks, one slot'" in text
    assert "Pending never exceeds max_concurrent" in text
    assert "1. " in text
    assert "release" in text
