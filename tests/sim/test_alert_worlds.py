"""States of small worlds of alerts (`make faults`: every one); and a bug planted for each property, which finds it."""

from collections.abc import Callable

import pytest
from budget import IS_FULL

from evenbeat.core import alerts
from evenbeat.core.alerts import Alert, Decision, Hold, ItemKind, NotSent, Policy, ProblemFacts
from evenbeat.sim.alert_explore import (
    ALERT_ERRORS,
    ALERT_PROPERTIES,
    ALERT_SENTENCES,
    ALERT_WORLDS,
    explore_alerts,
)
from evenbeat.sim.alert_model import AlertRules, AlertShape
from evenbeat.when.windows import FOREVER

SMALL = (
    AlertShape("held", (Hold.NONE, Hold.DOWNTIME), ("plain",), has_delay=True),
    AlertShape("a contact", switches=("is_there", "is_wanted", "is_open")),
)
Decide = Callable[[Alert, ProblemFacts, Policy | None, int], Decision]


@pytest.mark.parametrize("shape", ALERT_WORLDS, ids=lambda shape: shape.name)
def test_all_properties_hold_in_every_state(shape: AlertShape) -> None:
    explored = explore_alerts(shape, most=None if IS_FULL else 3_000)
    assert explored.counterexample is None, str(explored.counterexample)
    assert explored.states > 1_000


def _balanced(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """A recovery for everybody who would have been told."""
    if not facts.is_open and not alert.is_over and not alert.message and alert.waiting:
        alert = alert._replace(is_known=True)
    return alerts.decide(alert, facts, policy, now)


def _once(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """A state that is better than what was sent is sent as well."""
    found = alerts.decide(alert._replace(sent=0 if alert.sent > facts.severity else alert.sent), facts, policy, now)
    return found._replace(alert=found.alert._replace(sent=alert.sent))


def _acknowledged(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """An acknowledgement is told again and again."""
    return alerts.decide(alert._replace(told_ack=0), facts, policy, now)


def _reminders(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """A missed reminder is made up for."""
    found = alerts.decide(alert, facts, policy, now)
    return found._replace(alert=found.alert._replace(counts_from=0))


def _delays(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """Escalation is sent at once."""
    return alerts.decide(alert, facts, policy and policy._replace(after=0), now)


def _suppressed(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """A downtime does not keep anything from being sent."""
    return alerts.decide(alert, facts._replace(hold=Hold.NONE), policy, now)


def _in_order(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """Something waits while a message is under way."""
    found = alerts.decide(alert, facts, policy, now)
    if found.alert.message and facts.is_open and not found.alert.is_over:
        return found._replace(alert=found.alert._replace(waiting=ItemKind.PROBLEM))
    return found


def _accounted(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """Nobody can find out that a problem was not sent because of a downtime."""
    found = alerts.decide(alert, facts, policy, now)
    return found._replace(note="") if found.note == NotSent.DOWNTIME else found


def _dropped(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """Nobody can find out that a problem was over before it was sent."""
    found = alerts.decide(alert, facts, policy, now)
    return found._replace(note="") if found.note == NotSent.OVER else found


def _stable(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """It does not look again when a period opens."""
    return alerts.decide(alert, facts, policy, now)._replace(again_at=FOREVER)


def _gathered(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """The gather begins anew with each decision."""
    found = alerts.decide(alert, facts, policy, now)
    return found if found.alert.message or policy is None or not found.alert.is_leaving else _later(found, now)


def _later(found: Decision, now: int) -> Decision:
    return found._replace(alert=found.alert._replace(leaves_at=now + 1_000))


def _not_lost(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    """Recoveries are never sent."""
    if not facts.is_open and alert.is_known and not alert.message and not alert.is_over:
        return Decision(alert, "", FOREVER)
    return alerts.decide(alert, facts, policy, now)


def _raises(alert: Alert, facts: ProblemFacts, policy: Policy | None, now: int) -> Decision:
    if policy is None:
        raise LookupError
    return alerts.decide(alert, facts, policy, now)


PLANTED: dict[str, Decide] = {
    "alerts: balanced": _balanced,
    "alerts: once": _once,
    "alerts: acknowledged": _acknowledged,
    "alerts: reminders": _reminders,
    "alerts: delays": _delays,
    "alerts: suppressed": _suppressed,
    "alerts: in order": _in_order,
    "alerts: accounted": _accounted,
    "alerts: dropped": _dropped,
    "alerts: stable": _stable,
    "alerts: gathered": _gathered,
    "alerts: not lost": _not_lost,
    ALERT_ERRORS: _raises,
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found_by_its_property(name: str) -> None:
    rules = AlertRules(decide=PLANTED[name])
    alone = {one: holds for one, holds in ALERT_PROPERTIES.items() if one == name}
    explored = (explore_alerts(shape, rules, 3_000, alone) for shape in SMALL)
    found = next(one.counterexample for one in explored if one.counterexample is not None)
    assert found.property == name
    assert found.sentence == ALERT_SENTENCES[name]
    assert len(found.events) <= 8


def test_a_bug_is_planted_for_each_property() -> None:
    assert set(PLANTED) == {*ALERT_PROPERTIES, ALERT_ERRORS}


def test_a_counterexample_tells_the_way_and_where_it_leads() -> None:
    found = explore_alerts(SMALL[0], AlertRules(decide=_delays)).counterexample
    assert found is not None
    assert found.sentence == ALERT_SENTENCES["alerts: delays"]
    assert found.events == ("it opens: WARNING", "it leaves")
    assert "open, Alert(sent=1" in str(found)
