"""Explore every reachable state of small networks whose contacts are notified; shortest counterexample first."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from evenbeat.core.alerts import Hold, ItemKind
from evenbeat.sim.breadth_first import StateExploration, Transition, verified_worlds
from evenbeat.sim.explore import ExplorationResult
from evenbeat.sim.hold_model import PASSED, SOFT
from evenbeat.sim.network_model import (
    CONTACTS,
    CUT,
    Contact,
    NetworkShape,
    NetworkState,
    NetworkStep,
    NetworkWorld,
    initial_network_state,
)
from evenbeat.sim.verify import VerifiedWorld
from evenbeat.when.windows import NEVER

NETWORK_ERRORS: Final = "network: errors"
NETWORK_WORLDS: Final = (
    NetworkShape("network: a check, downtimes, acknowledgements", 1, downtimes=True, acknowledges=True, gives_up=True),
    NetworkShape("network: a check, contacts that change", 1, leaves=True, closes=True, flaps=True),
    NetworkShape("network: two checks", 2, cuts=True, is_calm=True),
)
"""Together they have every event."""
_DRAIN_LIMIT: Final = 40


def balanced(_: NetworkWorld, step: NetworkStep) -> bool:
    """Each contact gets a recovery of each problem if and only if it got the problem."""
    for contact, i, kind in step.started:
        told = step.before.contacts[CONTACTS.index(contact)].told[i]
        is_open = step.before.checks[i + 1].is_open
        if kind == ItemKind.PROBLEM and not is_open:
            return False
        if kind != ItemKind.PROBLEM and not (told.knows and is_open is (kind == ItemKind.ACKNOWLEDGED)):
            return False
    over = [(told, i) for contact in step.after.contacts for i, told in enumerate(contact.told)]
    return not any(told.knows and told.alert.is_over and not told.alert.message for told, i in over)


def nothing_behind_a_dead_parent(_: NetworkWorld, step: NetworkStep) -> bool:
    """No problem is sent of a check whose parent fails or may be about to, that is in downtime or acknowledged, or
    whose latest result is of a run from before such a time.
    """
    parent = step.before.checks[0]
    for contact, i, kind in step.started:
        if kind != ItemKind.PROBLEM:
            continue
        check, to = step.before.checks[i + 1], step.before.contacts[CONTACTS.index(contact)]
        suppressed = check.in_downtime or step.before.acks[i] or not (to.is_there and to.is_open)
        if suppressed or parent.is_failing or check.last_end != NEVER or check.hold:
            return False
        if parent.condition == SOFT and check.free_since != PASSED:  # for five minutes
            return False
    return True


def one_message_at_a_time(_: NetworkWorld, step: NetworkStep) -> bool:
    """A problem is in one message to a contact at a time."""
    for contact in step.after.contacts:
        items = [i for message in contact.messages for i, _kind in message]
        if len(items) != len(set(items)):
            return False
    return True


def gathered(_: NetworkWorld, step: NetworkStep) -> bool:
    """When a message leaves, everything that waits for its contact leaves in it, unless the node ends meanwhile."""
    left = {contact for contact, _, _ in step.started if CUT not in step.event}
    return not any(
        told.alert.is_leaving
        for name, contact in zip(CONTACTS, step.after.contacts, strict=True)
        for told in contact.told
        if name in left
    )


def nothing_is_lost(world: NetworkWorld, step: NetworkStep) -> bool:
    """When nothing keeps messages any more, each contact gets to know of exactly the problems that are open, but for
    those whose delivery was given up.
    """
    after = step.after
    checks = tuple(check._replace(hold=Hold.NONE, in_downtime=False) for check in after.checks)
    contacts = tuple(contact._replace(is_there=True, is_open=True) for contact in after.contacts)
    state = after._replace(checks=checks, contacts=contacts, acks=(False,) * len(after.acks))
    if state in world.drained:
        return True
    world.drained.add(state)
    for _ in range(_DRAIN_LIMIT):
        if all(_is_informed(state, contact) for contact in state.contacts):
            return True
        following = next(world.quiet_steps(state), None)
        if following is None:
            return False
        state = following.after
    return False


def _is_informed(state: NetworkState, contact: Contact) -> bool:
    for i, told in enumerate(contact.told):
        is_given_up = bool(told.alert.sent) and not told.alert.is_known and not told.alert.message
        if told.knows is not state.checks[i + 1].is_open and not (state.checks[i + 1].is_open and is_given_up):
            return False
    return not contact.messages


NetworkProperties = Mapping[str, Callable[[NetworkWorld, NetworkStep], bool]]
NETWORK_PROPERTIES: Final[NetworkProperties] = {
    "network: balanced": balanced,
    "network: suppressed": nothing_behind_a_dead_parent,
    "network: in order": one_message_at_a_time,
    "network: gathered": gathered,
    "network: not lost": nothing_is_lost,
}
NETWORK_SENTENCES: Final = {
    name: " ".join((holds.__doc__ or "").split()) for name, holds in NETWORK_PROPERTIES.items()
} | {NETWORK_ERRORS: "Nothing that can happen to a network and its contacts raises an error."}


def explore_network(
    shape: NetworkShape,
    world: NetworkWorld | None = None,
    most: int | None = None,
    properties: NetworkProperties = NETWORK_PROPERTIES,
) -> ExplorationResult:
    """Breadth first from no problem until nothing new turns up, or `most` states have: then it is incomplete."""
    world = world or NetworkWorld(shape)

    def transitions(state: NetworkState) -> Iterator[Transition[NetworkState]]:
        for step in world.steps(state):
            broken = next((name for name, holds in properties.items() if not holds(world, step)), None)
            yield Transition(step.event, step.after, broken)

    return StateExploration(shape, transitions, NETWORK_SENTENCES, NETWORK_ERRORS).run(
        initial_network_state(shape), most
    )


def verify_networks(shapes: Iterable[NetworkShape]) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    return verified_worlds(shapes, explore_network)
