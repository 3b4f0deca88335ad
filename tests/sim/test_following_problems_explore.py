"""Every state of problems that follow each other while messages pass each other; each property finds a planted bug."""

import pytest

from evenbeat.core import alerts
from evenbeat.core.alerts import Alert, Decision, ItemKind, Policy, ProblemFacts
from evenbeat.sim.alert_model import AlertRules
from evenbeat.sim.following_problems_explore import (
    SUCCESSION_ERRORS,
    SUCCESSION_PROPERTIES,
    SUCCESSION_SENTENCES,
    SUCCESSION_WORLDS,
    SuccessionShape,
    explore_succession,
)
from evenbeat.when.windows import FOREVER


@pytest.mark.parametrize("shape", SUCCESSION_WORLDS, ids=lambda shape: shape.name)
def test_all_properties_hold_in_every_state(shape: SuccessionShape) -> None:
    explored = explore_succession(shape)
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states > 10


def _nothing_is_unfinished(alert: Alert, *, is_open: bool) -> bool:
    """The next problem passes whatever is under way, as it did before this was explored."""
    return alert.message < 0 and is_open


def _only_problems_are_unfinished(alert: Alert, *, is_open: bool) -> bool:
    """The next problem passes a recovery."""
    return alerts.is_unfinished(alert, is_open=is_open) and not alert.is_over


def _ends_well(alert: Alert, message: int, *, is_delivered: bool) -> Alert:
    """What was given up counts as received."""
    return alerts.end(alert, message, is_delivered=is_delivered or message > 0)


def _waits_for_ever(
    alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int, *, has_earlier: bool
) -> Decision:
    if alert.is_known and not facts.is_open and alert.waiting != ItemKind.RECOVERY and not alert.message:
        return Decision(alert, "", FOREVER)
    return alerts.decide(alert, facts, policy, now, has_earlier=has_earlier)


def _raises(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int, *, has_earlier: bool) -> Decision:
    if has_earlier:
        raise LookupError
    return alerts.decide(alert, facts, policy, now, has_earlier=has_earlier)


def _everything_is_unfinished(alert: Alert, *, is_open: bool) -> bool:
    """The next problem waits for problems of other causes."""
    return alert.message != 0 or is_open


PLANTED = {
    "succession: not held": AlertRules(is_unfinished=_everything_is_unfinished),
    "succession: in order": AlertRules(is_unfinished=_nothing_is_unfinished),
    "succession: balanced": AlertRules(end=_ends_well),
    "succession: not lost": AlertRules(decide=_waits_for_ever),
    SUCCESSION_ERRORS: AlertRules(decide=_raises),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_by_its_property(name: str) -> None:
    alone = {one: holds for one, holds in SUCCESSION_PROPERTIES.items() if one == name}
    explored = (explore_succession(shape, PLANTED[name], properties=alone) for shape in SUCCESSION_WORLDS)
    found = next((one.counterexample for one in explored if one.counterexample is not None), None)
    assert found is not None
    assert found.property == name
    assert found.sentence == SUCCESSION_SENTENCES[name]
    assert len(found.events) <= 10


def test_a_problem_that_passes_a_recovery_is_noticed() -> None:
    rules = AlertRules(is_unfinished=_only_problems_are_unfinished)
    in_order = {name: holds for name, holds in SUCCESSION_PROPERTIES.items() if name == "succession: in order"}
    found = explore_succession(SUCCESSION_WORLDS[0], rules, properties=in_order).counterexample
    assert found is not None
    assert found.property == "succession: in order"


def test_a_bug_is_planted_for_each_property() -> None:
    assert set(PLANTED) == {*SUCCESSION_PROPERTIES, SUCCESSION_ERRORS}
