"""Deaths are counted, not silences: which tasks take their workers along."""

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.worker_deaths import HOST_DIED, MAX_WORKER_DEATHS, WORKER_DIED, WorkerDeaths, isolated_worker
from evenbeat.model import Outcome


def dead(*workers: str) -> "WorkerDeaths":
    """One that knows of a run of task 1 lost with each of these, all of which have died."""
    losses = WorkerDeaths()
    for worker in workers:
        losses.record_silent_loss(1, worker)
        losses.settle_silent_workers({worker}.__contains__)
    return losses


def test_workers_that_are_known_to_have_died_with_runs_of_a_task_count() -> None:
    assert dead("a", "b", "c").deaths(1) == 3
    assert dead("a", "b").deaths(2) == 0


def test_a_worker_that_was_cut_off_three_times_is_not_dead() -> None:
    losses = WorkerDeaths()
    for _ in range(3):
        losses.record_silent_loss(1, "a")
        losses.settle_silent_workers(lambda _: False)
        losses.worker_is_alive("a")
    assert losses.deaths(1) == 0
    losses.settle_silent_workers(lambda _: True)
    assert losses.deaths(1) == 0
    assert not losses


def test_of_one_that_stays_silent_nobody_knows() -> None:
    losses = WorkerDeaths()
    losses.record_silent_loss(1, "a")
    losses.settle_silent_workers(lambda _: False)
    assert losses.deaths(1) == 0
    assert losses, "it may be known later"
    losses.settle_silent_workers(lambda _: True)
    assert losses.deaths(1) == 1


def test_the_processes_of_a_worker_count_too() -> None:
    losses = dead("a")
    losses.record_death(1)
    assert losses.deaths(1) == 2


def test_a_run_that_ended_by_itself_ends_the_row() -> None:
    losses = dead("a", "b")
    losses.record_silent_loss(1, "c")
    losses.record_silent_loss(2, "c")
    losses.reset(1)
    losses.settle_silent_workers(lambda _: True)
    assert losses.deaths(1) == 0
    assert losses.deaths(2) == 1


ENDS = st.sampled_from(
    [
        *[(outcome, b"") for outcome in Outcome],
        (Outcome.LOST, WORKER_DIED.encode()),
        (Outcome.LOST, HOST_DIED.encode()),
        (Outcome.LOST, b"the node stopped while it ran"),
        (Outcome.FAILED, WORKER_DIED.encode()),
    ]
)


@given(st.lists(st.tuples(st.integers(1, 2), ENDS)))
def test_deaths_in_a_row_are_those_since_a_run_ended_by_itself(ends: list[tuple[int, tuple[Outcome, bytes]]]) -> None:
    losses = WorkerDeaths()
    for task, end in ends:
        losses.record_end(task, *end)
    for task in (1, 2):
        in_a_row = 0
        for outcome, output in reversed([end for number, end in ends if number == task]):
            if outcome in (Outcome.SUCCEEDED, Outcome.FAILED, Outcome.KILLED, Outcome.TIMEBOXED):
                break
            in_a_row += outcome is Outcome.LOST and output.endswith(b"died")
        assert losses.deaths(task) == in_a_row
        assert losses.is_suspect(task) == (in_a_row > 0)
        assert losses.is_set_aside(task) == (in_a_row >= MAX_WORKER_DEATHS)


@given(st.integers(1, 300), st.integers(1, 16))
def test_only_the_culprit_goes_on_dying(tasks: int, most: int) -> None:
    """One worker has all runs, one of which kills it; then each lost run is repeated, apart, until none is left."""
    losses, culprit = WorkerDeaths(), 0
    lost = list(range(tasks))
    losses_of = dict.fromkeys(lost, 0)
    rounds = 0
    while lost:
        rounds += 1
        for task in lost:
            losses_of[task] += 1
            losses.record_end(task, Outcome.LOST, WORKER_DIED.encode())
        repeated = [task for task in lost if not losses.is_set_aside(task)]
        groups: list[list[int]] = []
        for task in repeated:
            place = isolated_worker([len(group) for group in groups], most)
            if place is None:
                groups.append([task])
            else:
                groups[place].append(task)
        assert len(groups) <= most
        assert len(repeated) > most or all(len(group) == 1 for group in groups)
        lost = next((group for group in groups if culprit in group), [])
        for group in groups:
            for task in group if group is not lost else ():
                losses.record_end(task, Outcome.SUCCEEDED, b"")
    assert losses_of[culprit] == rounds == MAX_WORKER_DEATHS
    innocent = [times for task, times in losses_of.items() if task != culprit]
    assert max(innocent, default=0) <= (1 if tasks <= most else 2 if tasks <= most * most else MAX_WORKER_DEATHS)
