"""First and catch-up runs on their planned slope: within the start window, never above the start rate, and visible."""

from collections import Counter

from hand_driven_node import T0, HandDrivenNode

from evenbeat.cli.output.status_lines import status_lines
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import MINUTE, SECOND, RunKind
from evenbeat.node.answers.status import status_of
from evenbeat.report.cluster_view import merge_statuses


def with_checks(driven: HandDrivenNode, count: int, *, part: int = 2_000, **keys: str) -> None:
    """New checks, as a large file brings them: part after part."""
    tasks = [task_from_table(f"c{i}", {"command": ["true"], **keys}, check=True) for i in range(count)]
    for at in range(0, count, part):
        driven.admin.add(tasks[at : at + part], "ana", "ana")
        driven.node.apply_changes()


def test_3_000_new_hourly_checks_have_their_first_run_within_a_minute_and_evenly() -> None:
    driven = HandDrivenNode(slots=10_000)
    with_checks(driven, 3_000, every="1h")
    runs = driven.advance(MINUTE)
    assert len({run.name for run in runs}) == 3_000
    each_second = Counter((run.nominal - T0) // SECOND for run in runs)
    assert max(each_second.values()) <= 55


def test_status_says_how_many_are_still_to_come_and_until_when() -> None:
    driven = HandDrivenNode(slots=10_000)
    with_checks(driven, 3_000, every="1h")
    driven.advance(30 * SECOND)
    status = status_of(driven.node)
    assert status.catch_ups_to_come == status.late == 0
    assert 1_400 <= status.first_runs_to_come <= 1_500
    assert status.to_come_until is not None
    assert status.to_come_until.startswith("2024-10-04T00:00:59")
    both = merge_statuses([status, status])
    assert both is not None
    assert (both.first_runs_to_come, both.to_come_until) == (2 * status.first_runs_to_come, status.to_come_until)
    assert f"still to come: {status.first_runs_to_come:,} first runs, evenly until {status.to_come_until}" in (
        status_lines(status)
    )
    driven.advance(31 * SECOND)
    done = status_of(driven.node)
    assert (done.first_runs_to_come, done.catch_ups_to_come, done.to_come_until) == (0, 0, None)
    assert not any("to come" in line for line in status_lines(done))


def test_a_restart_in_the_middle_makes_the_slope_no_steeper_than_all_of_them_need() -> None:
    driven = HandDrivenNode(slots=10_000)
    with_checks(driven, 3_000, every="1h")
    made = {run.name for run in driven.advance(20 * SECOND)}
    driven.restart(after=10 * SECOND)
    status = status_of(driven.node)
    assert status.first_runs_to_come + status.catch_ups_to_come > 0.95 * (3_000 - len(made))
    runs = driven.advance(MINUTE)
    assert made | {run.name for run in runs} == {f"c{i}" for i in range(3_000)}
    assert max(Counter((run.nominal - T0) // SECOND for run in runs if run.kind == RunKind.FIRST).values()) <= 60


def test_catch_ups_after_a_stop_are_on_the_same_slope_and_counted_apart() -> None:
    driven = HandDrivenNode(slots=10_000)
    tasks = [task_from_table(f"t{i}", {"command": ["true"], "every": "1d"}, check=False) for i in range(1_200)]
    driven.admin.add(tasks, "ana", "ana")
    driven.node.apply_changes()
    driven.restart(after=25 * 60 * MINUTE)
    status = status_of(driven.node)
    assert status.first_runs_to_come == 0
    assert 1_190 <= status.catch_ups_to_come <= 1_200
    runs = [run for run in driven.advance(MINUTE) if run.kind == RunKind.CATCH_UP]
    assert len(runs) >= status.catch_ups_to_come
    assert max(Counter((run.nominal - T0) // SECOND for run in runs).values()) <= 21


def test_a_file_says_the_start_window_and_the_start_rate() -> None:
    driven = HandDrivenNode(slots=10_000)
    driven.store.set_settings({"node:ana": '{"start_window": 10000000, "start_rate": 50}'})
    driven.restart()
    pace = driven.lifecycle.pace
    assert (pace.window, pace.start_rate) == (10 * SECOND, 50)
    with_checks(driven, 1_000, every="1h")
    assert max(Counter((run.nominal - T0) // SECOND for run in driven.advance(30 * SECOND)).values()) <= 52
