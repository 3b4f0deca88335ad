"""A scheduler on a virtual clock, on any store, whose runs end as the test says; and what it wrote down.

The parts are those of production: task administration, task table, turn loop, outbox, and what a node does when it
starts, learns of a change, or hands its tasks over. Only the clock, workers and moments of turns are the test's.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from hand_driven_node import VirtualLoop
from msgspec.structs import replace
from path_oracle import Ran as RanOracle
from path_oracle import Skipped as SkippedOracle
from path_oracle import StateAfterStep, TaskHistory

from evenbeat.admin.task_admin import TaskAdmin
from evenbeat.admin.task_stops import tasks_to_stop
from evenbeat.clock.node_clock import Clock
from evenbeat.load.config import Config
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import DAY, SECOND, Entry, Instant, Outcome, Period, RunKind, Task
from evenbeat.node.answers.task_state import next_run_time
from evenbeat.node.definition_copy import DefinitionCopy
from evenbeat.node.loop.chains import read_chains_of
from evenbeat.node.loop.restart import StoredTasks, restore_all_tasks, restore_partitions
from evenbeat.node.loop.starter import CLAIM_AHEAD
from evenbeat.node.options import NodeOptions
from evenbeat.node.scheduler import Scheduler
from evenbeat.node.single_membership import SingleMembership
from evenbeat.queue.contract import Queue
from evenbeat.store.contract import Batch, Filter, ProblemFilter, WithdrawnTasks
from evenbeat.store.memory import MemoryStore
from evenbeat.store.problem_records import ProblemRecord
from evenbeat.wire.replies import ChangeResult
from evenbeat.wire.worker_frames import RunResult, RunSpec

T0 = Instant(20_000 * DAY + SECOND // 2)
"""Half a second after a midnight: what a history does happens on half seconds, nominal times are on whole ones."""
PERIOD = "hours"
LIMIT = "few"
"""Of 1."""
FILES = ("file:one", "file:two")
_SLOTS = 100
_PATIENCE = 30


class Ran(NamedTuple):
    """A run as it was claimed."""

    task: str
    nominal: int
    kind: RunKind
    at: int
    step: int


class Skipped(NamedTuple):
    """Nominal times without a run, or a refused off-grid run."""

    task: str
    first: int
    last: int
    times: int
    reason: str
    at: int
    step: int
    kind: RunKind = RunKind.GRID


class Ended(NamedTuple):
    task: str
    outcome: str
    state: int
    hard: bool
    flapping: bool
    at: int
    step: int


class Watched:
    """A store that tells what it was asked to keep. While it is cut off nothing reaches it, and nobody hears so."""

    on_batch: Callable[[Batch], None]
    is_cut = False

    def definition_copy(self) -> DefinitionCopy | None:
        """The copy of definitions that the next scheduler starts with; None for a start without one."""
        return None

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        if self.is_cut:
            return Future()
        kept: Future[WithdrawnTasks] = super().record(*batches)  # type: ignore[misc]
        if kept.exception(_PATIENCE) is None:
            for batch in batches:
                self.on_batch(batch)
        return kept


class WatchedMemory(Watched, MemoryStore):
    """The store in memory."""


@dataclass
class Behaviour:
    """How runs of a task end from now on."""

    status: int | tuple[int, ...] = 0
    """Several: in turn, by the second of the nominal time."""
    lasts: int | None = 0
    """Microseconds; None: until the history says so."""

    def status_of(self, run: RunSpec) -> int:
        """The exit status of a run."""
        one = self.status
        return one if isinstance(one, int) else one[run.nominal // SECOND % len(one)]


@dataclass
class StoredHistory:
    """All that was kept in the store, in order."""

    ran: list[Ran] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)


class _Membership(SingleMembership):
    """A single node whose workers are those of a world."""

    def __init__(self, world: "World") -> None:
        self._definitions = world.store.definition_copy()
        super().__init__((), self._definitions)
        self._world = world

    def restore_tasks(self) -> None:
        super().restore_tasks()
        if self._definitions is not None and self._definitions.writing is not None:
            self._definitions.writing.join()

    def create_queue(self) -> Queue:
        return self._world  # type: ignore[return-value]


class _Scheduler(Scheduler):
    """A node wired as in production, but for its workers and its turns."""

    membership: _Membership

    def come_up(self, world: "World") -> None:
        self._wire(world)
        self.membership.restore_tasks()

    def come_up_as_another(self, world: "World", before: "_Scheduler") -> None:
        """Of a cluster: take over what another node has, its runs included."""
        tokens = {run.number: token for token, run in before.turns.pending_runs.items()}
        before.tasks.lifecycle.prepare_hand_over(before.tasks.all_rows())
        before.turns.release_tasks(np.flatnonzero(before.tasks.columns.used))
        self._wire(world)
        self.live.read_settings(self.clock.now())
        entries = list(self.store.entries())
        progress = [p._replace(claimed_token=tokens.get(p.task, 0)) for p in self.store.progress()]
        cursors = self.store.cursors([entry.number for entry in entries])
        self.turns.token = before.turns.token + (1 << 32)
        chains = read_chains_of(self.store, entries)
        stored = StoredTasks(entries, progress, cursors, [], list(self.store.open_problems()), chains=chains)
        now = self.clock.now()
        batch, running = restore_partitions(self.tasks, self.turns, stored, now)
        self.is_up = True
        self.turns.take_over(batch, running, now)

    def come_up_without_a_trace(self, world: "World") -> None:
        self._wire(world)
        self.live.read_settings(self.clock.now())
        restore_all_tasks(self.tasks, self.turns, self.store, self.clock)
        world.store.is_cut = True
        self.turns.turn(self.clock.now())
        world.store.is_cut = False

    def _wire(self, world: "World") -> None:
        self.assemble(world.loop)
        self.turns.stop()  # turns are made by hand
        # No task waits for the catch-up or first run of another: the pace has tests of its own. That one is left to a
        # run on the grid which comes within the start window is as in production.
        self.tasks.lifecycle.pace.share = 1e12

    def learn_of(self, changed: ChangeResult) -> None:
        """Another node has changed something."""
        self.live.apply(changed)

    def remember_clock(self) -> None:
        self.membership.store_clock()

    def tasks_are_live(self) -> None:
        """Without a search for garbage, which takes longer than a whole history."""
        self.is_up = True

    def fail(self, error: BaseException) -> None:
        raise error


class World:
    """One database, and at most one scheduler on it at a time."""

    early_delivery = CLAIM_AHEAD
    is_busy = False

    def __init__(self, store: Any, begins: int = T0) -> None:
        self.begins = begins
        self.store = store
        self.store.on_batch = self._kept
        self.history = StoredHistory()
        self.now: int = begins
        self.loop = _a_loop()
        self.keys: dict[str, dict[str, Any]] = {}
        """What each task is, as a file has it."""
        self.checks: set[str] = set()
        self.file_of: dict[str, str] = {}
        self.period = Period()
        self.behaviours: dict[str, Behaviour] = {}
        self._names: dict[int, str] = {}
        self._ends: list[tuple[int, int]] = []
        """When which run ends."""
        self.under_way: dict[int, RunSpec] = {}
        self.node: _Scheduler | None = None
        self.paused: set[str] = set()
        self.gone: set[str] = set()
        self.moments: list[StateAfterStep] = []
        self._cancelled: set[int] = set()
        """Runs that their node has told to end."""
        self.no_turns = False
        """The node is up, but has not begun."""

    # What a queue is for a beat

    def confirm_stored(self, tokens: Sequence[int]) -> None: ...

    def cancel(self, tokens: Sequence[int] = ()) -> None:
        for token in [token for token in self.under_way if token in tokens]:
            self._cancelled.add(token)
            self._ends.append((self.now, token))

    def set_clock(self, offset: int) -> None: ...

    def dispatch(
        self,
        runs: Sequence[RunSpec],
        functions: Sequence[str | None] | None = None,
        tasks: Sequence[int] = (),
        pools: Sequence[str | None] | None = None,
    ) -> None:
        for run in runs:
            assert run.name not in {other.name for other in self.under_way.values()}, f"two runs of {run.name} at once"
            if "limit" in self.keys[run.name]:
                limited = [other.name for other in self.under_way.values() if "limit" in self.keys[other.name]]
                assert not limited, f"{run.name} and {limited} share a limit of 1"
            self.under_way[run.token] = run
            lasts = self._behaviour(run.name).lasts
            if lasts is not None:
                self._ends.append((max(self.now, run.nominal) + lasts, run.token))

    def _behaviour(self, name: str) -> Behaviour:
        return self.behaviours.setdefault(name, Behaviour())

    def _kept(self, batch: Batch) -> None:
        name, step = self._name, len(self.moments)
        d = self.history
        d.ended += [Ended(name(f.task), f.outcome, f.state, f.hard, f.flapping, f.ended, step) for f in batch.finishes]
        d.skipped += [Skipped(name(s.task), s.first, s.last, s.times, s.reason, s.at, step) for s in batch.skips]
        refused = [
            Skipped(name(r.task), r.due, r.due, 1, r.reason, r.at, step, RunKind(r.kind)) for r in batch.refusals
        ]
        d.skipped += refused
        d.ran += [Ran(name(c.task), c.nominal, RunKind(c.kind), c.at, step) for c in batch.claims]

    def _name(self, number: int) -> str:
        if number not in self._names:
            self._learn_names()
        return self._names[number]

    def _learn_names(self) -> None:
        self._names |= {entry.number: entry.task.name for entry in self.store.entries()}

    # The scheduler

    @property
    def is_up(self) -> bool:
        return self.node is not None

    @property
    def is_idle(self) -> bool:
        """Is nothing claimed or running?"""
        return not self.under_way

    def _new_node(self) -> _Scheduler:
        clock = Clock(lambda: self.now, lambda: self.now)
        options = NodeOptions(max_concurrent=_SLOTS)
        return _Scheduler(TaskAdmin(self.store, clock.now), options, _Membership(self), clock)

    def start(self, *, turn: bool = True) -> None:
        if self.node is None:
            self.node = self._new_node()
            self.node.come_up(self)
            if turn:
                self.turn()

    def stop(self) -> None:
        """In order: what runs ends, nothing else begins."""
        if self.node is None:
            return
        self.node.turns.is_claiming = False
        for token in list(self.under_way):
            self._end(token)
        self.node.turns.turn(Instant(self.now))
        self.node.remember_clock()
        self.node = None

    def kill(self) -> None:
        """At once: nobody will ever hear how runs ended."""
        self.node = None
        self.under_way.clear()
        self._cancelled.clear()
        self._ends.clear()

    def kill_during_turn(self) -> None:
        """In the middle of a turn, before the store has what it decided."""
        if self.node is not None:
            running = dict(self.under_way)
            self.store.is_cut = True
            self.node.turns.turn(Instant(self.now))
            self.store.is_cut = False
            assert self.under_way == running, "a run was started whose claim is not in the store"
            self.kill()

    def hand_over(self) -> None:
        """To another node of a cluster, whose runs go on."""
        if self.node is not None:
            other = self._new_node()
            other.come_up_as_another(self, self.node)
            self.node = other
            self.turn()

    def next_times(self) -> dict[str, int | None]:
        """When each task is next, as the live node says."""
        assert self.node is not None
        return self._next_times(self.node)

    def next_times_after_restart(self) -> dict[str, int | None]:
        """The same as a node would say that started now; nothing of what it decides is kept."""
        node = self._new_node()
        node.come_up_without_a_trace(self)
        return self._next_times(node)

    def _next_times(self, node: _Scheduler) -> dict[str, int | None]:
        rows = {name: node.tasks.row(self.entry(name).number) for name in self.keys if name not in self.gone}
        return {name: None if row is None else next_run_time(node, row) for name, row in rows.items()}

    # Time

    def turn(self) -> None:
        """All turns that there are at this moment, until nothing is left to do."""
        node = self.node
        if node is None or self.no_turns:
            return
        for _ in range(1_000):
            ending = [token for when, token in self._ends if when <= self.now]
            for token in ending:
                self._end(token)
            before = len(self.under_way)
            node.turns.turn(Instant(self.now))
            if not any(when <= self.now for when, _ in self._ends) and len(self.under_way) == before:
                return
        raise AssertionError("it never comes to rest")

    def pass_time(self, length: int) -> None:
        until = self.now + length
        in_vain = 0
        while self.node is not None:
            due = int(self.node.tasks.lifecycle.timetable.next_due())
            due = due if due <= self.now + CLAIM_AHEAD else due - CLAIM_AHEAD
            due = min([due, *(when for when, _ in self._ends)])
            if due > until:
                break
            in_vain = in_vain + 1 if due <= self.now else 0
            assert in_vain < 3, "turn after turn in which nothing is done"
            self.now = max(due, self.now + 1)
            self.turn()
        self.now = until
        self.turn()

    def end(self, name: str) -> None:
        """A run that lasts until somebody says so ends."""
        for token in [token for token, run in self.under_way.items() if run.name == name]:
            self._end(token)
        self.turn()

    def _end(self, token: int) -> None:
        run = self.under_way.pop(token)
        self._ends = [(when, other) for when, other in self._ends if other != token]
        status = self._behaviour(run.name).status_of(run)
        outcome = Outcome.FAILED if status else Outcome.SUCCEEDED
        outcome = Outcome.CANCELLED if token in self._cancelled else outcome
        self._cancelled.discard(token)  # the next node counts tokens anew
        started = max(run.nominal, self.begins) if run.nominal <= self.now else self.now
        assert self.node is not None
        self.node.turns.add_results([RunResult(token, outcome, status, started, self.now, b"")])

    # Changes

    def admin(self) -> TaskAdmin:
        """Of the live node, or on a database whose node is stopped."""
        return self.node.admin if self.node is not None else self.other_admin()

    def other_admin(self) -> TaskAdmin:
        """Of a program that has no node, or of another node."""
        return TaskAdmin(self.store, lambda: Instant(self.now))

    def task(self, name: str) -> Task:
        check = name in self.checks
        keys = {key: value for key, value in self.keys[name].items() if check or key not in ("retry", "attempts")}
        return task_from_table(name, {"command": ["true"], **keys}, check=check)

    def configs(self) -> dict[str, Config]:
        """All files as they are now."""
        files: dict[str, list[Task]] = {file: [] for file in FILES}
        for name in [name for name in self.keys if name not in self.gone]:
            files[self.file_of[name]].append(self.task(name))
        periods: list[dict[str, Period]] = [{PERIOD: self.period}, {}]
        limits: list[dict[str, int]] = [{LIMIT: 1}, {}]
        return {
            file: Config(tuple(files[file]), p, few, None) for file, p, few in zip(FILES, periods, limits, strict=True)
        }

    def apply(self) -> None:
        """The files as they are now."""
        self.admin().apply_configs(self.configs(), "ana")
        self.learn()

    def set(self, name: str) -> None:
        """The task as it is now, by hand."""
        self.admin().set(name, self.task(name), "ana")
        self.learn()

    def pause(self, name: str, *, paused: bool) -> None:
        self.admin().pause(Filter(names=(name,)), "ana", paused=paused)
        self.learn()

    def set_period(self) -> None:
        self.admin().set_periods({PERIOD: self.period}, FILES[0], "ana")
        self.learn()

    def force(self, name: str) -> None:
        if self.node is not None:
            self.node.live.force(self.node.admin.select_forced([name], "ana"))
            self.turn()

    def stop_run(self, name: str) -> None:
        """A person stops a run, or what waits of a task."""
        if self.node is not None:
            entries = tasks_to_stop(self.store, Filter(names=(name,)), Instant(self.now))
            self.node.live.stop(entries, "ana", "")
            self.turn()

    def learn(self) -> None:
        """The live node, if there is one, takes over what its task administration has changed."""
        if self.node is not None:
            self.node.apply_changes()
            self.turn()

    def elsewhere(self, change: Callable[[TaskAdmin], ChangeResult]) -> None:
        """Another node changes something, and ours hears of it."""
        changed = change(self.other_admin())
        assert self.node is not None
        self.node.learn_of(changed)
        self.turn()

    # What is there

    def note(self) -> None:
        """For the oracle: how everything is from now on."""
        self._learn_names()  # of tasks that are removed before anything is recorded of them
        keys = {name: dict(keys) for name, keys in self.keys.items()}
        self.moments.append(StateAfterStep(self.now, self.is_up, keys, frozenset(self.paused), self.period.ranges))

    def task_history(self, name: str) -> TaskHistory:
        """For the oracle: all that is known of a task."""
        ended = [e for e in self.history.ended if e.task == name]
        ran = [
            RanOracle(
                r.step,
                r.nominal,
                r.kind.word,
                r.at,
                ended[i].at if i < len(ended) else None,
                ended[i].outcome if i < len(ended) else "",
                i < len(ended) and not ended[i].hard,
                ended[i].step if i < len(ended) else None,
            )
            for i, r in enumerate(r for r in self.history.ran if r.task == name)
        ]
        skipped = [
            SkippedOracle(s.step, s.first, s.last, s.times, s.reason, s.at, s.kind.word)
            for s in self.history.skipped
            if s.task == name
        ]
        return TaskHistory(name, name in self.checks, self.moments, ran, skipped, self.in_the_way(name))

    def in_the_way(self, name: str) -> list[tuple[int, int]]:
        """When runs of others that may share its limit began and ended."""
        sharing = {other for other in self.keys if any("limit" in m.keys[other] for m in self.moments)}
        found = []
        for other in sharing - {name} if name in sharing else ():
            ended = [end.at for end in self.history.ended if end.task == other]
            began = [ran.at for ran in self.history.ran if ran.task == other]
            found += list(zip(began, [*ended, self.now][: len(began)], strict=True))
        return found

    def entry(self, name: str) -> Entry:
        return self.other_admin().find_or_raise(name)

    def contents(self) -> list[object]:
        """Everything that the store holds about tasks and their runs, without the numbers that each store gives."""
        found: list[object] = []
        for name in self.keys:
            number = self.entry(name).number
            (progress,) = [p._replace(task=0, claimed_token=0) for p in self.store.progress() if p.task == number]
            runs = [replace(run, number=0) for run in self.store.runs(number, most=10_000)]
            skips = [replace(skip, number=0) for skip in self.store.skips(number, most=10_000)]
            found += [name, progress, self.condition(name), sorted(map(repr, runs)), sorted(map(repr, skips))]
            found += self.problems(name)
        return found

    def problems(self, name: str) -> list[ProblemRecord]:
        """All problems that a task has had, oldest first; without what each store numbers in its own way."""
        found = self.store.problems(ProblemFilter(tasks=Filter(names=(name,)), is_open=None))
        return [replace(problem, id=0, number=0) for problem in reversed(found)]

    def condition(self, name: str) -> tuple[object, ...]:
        (found,) = self.store.conditions(Filter(names=(name,)))
        return (found.state, found.hard, found.attempt, found.entry.task)


def _a_loop() -> VirtualLoop:
    """One for all worlds of a test: nothing ever happens on it."""
    return VirtualLoop.made[-1] if VirtualLoop.made else VirtualLoop()
