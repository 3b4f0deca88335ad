"""What a live node knows of one task at this moment, and nobody else: does it wait, for what, and what comes next."""

from heapq import nsmallest
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from evenbeat.core.check import retry_after_opening
from evenbeat.core.gate import Reason, holds_back
from evenbeat.core.next_time import Place
from evenbeat.core.next_time import next_of as place_next
from evenbeat.core.task import Flag
from evenbeat.model import Instant, Kind
from evenbeat.report.obstacles import obstacles_of
from evenbeat.wire.cluster_messages import DEFAULT_POOL

if TYPE_CHECKING:
    from evenbeat.node.loop.turn import Beat
    from evenbeat.node.scheduler import Node


class Moment(Struct):
    """One task in a live node."""

    due: Instant | None
    """When its next run is due, or since when it waits; None if nothing is planned."""
    kind: Kind
    waiting: str
    """For what, in the words of `Reason`; empty if it does not wait."""
    pending: int
    slots: int
    is_untaken: bool = False
    """Its run is with the queue, and no worker has said that it has started it."""
    without_worker_for: float | None = None
    """Seconds that its pool has had no worker; None if it has one."""
    is_claimed: bool = False
    """The node has claimed a run of it, be it that the store does not have the claim yet."""
    obstacles: list[str] = []
    """What keeps the node from executing anything at all."""


def moment_of(node: "Node", number: int) -> Moment | None:
    """Look at a task; None if the node does not have it."""
    row = node.roster.row(number)
    if row is None:
        return None
    life, flags = node.roster.lifecycle, int(node.roster.columns.flags[row])
    due, kind = _planned(node, row)
    waiting = held_back(node, row) if flags & (Flag.WAITING | Flag.FORCED) else ""
    return Moment(
        *(due, kind, waiting, life.pending, life.slots, *_untaken(node, row, number)),
        is_claimed=bool(flags & Flag.RUNNING),
        obstacles=obstacles_of(node),
    )


def next_of(node: "Node", row: int) -> Instant | None:
    """When a task is due next, or since when it waits; None if it is paused or nothing is planned."""
    return _planned(node, row)[0]


def _planned(node: "Node", row: int) -> tuple[Instant | None, Kind]:
    c, times = node.roster.columns, node.roster.times
    flags, number, one = int(c.flags[row]), int(c.period[row]), np.array([row], dtype=np.int64)
    place = Place(
        int(c.nominal[row]),
        int(c.extra[row]),
        Kind(int(c.extra_kind[row])),
        is_enabled=bool(flags & Flag.ENABLED) and bool(flags & (Flag.PERMITTED | Flag.PASSIVE)),
        is_forced=bool(flags & Flag.FORCED) and bool(flags & Flag.PERMITTED),
        catches_up=bool(flags & Flag.CATCHING_UP),
        runs_nothing=bool(flags & Flag.NOTHING_TO_RUN) or not flags & Flag.PERMITTED,
        retry_after_opening=int(
            retry_after_opening(c.phase[one], c.every[one], c.second[one].astype(np.int64), c.retry[one])[0]
        ),
    )

    def after(t: int) -> int:
        return int(times.next_after(one, Instant(t))[0])

    found = place_next(place, None if number < 0 else times.period(number), after, node.clock.now())
    return (None, Kind.GRID) if found is None else (found.at, found.kind)


def held_back(node: "Node", row: int) -> str:
    """What a run of this task would wait for if it were due now, in the words of `Reason`; empty: for nothing."""
    c, life = node.roster.columns, node.roster.lifecycle
    limit = int(c.limit[row])
    reason = holds_back(
        is_running=bool(c.flags[row] & int(Flag.RUNNING)),
        free_slots=life.slots - life.pending,
        free_of_limit=int(life.limits[limit] - life.pending_by_limit[limit]) if limit else None,
    )
    return "" if reason is Reason.NONE else reason.value


def _untaken(node: "Node", row: int, number: int) -> tuple[bool, float | None]:
    """Does a run of it wait for a worker, and for how long has there been none?"""
    place = node.membership()
    if place is None or not int(node.roster.columns.flags[row]) & Flag.RUNNING:
        return False, None
    token = next((token for token, run in node.beat.underway.items() if run.number == number), None)
    if token is None or token in node.beat.lasting:
        return False, None
    pool = node.roster.pools[int(node.roster.columns.pool[row])] or DEFAULT_POOL
    return True, place.pools[pool].without_worker_for if pool in place.pools else None


class RunningRun(Struct, frozen=True):
    """A run that is claimed or running."""

    task: str
    nominal: Instant
    kind: Kind
    claimed: Instant
    started: Instant | None
    """None as long as nobody has told that it has: it is that new, or waits for a worker."""
    timebox: int
    """Microseconds."""
    number: int = 0
    """Of the task."""


class Running(Struct, frozen=True):
    """The runs of this moment, as many as were asked for, those that began first in front."""

    runs: list[RunningRun]
    total: int


def running_of(node: "Node", most: int) -> Running:
    """Look at what runs."""
    beat = node.beat
    since = [(beat.lasting.get(token, run.claimed), token) for token, run in beat.underway.items()]
    return Running([_running(beat, token) for _, token in nsmallest(most, since)], len(since))


def _running(beat: "Beat", token: int) -> RunningRun:
    run, started = beat.underway[token], beat.lasting.get(token)
    return RunningRun(
        beat.name_of(run),
        Instant(run.nominal),
        Kind(run.kind),
        Instant(run.claimed),
        None if started is None else Instant(started),
        run.timebox,
        run.number,
    )
