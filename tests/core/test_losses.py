"""Deaths are counted, not silences: which tasks take their workers along."""

from evenbeat.core.handover import Losses


def dead(*workers: str) -> "Losses":
    """One that knows of a run of task 1 lost with each of these, all of which have died."""
    losses = Losses()
    for worker in workers:
        losses.lost(1, worker)
        losses.look({worker}.__contains__)
    return losses


def test_workers_that_are_known_to_have_died_with_runs_of_a_task_count() -> None:
    assert dead("a", "b", "c").deaths(1) == 3
    assert dead("a", "b").deaths(2) == 0


def test_a_worker_that_was_cut_off_three_times_is_not_dead() -> None:
    losses = Losses()
    for _ in range(3):
        losses.lost(1, "a")
        losses.look(lambda _: False)
        losses.heard("a")
    assert losses.deaths(1) == 0
    losses.look(lambda _: True)
    assert losses.deaths(1) == 0
    assert not losses


def test_of_one_that_stays_silent_nobody_knows() -> None:
    losses = Losses()
    losses.lost(1, "a")
    losses.look(lambda _: False)
    assert losses.deaths(1) == 0
    assert losses, "it may be known later"
    losses.look(lambda _: True)
    assert losses.deaths(1) == 1


def test_the_processes_of_a_worker_count_too() -> None:
    losses = dead("a")
    losses.died(1)
    assert losses.deaths(1) == 2


def test_a_run_that_ended_by_itself_ends_the_row() -> None:
    losses = dead("a", "b")
    losses.lost(1, "c")
    losses.lost(2, "c")
    losses.ended(1)
    losses.look(lambda _: True)
    assert losses.deaths(1) == 0
    assert losses.deaths(2) == 1
