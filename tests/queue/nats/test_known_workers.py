"""Who works in a cluster, as far as a node has heard."""

import msgspec

from evenbeat.core import run_lease
from evenbeat.model import SECOND
from evenbeat.queue.nats.known_workers import WorkerRegistry
from evenbeat.wire.cluster_messages import WorkerStatus


def test_a_pool_that_nobody_serves_is_not_forgotten_while_nothing_waits_in_it() -> None:
    staff = WorkerRegistry()
    staff.forget_old(0, ["far"])
    for second in range(1, 600):
        staff.forget_old(second * SECOND, [])
    pool = staff.pools(600 * SECOND, {})["far"]
    assert (pool.workers, pool.waiting, pool.without_worker_for) == (0, 0, 600)
    staff.forget_old(2 * 3_600 * SECOND, [])
    assert staff.pools(2 * 3_600 * SECOND, {}) == {}


def test_a_worker_ends_the_wait_of_its_pool_as_long_as_it_is_heard() -> None:
    staff = WorkerRegistry()
    staff.forget_old(0, ["far"])
    staff.record_status(_tidings("far"), 10 * SECOND)
    staff.forget_old(10 * SECOND, [])
    assert staff.pools(10 * SECOND, {})["far"].without_worker_for is None
    gone = 10 * SECOND + run_lease.WORKER_SILENT_AFTER
    staff.forget_old(gone, [])
    assert staff.pools(gone + 3 * SECOND, {})["far"].without_worker_for == 3


def test_what_keeps_a_worker_from_starting_runs_is_shown() -> None:
    staff = WorkerRegistry()
    staff.record_status(
        msgspec.structs.replace(_tidings("far"), problem="workers wait to start commands: too many files"), 0
    )
    (worker,) = staff.workers(0)
    assert worker.problem == "workers wait to start commands: too many files"


class TestDead:
    """A worker that is silent is missed, unless it is known what became of it."""

    def silent(self) -> WorkerRegistry:
        staff = WorkerRegistry()
        staff.record_status(_tidings("far", worker="old"), 0)
        staff.forget_old(run_lease.WORKER_SILENT_AFTER, [])
        return staff

    def listed(self, staff: WorkerRegistry, now: int) -> list[str]:
        staff.forget_old(now, [])
        return [worker.id for worker in staff.workers(now)]

    def test_one_that_nobody_replaces_is_missed_for_minutes(self) -> None:
        staff = self.silent()
        assert self.listed(staff, 60 * SECOND) == ["old"]
        assert not staff.is_dead("old"), "it may be cut off"

    def test_one_that_was_started_anew_is_not_listed_as_silent(self) -> None:
        staff = self.silent()
        staff.record_status(_tidings("far", worker="new"), 7 * SECOND)
        assert self.listed(staff, 8 * SECOND) == ["new"]
        assert staff.is_dead("old")
        assert not staff.is_dead("new")

    def test_one_that_was_beside_it_does_not_replace_it(self) -> None:
        staff = WorkerRegistry()
        staff.record_status(_tidings("far", worker="other"), 0)
        staff.record_status(_tidings("far", worker="old"), SECOND)
        staff.record_status(_tidings("far", worker="other"), 9 * SECOND)
        assert self.listed(staff, 9 * SECOND) == ["other", "old"]

    def test_one_for_other_pools_does_not_replace_it(self) -> None:
        staff = self.silent()
        staff.record_status(_tidings("near", worker="new"), 7 * SECOND)
        assert self.listed(staff, 8 * SECOND) == ["old", "new"]


def _tidings(*pools: str, worker: str = "w") -> WorkerStatus:
    return WorkerStatus(
        worker=worker,
        sent=0,
        settled=0,
        name="smith",
        pid=1,
        pools=list(pools),
        slots=4,
        is_leaving=False,
        held=[],
        started=0,
        version="1",
        processes=1,
        restarts=0,
    )
