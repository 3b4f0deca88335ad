"""What must hold, whatever happens: each property a predicate on one step, under the sentence it formalises.

1 to 9 are those of the formal model of Icinga's check scheduler, for any number of tasks, with asynchronous completion,
at the concurrency limit too. 10 to 14 are ours. The named ones say what these take for granted.
"""

from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple

from evenbeat.core.gate import Reason
from evenbeat.model import RunKind
from evenbeat.sim.state import ALL, NONE, RELEASE, TaskState, WorldState, WorldStep


def has_arrived(task: TaskState) -> bool:
    return task.used and not task.removed and (task.due != NONE or task.waiting)


def may_run(task: TaskState) -> bool:
    """Eligible by itself, slots and limits aside."""
    if not has_arrived(task) or not _may_ever_run(task) or task.running:
        return False
    if task.forced:
        return True
    on_grid = task.nominal != NONE
    is_reachable = task.reachable or not task.skips_unreachable
    return task.enabled and task.open and is_reachable and not (on_grid and task.soon)


def _may_ever_run(task: TaskState) -> bool:
    """Forced or not: this node has the task, and its owner may say what is executed."""
    return task.mine and task.permitted


def never_outside_its_period(step: WorldStep) -> bool:
    """1. No task is executed outside its period unless forced."""
    return all(step.before.tasks[i].open or kind is RunKind.FORCED for i, kind in step.claimed.items())


def never_disabled(step: WorldStep) -> bool:
    """2. No disabled task is executed unless forced."""
    return all(step.before.tasks[i].enabled or kind is RunKind.FORCED for i, kind in step.claimed.items())


def pending_within_slots(step: WorldStep) -> bool:
    """3. Pending never exceeds max_concurrent; after it was lowered, it only drains."""
    return step.after.pending <= max(step.after.slots, step.before.pending - bool(step.begun))


def arrival_adds_one_idle(step: WorldStep) -> bool:
    """4. A new task adds one to idle."""
    return step.after.idle == step.before.idle + 1


def no_decision_without_verification(step: WorldStep) -> bool:
    """5. Only a release, which verifies, begins or skips runs, only of tasks that have arrived; removing skips too."""
    for i, before, after in step.touched:
        if (after.running and not before.running) is not (i in step.claimed):
            return False
    decided = {*step.begun, *step.refused, *(i for i, _ in step.skips)}
    if step.event.name == "remove":
        return decided <= {step.event.subject}
    return not decided or (step.event == RELEASE and all(has_arrived(step.before.tasks[i]) for i in decided))


def start_moves_from_idle_to_pending(step: WorldStep) -> bool:
    """6. Beginning a run is one less idle and one more pending, in one step."""
    n = len(step.begun)
    return (step.after.idle, step.after.pending) == (step.before.idle - n, step.before.pending + n)


def completion_moves_back(step: WorldStep) -> bool:
    """7. Completion is one less pending, and one more idle unless the task was removed meanwhile."""
    ended = [(b, a) for i, b, a in step.touched if b.running and step.event.subject in (i, ALL)]
    removed = sum([before.removed for before, _ in ended])
    back = (step.before.idle + len(ended) - removed, step.before.pending - len(ended))
    gone = all(after.used is not before.removed and not after.running for before, after in ended)
    return gone and (step.after.idle, step.after.pending) == back


def eligible_with_a_free_slot_runs_now(step: WorldStep) -> bool:
    """8. After a release no task that may run is left while a slot is free and its limit has room."""
    left = [i for i, task in enumerate(step.before.tasks) if may_run(task) and i not in step.claimed]
    return all(_is_full(step, i) for i in left)


def ineligible_gets_its_own_next_time(step: WorldStep) -> bool:
    """9. A task that may not run is not begun: it is in the timetable for its own next time."""
    for i, task in enumerate(step.before.tasks):
        waits_for_its_end = task.running and (task.forced or task.nominal == NONE)
        if has_arrived(task) and not may_run(task) and not (waits_for_its_end and _may_ever_run(task)):
            after = step.after.tasks[i]
            # The guard decides at the turn of a task: until then one that is too soon waits like all others.
            if _is_full(step, i) and may_run(task._replace(soon=False)) and i not in step.claimed:
                continue
            stays = task.nominal != NONE and after.outstanding >= task.outstanding
            if i in step.claimed or after.waiting or after.forced or after.extra or stays:
                return False
    return True


def never_two_instances(step: WorldStep) -> bool:
    """10. A task that runs is not begun again, and no task is begun twice in one release."""
    once = len(step.begun) == len(step.claimed)
    return once and not any(step.before.tasks[i].running for i in step.begun)


def every_nominal_is_accounted_for_once(step: WorldStep) -> bool:
    """11. A nominal time stays until it is run or skipped with a reason, and is never both or twice."""
    name, subject = step.event
    for i, before, after in step.touched:
        come = before.outstanding + (i == subject and name == "arrive")
        if come != after.outstanding + (step.claimed.get(i) is RunKind.GRID) + step.skipped(i):
            return False
    return True


def oldest_first(step: WorldStep) -> bool:
    """12. At saturation no task is begun before one whose turn is earlier and that waits only for a slot."""
    waiting = [i for i in step.after.waiting if may_run(step.before.tasks[i]) and not _limit_is_full(step, i)]
    return all(
        _order_at_saturation(step, begun) <= _order_at_saturation(step, i) for begun in step.begun for i in waiting
    )


def forced_waits_like_everybody(step: WorldStep) -> bool:
    """13. A forced run waits until it begins, is stopped, or may never; forcing it again changes nothing."""
    name, subject = step.event
    for i, before, after in step.touched:
        if before.forced and not after.forced:
            begun = step.claimed.get(i) is RunKind.FORCED
            lost = i in step.refused and not _may_ever_run(before)
            if not (begun or lost or (name in ("remove", "stop") and i == subject)):
                return False
    again = name == "force" and step.before.tasks[subject].forced
    return not again or step.after == step.before


def limits_hold(step: WorldStep) -> bool:
    """14. Per key, pending never exceeds the limit; after it was lowered, it only drains."""
    columns = zip(step.before.pending_by_limit, step.after.pending_by_limit, step.after.limits, strict=True)
    return not [key for key, (before, after, limit) in enumerate(columns) if after > max(limit, before)]


def a_backlog_is_kept(step: WorldStep) -> bool:
    """Each nominal time of a backlog is judged by itself, after the run before it; other tasks merge all of them."""
    for i in {*step.begun, *(i for i, _ in step.skips)}:
        before, after = step.before.tasks[i], step.after.tasks[i]
        if not before.each and after.outstanding:
            return False
        if before.each and before.outstanding - after.outstanding > 1:
            return False
        if before.each and step.skipped(i) and (before.running or i in step.claimed) and _may_ever_run(before):
            return False
    return True


def no_skip_is_empty(step: WorldStep) -> bool:
    """Every recorded skip covers at least one nominal time."""
    return 0 not in [times for _, times in step.skips]


def no_due_task_is_lost(step: WorldStep) -> bool:
    """Tasks that are due, and no others, are in the timetable or wait; a backlog is neither until its run ends."""
    for _, _, task in step.touched:
        come_up = task.forced or task.nominal != NONE or task.extra
        queued = task.each and task.running and not task.forced
        if task.used and not task.removed and (come_up and not queued) is not has_arrived(task):
            return False
    return True


def waiting_stays_eligible(step: WorldStep) -> bool:
    """A task that may run and is not begun may still run after a release or completion."""
    pairs = enumerate(zip(step.before.tasks, step.after.tasks, strict=True))
    return all(may_run(after) for i, (before, after) in pairs if may_run(before) and i not in step.claimed)


def off_grid_waits_for_the_end(step: WorldStep) -> bool:
    """An off-grid run that finds its task running is kept until that run ends; a run begun settles it.

    A forced run that has to wait becomes one, for its place among those who wait; a run on the grid does not.
    """
    for i, (before, after) in enumerate(zip(step.before.tasks, step.after.tasks, strict=True)):
        if i in step.claimed and after.extra:
            return False
        if after.waiting and after.extra is not (before.extra or before.forced):
            return False
        kept = before.running and before.extra and before.nominal == NONE and may_run(before._replace(running=False))
        if kept and not after.extra:
            return False
    return True


def every_refusal_is_reported(step: WorldStep) -> bool:
    """An off-grid run that is neither begun nor waits is reported as refused, and no other is."""
    for i, (before, after) in enumerate(zip(step.before.tasks, step.after.tasks, strict=True)):
        off_grid = has_arrived(before) and (before.forced or before.nominal == NONE)
        gone = off_grid and i not in step.claimed and not after.waiting
        if gone is not (i in step.refused):
            return False
    return True


def reason_to_wait_is_true(step: WorldStep) -> bool:
    """The recorded reason of a task that waits is what holds it back: its running instance, its limit or a slot."""
    for i, reason in step.waits_for.items():
        is_running, no_slot = step.before.tasks[i].running, step.after.pending >= step.after.slots
        holds = {
            Reason.RUNNING: is_running,
            Reason.LIMIT: not is_running and (no_slot or _limit_is_full(step, i)),
            Reason.NO_SLOT: not is_running and no_slot,
        }
        if not holds.get(reason, False):
            return False
    return True


def a_stop_withdraws_and_takes_nothing_else(step: WorldStep) -> bool:
    """A stop withdraws a forced run that waits; what the schedule asks for and what runs stay as they are."""
    for i, before, after in step.touched:
        stays = (after.running, after.outstanding, after.enabled) == (
            before.running,
            before.outstanding,
            before.enabled,
        )
        if i == step.event.subject and (after.forced or after.extra or not stays):
            return False
    return True


def counts_are_consistent(step: WorldStep) -> bool:
    """Idle, pending and limits are counted right, and each waiting task is in the list of waiting tasks once."""
    s = step.after
    by_limit = [0] * len(s.limits)
    idle = 0
    for i, task in enumerate(s.tasks):
        if task.running:
            by_limit[step.shape.key_of(i)] += 1
        elif task.used:
            idle += 1
    waiting = [i for i, task in enumerate(s.tasks) if task.waiting]
    counts = (s.pending, s.idle, s.pending_by_limit) == (sum(by_limit), idle, tuple(by_limit))
    return counts and sorted(s.waiting) == waiting


def _is_full(step: WorldStep, i: int) -> bool:
    return step.after.pending >= step.after.slots or _limit_is_full(step, i)


def _limit_is_full(step: WorldStep, i: int) -> bool:
    key = step.shape.key_of(i)
    return step.after.pending_by_limit[key] >= step.after.limits[key]


def _order_at_saturation(step: WorldStep, i: int) -> tuple[bool, int]:
    """By priority, then by nominal time; forced and off-grid ones after all that have arrived by theirs."""
    task = step.before.tasks[i]
    urgent = step.shape.urgent and i == step.shape.tasks - 1
    return not urgent, 2 * step.shape.tasks if task.forced or task.nominal == NONE else task.nominal


def has_room(state: WorldState, key: int) -> bool:
    """Would a task with this limit key be begun if none ran?"""
    return state.slots > 0 and state.limits[key] > 0


class Property(NamedTuple):
    """A predicate, and the events it is about; none for all events."""

    holds: Callable[[WorldStep], bool]
    on: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The property as an English sentence."""
        first = (self.holds.__doc__ or "").partition("\n")[0]
        number, _, rest = first.partition(". ")
        return rest if number.isdecimal() else first


PROPERTIES: Final[dict[str, Property]] = {
    "1": Property(never_outside_its_period, ("release",)),
    "2": Property(never_disabled, ("release",)),
    "3": Property(pending_within_slots),
    "4": Property(arrival_adds_one_idle, ("create",)),
    "5": Property(no_decision_without_verification),
    "6": Property(start_moves_from_idle_to_pending, ("release",)),
    "7": Property(completion_moves_back, ("complete",)),
    "8": Property(eligible_with_a_free_slot_runs_now, ("release",)),
    "9": Property(ineligible_gets_its_own_next_time, ("release",)),
    "10": Property(never_two_instances, ("release",)),
    "11": Property(every_nominal_is_accounted_for_once),
    "12": Property(oldest_first, ("release",)),
    "13": Property(forced_waits_like_everybody),
    "14": Property(limits_hold),
    "backlog": Property(a_backlog_is_kept, ("release",)),
    "skips": Property(no_skip_is_empty),
    "timetable": Property(no_due_task_is_lost),
    "patience": Property(waiting_stays_eligible, ("release", "complete")),
    "off the grid": Property(off_grid_waits_for_the_end, ("release",)),
    "refusals": Property(every_refusal_is_reported, ("release",)),
    "stops": Property(a_stop_withdraws_and_takes_nothing_else, ("stop",)),
    "books": Property(counts_are_consistent),
    "reasons": Property(reason_to_wait_is_true, ("release",)),
}

LIVENESS: Final = "liveness"
ERRORS: Final = "errors"

WORLD_SENTENCES: Final = {name: property_.sentence for name, property_ in PROPERTIES.items()} | {
    ERRORS: "Nothing that can happen raises an error.",
    LIVENESS: "From every state every task that may run is begun, in whatever order runs complete, if only they do.",
}
"""All properties as sentences, with the two that the explorer itself checks."""


def first_broken_property(step: WorldStep) -> str | None:
    """The first property that a step breaks."""
    for name, holds in _concerned(step.event.name):
        if not holds(step):
            return name
    return None


@cache
def _concerned(event: str) -> list[tuple[str, Callable[[WorldStep], bool]]]:
    return [(name, p.holds) for name, p in PROPERTIES.items() if not p.on or event in p.on]
