"""The smallest possible peak: never above what any phases lead to, and not below what is certain."""

import numpy as np
import pytest

from evenbeat.load.task_tables import task_from_table
from evenbeat.model import DAY, HOUR, SECOND, Period, Spread, Task
from evenbeat.when.compare_strategies import curves, least_peak, workload_of
from evenbeat.when.curve import Stretch, summarize
from evenbeat.when.instant import parse_instant
from evenbeat.when.period import compile_periods
from evenbeat.when.zone import zone

MONDAY = parse_instant("2026-11-16", zone("UTC"))
OFFICE = Period(ranges=("monday-friday 09:00-17:00",))
SHORT = Period(ranges=("12:00-12:10",))


def task(every: str, weight: float = 1.0, **keys: object) -> Task:
    table = {"every": every, "weight": weight, "command": ["true"], **keys}
    return task_from_table(f"{every} {weight}", table, check=False)


def found(tasks: list[Task], length: int = DAY, *, from_: int = MONDAY) -> float:
    """The smallest possible peak, after a look at what several phases lead to."""
    periods = compile_periods({"office": OFFICE, "short": SHORT})
    stretch = Stretch(type(MONDAY)(from_), length // SECOND)
    least = 0.0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        workload = workload_of(tasks, periods, rng.random(len(tasks)), rng.random(len(tasks)))
        chosen = (Spread.EVEN, Spread.HASH, Spread.BERGAMOT, Spread.ALIGNED)
        for curve in curves(workload, chosen, stretch).values():
            summary = summarize(curve)
            least = least_peak(workload, stretch, summary.mean)
            assert least <= summary.peak
    return least


def test_it_is_the_heaviest_task_that_runs() -> None:
    assert found([task("1h"), task("6h", 5.0)]) == 5.0
    assert found([task("1h"), task("2d", 5.0)]) == 1.0, "not certain to run within a day"


def test_it_is_what_no_phase_moves() -> None:
    fixed = [task("1h", 2.0, phase="5s"), task("1h", 3.0, phase="5s")]
    assert found([*fixed, task("1h")]) == 5.0
    crons = [
        task_from_table(name, {"cron": "0 3 * * *", "second": 0, "command": ["true"]}, check=False) for name in "abc"
    ]
    assert found(crons) == 3.0


def test_it_is_the_mean_rounded_up_where_there_is_much_load() -> None:
    assert found([task("10s") for _ in range(25)], HOUR) == 3.0
    assert found([task("10s", 0.5) for _ in range(25)], HOUR) == pytest.approx(1.25)


def test_a_task_runs_once_in_each_window_of_its_period() -> None:
    assert found([task("1d", 4.0, period="office")]) == 4.0, "as a substitute, if not on its grid"
    assert found([task("1h", 4.0, period="short")]) == 4.0
    assert found([task("1h", 4.0, period="office")], from_=MONDAY - DAY) == 0.0, "closed all Sunday"
