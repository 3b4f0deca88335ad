"""Who works in a cluster, as far as a node has heard."""

from evenbeat.core import handover
from evenbeat.model import SECOND
from evenbeat.queue.handing import Tidings
from evenbeat.queue.nats_staff import Staff


def test_a_pool_that_nobody_serves_is_not_forgotten_while_nothing_waits_in_it() -> None:
    staff = Staff()
    staff.look(0, ["far"])
    for second in range(1, 600):
        staff.look(second * SECOND, [])
    pool = staff.pools(600 * SECOND, {})["far"]
    assert (pool.workers, pool.waiting, pool.without_worker_for) == (0, 0, 600)
    staff.look(2 * 3_600 * SECOND, [])
    assert staff.pools(2 * 3_600 * SECOND, {}) == {}


def test_a_worker_ends_the_wait_of_its_pool_as_long_as_it_is_heard() -> None:
    staff = Staff()
    staff.look(0, ["far"])
    staff.hear(_tidings("far"), 10 * SECOND)
    staff.look(10 * SECOND, [])
    assert staff.pools(10 * SECOND, {})["far"].without_worker_for is None
    gone = 10 * SECOND + handover.SILENT
    staff.look(gone, [])
    assert staff.pools(gone + 3 * SECOND, {})["far"].without_worker_for == 3


def _tidings(*pools: str) -> Tidings:
    return Tidings(
        worker="w",
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
