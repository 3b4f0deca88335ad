"""Problems as a node would record them, for tests of what is asked and done afterwards."""

from evenbeat.model import SEVERITY, Cause, State
from evenbeat.store.contract import Batch, ProblemFilter, Store
from evenbeat.store.problem_records import ProblemChange, ProblemRecord
from evenbeat.testing.samples import T0, a_task


def seed_problem(
    store: Store,
    name: str,
    state: State = State.CRITICAL,
    *,
    opened: int = T0,
    at: int | None = None,
    cause: Cause = Cause.STATE,
    is_open: bool = True,
    reason: str = "",
) -> int:
    """A change of the problem of a task, which is created if it is not there; returns the id of the problem."""
    entry = store.find(name)
    if entry is None:
        (entry,) = store.create([a_task(name, check=cause is Cause.STATE)], "ana", T0)
    at = opened if at is None else at
    change = ProblemChange(entry.number, cause, opened, at, state, SEVERITY[state], is_open, reason)
    store.record(Batch(problems=[change])).result()
    return next(p.id for p in every_problem(store) if (p.number, p.cause, p.opened) == (entry.number, cause, opened))


def every_problem(store: Store) -> list[ProblemRecord]:
    """Open and closed ones."""
    return store.problems(ProblemFilter(is_open=None))
