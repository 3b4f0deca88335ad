"""Explore every state of a small world of two parents and a task that runs after them, on the production code.

A step begins with a node that has just restored what is stored, so a kill at any point is in every step; and each pair
of events is also played in one node without a restart, which must end in the same state.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.chains import NO_END, Chains, EndedParent, LatestEnds, ParentEnd, used_from_bytes
from evenbeat.core.gate import REASONS, Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Flag, SkipColumns, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import HOUR, MINUTE, Instant, Period, RunKind, Schedule
from evenbeat.sim.breadth_first import StateExploration, Transition, verified_worlds
from evenbeat.sim.explore import ExplorationResult
from evenbeat.sim.verify import VerifiedWorld
from evenbeat.when.period import compile_period
from evenbeat.when.schedule import AFTER_PARENTS
from evenbeat.when.windows import FOREVER

CHAIN_KILLED: Final = "chains: killed"
CHAIN_ERRORS: Final = "chains: errors"
_PARENTS: Final = ("a", "b")
_NOON: Final = Instant(20_000 * 24 * HOUR + 12 * HOUR)
_OPEN: Final = Period(ranges=("11:00-13:00",))
_CLOSED: Final = Period(ranges=("01:00-02:00",))


class ChainShape(NamedTuple):
    """How the task follows its parents."""

    name: str
    schedule: Schedule
    edited: Schedule | None = None
    """What an edit makes of it, and another edit takes back."""


CHAIN_WORLDS: Final = (
    ChainShape("chains: a task after one other", Schedule(after=("a",))),
    ChainShape("chains: a task after two others", Schedule(after=("b", "a"))),
    ChainShape("chains: a task after a failure of one of two", Schedule(after_failure=("b", "a"))),
    ChainShape("chains: a task after one or two others, by edits", Schedule(after=("a",)), Schedule(after=("b", "a"))),
    ChainShape(
        "chains: a task after a failure of one or two, by edits",
        Schedule(after_failure=("a",)),
        Schedule(after_failure=("b", "a")),
    ),
)


class ChainState(NamedTuple):
    """What is stored, and what is so around it."""

    unused: frozenset[str] = frozenset()
    """Parents with an end that was not used yet, of the kind that counts."""
    is_running: bool = False
    is_enabled: bool = True
    is_open: bool = True
    has_slot: bool = True
    is_edited: bool = False

    def __str__(self) -> str:
        words = ["unused: " + (", ".join(sorted(self.unused)) or "none"), "running" if self.is_running else "idle"]
        return ", ".join([*words, *(f"not {k[3:]}" for k in ("is_enabled", "is_open") if not getattr(self, k))])


class ChainStep(NamedTuple):
    """What an event did."""

    schedule: Schedule
    before: ChainState
    event: str
    after: ChainState
    nominals_before: dict[str, int]
    nominals: dict[str, int]
    """Of the latest end of each parent that counts, before and after the event."""
    claims: list[tuple[int, int]]
    """Nominal time and kind of each run that was claimed."""
    skips: list[tuple[int, Reason]]
    is_due: bool
    """Is it in the timetable afterwards?"""


class _Node:
    """A node with the production code that has restored a state."""

    def __init__(self, shape: ChainShape, state: ChainState, kind: type[Chains]) -> None:
        columns = self.columns = TaskColumns()
        self.times = ScheduleTimes(columns)
        self.life = Lifecycle(columns, Timetable(columns), self.times, int(state.has_slot))
        (self.row,) = columns.allocate(1).tolist()
        self.rows = np.array([self.row])
        self.state, self.now, self._shape = state, _NOON, shape
        columns.calendar[self.row] = self.times.calendar_number(AFTER_PARENTS)
        self._set_period()
        self.life.set_flag(self.rows, Flag.CHAINED, on=True)
        self.life.set_flag(self.rows, Flag.ENABLED, on=state.is_enabled)
        self.life.add_restored(self.rows, self.now, self.rows if state.is_running else self.rows[:0])
        self.chains = kind(self.life)
        self.of_failure = bool(shape.schedule.after_failure)
        self.chains.define(self.row, self.schedule, int(_NOON - HOUR))
        # What was used came ten minutes before what was not.
        self.used = {i: _end(i, _NOON - 20 * MINUTE) for i in range(len(_PARENTS))}
        self.latest = {
            i: _end(i, _NOON - 10 * MINUTE) if name in state.unused else self.used[i] for i, name in enumerate(_PARENTS)
        }
        self.chains.restore_used(
            self.row, {_PARENTS.index(name): self.used[_PARENTS.index(name)] for name in self.schedule.parents}
        )
        self.chains.restore_parents(
            {name: LatestEnds(i, *self._both(self.latest[i])) for i, name in enumerate(_PARENTS)}
        )
        self.chains.make_due([self.row], self.now)

    def _both(self, end: ParentEnd) -> tuple[ParentEnd, ParentEnd]:
        return (NO_END, end) if self.of_failure else (end, NO_END)

    def _set_period(self) -> None:
        period = compile_period(_OPEN if self.state.is_open else _CLOSED)
        self.columns.period[self.row] = self.times.period_number(period)

    @property
    def schedule(self) -> Schedule:
        edited = self._shape.edited
        return edited if self.state.is_edited and edited is not None else self._shape.schedule

    @property
    def nominals(self) -> dict[str, int]:
        """The nominal time of the latest end of each parent that counts."""
        return {name: self.latest[i].nominal for i, name in enumerate(_PARENTS)}

    @property
    def is_due(self) -> bool:
        return int(self.columns.nominal[self.row]) < FOREVER

    def play(self, event: str) -> tuple[list[tuple[int, int]], list[tuple[int, Reason]]]:
        """One thing happens; returns claims and skips."""
        self.now = Instant(self.now + MINUTE)
        what, _, name = event.partition(" ")
        state, skips = self.state, list[SkipColumns]()
        claims: list[tuple[int, int]] = []
        if what in ("success", "failure"):
            number, end = _PARENTS.index(name), ParentEnd(self.now - HOUR, 0, int(self.now))
            skips = self.chains.learn([EndedParent(name, number, what == "success", end)], self.now)
            if (what == "failure") == self.of_failure:
                self.latest[number] = end
        elif what == "enabled":
            self.chains.suspend(self.rows)
            self.life.set_flag(self.rows, Flag.ENABLED, on=not state.is_enabled)
            self.state = state._replace(is_enabled=not state.is_enabled)
            self.chains.make_due([self.row], self.now)
        elif what == "period":
            self.state = state._replace(is_open=not state.is_open)
            self._set_period()
        elif what == "slot":
            self.state = state._replace(has_slot=not state.has_slot)
            self.life.slots = int(self.state.has_slot)
        elif what == "edited":
            self.state = state._replace(is_edited=not state.is_edited)
            self.chains.suspend(self.rows)
            self.chains.define(self.row, self.schedule, int(self.now))
            self.chains.know_parents(_PARENTS.index)
            self.chains.make_due([self.row], self.now)
        elif what == "end":
            self.life.complete(self.rows)
            self.state = state._replace(is_running=False)
        elif what == "release":
            released = self.chains.settle(self.life.release(self.now))
            skips = released.skips
            claims = list(zip(released.claims.nominal.tolist(), released.claims.kind.tolist(), strict=True))
            self.state = state._replace(is_running=state.is_running or bool(claims))
        for _, stored in self.chains.take_changes():
            self.used |= used_from_bytes(stored)
        followed = [_PARENTS.index(one) for one in self.schedule.parents]
        unused = frozenset(_PARENTS[i] for i in followed if self.latest[i].is_newer_than(self.used[i]))
        self.state = self.state._replace(unused=unused)
        said = [
            (int(n), REASONS[r])
            for some in skips
            for n, r in zip(some.first.tolist(), some.reason.tolist(), strict=True)
        ]
        return claims, said


def _end(number: int, at: int) -> ParentEnd:
    return ParentEnd(at - HOUR + number, 0, at + number)


def _due_nominal(schedule: Schedule, unused: frozenset[str], nominals: dict[str, int]) -> int | None:
    """In the words of the design: the first-listed parent's, once all have succeeded, or of those that failed."""
    ended = [name for name in schedule.parents if name in unused]
    is_due = bool(ended) if schedule.after_failure else len(ended) == len(schedule.parents)
    return nominals[ended[0]] if is_due else None


def due_exactly_if(step: ChainStep) -> bool:
    """A task is due exactly if it is enabled, and each of its parents has succeeded (one of them has failed) since it
    was used last.
    """
    owed = _due_nominal(step.schedule, step.after.unused, step.nominals) is not None
    return step.is_due == (owed and step.after.is_enabled)


def runs_when_it_may(step: ChainStep) -> bool:
    """A release claims one run of a task that is due, open, idle and has a slot, with the nominal time of its parent;
    nothing else claims one.
    """
    due = _due_nominal(step.schedule, step.before.unused, step.nominals_before)
    is_free = step.before.has_slot and not step.before.is_running
    runs = step.event == "release" and due is not None and step.before.is_enabled and step.before.is_open and is_free
    return step.claims == ([(due, int(RunKind.CHAIN))] if runs else [])


def accounted_exactly_once(step: ChainStep) -> bool:
    """A nominal time that a task owes stays owed, or it is claimed, or skipped with its reason: replaced by a newer one
    (coalesced), outside the period, or come while the task was disabled. An edit keeps what parents that stay have
    done.
    """
    if step.event == "edited":
        stays = step.before.unused & set(step.schedule.parents)
        return not step.claims and not step.skips and step.after.unused == stays
    before = _due_nominal(step.schedule, step.before.unused, step.nominals_before)
    after = _due_nominal(step.schedule, step.after.unused, step.nominals)
    gone = [n for n, _ in step.claims] + [n for n, _ in step.skips]
    reasons = {reason for _, reason in step.skips}
    if step.event.startswith(("success", "failure")) and after is None and before is None:
        came = step.before.is_enabled is False and gone != []
        return not gone or (came and reasons == {Reason.DISABLED} and gone == [step.nominals[_first(step)]])
    expected = [] if before is None or before == after else [before]
    allowed = {Reason.COALESCED} if after is not None else {Reason.PERIOD_CLOSED}
    return gone == expected and reasons <= allowed


def _first(step: ChainStep) -> str:
    name = step.event.partition(" ")[2]
    return name if step.schedule.after_failure else step.schedule.after[0]


CHAIN_PROPERTIES: Final[dict[str, Callable[[ChainStep], bool]]] = {
    "chains: due": due_exactly_if,
    "chains: runs": runs_when_it_may,
    "chains: accounted": accounted_exactly_once,
}
CHAIN_SENTENCES: Final = {name: " ".join((holds.__doc__ or "").split()) for name, holds in CHAIN_PROPERTIES.items()} | {
    CHAIN_KILLED: "A kill between two events changes nothing: the same is owed, claimed and skipped.",
    CHAIN_ERRORS: "Nothing that can happen to tasks that follow others raises an error.",
}


def _events(shape: ChainShape, state: ChainState) -> Iterator[str]:
    for name in _PARENTS:
        yield f"success {name}"
        yield f"failure {name}"
    yield from ("enabled", "period", "slot", "release")
    if shape.edited is not None:
        yield "edited"
    if state.is_running:
        yield "end"


def _play(node: _Node, event: str) -> ChainStep:
    before, nominals = node.state, node.nominals
    claims, skips = node.play(event)
    return ChainStep(node.schedule, before, event, node.state, nominals, node.nominals, claims, skips, node.is_due)


def explore_chains(shape: ChainShape, kind: type[Chains] = Chains, most: int | None = None) -> ExplorationResult:
    """Breadth first from a task that owes nothing until nothing new turns up, or `most` states have."""

    def transitions(state: ChainState) -> Iterator[Transition[ChainState]]:
        for event in _events(shape, state):
            broken, after = _broken(shape, state, event, kind)
            yield Transition(event, after, broken or None)

    return StateExploration(shape, transitions, CHAIN_SENTENCES, CHAIN_ERRORS, str).run(ChainState(), most)


def _broken(shape: ChainShape, state: ChainState, event: str, kind: type[Chains]) -> tuple[str, ChainState]:
    """The property that this event breaks, empty for none, and the state after it."""
    try:
        node = _Node(shape, state, kind)
        step = _play(node, event)
        for name, holds in CHAIN_PROPERTIES.items():
            if not holds(step):
                return name, step.after
        for following in _events(shape, step.after):
            live = _Node(shape, state, kind)
            live.play(event)
            going_on = _play(live, following)
            anew = _play(_Node(shape, step.after, kind), following)
            same = (going_on.after, len(going_on.claims), [reason for _, reason in going_on.skips], going_on.is_due)
            if same != (anew.after, len(anew.claims), [reason for _, reason in anew.skips], anew.is_due):
                return CHAIN_KILLED, step.after
    except Exception as error:  # any error is a counterexample
        return f"{CHAIN_ERRORS}", state._replace(unused=frozenset([repr(error)]))
    return "", step.after


def verify_chains(shapes: Iterable[ChainShape]) -> Iterator[VerifiedWorld]:
    """Explore each to its end; the first counterexample ends it all."""
    return verified_worlds(shapes, explore_chains)
