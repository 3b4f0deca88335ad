"""Explore every reachable state of small worlds of alerts; the shortest way to break a property comes first.

The properties are formulated on what a channel was sent and on what has happened, in the words of the contract.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from evenbeat.core.alerts import Hold, ItemKind, NotSent
from evenbeat.sim.alert_model import (
    ALERT_RULES,
    AlertRules,
    AlertShape,
    AlertStep,
    AlertWorld,
    ChannelState,
    WorldContact,
    initial_channel_state,
    owed,
    owes_acknowledgement,
    settled,
    why_not,
)
from evenbeat.sim.breadth_first import StateExploration, Transition, verified_worlds
from evenbeat.sim.explore import ExplorationResult
from evenbeat.sim.verify import VerifiedWorld
from evenbeat.when.windows import FOREVER

ALERT_ERRORS: Final = "alerts: errors"
ALERT_WORLDS: Final = (
    AlertShape("alerts: every hold", tuple(Hold), has_delay=True, set_back=True),
    AlertShape(
        "alerts: acknowledgements of all kinds",
        (Hold.NONE, Hold.DOWNTIME, Hold.PAUSED, Hold.AWAITING_RESULT),
        ("plain", "sticky", "ending"),
        has_delay=True,
    ),
    AlertShape(
        "alerts: a contact that changes",
        (Hold.NONE, Hold.PAUSED),
        ("plain",),
        ("is_there", "is_wanted", "is_open", "is_picky"),
        has_delay=True,
    ),
    AlertShape("alerts: reminders switched on and off", tuple(Hold)[:2], ("plain",), ("repeats", "is_open")),
    AlertShape("alerts: a task that comes back", (Hold.NONE, Hold.DOWNTIME), switches=("is_there",), returns=True),
)
"""Together they have every event. A channel knows nothing of others: see `alert_network` for several."""
_DRAIN_LIMIT: Final = 12


def balanced(_: AlertWorld, step: AlertStep) -> bool:
    """A recovery is sent if and only if the problem was sent, and delivery was not given up; an acknowledgement as well
    only then. A contact that was removed is owed nothing.
    """
    before, after = step.before, step.after
    if step.started == ItemKind.PROBLEM:
        return before.problem == "open"
    if step.started == ItemKind.RECOVERY:
        return before.problem != "open" and before.knows
    if step.started == ItemKind.ACKNOWLEDGED:
        return before.problem == "open" and before.knows
    return not (after.alert.is_over and not after.message and after.knows)


def acknowledgements_once(_: AlertWorld, step: AlertStep) -> bool:
    """An acknowledgement is sent once, to who knows of the problem: at once if that is possible, else never."""
    if step.started == ItemKind.ACKNOWLEDGED:
        return owes_acknowledgement(step.before)
    return not owes_acknowledgement(step.after) or step.after.alert.waiting == ItemKind.ACKNOWLEDGED


def sent_once(_: AlertWorld, step: AlertStep) -> bool:
    """A problem is sent again only when it is worse than what was sent last, or as a reminder: while a task flaps, it
    does not alternate.
    """
    if step.started != ItemKind.PROBLEM:
        return True
    return step.was_reminder or not step.before.last or step.before.severity > step.before.last


def reminders_only_if_due(_: AlertWorld, step: AlertStep) -> bool:
    """A reminder is sent only if reminders are on, and when its time has passed since the problem was sent or since
    what kept reminders back has ended: missed ones are not made up.
    """
    return not step.was_reminder or (step.before.contact.repeats and step.before.is_rested and step.before.last != 0)


def not_before_the_delay(world: AlertWorld, step: AlertStep) -> bool:
    """A problem is not sent before its delay has passed since its opening, or since the end of the last downtime,
    unreachability or acknowledgement.
    """
    is_first = step.started == ItemKind.PROBLEM and not step.before.last
    return not (is_first and world.shape.has_delay and step.before.is_delayed)


def nothing_in_spite(_: AlertWorld, step: AlertStep) -> bool:
    """No problem is sent that is held, acknowledged, not wanted or not selected, or while the period of the contact is
    closed; a recovery and an acknowledgement wait for nothing but that period.
    """
    before = step.before
    if step.started == ItemKind.PROBLEM:
        return not why_not(before)
    if step.started:
        return before.contact.is_there and before.contact.is_open
    return True


def one_at_a_time(_: AlertWorld, step: AlertStep) -> bool:
    """While the end of a message is not known, nothing more about this problem waits for the channel."""
    return not step.after.message or not step.after.alert.waiting


def accounted_for(world: AlertWorld, step: AlertStep) -> bool:
    """What should be sent is sent, or the reason why not is recorded, once."""
    after, what = step.after, owed(world.shape, step.after)
    if step.note and (step.note, what) == (step.origin.reason, owed(world.shape, step.origin)):
        return False
    if not what or after.alert.is_leaving or not after.contact.is_there:
        return True
    if what == "recovery":
        return not after.contact.is_open and after.reason == NotSent.OUTSIDE_CONTACT_PERIOD
    return not after.contact.is_wanted or (bool(after.reason) and after.reason == why_not(after))


def dropped_for_a_reason(_: AlertWorld, step: AlertStep) -> bool:
    """What will not be sent any more is recorded: over before it was sent, given up, not in notify, contact removed."""
    after, contact = step.after, step.after.contact
    if after.problem == "open" and not (contact.is_there and contact.is_wanted):
        gone = NotSent.NOT_NOTIFIED if contact.is_there else NotSent.CONTACT_REMOVED
        return step.note == (gone if step.before.alert.waiting else "")
    if after.problem == "open":
        return (step.note == NotSent.OVER) is _is_dropped(step)
    if after.alert.is_over and not step.before.alert.is_over and not step.started and not step.before.knows:
        never = NotSent.GIVEN_UP if after.last else NotSent.OVER
        return step.note == (never if contact.is_there else NotSent.CONTACT_REMOVED)
    return True


def _is_dropped(step: AlertStep) -> bool:
    """Did an item wait for nothing but the end of its gather, that nobody needs any more?"""
    was = step.origin.alert
    is_known = was.waiting == ItemKind.PROBLEM and step.origin.last != 0
    return was.is_leaving and is_known and not step.started and not step.after.alert.waiting


def decided_again_the_same(world: AlertWorld, step: AlertStep) -> bool:
    """A decision made once more, as after a restart, a failover or a reload, changes nothing and records nothing; and
    before the time that it named itself it stays as it is.
    """
    found = world.again(step, step.now)
    if found.alert != step.after.alert or found.note:
        return False
    then = FOREVER if found.again_at == FOREVER else found.again_at - 1
    later = world.again(step, min(then, step.now + 50_000))
    return (later.alert, later.note) == (found.alert, "")


def gathered_in_time(_: AlertWorld, step: AlertStep) -> bool:
    """An item that waits does not leave later because something else happens."""
    before, after = step.before.alert, step.after.alert
    same = before.waiting == after.waiting and before.is_leaving and after.is_leaving
    return not same or after.leaves_at <= before.leaves_at


def nothing_is_lost(world: AlertWorld, step: AlertStep) -> bool:
    """When nothing keeps messages any more, the channel gets to know of a problem that is open, unless it was given up,
    and the recovery of one that is closed.
    """
    state = settled(step)._replace(hold=Hold.NONE, ack=None, contact=WorldContact(repeats=step.after.contact.repeats))
    if state in world.drained:
        return True
    world.drained.add(state)
    for _ in range(_DRAIN_LIMIT):
        state = settled(world.decided("", state))
        was_given_up = state.last != 0 and not state.contact.repeats and not state.message and not state.alert.waiting
        if state.knows is (state.problem == "open") or (state.problem == "open" and was_given_up):
            return True
        further = {found.event: settled(found) for found in world.steps(state)}
        following = next((further[event] for event in _DRAINING if event in further), None)
        if following is None:
            return False
        state = following
    return False


_DRAINING: Final = ("delivered", "it leaves", "time passes")

AlertProperties = Mapping[str, Callable[[AlertWorld, AlertStep], bool]]
ALERT_PROPERTIES: Final[AlertProperties] = {
    "alerts: balanced": balanced,
    "alerts: once": sent_once,
    "alerts: acknowledged": acknowledgements_once,
    "alerts: reminders": reminders_only_if_due,
    "alerts: delays": not_before_the_delay,
    "alerts: suppressed": nothing_in_spite,
    "alerts: in order": one_at_a_time,
    "alerts: accounted": accounted_for,
    "alerts: dropped": dropped_for_a_reason,
    "alerts: stable": decided_again_the_same,
    "alerts: gathered": gathered_in_time,
    "alerts: not lost": nothing_is_lost,
}
ALERT_SENTENCES: Final = {name: " ".join((holds.__doc__ or "").split()) for name, holds in ALERT_PROPERTIES.items()} | {
    ALERT_ERRORS: "Nothing that can happen to alerts raises an error."
}


def explore_alerts(
    shape: AlertShape,
    rules: AlertRules = ALERT_RULES,
    most: int | None = None,
    properties: AlertProperties = ALERT_PROPERTIES,
) -> ExplorationResult:
    """Breadth first from no problem until nothing new turns up, or `most` states have: then it is incomplete.
    Only these `properties` are checked, and that nothing raises.
    """
    world = AlertWorld(shape, rules)

    def transitions(state: ChannelState) -> Iterator[Transition[ChannelState]]:
        for step in world.steps(state):
            broken = next((name for name, holds in properties.items() if not holds(world, step)), None)
            yield Transition(step.event, settled(step) if broken is None else step.after, broken)

    return StateExploration(shape, transitions, ALERT_SENTENCES, ALERT_ERRORS).run(initial_channel_state(shape), most)


def verify_alerts(shapes: Iterable[AlertShape]) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    return verified_worlds(shapes, explore_alerts)
