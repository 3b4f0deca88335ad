"""Passive checks: their results are told from outside. Which is new enough, and by when must the next one be there?

A nominal time of a passive check is when a result is expected. It is looked at once, when the result must be there:
then it is settled, by a result that was told in time or by one that says that there was none.
"""

from typing import NamedTuple

import numpy as np

from evenbeat.core.columns import Ints
from evenbeat.core.gate import Reason
from evenbeat.core.lifecycle import Lifecycle
from evenbeat.core.task import Bools, Flag, Skips
from evenbeat.model import Instant
from evenbeat.when.windows import NEVER


class Seen(NamedTuple):
    """What a look at some passive checks has found."""

    skips: list[Skips]
    """Of those that are disabled: nothing was expected of them."""
    fresh: Ints
    """Rows with a result that is new enough ..."""
    stale: Ints
    """... and those without one, ..."""
    nominal: Ints
    """... each with the nominal time that it was expected for."""


def look_at(life: Lifecycle, rows: Ints, allowed: Ints, not_before: Ints) -> Ints:
    """When to look whether a result has come: when the next one must be there, or later if senders get more time.

    `allowed` is how long after its nominal time a result may come: timebox and grace.
    """
    times: Ints = np.maximum(life.columns.nominal[rows] + allowed, not_before)
    return times


def look(life: Lifecycle, rows: Ints, allowed: Ints, now: Instant) -> Seen:
    """Settle all nominal times that are `allowed` or more ago: the newest of them says whether a check is stale."""
    c = life.columns
    enabled = c.flags[rows] & int(Flag.ENABLED) != 0
    skips = _settle(life, rows[~enabled], allowed[~enabled], now, Reason.DISABLED)
    settled = _settle(life, rows[enabled], allowed[enabled], now, Reason.NONE)
    some = np.concatenate([s.rows for s in settled]) if settled else rows[:0]
    last = np.concatenate([s.last for s in settled]) if settled else rows[:0]
    stale = c.result_at[some] <= counts_since(life, some, last)
    return Seen(skips, some[~stale], some[stale], last[stale])


def _settle(life: Lifecycle, rows: Ints, allowed: Ints, now: Instant, reason: Reason) -> list[Skips]:
    skips = []
    for length in np.unique(allowed).tolist():
        skips += life.skip_until(rows[allowed == length], Instant(now - length), reason)
    return skips


def counts_since(life: Lifecycle, rows: Ints, nominal: Ints) -> Ints:
    """A result that is newer than this counts for the nominal time of its row.

    The grid of an interval has a phase of ours, of which senders know nothing: theirs may come anywhere in between, so
    all of the interval counts. The times of a calendar are those that the sender goes by too: `tolerance` says how much
    too early a result may be, by default half of the time since the one before.
    """
    c = life.columns
    interval, tolerance = life.times.interval(rows, nominal), c.tolerance[rows]
    early = np.where(c.calendar[rows] < 0, interval, np.where(tolerance < 0, interval // 2, tolerance))
    since: Ints = np.where(interval > 0, nominal - early, NEVER)
    return since


def stale_since(life: Lifecycle, rows: Ints, nominal: Ints) -> Ints:
    """The time of a result that says that there was none: just after the last one that was told.

    So it replaces that one, is itself no sign of life, and whatever is told later is newer.
    """
    told = life.columns.result_at[rows]
    since: Ints = np.where(told > NEVER, told + 1, nominal - life.times.interval(rows, nominal))
    return since


def resume(life: Lifecycle, rows: Ints, allowed: Ints, now: Instant) -> list[Skips]:
    """After a stop: what should have been told meanwhile is recorded, and nobody is called stale for it."""
    return _settle(life, rows, allowed, now, Reason.MISSED)


def missed_one(life: Lifecycle, rows: Ints, allowed: Ints, stopped: Instant, now: Instant) -> Bools:
    """Whose sender, going on at its interval since its last result, has told one in vain while nobody listened?

    Of a calendar it has the rest of the time that is allowed, as always.
    """
    c = life.columns
    told, every = c.result_at[rows], c.every[rows]
    came = told + -(-(stopped - allowed - told) // every) * every
    missed: Bools = (c.calendar[rows] < 0) & (told > NEVER) & (np.maximum(came, told + every) <= now)
    return missed
