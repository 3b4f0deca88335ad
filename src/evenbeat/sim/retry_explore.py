"""Explore every reachable state of a small world of retries; the shortest way to break a property comes first."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.problems import Problems
from evenbeat.core.retries import Retries
from evenbeat.core.run_plan import ends_for_followers
from evenbeat.model import Outcome, RunKind
from evenbeat.sim.breadth_first import StateExploration, Transition, verified_worlds
from evenbeat.sim.explore import ExplorationResult
from evenbeat.sim.retry_model import EVERY, EndsForFollowers, RetryShape, RetryState, RetryStep, RetryWorld
from evenbeat.sim.verify import VerifiedWorld
from evenbeat.when.windows import FOREVER

RETRY_ERRORS: Final = "retries: errors"
_ENDS: Final = (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.LOST, Outcome.DROPPED)
RETRY_WORLDS: Final = (
    RetryShape("retries: every end, edits", (1, 0), _ENDS),
    RetryShape("retries: pauses", pauses=True),
    RetryShape("retries: forced runs", (1,), forces=True),
    RetryShape("retries: no slot, a period that closes", saturates=True, closes=True),
    RetryShape("retries: the node is killed, edits", (2, 0), stops=True),
    RetryShape('retries: the node is killed, missed = "skip"', (1,), _ENDS, stops=True, skips=True, pauses=True),
    RetryShape("retries: a person stops it, the node is killed", (1,), stops=True, cancels=True),
    RetryShape("retries: a person stops it, lost runs, edits", (1, 0), _ENDS, cancels=True),
    RetryShape("retries: a person stops it, forced runs", (1,), (Outcome.FAILED,), forces=True, cancels=True),
    RetryShape("retries: a one-off, the node is killed", (1,), _ENDS, stops=True, cancels=True, once=True),
    RetryShape("retries: a one-off, forced runs", (1,), (Outcome.LOST,), forces=True, once=True),
    RetryShape('retries: a one-off, missed = "skip"', stops=True, skips=True, pauses=True, once=True),
    RetryShape("retries: a one-off, no slot, edits", (2, 0), saturates=True, once=True),
)
"""Together they have every event."""


def bounded_and_after_failures(step: RetryStep) -> bool:
    """A retry follows a failure, at most as often as the task says, and carries the nominal time of the run that
    failed.
    """
    expected = step.expected
    return all(
        expected.nominal == nominal and expected.made < step.after.retries
        for kind, nominal in step.claims
        if kind is RunKind.RETRY
    )


def before_the_grid(step: RetryStep) -> bool:
    """A retry begins when it is due, before the next nominal time and before the period closes."""
    kinds = [kind for kind, _ in step.claims]
    return RunKind.RETRY not in kinds or (step.expected.due <= 0 < step.expected.before and step.is_open)


def never_two_runs(step: RetryStep) -> bool:
    """No retry overlaps another run of its task."""
    return len(step.claims) + (step.before.run is not None) <= 1


def nominals_are_accounted_for(step: RetryStep) -> bool:
    """Each nominal time has one run on the grid or is skipped, once; retries are no further ones."""
    following = step.expected.following
    spans = [(nominal, nominal, 1) for kind, nominal in step.claims if kind is RunKind.GRID]
    for first, last, times in sorted([*spans, *step.skips]):
        if first != following or times != (last - first) // EVERY + 1:
            return False
        following = last + EVERY
    rests = step.after.run is None and not (step.after.has_slot or following > 0)
    return following > 0 or rests or step.after.run is not None


def retried_in_time(step: RetryStep) -> bool:
    """A retry that is expected waits, and begins when it is due, a slot is free and the task is not paused."""
    after = step.after
    if after.expected.nominal is None:
        return after.retried is None
    if after.retried != after.expected.nominal or after.off_grid_due < after.expected.due:
        return False
    held = after.is_paused or not after.has_slot or after.run is not None
    return held or after.off_grid_due > 0


def problem_exactly_if_final(step: RetryStep) -> bool:
    """A problem is open exactly if a run has failed since the last success and no retry is left, fits or is made."""
    return step.after.has_problem is step.after.expected.has_failed


def stopped_for_good(step: RetryStep) -> bool:
    """What a person stops starts nothing: it is not tried again, not made up for, and opens and closes no problem."""
    if not step.is_stop:
        return True
    after = step.after
    planned = {kind for kind, _ in step.claims} | ({after.off_grid_kind} if after.off_grid_due < FOREVER else set())
    allowed = {RunKind.GRID, RunKind.FORCED} | ({RunKind.CATCH_UP} if step.expected.is_owed else set())
    return planned <= allowed and after.retried is None and after.has_problem is step.before.has_problem


def one_off_runs_once(step: RetryStep) -> bool:
    """A one-off runs for its nominal time once. It runs again only if it failed, was forced, or its run was lost or its
    time was missed: then one run makes up for that.
    """
    after, kinds = step.after, [kind for kind, _ in step.claims]
    if after.at == FOREVER:
        return True
    if RunKind.GRID in kinds and step.expected.following > 0:
        return False
    if RunKind.CATCH_UP in kinds and not step.expected.is_owed:
        return False
    is_planned = after.off_grid_due < FOREVER and after.off_grid_kind is RunKind.CATCH_UP
    return is_planned is after.expected.is_owed


def followers_learn_once(step: RetryStep) -> bool:
    """Tasks that run after this one learn of each success once, and of a failure once, when nothing follows it: not of
    a run that is tried again or made up for, nor of what a person has stopped.
    """
    succeeded = [succeeded for succeeded, _ in step.ends]
    if step.event == f"the run ends: {Outcome.SUCCEEDED.value}":
        return succeeded == [True]
    return succeeded == [False] * step.is_final and not (step.is_stop and step.ends)


RETRY_PROPERTIES: Final[dict[str, Callable[[RetryStep], bool]]] = {
    "retries: stopped": stopped_for_good,
    "retries: one-off": one_off_runs_once,
    "retries: bounded": bounded_and_after_failures,
    "retries: grid": before_the_grid,
    "retries: alone": never_two_runs,
    "retries: accounted": nominals_are_accounted_for,
    "retries: in time": retried_in_time,
    "retries: problem": problem_exactly_if_final,
    "retries: followers": followers_learn_once,
}
RETRY_SENTENCES: Final = {name: " ".join((holds.__doc__ or "").split()) for name, holds in RETRY_PROPERTIES.items()} | {
    RETRY_ERRORS: "Nothing that can happen to a task that tries again raises an error."
}


def explore_retries(
    shape: RetryShape,
    lifecycle: type[Lifecycle] = Lifecycle,
    retries: type[Retries] = Retries,
    problems: type[Problems] = Problems,
    most: int | None = None,
    followed: EndsForFollowers = ends_for_followers,
) -> ExplorationResult:
    """Breadth first from a task that has not run until nothing new turns up, or `most` states have: then incomplete."""
    world = RetryWorld(shape, lifecycle, retries, problems, followed)

    def transitions(state: RetryState) -> Iterator[Transition[RetryState]]:
        for step in world.steps(state):
            broken = next((name for name, holds in RETRY_PROPERTIES.items() if not holds(step)), None)
            yield Transition(step.event, step.after, broken)

    return StateExploration(shape, transitions, RETRY_SENTENCES, RETRY_ERRORS).run(world.initial_state(), most)


def verify_retries(shapes: Iterable[RetryShape]) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    return verified_worlds(shapes, explore_retries)
