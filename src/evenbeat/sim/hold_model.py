"""A small world of checks that depend on a parent: a node decides with the production code which problems are held.

The parent is a check whose own problem is left out.
Runs begin and end; what a person, a period or the parent holds begins and ends; the node restarts. A time is only its
place in the order of times, so that no state is there because a clock went on; timers are due or not.
"""

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.alerts import Hold
from evenbeat.core.columns import Ints
from evenbeat.core.problem_holds import ASK_AGAIN_AFTER, PARENTS_LIMIT, HeldRows, Holds, HoldUpdate
from evenbeat.core.problems import Problems
from evenbeat.core.reachability import ForeignResult, Reachability
from evenbeat.core.run_plan import GIVES_RESULT, SUCCESS
from evenbeat.core.task import ALL_FLAGS, Bools, Flag, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import MINUTE, SECOND, Entry, Instant, Schedule, State, Task
from evenbeat.when.windows import NEVER

NOW: Final = Instant(10**12)
PASSED: Final = NOW - 2 * PARENTS_LIMIT
"""Since then parents are checked whose time has passed."""
_OPENED: Final = PASSED
_LATER: Final = NOW + 10**9
_ENABLED: Final = int(Flag.ENABLED)
_REACHABLE: Final = int(Flag.REACHABLE)
_DOWNTIME: Final = int(Flag.DOWNTIME)
_RUNNING: Final = int(Flag.RUNNING)
_IDLE: Final = int(Flag.NOTHING_TO_RUN)
_CHECK: Final = int(Flag.CHECK)
_SKIPS: Final = int(Flag.SKIPS_UNREACHABLE)
_BASE: Final = int(Flag.CHECK | Flag.ENABLED | Flag.PERMITTED | Flag.REACHABLE | Flag.MINE | Flag.NOTIFIES)
RESTART: Final = "a restart"
_REOPENS: Final = "its problem closes, and another one opens"
_SCHEDULE: Final = Schedule(every=MINUTE, phase=0)
OK: Final = (State.OK, True)
SOFT: Final = (State.CRITICAL, False)
HARD: Final = (State.CRITICAL, True)
Condition = tuple[State, bool]


class HoldShape(NamedTuple):
    """How large a world is, and what can happen in it."""

    name: str
    checks: int = 1
    runs: bool = True
    """Runs take time; else each result is of a run that began just before."""
    switches: tuple[str, ...] = ()
    """Of checks: in_downtime, is_paused, is_closed."""
    parent_switches: tuple[str, ...] = ()
    """is_paused, is_closed, is_idle"""
    flaps: bool = False
    jobs: bool = False
    """The dependent tasks are no checks: their runs fail."""
    skips: bool = False
    """They do not run while they are unreachable."""
    is_elsewhere: bool = False
    """The parent is another node's: that one is asked for its runs, and answers at once or is asked again."""


class HeldCheck(NamedTuple):
    """A check, what its node knows of it, and what has really happened. The first one is the parent of the others."""

    condition: Condition = OK
    flapping: bool = False
    problem: int = 0
    """As in the columns."""
    hold: Hold = Hold.NONE
    """As recorded."""
    in_downtime: bool = False
    is_paused: bool = False
    is_closed: bool = False
    is_idle: bool = False
    """It has nothing to run: its results come from outside."""
    is_running: bool = False
    result_at: int = NEVER
    started: int = NEVER
    """When the run under way began."""
    ended: int = NEVER
    """When something ended that held it, as the node knows while a run is under way."""
    needs_since: int = NEVER
    parents_since: int = NEVER
    asked: int = NEVER
    """When it was asked for a run, as a parent."""
    last_end: int = NEVER
    """When a downtime, an unreachability, a pause or a stop of the node ended, and no fresh result has come since."""
    free_since: int = NEVER
    """Since when nothing but its parent keeps its problem from being told."""

    @property
    def is_open(self) -> bool:
        """Has it a problem?"""
        return self.problem & 1 != 0

    @property
    def is_failing(self) -> bool:
        """Is it not fine?"""
        return self.condition == HARD and not self.is_paused

    @property
    def flags(self) -> int:
        """As in the columns, if it is reachable."""
        flags = (
            _BASE
            | (_IDLE if self.is_idle else 0)
            | (_DOWNTIME if self.in_downtime else 0)
            | (_RUNNING if self.is_running else 0)
        )
        return flags & ~_ENABLED if self.is_paused else flags

    @property
    def may_run(self) -> bool:
        """Apart from its reachability."""
        return not (self.is_paused or self.is_closed or self.is_idle)

    def __str__(self) -> str:
        state, hard = self.condition
        words = [state.name, "HARD" if hard else "SOFT", f"hold {self.hold.word or 'none'}"]
        flags = ("flapping", "is_open", "in_downtime", "is_paused", "is_closed", "is_running")
        return " ".join([*words, *(name for name in flags if getattr(self, name))])


HoldState = tuple[HeldCheck, ...]


class HoldStep(NamedTuple):
    """What an event did."""

    before: HoldState
    event: str
    after: HoldState
    """As of NOW: `settled` makes it the beginning of another step."""
    updates: list[HoldUpdate]
    wanted: frozenset[int]
    """Tasks of which the node asks a run."""
    updates_again: list[HoldUpdate]
    """If it is asked once more, at once."""
    asked: tuple[int, ...]
    """Parents of which the node knows that it asked them lately."""
    reopened: int = 0
    """The check that has another problem than before."""


def initial_hold_state(shape: HoldShape) -> HoldState:
    """Everything is fine."""
    return (HeldCheck(),) * (1 + shape.checks)


class _SwitchedTimes(ScheduleTimes):
    """Periods are open or closed as the world says."""

    closed: Bools

    def is_open(self, rows: Ints, now: Instant) -> Bools:  # noqa: ARG002
        return ~self.closed[rows]


class HoldWorld:
    """A world that can be put into any state. What an event does from there is one step."""

    def __init__(self, shape: HoldShape, kind: type[Holds] = Holds) -> None:
        self.shape = shape
        self._kind = kind
        self._columns = TaskColumns()
        self._rows = self._columns.allocate(1 + shape.checks)
        self._times = _SwitchedTimes(self._columns)
        self._problems = Problems(self._columns)
        first = 1 if shape.is_elsewhere else 0
        self._reachability = Reachability(self._columns, lambda name: int(name) if int(name) >= first else None)
        self._reachability.has_other_nodes = shape.is_elsewhere
        tasks = [Task(str(i), _SCHEDULE, check=True, depends=("0",) if i else ()) for i in self._rows.tolist()]
        self._reachability.define(self._rows[first:], tasks[first:])
        if shape.is_elsewhere:
            self._reachability.define_foreign({"0": Entry(0, "0", 1, "", NOW, NOW, tasks[0])})
        self._reachability.settle()
        self._other = self._new_holds()
        """Of the node that has the parent, if it is elsewhere."""

    def steps(self, state: HoldState) -> Iterator[HoldStep]:
        """Everything that can happen next, and what it does."""
        for i, check in enumerate(state):
            for event, changed in self._changes(i, check):
                yield self._step(state, f"{_name(i)}: {event}", _with(state, i, changed))
            if i and check.is_open and not self.shape.runs and check.condition == HARD:
                again = check._replace(result_at=int(NOW), flapping=False, free_since=NEVER)
                yield self._step(state, f"{_name(i)}: {_REOPENS}", _with(state, i, again), reopens=i)
            if i and check.needs_since != NEVER:
                yield self._step(state, f"{_name(i)}: the time for a result passes", state, i)
        yield from self._two_results(state)
        if any(check.parents_since > PASSED for check in state):
            passed = tuple(_window_passed(check) for check in state)
            yield self._step(passed, "five minutes pass", passed)
        if state[0].asked > NOW - ASK_AGAIN_AFTER:
            yield self._step(_later(state), "ten seconds pass", _later(state))
        yield self._restart(state, RESTART)
        yield self._restart(state, "the node stands still for a while")

    def _two_results(self, state: HoldState) -> Iterator[HoldStep]:
        """The parent and the first check have results at once."""
        parent, check = state[:2]
        if not (parent.is_running and check.is_running):
            return
        for of_parent in (OK, SOFT, HARD):
            for of_check in (OK, HARD):
                after = (_with_result(parent, of_parent), _with_result(check, of_check), *state[2:])
                yield self._step(state, f"at once: {of_parent[0].name}, {of_check[0].name}", after)

    def _changes(self, i: int, check: HeldCheck) -> Iterator[tuple[str, HeldCheck]]:
        for name in self.shape.switches if i else self.shape.parent_switches:
            yield _switched(check, name)
        if self.shape.runs and not check.is_running and not check.is_paused:
            yield "a run begins", check._replace(is_running=True, started=NOW)
        if check.is_running:
            yield "its run is lost", check._replace(is_running=False, started=NEVER)
        if not check.is_running and self.shape.runs:
            return
        began = check.started if check.is_running else int(NOW)
        for condition in (OK, HARD) if i else (OK, SOFT, HARD):
            came = check._replace(condition=condition, flapping=False, result_at=began, is_running=False, started=NEVER)
            yield f"a result: {'SOFT ' if condition == SOFT else ''}{condition[0].name}", came
            if i and self.shape.flaps and condition == OK and check.is_open:
                yield "a result: OK, and it flaps", came._replace(flapping=True)

    # One step

    def _step(self, before: HoldState, event: str, state: HoldState, expired: int = 0, reopens: int = 0) -> HoldStep:
        holds = self._put(before, expired)
        was = self._columns.flags.copy()
        if reopens:
            self._set(_with(state, reopens, state[reopens]._replace(condition=OK)))
            self._learn_results(before)
        self._set(state)
        self._learn_results(before)
        again = self._reachability.settle()
        flags = self._columns.flags
        ended = (flags & ~was & _ENABLED) | (was & ~flags & _DOWNTIME)
        holds.learn_ends(np.union1d(np.flatnonzero(ended), again), NOW)
        all_ended = np.flatnonzero(ended | (flags & ~was & _REACHABLE))
        return self._learn(holds, before, event, state, all_ended, expired, reopens)

    def _learn_results(self, before: HoldState) -> None:
        rows, c = self._rows[1:], self._columns
        if not self.shape.jobs:
            self._problems.learn_results(rows, NOW)
            return
        rows = rows[c.result_at[rows] != [check.result_at for check in before[1:]]]
        succeeded = c.state[rows] == State.OK
        meaning = np.where(succeeded, GIVES_RESULT | SUCCESS, GIVES_RESULT).astype(np.uint8)
        self._problems.learn_runs(rows, c.flags[rows], meaning, np.zeros(len(rows), dtype=bool), NOW)

    def _restart(self, before: HoldState, event: str) -> HoldStep:
        """The node stops and starts, or knows nothing of what has happened lately. Runs go on, as the workers of a
        cluster do.
        """
        holds = self._put(before, 0)
        if event == RESTART:
            holds, self._other = self._new_holds(), self._new_holds()
        rows = self._problems.rows()
        # In any order, and tasks of other nodes come later.
        for some in (rows[::-1][:1], rows[::-1][1:]):
            holds.restore(some, np.array([before[row].hold for row in some.tolist()], np.uint8), NOW)
        holds.learn_ends(self._rows, NOW)
        # What could be told before needs no parents again, unless it needs a fresh result first.
        since = tuple(
            check if check.free_since == NEVER else check._replace(free_since=NEVER if check.hold else PASSED)
            for check in before
        )
        return self._learn(holds, before, event, since, self._rows, 0)

    def _learn(
        self, holds: Holds, before: HoldState, event: str, state: HoldState, ended: Ints, expired: int, reopens: int = 0
    ) -> HoldStep:
        """The node decides; what it knows then, and what has really happened."""
        updates = holds.settle(NOW)
        if self._ask_elsewhere(holds):
            already = {i for i, check in enumerate(before) if check.is_open and i != reopens and check.hold}
            updates = _joined(updates, holds.settle(NOW), already)
        wanted = frozenset((*holds.wanted_runs().tolist(), *self._other.wanted_runs().tolist()))
        asking = self._other if self.shape.is_elsewhere else holds
        c, known = self._columns, {row: i for i, row in enumerate(holds.held.rows.tolist())}
        asked = dict(zip(*(values.tolist() for values in asking.asked), strict=True))
        after: list[HeldCheck] = []
        for i, check in enumerate(state):
            place = known.get(i)
            last_end = int(NOW) if i in ended else check.last_end
            if i == expired or check.result_at > last_end:
                last_end = NEVER
            now = check._replace(
                problem=int(c.problem[i]),
                hold=Hold(int(c.hold[i])),
                ended=holds.ended.get(i, NEVER),
                needs_since=NEVER if place is None else int(holds.held.needs_since[place]),
                parents_since=NEVER if place is None else int(holds.held.parents_since[place]),
                asked=asked.get(i, NEVER),
                last_end=last_end if i and not self.shape.jobs else NEVER,
            )
            after.append(_freed(now, after[0].is_failing if i else False))
        rows = tuple(asking.asked[0].tolist())
        return HoldStep(before, event, tuple(after), updates, wanted, holds.settle(NOW), rows, reopens)

    def _ask_elsewhere(self, holds: Holds) -> bool:
        """The other node hears what it is asked for; does it say that something cannot run?"""
        asks = holds.foreign_asks()
        unable = {}
        for name, ask in asks.items():
            (can_run,) = self._other.ask_for_other_node(self._rows[:1], np.array([ask.since]), NOW).tolist()
            if not can_run:
                unable[name] = ask
        self._reachability.learn_unable(unable)
        return bool(unable)

    def _new_holds(self) -> Holds:
        return self._kind(self._columns, self._problems, self._times, self._reachability, _expected_by)

    def _put(self, state: HoldState, expired: int) -> Holds:
        """A node in this state. The time for the result of one check has passed; 0 for none."""
        self._reachability.learn_foreign_results({"0": None})  # whom it asked, when, and what they answered
        self._set(state)
        c = self._columns
        c.problem[:] = [check.problem for check in state]
        c.problem_opened[:] = _OPENED
        c.hold[:] = [check.hold for check in state]
        self._reachability.settle()
        holds = self._new_holds()
        known = [(i, check) for i, check in enumerate(state) if check.is_open]
        until = [NEVER if check.needs_since == NEVER else NOW if i == expired else _LATER for i, check in known]
        values = (
            [i for i, _ in known],
            [_OPENED] * len(known),
            [check.hold for _, check in known],
            [check.needs_since for _, check in known],
            until,
            [check.parents_since for _, check in known],
        )
        holds.held = HeldRows(*(np.array(some, dtype=np.int64) for some in values))
        holds.ended = {i: check.ended for i, check in enumerate(state) if check.ended != NEVER}
        asked = [(i, check.asked) for i, check in enumerate(state) if check.asked != NEVER]
        self._other = self._new_holds()
        asking = self._other if self.shape.is_elsewhere else holds
        asking.asked = (np.array([i for i, _ in asked], np.int64), np.array([at for _, at in asked], np.int64))
        return holds

    def _set(self, state: HoldState) -> None:
        """What the tasks are like."""
        c = self._columns
        unreachable = c.flags & _REACHABLE == 0
        c.state[:] = [check.condition[0] for check in state]
        c.hard[:] = [check.condition[1] for check in state]
        c.flapping[:] = [check.flapping for check in state]
        c.result_at[:] = [check.result_at for check in state]
        c.flags[:] = [check.flags for check in state]
        c.flags[unreachable] &= ALL_FLAGS ^ _REACHABLE
        c.flags[1:] |= _SKIPS if self.shape.skips else 0
        c.flags[1:] &= ALL_FLAGS ^ (_CHECK if self.shape.jobs else 0)
        self._times.closed = np.array([check.is_closed for check in state], dtype=bool)
        self._reachability.learn_results(self._rows)
        if self.shape.is_elsewhere:
            parent = state[0]
            self._reachability.learn_foreign({"0": parent.is_failing})
            result = ForeignResult(parent.result_at, is_soft=parent.condition == SOFT, is_off=parent.is_paused)
            self._reachability.learn_foreign_results({"0": result})


def _joined(updates: list[HoldUpdate], more: list[HoldUpdate], already: set[int]) -> list[HoldUpdate]:
    """What two looks, one just after the other, have changed: nothing about what is as it was before, and not held."""
    latest = {update.row: update for update in (*updates, *more)}
    return [update for update in latest.values() if update.hold or update.row in already]


def _with_result(check: HeldCheck, condition: Condition) -> HeldCheck:
    """Its run under way has ended."""
    return check._replace(condition=condition, flapping=False, result_at=check.started, is_running=False, started=NEVER)


def _expected_by(rows: Ints) -> Ints:
    return np.full(len(rows), _LATER, dtype=np.int64)


def _switched(check: HeldCheck, name: str) -> tuple[str, HeldCheck]:
    match name:
        case "in_downtime":
            is_on, changed = not check.in_downtime, check._replace(in_downtime=not check.in_downtime)
        case "is_idle":
            is_on, changed = not check.is_idle, check._replace(is_idle=not check.is_idle)
        case "is_paused":
            is_on, changed = not check.is_paused, check._replace(is_paused=not check.is_paused)
        case _:
            is_on, changed = not check.is_closed, check._replace(is_closed=not check.is_closed)
    return f"{name}: {is_on}", changed


def _freed(check: HeldCheck, is_unreachable: bool) -> HeldCheck:  # noqa: FBT001
    """With the time since when only the parent keeps its problem from being told."""
    if check.is_open and not _held_by_itself(check, is_unreachable):
        return check if check.free_since != NEVER else check._replace(free_since=int(NOW))
    return check._replace(free_since=NEVER)


def _held_by_itself(check: HeldCheck, is_unreachable: bool) -> Hold:  # noqa: FBT001
    """By the words of the contract: what holds a problem, apart from its parent that is checked."""
    if check.in_downtime:
        return Hold.DOWNTIME
    if is_unreachable:
        return Hold.UNREACHABLE
    if check.is_paused:
        return Hold.PAUSED
    if check.is_closed:
        return Hold.OUTSIDE_PERIOD
    return Hold.AWAITING_RESULT if check.last_end != NEVER else Hold.NONE


def expected_hold(state: HoldState, i: int) -> Hold:
    """Why the open problem of a check is told to nobody, by the words of the contract."""
    check, parent = state[i], state[0]
    own = _held_by_itself(check, is_unreachable=i > 0 and parent.is_failing)
    if own or not i or check.free_since == PASSED:
        return own
    is_soft = parent.condition == SOFT and not parent.is_paused
    return Hold.CHECKING_PARENTS if is_soft or (parent.may_run and parent.result_at <= check.free_since) else Hold.NONE


def _with(state: HoldState, i: int, check: HeldCheck) -> HoldState:
    return (*state[:i], check, *state[i + 1 :])


def _name(i: int) -> str:
    return f"check {i}" if i else "the parent"


def _window_passed(check: HeldCheck) -> HeldCheck:
    return check._replace(parents_since=_passed(check.parents_since), free_since=_passed(check.free_since))


def _later(state: HoldState) -> HoldState:
    """All that has happened was a while ago."""
    ago = 10 * ASK_AGAIN_AFTER
    numbers = {t: t if t <= PASSED else t - ago for check in state for t in _stamps(check)}
    return tuple(_renumbered(check, numbers) for check in state)


def _passed(t: int) -> int:
    return NEVER if t == NEVER else PASSED


# States without a clock


def settled(step: HoldStep) -> HoldState:
    """The state after a step as of an earlier time: what no decision looks at is forgotten, and times are numbered."""
    checks = [_pruned(check, is_parent=not i) for i, check in enumerate(step.after)]
    windows = [t for check in checks for t in (check.parents_since, check.free_since) if t > PASSED]
    parent = checks[0]
    oldest = min(windows, default=int(NOW))
    checks[0] = parent._replace(
        result_at=parent.result_at if parent.result_at > oldest else NEVER,
        started=parent.started if parent.started > oldest else NEVER,
        asked=parent.asked if windows or parent.asked > NOW - ASK_AGAIN_AFTER else NEVER,
    )
    stamps = sorted({t for check in checks for t in _stamps(check) if t > PASSED})
    asked = checks[0].asked
    is_long_ago = asked != NEVER and asked <= NOW - ASK_AGAIN_AFTER
    numbered = {t: t for t in (NEVER, PASSED)}
    for place, t in enumerate(stamps):
        age = len(stamps) - place + (_AGO if is_long_ago and t <= asked else 0)
        numbered[t] = int(NOW) - age * (SECOND // 4)
    return tuple(_renumbered(check, numbered) for check in checks)


_AGO: Final = 80
"""Quarters of a second: longer ago than a parent that was asked is asked again after."""


def _stamps(check: HeldCheck) -> tuple[int, ...]:
    return (
        *(check.result_at, check.started, check.ended, check.needs_since),
        *(check.parents_since, check.asked, check.last_end, check.free_since),
    )


def _renumbered(check: HeldCheck, numbers: Mapping[int, int]) -> HeldCheck:
    return check._replace(
        result_at=numbers[check.result_at],
        started=numbers[check.started],
        ended=numbers[check.ended],
        needs_since=numbers[check.needs_since],
        parents_since=numbers[check.parents_since],
        asked=numbers[check.asked],
        last_end=numbers[check.last_end],
        free_since=numbers[check.free_since],
    )


def _pruned(check: HeldCheck, *, is_parent: bool) -> HeldCheck:
    if is_parent:
        return check._replace(parents_since=NEVER, free_since=NEVER, needs_since=NEVER, ended=NEVER)
    if not check.is_open:
        check = check._replace(result_at=NEVER, needs_since=NEVER, parents_since=NEVER, free_since=NEVER)
    matters = check.last_end != NEVER and (check.is_open or check.started <= check.last_end)
    if not matters or not (check.is_open or check.is_running):
        check = check._replace(last_end=NEVER)
    marks = [t for t in (check.last_end, check.needs_since, check.ended) if t != NEVER]
    oldest = min(marks, default=int(NOW))
    return check._replace(result_at=_since(check.result_at, oldest), started=_since(check.started, oldest))


def _since(t: int, oldest: int) -> int:
    return t if t > oldest else min(t, PASSED)
