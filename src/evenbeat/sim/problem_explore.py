"""Explore every reachable state of a small world of problems; the shortest way to break a property comes first.

The properties are formulated on what is stored and on what the node reports, without the columns it decides by.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from evenbeat.core.problems import Problems
from evenbeat.model import CAUSES_OF_RESULTS, SEVERITY, Cause, State
from evenbeat.sim.breadth_first import StateExploration, Transition, verified_worlds
from evenbeat.sim.explore import ExplorationResult
from evenbeat.sim.problem_model import (
    AFTER_REMOVAL,
    BEFORE,
    LATEST_RESULT,
    NOW,
    OLDER_NODE,
    RESTART,
    ProblemShape,
    ProblemState,
    ProblemStep,
    ProblemTask,
    ProblemWorld,
    StoredProblem,
    initial_problem_state,
    settled,
)
from evenbeat.sim.verify import VerifiedWorld

PROBLEM_ERRORS: Final = "problems: errors"
PROBLEM_WORLDS: Final = (
    ProblemShape("problems: one task, edits, removals, an older node"),
    ProblemShape("problems: two checks at once", 2, 2, (State.OK, State.CRITICAL), edits=False),
    ProblemShape("problems: a check and a task at once", 2, 1, edits=False),
)
"""Together they have every event. Tasks know nothing of each other: more of them would show nothing more."""


def open_exactly_when_due(step: ProblemStep) -> bool:
    """A problem is open exactly if a check was HARD and not OK since it was last OK without flapping, or a run failed
    since the last success.
    """
    for task in step.after:
        if task.is_removed:
            continue
        expected = {Cause.STATE: task.check and task.is_due, Cause.FAILED: not task.check and task.is_due}
        if any(_is_open(task, cause) is not expected[cause] for cause in CAUSES_OF_RESULTS):
            return False
    return True


def an_open_problem_keeps_its_identity(step: ProblemStep) -> bool:
    """While a problem is open it keeps the time at which it opened, and with it its id. That is when the node heard of
    the result; of one that an older node had, when its run started.
    """
    for before, after in zip(step.before, step.after, strict=True):
        for one, other in ((before.stored(cause), after.stored(cause)) for cause in CAUSES_OF_RESULTS):
            if one is not None and other is not None and one.is_open and other.is_open and one.opened != other.opened:
                return False
    began = LATEST_RESULT if step.event.endswith(OLDER_NODE) else NOW
    return all(update.opened in (BEFORE, BEFORE - 1, began) for update in step.updates)


def opened_and_closed_alternate(step: ProblemStep) -> bool:
    """Of a task and cause at most one problem is open; it opens once, changes only its state, and closes once."""
    if step.event.endswith("comes back"):
        return True  # what the store may have ignored is reported anew
    now = {(i, cause): _opened(task.stored(cause)) for i, task in enumerate(step.before) for cause in CAUSES_OF_RESULTS}
    for update in step.updates:
        if step.before[update.row].is_removed:
            continue
        opened, state = now[update.row, update.cause] or (None, None)
        if update.is_open:
            if opened is not None and (opened != update.opened or state == update.state):
                return False
            now[update.row, update.cause] = update.opened, update.state
        elif opened != update.opened:
            return False
        else:
            now[update.row, update.cause] = None
    return True


def the_state_is_that_of_the_task(step: ProblemStep) -> bool:
    """An open problem has the state of its check, or CRITICAL for a failure, and remembers the worst while it is open;
    so does the report of its end.
    """
    for before, after in zip(step.before, step.after, strict=True):
        for cause in CAUSES_OF_RESULTS:
            was, found = before.stored(cause), after.stored(cause)
            if found is None or not found.is_open or after.is_removed:
                continue
            state = after.state if cause is Cause.STATE else State.CRITICAL
            worst = [state, was.worst] if was is not None and was.opened == found.opened else [state]
            if found.state != state or SEVERITY[found.worst] != max(SEVERITY[s] for s in worst):
                return False
    ended = [(u, step.before[u.row].stored(u.cause)) for u in step.updates if not u.is_open]
    return all(known is None or known.opened != u.opened or u.state == known.worst for u, known in ended)


def nothing_without_evidence(step: ProblemStep) -> bool:
    """Nothing about a problem is decided unless a result, an edit or another node's work says so: a restart alone
    reports nothing, and neither does what concerns another task.
    """
    if step.event == RESTART or step.event.endswith(("is removed", "hears of it", AFTER_REMOVAL)):
        return not step.updates
    return {update.row for update in step.updates} <= set(step.concerned)


def the_node_knows_what_is_stored(step: ProblemStep) -> bool:
    """The node holds the open problems that the store has, and no others, restarted or not."""
    for i, task in enumerate(step.after):
        stored = [
            problem for cause in CAUSES_OF_RESULTS if (problem := task.stored(cause)) is not None and problem.is_open
        ]
        if task.is_removed:
            if task.is_heard and i in step.held:
                return False
        elif bool(stored) is not (i in step.held) or (stored and task.opened != stored[0].opened):
            return False
    return True


PROBLEM_PROPERTIES: Final[dict[str, Callable[[ProblemStep], bool]]] = {
    "problems: open": open_exactly_when_due,
    "problems: identity": an_open_problem_keeps_its_identity,
    "problems: evidence": nothing_without_evidence,
    "problems: one": opened_and_closed_alternate,
    "problems: state": the_state_is_that_of_the_task,
    "problems: memory": the_node_knows_what_is_stored,
}
PROBLEM_SENTENCES: Final = {
    name: " ".join((holds.__doc__ or "").split()) for name, holds in PROBLEM_PROPERTIES.items()
} | {PROBLEM_ERRORS: "Nothing that can happen to a problem raises an error."}


def explore_problems(
    shape: ProblemShape, kind: type[Problems] = Problems, most: int | None = None
) -> ExplorationResult:
    """Breadth first from tasks without a problem until nothing new turns up, or `most` states have: then incomplete."""
    world = ProblemWorld(shape, kind)

    def transitions(state: ProblemState) -> Iterator[Transition[ProblemState]]:
        for step in world.steps(state):
            broken = next((name for name, holds in PROBLEM_PROPERTIES.items() if not holds(step)), None)
            yield Transition(step.event, settled(step.after) if broken is None else step.after, broken)

    return StateExploration(shape, transitions, PROBLEM_SENTENCES, PROBLEM_ERRORS, _shown).run(
        initial_problem_state(shape), most
    )


def verify_problems(shapes: Iterable[ProblemShape]) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    return verified_worlds(shapes, explore_problems)


def _shown(state: ProblemState) -> str:
    return "; ".join(f"task {i}: {task}" for i, task in enumerate(state))


def _is_open(task: ProblemTask, cause: Cause) -> bool:
    found = task.stored(cause)
    return found is not None and found.is_open


def _opened(problem: StoredProblem | None) -> tuple[int, State] | None:
    return None if problem is None or not problem.is_open else (problem.opened, problem.state)
