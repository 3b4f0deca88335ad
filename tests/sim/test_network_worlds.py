"""Every state of small networks whose contacts are notified; and a bug planted for each property, which finds it."""

from typing import Any

import pytest
from budget import IS_FULL

from evenbeat.core import alerts
from evenbeat.core.alerts import Alert, Decision, ItemKind, Policy, ProblemFacts
from evenbeat.core.problem_holds import Holds
from evenbeat.sim.alert_model import AlertRules
from evenbeat.sim.network_explore import (
    NETWORK_ERRORS,
    NETWORK_PROPERTIES,
    NETWORK_SENTENCES,
    NETWORK_WORLDS,
    explore_network,
)
from evenbeat.sim.network_model import NetworkShape, NetworkWorld
from evenbeat.when.windows import FOREVER

MOST_STATES = None if IS_FULL else 1_000


@pytest.mark.parametrize("shape", NETWORK_WORLDS, ids=lambda shape: shape.name)
def test_all_properties_hold_in_every_state(shape: NetworkShape) -> None:
    explored = explore_network(shape, most=MOST_STATES)
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states > 1_000


def _ends_well(alert: Alert, message: int, *, is_delivered: bool) -> Alert:
    """What was given up counts as received."""
    return alerts.end(alert, message, is_delivered=is_delivered or message > 0)


def _starts_too_much(alert: Alert, facts: ProblemFacts, message: int, now: int) -> Alert:
    """Nothing waits for the end of the message under way."""
    return alerts.start(alert, facts, message, now)._replace(message=0, is_known=True)


def _starts_again(alert: Alert, facts: ProblemFacts, message: int, now: int) -> Alert:
    """What has left waits still."""
    return alert if alert.waiting == ItemKind.PROBLEM else alerts.start(alert, facts, message, now)


def _forgets_recoveries(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    if not facts.is_open and alert.is_known and not alert.message and not alert.is_over:
        return Decision(alert, "", FOREVER)
    return alerts.decide(alert, facts, policy, now)


def _raises(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    if not facts.is_open:
        raise LookupError
    return alerts.decide(alert, facts, policy, now)


class TrustsParents(Holds):
    """Parents are not looked at."""

    def _check_parents(self, *_: Any) -> None:
        return


class KeepsGoing(Holds):
    """No fresh result is needed."""

    def _need_results(self, *_: Any) -> None:
        return


SHAPE = NetworkShape("a check", 1, downtimes=True, gives_up=True)
PLANTED = {
    "network: balanced": NetworkWorld(SHAPE, AlertRules(end=_ends_well)),
    "network: suppressed": NetworkWorld(SHAPE, kind=KeepsGoing),
    "network: in order": NetworkWorld(SHAPE, AlertRules(start=_starts_too_much)),
    "network: gathered": NetworkWorld(SHAPE, AlertRules(start=_starts_again)),
    "network: not lost": NetworkWorld(SHAPE, AlertRules(decide=_forgets_recoveries)),
    NETWORK_ERRORS: NetworkWorld(SHAPE, AlertRules(decide=_raises)),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_by_its_property(name: str) -> None:
    alone = {one: holds for one, holds in NETWORK_PROPERTIES.items() if one == name}
    found = explore_network(SHAPE, PLANTED[name], 3_000, alone).counterexample
    assert found is not None
    assert found.property == name
    assert found.sentence == NETWORK_SENTENCES[name]
    assert len(found.events) <= 10


def test_parents_that_are_not_checked_are_noticed() -> None:
    found = explore_network(SHAPE, NetworkWorld(SHAPE, kind=TrustsParents), 3_000).counterexample
    assert found is not None
    assert found.property == "network: suppressed"


def test_a_bug_is_planted_for_each_property() -> None:
    assert set(PLANTED) == {*NETWORK_PROPERTIES, NETWORK_ERRORS}
