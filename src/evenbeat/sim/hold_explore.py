"""Explore every reachable state of small worlds of holds; the shortest way to break a property comes first."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from evenbeat.core.alerts import Hold
from evenbeat.core.problem_holds import ASK_AGAIN_AFTER, Holds
from evenbeat.model import Cause
from evenbeat.sim.breadth_first import StateExploration, Transition, verified_worlds
from evenbeat.sim.explore import ExplorationResult
from evenbeat.sim.hold_model import (
    NOW,
    PASSED,
    RESTART,
    SOFT,
    HoldShape,
    HoldState,
    HoldStep,
    HoldWorld,
    expected_hold,
    initial_hold_state,
    settled,
)
from evenbeat.sim.verify import VerifiedWorld
from evenbeat.when.windows import NEVER

HOLD_ERRORS: Final = "holds: errors"
HOLD_WORLDS: Final = (
    HoldShape("holds: a check with every switch", runs=False, switches=("in_downtime", "is_paused", "is_closed")),
    HoldShape(
        "holds: a parent with every switch",
        runs=False,
        parent_switches=("is_paused", "is_closed", "is_idle"),
        flaps=True,
        skips=True,
    ),
    HoldShape("holds: runs that take time", switches=("in_downtime", "is_paused"), parent_switches=("is_paused",)),
    HoldShape("holds: a task that is no check", runs=False, switches=("in_downtime", "is_paused"), jobs=True),
    HoldShape("holds: two checks of one parent", 2, runs=False),
    HoldShape(
        "holds: a parent on another node",
        runs=False,
        switches=("in_downtime",),
        parent_switches=("is_paused", "is_closed", "is_idle"),
        is_elsewhere=True,
    ),
)
"""Together they have every event."""


def fresh_evidence(_: HoldWorld, step: HoldStep) -> bool:
    """After a downtime, an unreachability, a pause or a stop of the node, a problem is told only when a result has come
    whose run began after that end, or when the time for one has passed.
    """
    told = (Hold.NONE, Hold.CHECKING_PARENTS)
    return all(check.last_end == NEVER for check in step.after[1:] if check.is_open and check.hold in told)


def fresh_parents(_: HoldWorld, step: HoldStep) -> bool:
    """A problem is told only when its parent has had a run that began since nothing else held it, and is not SOFT, or
    five minutes have passed.
    """
    parent = step.after[0]
    is_soft = parent.condition == SOFT and not parent.is_paused
    for check in step.after[1:]:
        is_told = check.is_open and check.hold is Hold.NONE and check.free_since != PASSED
        if is_told and (is_soft or (parent.may_run and parent.result_at <= check.free_since)):
            return False
    return True


def held_exactly_if(_: HoldWorld, step: HoldStep) -> bool:
    """An open problem is held exactly if something holds it, by the first reason that there is; what is not open is
    not held.
    """
    expected = [expected_hold(step.after, i) if check.is_open else Hold.NONE for i, check in enumerate(step.after)]
    return all(check.hold is hold for check, hold in zip(step.after[1:], expected[1:], strict=True))


def asked_exactly_if(world: HoldWorld, step: HoldStep) -> bool:
    """A check that needs a fresh result is asked for one run, if it may run: once, and no other."""
    for i, (before, check) in enumerate(zip(step.before, step.after, strict=True)):
        is_new = check.needs_since == NOW and before.needs_since != NOW
        may_run = check.may_run and not (world.shape.skips and step.after[0].is_failing)
        if i and (i in step.wanted) is not (is_new and may_run):
            return False
    return True


def parents_are_asked(_: HoldWorld, step: HoldStep) -> bool:
    """A parent is asked for a run if a problem waits for one, and if it may run: at most every ten seconds."""
    was, parent = NEVER if step.event == RESTART else step.before[0].asked, step.after[0]
    lacking = [
        check.free_since
        for check in step.after[1:]
        if check.hold is Hold.CHECKING_PARENTS and parent.may_run and parent.result_at <= check.free_since
    ]
    is_needed = any(was < since for since in lacking)
    return (0 in step.wanted) is (is_needed and (was == NEVER or was <= NOW - ASK_AGAIN_AFTER))


def changes_are_reported(world: HoldWorld, step: HoldStep) -> bool:
    """Exactly the changes of holds are reported, once, with the causes of the problems."""
    cause = Cause.FAILED if world.shape.jobs else Cause.STATE
    changed = {
        (i, cause, check.hold)
        for i, (before, check) in enumerate(zip(step.before, step.after, strict=True))
        if check.is_open and check.hold is not (before.hold if before.is_open and i != step.reopened else Hold.NONE)
    }
    return changed == {(update.row, update.cause, update.hold) for update in step.updates} and not step.updates_again


def nothing_is_kept(_: HoldWorld, step: HoldStep) -> bool:
    """What is remembered of a run under way is forgotten with it, and a parent is remembered once."""
    is_running = all(check.is_running for check in step.after if check.ended != NEVER)
    return is_running and len(step.asked) == len(set(step.asked))


HoldProperties = Mapping[str, Callable[[HoldWorld, HoldStep], bool]]
HOLD_PROPERTIES: Final[HoldProperties] = {
    "holds: evidence": fresh_evidence,
    "holds: parents": fresh_parents,
    "holds: exact": held_exactly_if,
    "holds: asked": asked_exactly_if,
    "holds: parents asked": parents_are_asked,
    "holds: reported": changes_are_reported,
    "holds: small": nothing_is_kept,
}
HOLD_SENTENCES: Final = {name: " ".join((holds.__doc__ or "").split()) for name, holds in HOLD_PROPERTIES.items()} | {
    HOLD_ERRORS: "Nothing that can happen to what is held raises an error."
}


def explore_holds(
    shape: HoldShape, kind: type[Holds] = Holds, most: int | None = None, properties: HoldProperties = HOLD_PROPERTIES
) -> ExplorationResult:
    """Breadth first from no problem until nothing new turns up, or `most` states have: then it is incomplete.
    Only these `properties` are checked, and that nothing raises.
    """
    world = HoldWorld(shape, kind)

    def transitions(state: HoldState) -> Iterator[Transition[HoldState]]:
        for step in world.steps(state):
            broken = next((name for name, holds in properties.items() if not holds(world, step)), None)
            yield Transition(step.event, settled(step) if broken is None else step.after, broken)

    return StateExploration(shape, transitions, HOLD_SENTENCES, HOLD_ERRORS, _shown).run(
        initial_hold_state(shape), most
    )


def verify_holds(shapes: Iterable[HoldShape]) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    return verified_worlds(shapes, explore_holds)


def _shown(state: HoldState) -> str:
    return "; ".join(f"{'check ' + str(i) if i else 'parent'}: {check}" for i, check in enumerate(state))
