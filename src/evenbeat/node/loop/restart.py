"""Restores tasks from the store: resolves runs that the last node left open, and makes up for what was missed."""

import logging
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple, Protocol

import msgspec
import numpy as np

from evenbeat.admin.passive_settings import load_passive_times
from evenbeat.admin.worker_killers import StoredWorkerDeaths
from evenbeat.clock.node_clock import Clock
from evenbeat.core.clock_steps import clock_set_back
from evenbeat.core.columns import Ints
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.lost_runs import assumed_start, repeat_lost_runs
from evenbeat.core.missed_times import resume
from evenbeat.core.run_plan import outcome_meanings
from evenbeat.core.task import Flag, SkipColumns
from evenbeat.model import SECOND, Entry, Instant, Outcome, RunKind, partition_of
from evenbeat.node.loop.chains import StoredChains, read_chains, restore_chains
from evenbeat.node.loop.jobs_with_arguments import StoredOwnJob, read_own_jobs
from evenbeat.node.loop.plain_definitions import DefinitionCollector, PlainDefinitions
from evenbeat.node.loop.records import problem_changes_of, task_positions_of
from evenbeat.node.loop.task_table import TaskTable
from evenbeat.node.loop.turn import TurnLoop
from evenbeat.node.loop.unsettled_changes import UnsettledEdits
from evenbeat.store.contract import Batch, Finish, PastDefinition, Store, StoreError, TaskProgress
from evenbeat.store.latest_result import is_result_missing
from evenbeat.store.problem_records import OpenProblem, ProblemChange
from evenbeat.when.windows import FOREVER

GENERATION_KEY: Final = "clock generation"
LAST_SEEN_KEY: Final = "clock last seen"
"""Settings: which generation of nominal times it is, and the time when a node was last alive."""
_MERELY_LATE: Final = 2 * SECOND
"""When a task goes from node to node, what is late by less than this is not treated as missed."""
_log: Final = logging.getLogger("evenbeat.node")


@contextmanager
def explain_damaged_store(database: str) -> Iterator[None]:
    """Explain errors that come from a database that is damaged, or written by another version."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError, msgspec.MsgspecError) as e:
        _log.debug("taking up failed", exc_info=True)
        raise StoreError(
            f"{database}: the node cannot take up what this database says; it was left as it is. If no other version "
            f"of evenbeat wrote it, it is damaged: put a backup in its place ({type(e).__name__}: {e})"
        ) from e


class CopiedDefinitions(Protocol):
    """A copy of definitions in the store, which are read faster than there: see `node.definition_copy`."""

    def plain(self, without: Collection[int], /) -> Iterator[PlainDefinitions]:
        """The definitions that are as the store has them, some at a time, without those of some tasks."""

    def others(self) -> Iterable[Entry] | None:
        """The tasks that `plain` has not given; None if it has given none."""

    def keep(self, definitions: PlainDefinitions | None, /) -> None:
        """All definitions of plain tasks, for the next start."""


def restore_all_tasks(
    tasks: TaskTable,
    turns: TurnLoop,
    store: Store,
    clock: Clock,
    all_new: Sequence[Entry] = (),
    copy: CopiedDefinitions | None = None,
) -> Batch:
    """Bring in all tasks of a store; returns a batch to record before anything runs.

    `all_new` are all tasks of a store in which all are new, so that they need not be read again. Those that are in the
    `copy` are not read from the store.
    """
    life, c = tasks.lifecycle, tasks.columns
    turns.worker_deaths = StoredWorkerDeaths(store)
    edits = UnsettledEdits(tasks, [] if all_new else store.past_definitions())
    if copy is None:
        rows = _add_all(tasks, edits, all_new or store.entries())
    else:
        rows = _add_all_from(copy, tasks, edits, store, all_new)
    known, open_claims = tasks.restore_progress(store.progress())
    life.retries.restore(known, lambda row: retried_nominal(store, int(c.number[row]), life.generation))
    open_problems = [] if all_new else list(store.open_problems())
    tasks.restore_problems(open_problems)
    now = clock.now()  # only now: reading a million tasks takes time, which is part of the stop
    life.pace.mean_rate = tasks.mean_rate
    life.add_restored(known, now)
    turns.holds.restore(open_problems, now)
    new = np.setdiff1d(rows, known, assume_unique=True)
    skips: list[SkipColumns] = []
    last_seen = int(store.setting(LAST_SEEN_KEY) or 0)
    is_set_back = last_seen > now + SECOND
    if is_set_back:
        skips += clock_set_back(life, known, last_seen - now, now)
    _restore_forced(life, known)
    _restore_own_jobs(tasks, turns, list(read_own_jobs(store)), open_claims)
    if ended := turns.own_jobs.take_ended():
        store.set_settings(dict.fromkeys(ended))
    chained = tasks.columns.number[rows[c.flags[rows] & int(Flag.CHAINED) != 0]].tolist()
    restore_chains(tasks, rows, read_chains(store, chained, tasks.chains.parent_names()), now)
    finishes, failed = _resolve_lost_runs(tasks, turns, open_claims, now)
    _learn_lost_parents(turns, open_claims, failed, now)
    edited = edits.settle(known, now, lambda some, then: resume(life, some, then, tasks.catch_up_of(some)), skips)
    late = known[np.minimum(c.nominal[known], c.off_grid_due[known]) <= now]
    active = tasks.active(known)
    skips += resume(life, active, now, tasks.catch_up_of(active))
    times = load_passive_times(store)
    turns.passive.restore(times, [entry for id_ in sorted(times.ids) if (entry := store.find(id_)) is not None])
    turns.passive.restore_missing(missing_results(store, turns.passive.unsure(tasks.reachability.parent_rows())))
    skips += turns.passive.resume_after_stop(known, Instant(min(last_seen or now, now)), now)
    turns.passive.schedule_checks(edited, now, anew=True)
    skips += _begin_new_tasks(tasks, turns, new, edits.created, now)
    life.trigger_node_event(np.array(sorted(tasks.occasions["@reboot"]), dtype=np.int64), now)
    turns.cursors |= store.cursors([] if all_new else c.number[rows].tolist())  # a new task may have been given one
    tasks.chains.make_due(new.tolist(), now)
    moved = [new, known] if is_set_back else [new, late, edited, tasks.rows([p.task for p in open_claims])]
    standings = task_positions_of(tasks, np.unique(np.concatenate(moved)), now)
    return Batch(
        finishes=finishes,
        standings=standings,
        skips=turns.skips_of(skips, now),
        settled=edits.settled,
        problems=_reconciled_problems(tasks, rows, failed, now),
    )


def retried_nominal(store: Store, number: int, generation: int) -> Instant | None:
    """The nominal time that the retry of a task carries: that of its latest run, if the history still has it, and by
    the clock of this generation.
    """
    runs = store.runs(number, most=1)
    return runs[0].nominal if runs and runs[0].generation == generation else None


def missing_results(store: Store, unsure: Mapping[int, int]) -> dict[int, int]:
    """Of these checks, on which tasks depend, those whose latest result says that one is missing."""
    return {number: at for number, at in unsure.items() if is_result_missing(store, number)}


def _add_all(tasks: TaskTable, edits: UnsettledEdits, entries: Iterable[Entry]) -> Ints:
    """Give all tasks their rows, changed ones with the definition that their recorded progress belongs to."""
    return np.concatenate([tasks.add(edits.unchanged(entries)), *edits.add_changed()])


def _add_all_from(
    copy: CopiedDefinitions, tasks: TaskTable, edits: UnsettledEdits, store: Store, all_new: Sequence[Entry]
) -> Ints:
    """`_add_all` with the definitions in a copy, which gets those that it lacks."""
    tasks.collector = DefinitionCollector()
    rows = [] if all_new else [tasks.add_plain(some) for some in copy.plain(edits.changed)]
    others = None if all_new else copy.others()
    rows.append(tasks.add(edits.unchanged(all_new or (store.entries() if others is None else others))))
    copy.keep(tasks.collected())
    return np.concatenate([*rows, *edits.add_changed()])


def _begin_new_tasks(
    tasks: TaskTable, turns: TurnLoop, new: Ints, created: Mapping[int, Instant], now: Instant
) -> list[SkipColumns]:
    """Bring in tasks that no node has seen before. A `start_at` since their creation is made, even if late."""
    tasks.lifecycle.pace.mean_rate = tasks.mean_rate
    tasks.lifecycle.begin(new, now)
    turns.passive.schedule_checks(new, now, anew=True)
    numbers = tasks.columns.number[new]
    skips = tasks.start_at(new[~np.isin(numbers, list(created))], now)
    for i in np.flatnonzero(np.isin(numbers, list(created))).tolist():
        skips += tasks.start_at(new[i : i + 1], min(created[int(numbers[i])], now))
    return skips


class StoredTasks(NamedTuple):
    """What the store says of the tasks of some partitions."""

    entries: Sequence[Entry]
    progress: Sequence[TaskProgress]
    cursors: Mapping[int, bytes]
    past: Sequence[PastDefinition]
    problems: Sequence[OpenProblem]
    retried: Mapping[int, Instant | None] = {}
    """Of tasks with a retry that waits: the nominal time that it carries, see `retried_nominal`."""
    own_jobs: Sequence[StoredOwnJob] = ()
    """Of forced runs with arguments of their own, of all tasks."""
    chains: StoredChains = StoredChains({}, [])


def restore_partitions(
    tasks: TaskTable,
    turns: TurnLoop,
    stored: StoredTasks,
    now: Instant,
    *,
    begins: Container[int] = (),
) -> tuple[Batch, list[TaskProgress]]:
    """Bring in the tasks of partitions that this node takes over: a batch to record, and the runs under way.

    Those runs go on. What came due while no node had the partition is late, or made up for as after a stop if it is
    late by more than a moment. `begins` are the partitions for which the cluster has just been started.
    """
    life, c = tasks.lifecycle, tasks.columns
    edits = UnsettledEdits(tasks, stored.past)
    rows = _add_all(tasks, edits, stored.entries)
    known, open_claims = tasks.restore_progress(stored.progress)
    life.retries.restore(known, lambda row: stored.retried.get(int(c.number[row])))
    tasks.restore_problems(stored.problems)
    life.pace.mean_rate = tasks.mean_rate
    running = [p for p in open_claims if p.claimed_token and tasks.row(p.task) is not None]
    life.add_restored(known, now, tasks.rows([p.task for p in running]))
    turns.holds.restore(stored.problems, now)
    turns.holds.learn_ends(known, now)
    _restore_forced(life, known)
    _restore_own_jobs(tasks, turns, stored.own_jobs, open_claims)
    # A single node uses no tokens. If its database was moved to the cluster, the ends of its runs are unknown.
    lost = [p for p in open_claims if not p.claimed_token or tasks.row(p.task) is None]
    restore_chains(tasks, rows, stored.chains, now)
    gone, failed = _resolve_lost_runs(tasks, turns, lost, now)
    _learn_lost_parents(turns, lost, failed, now)

    def late_and_idle(some: Ints, then: Instant) -> Ints:
        late = some[np.minimum(c.nominal[some], c.off_grid_due[some]) <= then - _MERELY_LATE]
        idle: Ints = late[c.flags[late] & int(Flag.RUNNING) == 0]
        return idle

    def resume_late(some: Ints, then: Instant) -> list[SkipColumns]:
        idle = late_and_idle(some, then)
        return resume(life, idle, then, tasks.catch_up_of(idle))

    skips: list[SkipColumns] = []
    edited = edits.settle(known, now, resume_late, skips)
    active = tasks.active(known)
    idle = late_and_idle(active, now)
    skips += resume_late(active, now)
    skips += turns.passive.resume_after_stop(known, Instant(now - _MERELY_LATE), now)
    turns.passive.schedule_checks(edited, now, anew=True)
    new = np.setdiff1d(rows, known, assume_unique=True)
    skips += _begin_new_tasks(tasks, turns, new, edits.created, now)
    tasks.chains.make_due(new.tolist(), now)
    here = set(rows.tolist())
    occasions = [
        row for row in tasks.occasions["@reboot"] if row in here and partition_of(int(c.number[row])) in begins
    ]
    life.trigger_node_event(np.array(sorted(occasions), dtype=np.int64), now)
    turns.cursors |= stored.cursors
    standings = task_positions_of(tasks, np.unique(np.concatenate([new, idle, edited])), now)
    return (
        Batch(
            finishes=gone,
            standings=standings,
            skips=turns.skips_of(skips, now),
            settled=edits.settled,
            problems=_reconciled_problems(tasks, rows, failed, now),
        ),
        running,
    )


def _learn_lost_parents(turns: TurnLoop, lost: Sequence[TaskProgress], failed: Ints, now: Instant) -> None:
    """Lost runs that are not repeated have failed: tasks may follow that."""
    numbers = set(turns.tasks.columns.number[failed].tolist())
    turns.chains.learn_failures([(p.task, p.claimed or 0) for p in lost if p.task in numbers], now)


def _resolve_lost_runs(
    tasks: TaskTable, turns: TurnLoop, open_claims: Sequence[TaskProgress], now: Instant
) -> tuple[list[Finish], Ints]:
    """Finish runs that were under way when the last node died as lost, and repeat them where their tasks want it.

    One that a person had asked to stop is cancelled, and not repeated. Returns the ends of these runs, and the rows of
    those that were lost for good.
    """
    c = tasks.columns
    removed = [p for p in open_claims if tasks.row(p.task) is None]
    open_claims = [p for p in open_claims if tasks.row(p.task) is not None]
    rows = tasks.rows([p.task for p in open_claims])
    on_grid = np.array([p.claimed_kind == RunKind.GRID for p in open_claims], dtype=bool)
    started = np.array([assumed_start(p.claimed_at, p.claimed or 0, now) for p in open_claims], dtype=np.int64)
    # The store knows the start of a run that lasted, by a clock that may have been set back since.
    started[on_grid] = np.minimum(np.maximum(started[on_grid], c.last_start[rows[on_grid]]), now)
    c.last_start[rows[on_grid]] = started[on_grid]
    # A forced run that waits makes up for them as well.
    lost = rows[[not p.claimed_stop for p in open_claims]]
    lost = lost[c.flags[lost] & int(Flag.FORCED) == 0]
    repeated = tasks.repeatable(lost)
    kinds = np.array([p.claimed_kind for p in open_claims], dtype=np.int64)
    tasks.lifecycle.retries.count_attempts(rows, c.flags[rows], kinds)
    repeated = repeated[[not turns.worker_deaths.is_set_aside(n) for n in c.number[repeated].tolist()]]
    own = [p.task for p in open_claims if turns.own_jobs.get(p.task, p.claimed_kind, p.claimed or 0) is not None]
    repeated = repeat_lost_runs(tasks.lifecycle, repeated, now, tasks.rows(own))
    if open_claims or removed:
        _log.warning("%d runs were lost with the last node", len(open_claims + removed), extra={"action": "lost"})
    now_standing = [
        p._replace(
            last_start=int(c.last_start[row]),
            result_at=int(c.result_at[row]),
            extra=int(c.off_grid_due[row]),
            extra_kind=int(c.off_grid_kind[row]),
            attempt=int(c.attempt[row]),
        )
        for row, p in zip(rows.tolist(), open_claims, strict=True)
    ]
    ends = [_lost_run(p, begun, now) for p, begun in zip(now_standing, started.tolist(), strict=True)]
    ends += [_lost_run(p, assumed_start(p.claimed_at, p.claimed or 0, now), now) for p in removed]
    return ends, lost[~np.isin(lost, repeated)]


def _reconciled_problems(tasks: TaskTable, rows: Ints, failed: Ints, now: Instant) -> list[ProblemChange]:
    """What becomes of problems when tasks come in, and when runs were lost for good (`failed`)."""
    problems, c = tasks.problems, tasks.columns
    meaning, lost_for_good = outcome_meanings([Outcome.LOST] * len(failed)), np.ones(len(failed), dtype=bool)
    updates = problems.learn_runs(failed, c.flags[failed], meaning, lost_for_good, now)
    updates += tasks.problems_of_given_up_retries(now)
    return problem_changes_of(c, updates + problems.reconcile(rows, now, are_new=True))


def _lost_run(p: TaskProgress, started: int, now: Instant) -> Finish:
    return Finish(
        task=p.task,
        started=started,
        ended=now,
        outcome=Outcome.CANCELLED if p.claimed_stop else Outcome.LOST,
        status=None,
        output=p.claimed_stop or "the node stopped while it ran",
        cursor=None,
        last_start=p.last_start,
        state=p.state,
        hard=p.hard,
        attempt=p.attempt,
        changes=p.changes,
        flapping=p.flapping,
        result_at=p.result_at,
        extra=p.extra,
        extra_kind=p.extra_kind,
        notable=True,
    )


def _restore_own_jobs(
    tasks: TaskTable, turns: TurnLoop, stored: Sequence[StoredOwnJob], open_claims: Sequence[TaskProgress]
) -> None:
    """Bring in the jobs of forced runs with arguments of their own, of tasks that are here."""
    flags, waiting = tasks.columns.flags, tasks.lifecycle.retries.nominals
    here = [job for job in stored if tasks.row(job.number) is not None]
    turns.own_jobs.restore(
        here,
        open_claims,
        lambda number: bool(flags[tasks.row_or_raise(number)] & int(Flag.FORCED)),
        lambda number: waiting.get(tasks.row_or_raise(number)),
    )


def _restore_forced(life: Lifecycle, rows: Ints) -> None:
    """Forced runs that waited when the node stopped wait again."""
    c = life.columns
    alone = (c.off_grid_due[rows] < FOREVER) & (c.off_grid_kind[rows] == RunKind.FORCED)
    c.off_grid_due[rows[alone]] = FOREVER
    life.force(rows[alone | (c.flags[rows] & int(Flag.FORCED) != 0)])
