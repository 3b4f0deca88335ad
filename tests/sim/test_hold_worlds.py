"""Every state of small worlds of held problems; and a bug planted for each property, which finds it."""

import numpy as np
import pytest
from budget import IS_FULL

from evenbeat.core.alerts import Hold
from evenbeat.core.columns import Ints
from evenbeat.core.problem_holds import Holds, HoldUpdate
from evenbeat.model import Instant
from evenbeat.sim.hold_explore import HOLD_ERRORS, HOLD_PROPERTIES, HOLD_SENTENCES, HOLD_WORLDS, explore_holds
from evenbeat.sim.hold_model import HoldShape
from evenbeat.when.windows import NEVER

SMALL = (
    HoldShape("a check", runs=False, switches=("in_downtime",)),
    HoldShape("runs", switches=("in_downtime",)),
)
MOST_STATES = None if IS_FULL else 200


@pytest.mark.parametrize("shape", HOLD_WORLDS, ids=lambda shape: shape.name)
def test_all_properties_hold_in_every_state(shape: HoldShape) -> None:
    explored = explore_holds(shape, most=MOST_STATES)
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states > 50


class TellsOldStates(Holds):
    """No fresh result is needed."""

    def settle(self, now: Instant) -> list[HoldUpdate]:
        self.held.needs_since[:] = NEVER
        self.held.hold[self.held.hold == Hold.DOWNTIME] = Hold.NONE
        return super().settle(now)


class TrustsParents(Holds):
    """Parents are not looked at."""

    def _check_parents(self, *_: object) -> None:
        return


class HoldsForEver(Holds):
    """What was held once stays held."""

    def settle(self, now: Instant) -> list[HoldUpdate]:
        self.held.needs_until[:] = np.where(self.held.needs_since == NEVER, NEVER, now + 1)
        return super().settle(now)


class AsksNobody(Holds):
    """Fresh results are awaited, and not asked for."""

    def _need_results(self, *args: object) -> None:
        super()._need_results(*args)  # type: ignore[arg-type]
        self._wanted.clear()


class AsksParentsAlways(Holds):
    """A parent is asked each time that anything happens."""

    def settle(self, now: Instant) -> list[HoldUpdate]:
        self.asked = (self.asked[0][:0], self.asked[1][:0])
        return super().settle(now)


class SaysItTwice(Holds):
    """What has not changed is reported as well."""

    def settle(self, now: Instant) -> list[HoldUpdate]:
        super().settle(now)
        self.held.hold[:] = Hold.NONE
        return super().settle(now)


class KeepsAll(Holds):
    """Runs that have ended are remembered."""

    def _forget_ended(self) -> None:
        return


class Fails(Holds):
    """An error."""

    def learn_ends(self, rows: Ints, now: Instant) -> None:
        if len(rows):
            raise LookupError
        super().learn_ends(rows, now)


PLANTED: dict[str, type[Holds]] = {
    "holds: evidence": TellsOldStates,
    "holds: parents": TrustsParents,
    "holds: exact": HoldsForEver,
    "holds: asked": AsksNobody,
    "holds: parents asked": AsksParentsAlways,
    "holds: reported": SaysItTwice,
    "holds: small": KeepsAll,
    HOLD_ERRORS: Fails,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_by_its_property(name: str) -> None:
    alone = {one: holds for one, holds in HOLD_PROPERTIES.items() if one == name}
    explored = (explore_holds(shape, PLANTED[name], 500, alone) for shape in SMALL)
    found = next(one.counterexample for one in explored if one.counterexample is not None)
    assert found.property == name
    assert found.sentence == HOLD_SENTENCES[name]
    assert len(found.events) <= 8


def test_a_bug_is_planted_for_each_property() -> None:
    assert set(PLANTED) == {*HOLD_PROPERTIES, HOLD_ERRORS}
