"""A small world of problems: tasks whose results come in, a node that decides with the production code, and its store.

Hardness is that of the production code too; whether a check flaps, the world decides. There is one clock: what opens
now is later than all that is open.
"""

from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.check_states import CheckStates, apply_results
from evenbeat.core.problems import KnownProblem, Problems, ProblemUpdate
from evenbeat.core.run_plan import outcome_meanings
from evenbeat.core.task import Flag, TaskColumns
from evenbeat.model import CAUSES_OF_RESULTS, SEVERITY, Cause, Instant, Outcome, State

NOW: Final = Instant(100)
BEFORE: Final = 50
"""When everything opened that is there before a step."""
LATEST_RESULT: Final = 90
_ATTEMPTS: Final = 2
_CHECK, _REMOVED = int(Flag.CHECK), int(Flag.REMOVED)


class ProblemShape(NamedTuple):
    """How large a world is, and what can happen in it."""

    name: str
    tasks: int = 1
    checks: int = 0
    """How many of the tasks, the first ones, are checks in the beginning."""
    states: tuple[State, ...] = (State.OK, State.WARNING, State.CRITICAL, State.UNKNOWN)
    """Which results checks have."""
    edits: bool = True
    """Tasks become checks and the reverse, and are removed and restored while they run."""


class StoredProblem(NamedTuple):
    """The latest problem of a task and cause in the store."""

    opened: int
    state: State
    worst: State
    is_open: bool = True
    is_removed: bool = False
    """Closed as the task was removed."""


class ProblemTask(NamedTuple):
    """A task, what the node holds of its problem, and what the store has."""

    check: bool = False
    state: State = State.OK
    hard: bool = True
    attempt: int = 1
    flapping: bool = False
    packed: int = 0
    """As in the columns of the node."""
    opened: int = 0
    of_state: StoredProblem | None = None
    of_failure: StoredProblem | None = None
    is_removed: bool = False
    """In the store."""
    is_heard: bool = False
    """The node knows of the removal."""
    is_late: bool = False
    """A result came after the removal, before the node knew of it."""
    is_due: bool = False
    """Should a problem be open, by what has happened?"""

    def stored(self, cause: Cause) -> StoredProblem | None:
        """Its latest problem of a cause."""
        return self.of_state if cause is Cause.STATE else self.of_failure

    def storing(self, cause: Cause, problem: StoredProblem | None) -> "ProblemTask":
        """The task with another latest problem of a cause."""
        return self._replace(of_state=problem) if cause is Cause.STATE else self._replace(of_failure=problem)

    def __str__(self) -> str:
        kind = "a check" if self.check else "a task"
        words = [State(self.state).name, "HARD" if self.hard else "SOFT"] if self.check else []
        words += [name for name in ("flapping", "is_removed", "is_heard") if getattr(self, name)]
        for cause in CAUSES_OF_RESULTS:
            stored = self.stored(cause)
            words += [f"problem: {cause} {stored.state.name}"] if stored is not None and stored.is_open else []
        return " ".join([kind, *words])


ProblemState = tuple[ProblemTask, ...]


def initial_problem_state(shape: ProblemShape) -> ProblemState:
    """Tasks that have never run."""
    return tuple(ProblemTask(check=i < shape.checks) for i in range(shape.tasks))


class ProblemStep(NamedTuple):
    """What an event did."""

    before: ProblemState
    event: str
    concerned: tuple[int, ...]
    after: ProblemState
    updates: list[ProblemUpdate]
    held: frozenset[int]
    """Tasks that have an open problem, as the node says."""


RESTART: Final = "a restart"
AFTER_REMOVAL: Final = ", after it was removed"
OLDER_NODE: Final = ", with an older node"
"""Of events."""
_OUTCOMES: Final = (
    *(Outcome.SUCCEEDED, Outcome.FAILED, Outcome.CANCELLED, Outcome.INTERRUPTED, Outcome.DROPPED, Outcome.LOST),
)
_LOST_FOR_GOOD: Final = "lost for good"
Said = tuple[State, bool] | str
"""What a run says: the state of a check and whether it flaps now; the outcome of another task."""


class ProblemWorld:
    """A world that can be put into any state. What an event does from there is one step."""

    def __init__(self, shape: ProblemShape, kind: type[Problems] = Problems) -> None:
        self.shape = shape
        self._kind = kind
        self._columns = TaskColumns()
        self._rows = self._columns.allocate(shape.tasks)

    def steps(self, state: ProblemState) -> Iterator[ProblemStep]:
        """Everything that can happen next, and what it does."""
        is_whole = not any(task.is_removed for task in state)
        for i, task in enumerate(state):
            for said in () if task.is_heard or task.is_late else self._said(task):
                yield self._step(state, f"task {i}: {_words(said)}", (i,), {i: said})
                if task.check and is_whole:
                    yield self._older_node(state, i, said)
            if task.is_heard and not task.check:
                yield self._step(state, f"task {i}: failed{AFTER_REMOVAL}", (i,), {i: Outcome.FAILED.value})
            if self.shape.edits:
                yield from self._edits(state, i, task)
        if is_whole:
            yield self._restart(state)
        if len(state) > 1 and is_whole:
            for several in product(*map(self._said, state)):
                words = "; ".join(_words(said) for said in several)
                yield self._step(state, f"at once: {words}", tuple(range(len(state))), dict(enumerate(several)))

    def _said(self, task: ProblemTask) -> Iterator[Said]:
        if task.check:
            yield from product(self.shape.states, (False, True))
        else:
            yield from (outcome.value for outcome in _OUTCOMES)
            yield _LOST_FOR_GOOD

    def _edits(self, state: ProblemState, i: int, task: ProblemTask) -> Iterator[ProblemStep]:
        c, rows = self._columns, self._rows[i : i + 1]
        if not task.is_removed:
            problems = self._put(state)
            c.flags[i] ^= _CHECK
            updates = problems.reconcile(rows, NOW)
            bad = not task.check and task.hard and task.state != State.OK
            became = task._replace(check=not task.check, is_due=bad)
            yield self._taken(state, f"task {i} becomes another kind", (i,), {i: became}, updates)
            self._put(state)
            gone = _closed_by_removal(task)._replace(is_removed=True)
            yield self._taken(state, f"task {i} is removed", (i,), {i: gone}, [])
        elif not task.is_heard:
            self._put(state)
            c.flags[i] |= _REMOVED
            yield self._taken(state, f"task {i}: the node hears of it", (i,), {i: task._replace(is_heard=True)}, [])
        else:
            problems = self._put(state)
            c.flags[i] ^= _REMOVED
            updates = problems.reconcile_restored(rows, NOW)
            back = _opened_again(task)._replace(is_removed=False, is_heard=False, is_late=False)
            yield self._taken(state, f"task {i} comes back", (i,), {i: back}, updates)

    def _step(self, state: ProblemState, event: str, concerned: tuple[int, ...], said: dict[int, Said]) -> ProblemStep:
        problems = self._put(state)
        after = {i: self._after(state[i], i, one) for i, one in said.items()}
        # The store ignores what comes of a removed task.
        after = {i: task._replace(is_late=task.is_removed) for i, task in after.items()}
        checks = [i for i in said if state[i].check]
        tasks = [i for i in said if not state[i].check]
        updates = problems.learn_results(np.array(checks, dtype=np.int64), NOW)
        if tasks:
            updates += self._end(problems, tasks, [str(said[i]) for i in tasks])
        return self._taken(state, event, concerned, after, updates)

    def _end(self, problems: Problems, tasks: list[int], outcomes: list[str]) -> list[ProblemUpdate]:
        rows = np.array(tasks, dtype=np.int64)
        meaning = outcome_meanings([Outcome.LOST if o == _LOST_FOR_GOOD else Outcome(o) for o in outcomes])
        lost_for_good = np.array([o == _LOST_FOR_GOOD for o in outcomes])
        return problems.learn_runs(rows, self._columns.flags[rows], meaning, lost_for_good, NOW)

    def _after(self, task: ProblemTask, i: int, said: Said) -> ProblemTask:
        """The task after what a run said, in the columns too; what becomes of its problem is not in it."""
        if task.is_heard:
            return task
        if isinstance(said, str):
            bad = said in (Outcome.FAILED, _LOST_FOR_GOOD)
            return task._replace(is_due=bad or (task.is_due and said != Outcome.SUCCEEDED))
        result, flapping = said
        c, row = self._columns, self._rows[i : i + 1]
        before = CheckStates(
            c.state[row], c.hard[row], c.attempt[row], c.changes[row], c.flapping[row], c.result_at[row] - 1
        )
        found = apply_results(before, np.array([result], np.uint8), c.result_at[row], np.array([_ATTEMPTS], np.uint8))
        state, hard, attempt = (column[0] for column in found.condition[:3])
        c.state[i], c.hard[i], c.attempt[i], c.flapping[i] = state, hard, attempt, flapping
        begins, ends = hard and result is not State.OK, result is State.OK and not flapping
        is_due = bool(begins or (task.is_due and not ends))
        return task._replace(
            state=State(int(state)), hard=bool(hard), attempt=int(attempt), flapping=flapping, is_due=is_due
        )

    def _older_node(self, state: ProblemState, i: int, said: Said) -> ProblemStep:
        """A node that knows no problems has a task for one run; then this one takes it over."""
        self._put(state)
        following = (*state[:i], self._after(state[i], i, said), *state[i + 1 :])
        step = self._restart(following)
        return step._replace(before=state, event=f"task {i}: {_words(said)}{OLDER_NODE}", concerned=(i,))

    def _restart(self, state: ProblemState) -> ProblemStep:
        self._put(tuple(task._replace(packed=0, opened=0) for task in state))
        problems = self._kind(self._columns)
        known = (
            KnownProblem(i, cause, stored.opened, stored.state, stored.worst)
            for i, task in enumerate(state)
            for cause in CAUSES_OF_RESULTS
            if (stored := task.stored(cause)) is not None and stored.is_open
        )
        problems.restore(known)
        updates = problems.reconcile(self._rows, NOW, are_new=True)
        return self._taken(state, RESTART, tuple(range(len(state))), {}, updates)

    # To a state and back

    def _put(self, state: ProblemState) -> Problems:
        """Bring the columns into a state; the problems of a node that has come to it by itself."""
        c = self._columns
        c.flags[:] = [_CHECK * t.check | _REMOVED * t.is_heard for t in state]
        for name in ("state", "hard", "attempt", "flapping"):
            getattr(c, name)[:] = [getattr(t, name) for t in state]
        c.problem[:] = [t.packed for t in state]
        c.problem_opened[:] = [t.opened for t in state]
        c.changes[:] = 0
        c.result_at[:] = LATEST_RESULT
        return self._kind(c)

    def _taken(
        self,
        before: ProblemState,
        event: str,
        concerned: tuple[int, ...],
        changed: dict[int, ProblemTask],
        updates: list[ProblemUpdate],
    ) -> ProblemStep:
        """The step, after the store took the updates."""
        after = [changed.get(i, task) for i, task in enumerate(before)]
        for update in updates:
            if not after[update.row].is_removed:
                after[update.row] = _stored(after[update.row], update)
        c = self._columns
        held = zip(after, c.problem.tolist(), c.problem_opened.tolist(), strict=True)
        state = tuple(task._replace(packed=packed, opened=opened) for task, packed, opened in held)
        return ProblemStep(before, event, concerned, state, updates, frozenset(self._kind(c).rows().tolist()))


def _words(said: Said) -> str:
    return said if isinstance(said, str) else said[0].name + (", flapping" if said[1] else "")


def _stored(task: ProblemTask, update: ProblemUpdate) -> ProblemTask:
    """What a store makes of an update."""
    known = task.stored(update.cause)
    if known is None or known.opened != update.opened:
        if not update.is_open:
            return task
        return task.storing(update.cause, StoredProblem(update.opened, update.state, update.state))
    if not update.is_open:
        return task.storing(update.cause, known._replace(is_open=False))
    worst = max(known.worst, update.state, key=SEVERITY.__getitem__)
    return task.storing(update.cause, StoredProblem(update.opened, update.state, worst))


def _closed_by_removal(task: ProblemTask) -> ProblemTask:
    for cause in CAUSES_OF_RESULTS:
        known = task.stored(cause)
        if known is not None and known.is_open:
            task = task.storing(cause, known._replace(is_open=False, is_removed=True))
    return task


def _opened_again(task: ProblemTask) -> ProblemTask:
    for cause in CAUSES_OF_RESULTS:
        known = task.stored(cause)
        if known is not None and known.is_removed:
            task = task.storing(cause, known._replace(is_open=True, is_removed=False))
    return task


def settled(state: ProblemState) -> ProblemState:
    """The state as of an earlier time: what is closed for good is forgotten, what is open opened long ago."""
    return tuple(_settled_task(task) for task in state)


def _settled_task(task: ProblemTask) -> ProblemTask:
    open_at = None
    for cause in CAUSES_OF_RESULTS:
        known = task.stored(cause)
        if known is None:
            continue
        if known.is_open or known.is_removed:
            open_at = known.opened
            task = task.storing(cause, known._replace(opened=BEFORE))
        else:
            task = task.storing(cause, None)
    if task.opened == 0:
        return task
    # The node's latest problem is the one in the store, or one that closed before.
    return task._replace(opened=BEFORE if task.opened == open_at else BEFORE - 1)
