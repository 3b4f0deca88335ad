"""Is what a scheduler wrote down true? Judged by what happened to it, without a line of evenbeat.

Each nominal time is accounted for exactly once, by a run or by a reason that is true of it; what is owed is neither
lost nor made twice; nothing runs that may not.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from path_model import SECOND, instant_of, interval, is_open, nominal_times, seconds

AHEAD = SECOND // 10
"""A run may be claimed so long before it is due."""
NEAR = 30 * SECOND
"""Half of the start window: what is owed may be left to a run on the grid that comes so soon."""
SLACK = 3 * SECOND
"""What may run now runs within this."""


class StateAfterStep(NamedTuple):
    """How everything is after a step of the history."""

    at: int
    is_up: bool
    keys: dict[str, dict[str, Any]]
    paused: frozenset[str]
    hours: tuple[str, ...]


class Ran(NamedTuple):
    step: int
    """Of the history: during which step it was claimed. It ends the moment of the same number."""
    nominal: int
    kind: str
    at: int
    ended: int | None
    """None while it lasts."""
    outcome: str
    is_soft: bool
    ended_in: int | None
    """During which step."""


class Skipped(NamedTuple):
    step: int
    first: int
    last: int
    times: int
    reason: str
    at: int
    kind: str


class TaskHistory(NamedTuple):
    """Everything about one task."""

    name: str
    is_check: bool
    moments: Sequence[StateAfterStep]
    ran: Sequence[Ran]
    skipped: Sequence[Skipped]
    in_the_way: Sequence[tuple[int, int]] = ()
    """When runs of others began and ended, with which it may share a limit."""


class _Then(NamedTuple):
    """How a task was at some time."""

    at: int
    is_up: bool
    is_on: bool
    hours: tuple[str, ...]
    start_at: int | None
    missed: str
    backlog: str
    keys: dict[str, Any]

    def may_run(self, t: int) -> bool:
        return self.is_up and self.is_on and is_open(self.hours, t)


class Oracle:
    """Looks at one task from its creation to the end."""

    def __init__(self, task_history: TaskHistory) -> None:
        self.task_history = task_history
        self.ran = task_history.ran
        self.problems: list[str] = []
        self.then = [_then(moment, task_history.name) for moment in task_history.moments]
        """The first is how it was created."""
        self.until = self.then[-1].at
        self.expected: dict[int, int] = {}
        """Each nominal time, and the moment in which it came."""
        for i, (now, following) in enumerate(zip(self.then, self.then[1:], strict=False)):
            if following.at > now.at:
                self.expected |= dict.fromkeys(nominal_times(now.keys, now.hours, now.at, following.at), i)
        self._times = sorted(self.expected)
        self._claimed = [ran.at for ran in task_history.ran]

    def judge(self) -> list[str]:
        """What is wrong; nothing, one hopes."""
        self._each_once()
        self._runs_are_allowed()
        self._starts_once()
        self._what_is_owed()
        return self.problems

    def _bad(self, what: str, t: int) -> None:
        self.problems.append(f"{self.task_history.name}: {what} at {_show(t)}")

    def _during(self, step: int) -> tuple[_Then, _Then]:
        """Before and after a step."""
        return self.then[max(step - 1, 0)], self.then[min(step, len(self.then) - 1)]

    # Each nominal time

    def _each_once(self) -> None:
        accounts: Counter[int] = Counter()
        for ran in self.ran:
            if ran.kind == "grid" or (ran.kind == "catch-up" and ran.nominal in self.expected):
                if ran.nominal not in self.expected:
                    self._bad(f"a run ({ran.kind}) at no nominal time", ran.nominal)
                accounts[ran.nominal] += 1
        for skipped in self.task_history.skipped:
            if skipped.kind != "grid":
                continue
            within = self._times[bisect_left(self._times, skipped.first) : bisect_right(self._times, skipped.last)]
            if skipped.first not in self.expected or skipped.last not in self.expected or len(within) != skipped.times:
                what = (
                    f"skipped, {skipped.reason}: {skipped.times} until {_show(skipped.last)}, should be {len(within)}"
                )
                self._bad(what, skipped.first)
            for t in within:
                accounts[t] += 1
                if not self._is_true(skipped, t):
                    self._bad(f"skipped for a reason that is not true, {skipped.reason}", t)
        for t in self._times:
            if accounts[t] != 1 and not (accounts[t] == 0 and self._may_wait(t)):
                self._bad(f"a nominal time is accounted for {accounts[t]} times", t)

    def _may_wait(self, t: int) -> bool:
        """Until somebody is there to account for it, or while it is owed."""
        last, then = self.then[-1], self.then[self.expected[t]]
        owed_each = last.backlog == "each" or then.backlog == "each" or then.missed == "all"
        suspended = not last.may_run(self.until) or _is_ahead(last, self.until)
        is_soon = not last.is_up or t > self.until - SECOND or self._is_running(self.until)
        return is_soon or (owed_each and suspended)

    def _is_true(self, skipped: Skipped, t: int) -> bool:
        then = self.then[self.expected[t]]
        queues = then.backlog == "each" or then.missed == "all"
        match skipped.reason:
            case "disabled":
                return not then.is_on
            case "missed while stopped":
                before, after = self._during(skipped.step)
                has_started = after.is_up and not before.is_up
                # What waited for the end of a run, or to be made up for, when the node was killed, is missed too.
                return not then.is_up or ((queues or self._is_running(t)) and has_started)
            case "period closed":
                return self._is_closed(skipped)
            case "coalesced":
                # A run that lasts, or that waits, stands for it; or one that an edit left to be made up for.
                late = any(ran.nominal <= t <= ran.at for ran in self._near(t))
                return self._is_running(t) or late or queues
            case "dropped: too soon after the last start":
                before_it = [r for r in self.ran[: bisect_right(self._claimed, skipped.at)] if r.kind == "grid"]
                return bool(before_it) and before_it[-1].at > t - interval(then.keys)
            case "postponed by start_at":
                return then.start_at is not None and t <= then.start_at
        return False

    def _is_closed(self, skipped: Skipped) -> bool:
        return not all(is_open(then.hours, skipped.at) for then in self._during(skipped.step))

    def _near(self, t: int) -> Sequence[Ran]:
        at = bisect_left(self._claimed, t)
        return self.ran[max(at - 1, 0) : at + 2]

    def _is_running(self, t: int) -> bool:
        """Was something claimed or running then, or just before, this task or one that may be in its way?"""
        if any(began <= t <= ended for began, ended in self.task_history.in_the_way):
            return True
        before = self.ran[: bisect_right(self._claimed, t)]
        return any(ran.ended is None or t <= ran.ended for ran in before[-2:])

    # Runs

    def _runs_are_allowed(self) -> None:
        for ran in self.ran:
            t, states = max(ran.at, ran.nominal), self._during(ran.step)
            if ran.kind == "grid" and ran.at < ran.nominal - AHEAD:
                self._bad("a run was claimed too early", ran.nominal)
            if not any(then.is_up for then in states):
                self._bad("a run without a node", ran.at)
            if ran.kind != "forced" and not any(then.may_run(t) for then in states):
                self._bad(f"a run ({ran.kind}) of a task that is disabled or outside its period", t)
            if ran.kind not in ("forced", "start-at") and all(_is_ahead(then, t) for then in states):
                self._bad(f"a run ({ran.kind}) before start_at", t)
        for one, two in zip(self.ran, self.ran[1:], strict=False):
            if one.ended is None or two.at < one.ended:
                self._bad("two runs at once", two.at)

    def _starts_once(self) -> None:
        """`start_at`: at the time it says, once; one that finds its task disabled or its period closed is refused."""
        made = Counter(ran.nominal for ran in self.ran if ran.kind == "start-at")
        for asked, times in made.items():
            if times > 1:
                self._bad(f"start_at ran {times} times", asked)
        for before, after in zip(self.then, self.then[1:], strict=False):
            start = before.start_at
            if start is None or not before.at < start <= after.at:
                continue
            if before.may_run(start) and not self._is_running(start) and self._was_to_come(start) and not made[start]:
                self._bad("start_at did not run", start)
        firsts = [ran for ran in self.ran if ran.kind == "first"]
        if len(firsts) > self.task_history.is_check:
            self._bad("a first run too many", firsts[-1].at)

    def _was_to_come(self, start: int) -> bool:
        return next(then.at for then in self.then if then.start_at == start) < start

    # What is owed

    def _what_is_owed(self) -> None:
        """Step by step: what is owed is made as soon as it may be, and once."""
        owed = may_be_owed = soft = False
        down = self.then[0].at
        by_step: dict[int, list[Ran]] = {}
        for ran in self.ran:
            by_step.setdefault(ran.step, []).append(ran)
        closed = {s.step for s in self.task_history.skipped if s.kind == "catch-up" and self._is_closed(s)}
        for step, after in enumerate(self.then):
            before = self.then[max(step - 1, 0)]
            if before.is_up and not after.is_up:
                down = after.at
            if after.is_up and not before.is_up:
                must, may = self._owes(down, after.at, step)
                owed, may_be_owed = owed or must, may_be_owed or may
            if step in closed:
                owed = False
            edited = before.keys != after.keys or before.hours != after.hours
            may_be_owed = may_be_owed or (edited and "each" in (before.backlog, after.backlog))
            may_be_owed = may_be_owed or (edited and before.missed == "all")
            since = before.at
            for ran in [*by_step.get(step, ()), None]:
                t = after.at if ran is None else ran.at
                patience = self._until_made_up(since) if owed else self._retry(before) + SLACK if soft else None
                if patience is not None and self._could_run(before, since, t) > patience:
                    self._bad("an owed run was not made" if owed else "a SOFT check was not retried", t)
                    owed = soft = False
                if ran is None:
                    break
                if ran.kind == "catch-up" and ran.nominal not in self.expected and not may_be_owed:
                    self._bad("a catch-up that nobody owes", ran.at)
                owed = may_be_owed = False
                since = max(ran.at, ran.ended or after.at)
                soft = ran.is_soft and ran.ended is not None and self._retry(before) > 0
                if ran.outcome == "lost":
                    break
            if edited or not self.task_history.is_check:
                soft = soft and self.task_history.is_check and self._retry(after) > 0

    def _until_made_up(self, since: int) -> int:
        """A run on the grid that comes soon enough stands for what is owed."""
        coming = self._times[bisect_right(self._times, since) : bisect_right(self._times, since + NEAR)]
        return SLACK + (coming[0] - since if coming else 0)

    def _could_run(self, then: _Then, since: int, until: int) -> int:
        """How long at a stretch, at least, a run was possible."""
        if not (then.is_up and then.is_on):
            return 0
        longest = length = 0
        for t in range(since, until, SECOND):
            possible = is_open(then.hours, t) and not _is_ahead(then, t - SLACK) and not self._is_running(t)
            length = length + SECOND if possible else 0
            longest = max(longest, length)
        return longest

    def _retry(self, then: _Then) -> int:
        if "retry" in then.keys:
            return seconds(then.keys["retry"])
        return 60 * SECOND if "every" not in then.keys else max(seconds(then.keys["every"]) // 5, SECOND)

    def _owes(self, down: int, up: int, step: int) -> tuple[bool, bool]:
        """After a stop: must one run be made up for it, may it?"""
        missed = [self.then[i] for t, i in self.expected.items() if down < t <= up]
        first = step
        while first > 0 and not self.then[first - 1].is_up:
            first -= 1
        # A node that was there only for an edit has found them too.
        lost = any(ran.outcome == "lost" and first <= (ran.ended_in or 0) <= step for ran in self.ran)
        meanwhile = [then for then in self.then[:step] if then.at >= down] or [self.then[step - 1]]
        is_once = all(then.missed == "once" for then in meanwhile)
        owing = [then for then in missed if then.is_on and not _is_ahead(then, up)]
        must = any(then.missed == "once" for then in owing) or (lost and is_once and not _is_ahead(meanwhile[-1], up))
        return must, bool(missed) or lost


def _then(moment: StateAfterStep, name: str) -> _Then:
    keys = moment.keys[name]
    start = keys.get("start_at")
    return _Then(
        moment.at,
        moment.is_up,
        name not in moment.paused and keys.get("enabled", True),
        moment.hours if "period" in keys else (),
        None if start is None else instant_of(start),
        keys.get("missed", "once"),
        keys.get("backlog", "merge"),
        keys,
    )


def _is_ahead(then: _Then, t: int) -> bool:
    """Does the task wait for its `start_at`?"""
    return then.start_at is not None and t < then.start_at


def _show(t: int) -> str:
    return f"{(t % (86_400 * SECOND)) / SECOND:g} s"
