"""A small world of retries: one task that fails and tries again, its timetable, and a clock of whole seconds.

A person may stop the task, and it may be a one-off, with one nominal time instead of a grid. The node decides with the
production code. Times are relative to now, and the grid comes round every four seconds, so that there are finitely many
states. What should happen is kept beside it, as an expectation that reads no column.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from evenbeat.core.changed_definitions import pause, unpause
from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.lost_runs import repeat_lost_runs
from evenbeat.core.missed_times import resume
from evenbeat.core.problems import KnownProblem, Problems
from evenbeat.core.retries import EndedRun, Retries, RetryPolicy, retry_delay
from evenbeat.core.run_plan import are_dropped_retries, are_lost, ends_for_followers, outcome_meanings
from evenbeat.core.stopped_runs import settled_outcome, withdraw_planned
from evenbeat.core.task import Bools, Flag, Flags, ReleaseResult, SkipColumns, Small, TaskColumns
from evenbeat.core.times import ScheduleTimes
from evenbeat.core.timetable import Timetable
from evenbeat.model import SECOND, Cause, Instant, Outcome, RunKind, Schedule, State, Task
from evenbeat.when.schedule import OnceSchedule
from evenbeat.when.windows import FOREVER, NEVER

EVERY: Final = 4 * SECOND
CLOSES: Final = 3 * SECOND
"""When a period that closes does so, in each turn of the grid."""
EndsForFollowers = Callable[[Small, Flags, Bools, Bools], tuple[Bools, Bools]]
_NAME: Final = "a"
_START: Final = 1_000 * EVERY
_BEFORE: Final = 500 * EVERY
"""When a problem opened that was there before a step."""


class RetryShape(NamedTuple):
    """What can happen in a world."""

    name: str
    retries: tuple[int, ...] = (2,)
    """How many retries the task may say; it begins with the first."""
    outcomes: tuple[Outcome, ...] = (Outcome.SUCCEEDED, Outcome.FAILED)
    forces: bool = False
    pauses: bool = False
    saturates: bool = False
    """Slots are all taken, and free again."""
    stops: bool = False
    """The node is killed, and starts again within the same second."""
    closes: bool = False
    """The period of the task closes before each nominal time, and opens at it."""
    skips: bool = False
    """missed = "skip"."""
    cancels: bool = False
    """A person stops the task."""
    once: bool = False
    """It has one nominal time, not a grid."""


class RunState(NamedTuple):
    """A run that is under way."""

    kind: RunKind
    nominal: int
    attempt: int
    is_stopped: bool = False
    """A person has asked to stop it."""


class Expectation(NamedTuple):
    """What should come, by what has happened."""

    has_failed: bool = False
    """A problem should be open."""
    nominal: int | None = None
    """A retry should come: with this nominal time ..."""
    due: int = 0
    """... then ..."""
    before: int = 0
    """... and before this."""
    made: int = 0
    """Retries that have been claimed since the first attempt."""
    following: int = EVERY
    """The next nominal time that is not accounted for."""
    is_final: bool = False
    """A run has failed in this step, and is not tried again."""
    is_owed: bool = False
    """One more run should come for one that was lost, or for the time of a one-off that was missed."""


class RetryState(NamedTuple):
    """The task, the node and the store, which agree between events. Times are relative to now."""

    phase: int = 0
    """How long after a point of the grid it is now."""
    retries: int = 2
    is_paused: bool = False
    is_forced: bool = False
    has_slot: bool = True
    run: RunState | None = None
    accounted: int = 0
    off_grid_due: int = FOREVER
    off_grid_kind: RunKind = RunKind.GRID
    retried: int | None = None
    """The nominal time that the retry carries which waits."""
    attempt: int = 1
    last_start: int = NEVER
    at: int = FOREVER
    """The nominal time of a one-off."""
    has_problem: bool = False
    expected: Expectation = Expectation()

    def __str__(self) -> str:
        run = [] if self.run is None else [f"runs ({self.run.kind.word}, attempt {self.run.attempt})"]
        words = [name for name in ("is_paused", "is_forced", "has_problem") if getattr(self, name)]
        waits = [] if self.retried is None else [f"retry in {self.off_grid_due / SECOND:.1f} s"]
        return f"{self.phase // SECOND} s after the grid: {', '.join([*run, *words, *waits]) or 'idle'}"


class RetryStep(NamedTuple):
    """What an event did."""

    before: RetryState
    event: str
    after: RetryState
    claims: tuple[tuple[RunKind, int], ...]
    """Kind and nominal time of runs that begin, relative to the time after the event."""
    skips: tuple[tuple[int, int, int], ...]
    """First and last of skipped nominal times, and how many."""
    expected: Expectation
    """Before the claims and skips of this step."""
    is_open: bool
    """Is the period open after the event?"""
    ends: tuple[tuple[bool, int], ...]
    """What tasks that run after this one learn: has a run succeeded, or failed for good; and its nominal time."""
    is_final: bool
    """Should they learn of a failure?"""
    is_stop: bool
    """Did a person stop what waited, or has a run ended that a person had stopped?"""


class _WorldTimes(ScheduleTimes):
    """Periods that close at the same place in each turn of the grid."""

    closes = False

    def is_open(self, rows: Ints, now: Instant) -> Bools:
        return np.full(len(rows), not self.closes or now % EVERY < CLOSES)

    def closes_at(self, rows: Ints, now: Instant) -> Ints:
        return np.full(len(rows), closing_time(now) if self.closes else FOREVER, dtype=np.int64)


def closing_time(now: int) -> int:
    """When a period that closes does so next; now, if it is closed."""
    return max(now - now % EVERY + CLOSES, now)


class RetryWorld:
    """A world that can be put into any state. What an event does from there is one step."""

    def __init__(
        self,
        shape: RetryShape,
        lifecycle: type[Lifecycle] = Lifecycle,
        retries: type[Retries] = Retries,
        problems: type[Problems] = Problems,
        followed: EndsForFollowers = ends_for_followers,
    ) -> None:
        self.shape = shape
        self._kinds = (lifecycle, retries, problems)
        self._followed = followed

    def initial_state(self) -> RetryState:
        return RetryState(retries=self.shape.retries[0], at=EVERY if self.shape.once else FOREVER)

    # What can happen

    def steps(self, state: RetryState) -> Iterator[RetryStep]:
        """Everything that can happen next, and what it does."""
        shape = self.shape
        if not _rests_too_long(state):
            yield self._step(state, "a second passes")
        cancelled = (Outcome.CANCELLED,) if state.run is not None and state.run.is_stopped else ()
        for outcome in (*shape.outcomes, *cancelled) if state.run is not None else ():
            yield self._step(state, f"the run ends: {outcome.value}")
        if shape.forces and not state.is_forced:
            yield self._step(state, "it is forced")
        if shape.pauses:
            yield self._step(state, "it is resumed" if state.is_paused else "it is paused")
        if shape.saturates:
            yield self._step(state, "all slots are taken" if state.has_slot else "a slot is free")
        for retries in shape.retries:
            if retries != state.retries:
                yield self._step(state, f"it is given {retries} retries")
        if shape.cancels:
            yield self._step(state, "a person stops it")
        if shape.stops:
            yield self._step(state, "the node is killed")
        if shape.stops and shape.once and not _rests_too_long(state):
            yield self._step(state, "the node is down for a second")

    def _step(self, state: RetryState, event: str) -> RetryStep:
        passes = SECOND if event.endswith(("passes", "second")) else 0
        now, state = _START + state.phase + passes, _moved(state, passes)
        self._put(state, now)
        expected, skips, self._ends = state.expected, list[SkipColumns](), list[tuple[bool, int]]()
        has_slot, is_paused, retries, run = state.has_slot, state.is_paused, state.retries, state.run
        is_stop = event == "a person stops it" or (run is not None and run.is_stopped)
        match event.split(" ", 3):
            case ["the", "run", "ends:", outcome]:
                assert run is not None
                expected = self._end(state, run, Outcome(outcome), now)
                is_stop, run = is_stop and outcome != Outcome.SUCCEEDED, None
            case ["a", "person", *_]:
                expected = self._withdraw(state, now)
                run = None if run is None else run._replace(is_stopped=True)
            case ["it", "is", "forced"]:
                self._life.force(self._rows)
            case ["it", "is", "paused"]:
                is_paused = True
                self._life.set_flag(self._rows, Flag.ENABLED, on=False)
                skips += pause(self._life, self._rows, Instant(now))
            case ["it", "is", "resumed"]:
                is_paused = False
                self._life.set_flag(self._rows, Flag.ENABLED, on=True)
                skips += unpause(self._life, self._rows, Instant(now))
            case ["all", *_]:
                has_slot = False
            case ["a", "slot", *_]:
                has_slot = True
            case ["it", "is", "given", _]:
                retries = int(event.split(" ")[3])
                expected = self._edit(expected, retries)
            case ["the", "node", *_]:
                expected, more = self._kill(state, now)
                skips, run = skips + more, None
                if self.shape.once and more and not (self.shape.skips or is_paused or state.is_forced):
                    expected = expected._replace(is_owed=True)
        self._life.slots = int(has_slot) if run is None else 1
        released = self._life.release(Instant(now))
        given_up = self._life.retries.take_given_up()
        self._problems.learn_given_up(np.array(list(given_up), dtype=np.int64), Instant(now))
        self._ends += [(False, nominal) for nominal in given_up.values()]
        frame = state._replace(has_slot=has_slot, is_paused=is_paused, retries=retries, run=run)
        step = self._taken(frame, event, released, [*skips, *released.skips], expected, now)
        return step._replace(is_stop=is_stop)

    def _end(self, state: RetryState, run: RunState, outcome: Outcome, now: int) -> Expectation:
        """The run has ended, as its worker reports and the turn loop learns it."""
        expected = self._expected_after(state, run, outcome, now)
        outcome = Outcome(settled_outcome(outcome, is_stopped=run.is_stopped))
        life, rows, c = self._life, self._rows, self._columns
        meaning, flags = outcome_meanings([outcome]), c.flags[rows]
        life.retries.count_attempts(rows, flags, np.array([run.kind]))
        life.complete(rows)

        def run_of(_: int) -> EndedRun:
            return EndedRun(_NAME, run.nominal + now, now, outcome, None)

        retried = life.retries.plan(self._times, rows, flags, meaning, run_of, Instant(now))
        life.reset_due(rows[retried])
        is_lost = are_lost(meaning, flags)
        repeated = repeat_lost_runs(life, rows[is_lost], Instant(now))
        for_good = is_lost & ~np.isin(rows, repeated)
        for_good |= are_dropped_retries(meaning, np.array([run.kind]), flags)
        self._problems.learn_runs(rows, flags, meaning, for_good, Instant(now), retried)
        self._learn_ends(run, meaning, flags, for_good, retried, now)
        return expected

    def _learn_ends(
        self, run: RunState, meaning: Small, flags: Flags, for_good: Bools, retried: Bools, now: int
    ) -> None:
        """What tasks that run after this one learn of its run."""
        succeeded, failed = self._followed(meaning, flags, for_good, retried)
        if succeeded[0] or failed[0]:
            self._ends.append((bool(succeeded[0]), run.nominal + now))

    def _expected_after(self, state: RetryState, run: RunState, outcome: Outcome, now: int) -> Expectation:
        expected = state.expected._replace(nominal=None)
        if outcome is Outcome.SUCCEEDED:
            return expected._replace(has_failed=False)
        # A forced run that waits makes up for a lost one as well.
        if run.is_stopped or (outcome is Outcome.LOST and state.is_forced):
            return expected
        if outcome is Outcome.LOST:
            if self.shape.skips:
                return _failed(expected)
            return expected._replace(is_owed=True)
        if outcome is Outcome.DROPPED:
            return _failed(expected) if run.kind is RunKind.RETRY else expected
        made = expected.made if run.kind is RunKind.RETRY else 0
        delay = retry_delay(RetryPolicy(0, SECOND, 10 * SECOND), _NAME, made + 1)
        before = EVERY - now % EVERY
        if self.shape.once:
            before = FOREVER if state.expected.following <= 0 else state.expected.following
        if self.shape.closes:
            before = min(before, closing_time(now) - now)
        # A run that is planned already leaves no room; a forced one takes the place of the retry.
        is_taken = state.off_grid_due < FOREVER and not state.is_forced
        if made >= state.retries or state.is_paused or is_taken or delay >= before:
            return _failed(expected)
        return expected._replace(nominal=run.nominal, due=delay, before=before, made=made)

    def _edit(self, expected: Expectation, retries: int) -> Expectation:
        """The task says another number of retries, as the task table learns it."""
        life, rows = self._life, self._rows
        self._columns.retry_policy[rows] = life.retries.policy_number(_task(retries))
        life.retries.give_up_unfit(rows)
        life.reset_due(rows)
        if expected.nominal is not None and expected.made >= retries:
            return _failed(expected)
        return expected

    def _withdraw(self, state: RetryState, now: int) -> Expectation:
        """A person stops the task: what waits is withdrawn, but not what its schedule asks for."""
        expected = state.expected
        if state.is_forced and state.off_grid_due <= 0:
            # The forced run was to make up for it.
            expected = expected._replace(is_owed=False)
        withdraw_planned(self._life, self._rows, now)
        return expected._replace(nominal=None)

    def _kill(self, state: RetryState, now: int) -> tuple[Expectation, list[SkipColumns]]:
        """The node is killed: the next one finds what is stored, and resolves the run that was under way."""
        expected, life, rows = state.expected, self._life, self._rows
        if state.run is not None:
            life.retries.count_attempts(rows, self._columns.flags[rows], np.array([state.run.kind]))
            life.complete(rows)
            expected = self._expected_after(state, state.run, Outcome.LOST, now)
            if settled_outcome(Outcome.LOST, is_stopped=state.run.is_stopped) == Outcome.LOST:
                lost = np.array([not len(repeat_lost_runs(life, rows, Instant(now)))])
                meaning = outcome_meanings([Outcome.LOST])
                flags = self._columns.flags[rows]
                self._problems.learn_runs(rows, flags, meaning, lost, Instant(now))
                self._learn_ends(state.run, meaning, flags, lost, np.zeros(1, dtype=bool), now)
        return expected, resume(life, rows, Instant(now))

    def _refused(self, expected: Expectation) -> Expectation:
        """A retry that waits for its turn until the period closes is refused."""
        if self.shape.closes and expected.nominal is not None and expected.before <= 0:
            return _failed(expected)
        return expected

    # To a state and back

    def _put(self, state: RetryState, now: int) -> None:
        """Make a node that is in this state, as one that has just taken it from the store."""
        lifecycle, retries, problems = self._kinds
        c = self._columns = TaskColumns()
        self._times = _WorldTimes(c)
        self._times.closes = self.shape.closes
        life = self._life = lifecycle(c, Timetable(c), self._times, 1)
        life.retries = retries(c)
        self._problems = problems(c)
        rows = self._rows = c.allocate(1)
        c.every[rows] = EVERY
        if self.shape.once:
            c.calendar[rows] = self._times.calendar_number(OnceSchedule(Instant(state.at + now)))
        c.accounted[rows], c.attempt[rows] = state.accounted + now, state.attempt
        c.off_grid_kind[rows] = state.off_grid_kind
        c.off_grid_due[rows] = state.off_grid_due + (now if state.off_grid_due < FOREVER else 0)
        c.last_start[rows] = NEVER if state.last_start == NEVER else state.last_start + now
        life.set_flag(rows, Flag.ENABLED, on=not state.is_paused)
        life.set_flag(rows, Flag.MISSED_SKIP, on=self.shape.skips)
        life.set_flag(rows, Flag.FORCED, on=state.is_forced)
        c.retry_policy[rows] = life.retries.policy_number(_task(state.retries))
        known = None if state.retried is None else state.retried + now
        life.retries.restore(rows, lambda _: known)
        if state.has_problem:
            opened = KnownProblem(0, Cause.FAILED, _BEFORE, State.CRITICAL, State.CRITICAL)
            self._problems.restore([opened])
        life.add_restored(rows, Instant(now), rows if state.run is not None else rows[:0])

    def _taken(
        self,
        frame: RetryState,
        event: str,
        released: ReleaseResult,
        skips: list[SkipColumns],
        expected: Expectation,
        now: int,
    ) -> RetryStep:
        """The step, with the state that it leads to."""
        c, claims = self._columns, released.claims
        begun = tuple((RunKind(k), n - now) for k, n in zip(claims.kind.tolist(), claims.nominal.tolist(), strict=True))
        run = frame.run
        for kind, nominal in begun:
            run = RunState(kind, nominal, int(c.attempt[0]) + 1 if kind is RunKind.RETRY else 1)
            if kind is RunKind.GRID:
                c.last_start[0] = now
        skipped = tuple((int(s.first[0]) - now, int(s.last[0]) - now, int(s.times[0])) for s in skips if len(s.rows))
        retried = self._life.retries.nominals.get(0)
        last_start, due = int(c.last_start[0]) - now, int(c.off_grid_due[0])
        plans = retried is not None or (run is not None and run.kind is RunKind.RETRY)
        rest = _expected_now(self._refused(expected), frame, begun, skipped, due - now, event)
        after = frame._replace(
            phase=now % EVERY,
            is_forced=bool(c.flags[0] & Flag.FORCED),
            run=run,
            accounted=int(c.accounted[0]) - now,
            off_grid_due=due - now if due < FOREVER else FOREVER,
            off_grid_kind=RunKind(int(c.off_grid_kind[0])) if due < FOREVER else RunKind.GRID,
            retried=None if retried is None else retried - now,
            attempt=int(c.attempt[0]) if plans else 1,
            last_start=last_start if last_start > -EVERY else NEVER,
            has_problem=bool(len(self._problems.rows())),
            expected=rest._replace(is_final=False),
        )
        is_open = not self.shape.closes or now % EVERY < CLOSES
        ends = tuple((succeeded, nominal - now) for succeeded, nominal in self._ends)
        return RetryStep(frame, event, after, begun, skipped, expected, is_open, ends, rest.is_final, is_stop=False)


def _expected_now(
    expected: Expectation,
    frame: RetryState,
    begun: tuple[tuple[RunKind, int], ...],
    skipped: tuple[tuple[int, int, int], ...],
    planned: int,
    event: str,
) -> Expectation:
    """What is expected after these claims and skips."""
    accounted = [nominal for kind, nominal in begun if kind is RunKind.GRID] + [last for _, last, _ in skipped]
    if expected.nominal is not None and accounted:
        expected = _failed(expected)
    for kind, _ in begun:
        if kind is RunKind.RETRY:
            expected = expected._replace(nominal=None, made=expected.made + 1)
        elif expected.nominal is not None:
            expected = expected._replace(nominal=None) if kind is RunKind.FORCED else _failed(expected)
    # A forced run leaves what is planned for later; what waits until the nominal time is one with that.
    is_merged = bool(accounted) and not event.startswith("the node")
    if is_merged or any(kind is not RunKind.FORCED or frame.off_grid_due <= 0 for kind, _ in begun):
        expected = expected._replace(is_owed=False)
    if accounted:
        expected = expected._replace(following=FOREVER if frame.at < FOREVER else max(accounted) + EVERY)
    if expected.nominal is None:
        made = expected.made if any(kind is RunKind.RETRY for kind, _ in begun) or expected.made else 0
        return expected._replace(due=0, before=0, made=made)
    # What was due while the node or the task rested is released by the pace.
    if event in ("the node is killed", "it is resumed") and planned < expected.before:
        expected = expected._replace(due=max(expected.due, planned))
    return expected


def _failed(expected: Expectation) -> Expectation:
    """A run has failed, and nothing follows."""
    return expected._replace(nominal=None, has_failed=True, is_final=True)


def _rests_too_long(state: RetryState) -> bool:
    """Has a run lasted, or a nominal time waited, for so long that more of it would show nothing new?"""
    if state.at < FOREVER:
        return state.at <= -2 * EVERY
    return (state.run is not None and state.run.nominal <= -EVERY) or state.expected.following <= -EVERY // 2


def _moved(state: RetryState, by: int) -> RetryState:
    """The same state as seen from a later time."""
    expected = state.expected
    if expected.nominal is not None:
        nominal, due, before = expected.nominal - by, expected.due - by, _earlier(expected.before, by)
        expected = expected._replace(nominal=nominal, due=due, before=before)
    return state._replace(
        run=None if state.run is None else state.run._replace(nominal=state.run.nominal - by),
        accounted=state.accounted - by,
        off_grid_due=_earlier(state.off_grid_due, by),
        retried=None if state.retried is None else state.retried - by,
        last_start=_earlier(state.last_start, by),
        at=_earlier(state.at, by),
        expected=expected._replace(following=_earlier(expected.following, by)),
    )


def _earlier(t: int, by: int) -> int:
    """The same, as seen from a later time; always and never stay what they are."""
    return t - by if NEVER < t < FOREVER else t


def _task(retries: int) -> Task:
    return Task(_NAME, Schedule(every=EVERY, phase=0), retries=retries, backoff=SECOND, backoff_max=10 * SECOND)
