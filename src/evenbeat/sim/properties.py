"""What must hold, whatever happens: each property a predicate on one step, under the sentence it formalises.

1 to 9 are those of the formal model of Icinga's check scheduler, for any number of tasks, with asynchronous completion,
at the concurrency limit too. 10 to 14 are ours.
"""

from collections.abc import Callable, Iterator
from typing import Final

from evenbeat.core.lifecycle import Flag, Kind
from evenbeat.sim.world import NONE, RELEASE, State, Step, TaskState

Property = Callable[[Step], bool]

_ENABLED, _MINE, _REACHABLE = int(Flag.ENABLED), int(Flag.MINE), int(Flag.REACHABLE)
_EACH = int(Flag.EACH)
_FORCED, _RUNNING, _WAITING, _REMOVED = int(Flag.FORCED), int(Flag.RUNNING), int(Flag.WAITING), int(Flag.REMOVED)


def claimed(step: Step) -> dict[int, Kind]:
    """The tasks whose execution this step begins."""
    if step.released is None:
        return {}
    claims = step.released.claims
    return {row: Kind(kind) for row, kind in zip(claims.rows.tolist(), claims.kind.tolist(), strict=True)}


def skipped(step: Step) -> list[int]:
    """The tasks of which this step skips a nominal time, once for each time."""
    if step.released is None:
        return []
    skips = step.released.skips
    return [
        row for skip in skips for row, n in zip(skip.rows.tolist(), skip.times.tolist(), strict=True) for _ in range(n)
    ]


def has_arrived(task: TaskState) -> bool:
    return task.used and not task.has(_REMOVED) and (task.due != NONE or task.has(_WAITING))


def may_run(task: TaskState) -> bool:
    """Eligible by itself, slots and limits aside."""
    if not has_arrived(task) or not task.has(_MINE) or task.has(_RUNNING):
        return False
    if task.has(_FORCED):
        return True
    on_grid = task.nominal != NONE
    allowed = task.has(_ENABLED) and task.open and task.has(_REACHABLE)
    return allowed and not (on_grid and task.soon)


def never_outside_its_period(step: Step) -> bool:
    """1. No task is executed outside its period unless forced."""
    return all(step.before.tasks[i].open or kind is Kind.FORCED for i, kind in claimed(step).items())


def never_disabled(step: Step) -> bool:
    """2. No disabled task is executed unless forced."""
    return all(step.before.tasks[i].has(_ENABLED) or kind is Kind.FORCED for i, kind in claimed(step).items())


def pending_within_slots(step: Step) -> bool:
    """3. Pending never exceeds max_concurrent; after it was lowered, it only drains."""
    return step.after.pending <= max(step.after.slots, step.before.pending - bool(claimed(step)))


def arrival_adds_one_idle(step: Step) -> bool:
    """4. A new task adds one to idle."""
    return step.event.name != "create" or step.after.idle == step.before.idle + 1


def no_decision_without_verification(step: Step) -> bool:
    """5. Only a release, which verifies, begins or skips a run, and only of tasks that have arrived."""
    begun = {
        i
        for i, (a, b) in enumerate(zip(step.before.tasks, step.after.tasks, strict=True))
        if b.used and b.has(_RUNNING) and not (a.used and a.has(_RUNNING))
    }
    decided = set(claimed(step)) | set(skipped(step))
    return begun == set(claimed(step)) and all(has_arrived(step.before.tasks[i]) for i in decided)


def start_moves_from_idle_to_pending(step: Step) -> bool:
    """6. Beginning a run is one less idle and one more pending, in one step."""
    n = len(claimed(step))
    moved = (step.before.idle - n, step.before.pending + n)
    return step.event != RELEASE or (step.after.idle, step.after.pending) == moved


def completion_moves_back(step: Step) -> bool:
    """7. Completion is one less pending, and one more idle unless the task was removed meanwhile."""
    if step.event.name != "complete":
        return True
    removed = step.before.tasks[step.event.subject].has(_REMOVED)
    after = step.after.tasks[step.event.subject]
    back = (step.before.idle + (not removed), step.before.pending - 1)
    return (step.after.idle, step.after.pending) == back and after.used is not removed and not after.has(_RUNNING)


def eligible_with_a_free_slot_runs_now(step: Step) -> bool:
    """8. After a release nobody who may run is left while a slot, and its limit, has room."""
    if step.event != RELEASE:
        return True
    after = step.after
    full = after.pending >= after.slots
    left = (i for i, task in enumerate(step.before.tasks) if may_run(task) and i not in claimed(step))
    return all(full or _limit_is_full(step, i) for i in left)


def ineligible_gets_its_own_next_time(step: Step) -> bool:
    """9. Who may not run is not begun, and leaves the agenda: it is in the timetable for its own next time."""
    if step.event != RELEASE:
        return True
    for i, task in enumerate(step.before.tasks):
        waits_for_its_end = task.has(_RUNNING) and (task.has(_FORCED) or task.nominal == NONE)
        if has_arrived(task) and not may_run(task) and not (waits_for_its_end and task.has(_MINE)):
            after = step.after.tasks[i]
            # The guard speaks when a task has its turn: until then one that is too soon waits like everybody.
            full = step.after.pending >= step.after.slots or _limit_is_full(step, i)
            if full and may_run(task._replace(soon=False)) and i not in claimed(step):
                continue
            if i in claimed(step) or after.has(_WAITING) or after.nominal != NONE:
                return False
    return True


def never_two_instances(step: Step) -> bool:
    """10. A task that runs is not begun again, and no task is begun twice in one release."""
    rows = [] if step.released is None else step.released.claims.rows.tolist()
    return len(rows) == len(set(rows)) and not any(step.before.tasks[i].has(_RUNNING) for i in rows)


def every_nominal_is_accounted_for_once(step: Step) -> bool:
    """11. A nominal time stays until it is run or skipped with a reason, and is never both or twice."""
    if step.event != RELEASE:
        quiet = {step.event.subject} if step.event.name in ("arrive", "remove", "complete", "create") else set()
        pairs = enumerate(zip(step.before.tasks, step.after.tasks, strict=True))
        same = ((a.nominal == NONE) == (b.nominal == NONE) for i, (a, b) in pairs if i not in quiet and a.used)
        return all(same)
    for i, task in enumerate(step.before.tasks):
        ran = claimed(step).get(i) is Kind.GRID
        times = skipped(step).count(i) + ran
        gone = task.nominal != NONE and step.after.tasks[i].nominal == NONE
        if times != gone:
            return False
    return True


def oldest_first(step: Step) -> bool:
    """12. At saturation nobody is begun before somebody who arrived earlier and waits for nothing but a slot."""
    reasons = _places(step, claimed(step))
    waiting = [i for i in step.after.waiting if may_run(step.before.tasks[i]) and not _limit_is_full(step, i)]
    return all(place <= _place(step.before, i) for place in reasons for i in waiting)


def forced_waits_like_everybody(step: Step) -> bool:
    """13. A forced run stays until it is begun (or its task removed), and a second force changes nothing."""
    for i, task in enumerate(step.before.tasks):
        after = step.after.tasks[i]
        if task.used and task.has(_FORCED) and not after.has(_FORCED):
            begun = claimed(step).get(i) is Kind.FORCED
            lost = step.event == RELEASE and not task.has(_MINE)
            if not (begun or lost or step.event.name == "remove"):
                return False
    again = step.event.name == "force" and step.before.tasks[step.event.subject].has(_FORCED)
    return not again or step.after == step.before


def limits_hold(step: Step) -> bool:
    """14. Per key, pending never exceeds the limit; after it was lowered, it only drains."""
    columns = zip(step.before.pending_by_limit, step.after.pending_by_limit, step.after.limits, strict=True)
    return all(after <= max(limit, before) for before, after, limit in columns)


def a_backlog_is_kept(step: Step) -> bool:
    """Backlog. Of a task that queues its nominal times, none is skipped because of a run of its own."""
    queued = {i for i, t in enumerate(step.before.tasks) if t.has(_EACH) and (t.has(_RUNNING) or i in claimed(step))}
    return queued.isdisjoint(skipped(step))


def no_skip_is_empty(step: Step) -> bool:
    """Skips. What is recorded as skipped is at least one nominal time."""
    skips = [] if step.released is None else step.released.skips
    return all(len(skip.times) and skip.times.all() for skip in skips)


def nobody_is_lost(step: Step) -> bool:
    """Timetable. What has come up is in the timetable or waits; only a backlog is neither, until its run ends."""
    if step.event.name == "arrive" and step.after.tasks[step.event.subject].nominal == NONE:
        return False
    for task in step.after.tasks:
        come_up = task.has(_FORCED) or task.nominal != NONE or task.extra
        queued = task.has(_EACH) and task.has(_RUNNING) and not task.has(_FORCED)
        if task.used and not task.has(_REMOVED) and come_up and not queued and not has_arrived(task):
            return False
    return True


def off_grid_waits_for_the_end(step: Step) -> bool:
    """Off the grid. An off-grid run that finds its task running is kept until that run ends; a run begun settles it.

    A forced run that has to wait becomes one, for its place among those who wait; a run on the grid does not.
    """
    if step.event != RELEASE:
        return True
    for i, (before, after) in enumerate(zip(step.before.tasks, step.after.tasks, strict=True)):
        if i in claimed(step) and after.extra:
            return False
        if after.has(_WAITING) and after.extra is not (before.extra or before.has(_FORCED)):
            return False
        idle = before._replace(flags=int.__and__(before.flags, ~_RUNNING))
        if before.has(_RUNNING) and before.extra and before.nominal == NONE and may_run(idle) and not after.extra:
            return False
    return True


def books_are_kept(step: Step) -> bool:
    """0. The counts are what counting gives, and who waits is in the list of those who wait, once."""
    s = step.after
    running = [i for i, t in enumerate(s.tasks) if t.used and t.has(_RUNNING)]
    idle = [i for i, t in enumerate(s.tasks) if t.used and not t.has(_RUNNING)]
    waiting = [i for i, t in enumerate(s.tasks) if t.used and t.has(_WAITING)]
    limited = sum(i < 2 for i in running) if len(s.limits) > 1 else 0
    keys = (len(running) - limited, limited) if len(s.limits) > 1 else (len(running),)
    once = sorted(s.waiting) == waiting
    return once and (s.pending, s.idle, s.pending_by_limit) == (len(running), len(idle), keys)


def _limit_is_full(step: Step, i: int) -> bool:
    key = 1 if len(step.after.limits) > 1 and i < 2 else 0
    return step.after.pending_by_limit[key] >= step.after.limits[key]


def _place(state: State, i: int) -> int:
    """A task's turn: by nominal time, forced and off-grid ones after all that have arrived by theirs."""
    task = state.tasks[i]
    return len(state.tasks) if task.has(_FORCED) or task.nominal == NONE else task.nominal


def _places(step: Step, rows: dict[int, Kind]) -> Iterator[int]:
    return (_place(step.before, i) for i in rows)


PROPERTIES: Final[dict[str, Property]] = {
    "1": never_outside_its_period,
    "2": never_disabled,
    "3": pending_within_slots,
    "4": arrival_adds_one_idle,
    "5": no_decision_without_verification,
    "6": start_moves_from_idle_to_pending,
    "7": completion_moves_back,
    "8": eligible_with_a_free_slot_runs_now,
    "9": ineligible_gets_its_own_next_time,
    "10": never_two_instances,
    "11": every_nominal_is_accounted_for_once,
    "12": oldest_first,
    "13": forced_waits_like_everybody,
    "14": limits_hold,
    "backlog": a_backlog_is_kept,
    "skips": no_skip_is_empty,
    "timetable": nobody_is_lost,
    "off the grid": off_grid_waits_for_the_end,
    "books": books_are_kept,
}
