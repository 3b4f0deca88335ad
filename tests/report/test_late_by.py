import numpy as np

from evenbeat.model import MINUTE, SECOND
from evenbeat.report.status import count_by_lateness


def test_late_tasks_are_counted_by_how_late_they_are() -> None:
    delays = np.array([SECOND + 1, 9 * SECOND, 10 * SECOND, MINUTE - 1, MINUTE, 10 * MINUTE, 90 * MINUTE])
    assert count_by_lateness(delays) == {"1-10 s": 2, "10-60 s": 2, "1-10 min": 1, "> 10 min": 2}


def test_without_late_tasks_every_count_is_zero() -> None:
    assert set(count_by_lateness(np.array([], dtype=np.int64)).values()) == {0}
