"""Tasks come, change and go while the node lives; a row is given to others, and nothing of its former task with it."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hand_driven_node import T0, HandDrivenNode
from msgspec.structs import replace

from evenbeat.core.task import Flag
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Job, Outcome, Period, RunKind, Schedule
from evenbeat.when.windows import FOREVER, NEVER


def flags(driven: HandDrivenNode, name: str) -> Flag:
    return Flag(int(driven.columns.flags[driven.row(name)]))


class TestComing:
    def test_a_task_is_found_by_its_number_and_knows_its_name_and_its_job(self) -> None:
        driven = HandDrivenNode()
        entry = driven.add("web", command=["echo", "hello"])
        row = driven.row("web")
        assert driven.tasks.names.name(row) == "web"
        assert driven.tasks.names.find("web") == row
        assert msgspec.msgpack.decode(driven.tasks.jobs.get(row), type=Job) == Job(("echo", "hello"))
        assert driven.tasks.rows([entry.number, 999, -1]).tolist() == [row]
        assert driven.tasks.row(999) is None
        assert driven.tasks.row(-1) is None

    def test_functions_are_numbered_and_commands_have_none(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", function="m:f")
        driven.add("b", function="m:f")
        driven.add("c")
        driven.add("d", function="m:g")
        assert [int(driven.columns.function[driven.row(n)]) for n in "abcd"] == [0, 0, -1, 1]
        assert driven.tasks.functions == ["m:f", "m:g"]

    def test_the_mean_rate_counts_what_is_enabled_and_goes_by_interval(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="10s")
        driven.add("b", every="5s")
        driven.add("c", cron="@hourly")
        driven.pause("b")
        assert driven.tasks.mean_rate == pytest.approx(0.1)

    def test_thousands_come_in_pieces_and_each_is_where_it_belongs(self) -> None:
        driven = HandDrivenNode()
        entries = driven.admin.add([hand_task(f"t{i:05}", i) for i in range(12_345)], "ana", "ana").created
        driven.node.apply_changes()
        rows = driven.tasks.rows([entry.number for entry in entries])
        assert len(np.unique(rows)) == 12_345
        for i in (0, 9_999, 10_000, 12_344):
            assert driven.columns.priority[rows[i]] == i % 100
            assert driven.tasks.names.name(int(rows[i])) == f"t{i:05}"


def hand_task(name: str, i: int) -> Any:
    from evenbeat.load.task_tables import task_from_table

    return task_from_table(name, {"every": "1h", "phase": "0s", "priority": i % 100, "command": ["true"]}, check=False)


class TestChanging:
    def test_a_new_interval_counts_from_now_on(self) -> None:
        driven = HandDrivenNode()
        driven.add("web", every="1h", phase="30m")
        driven.set("web", every="10m", phase="1m", command=["true"])
        assert driven.condition("web").next_run == T0 + MINUTE
        assert driven.advance(2 * MINUTE)[0].nominal == T0 + MINUTE

    def test_what_is_no_matter_of_time_leaves_the_nominal_time_alone(self) -> None:
        driven = HandDrivenNode()
        driven.add("web", every="1m", phase="30s")
        driven.turn(31 * SECOND)
        before = driven.columns.nominal[driven.row("web")]
        driven.set("web", every="1m", phase="30s", command=["false"], priority=3)
        assert driven.columns.nominal[driven.row("web")] == before
        assert driven.columns.priority[driven.row("web")] == 3

    def test_a_task_gets_another_name_and_keeps_its_row(self) -> None:
        driven = HandDrivenNode()
        driven.add("web")
        row = driven.row("web")
        driven.set("web", new_name="www", every="1m", phase="0s", command=["true"])
        assert driven.row("www") == row
        assert driven.tasks.names.find("web") is None
        assert driven.turn(MINUTE)[0].name == "www"

    def test_another_limit_while_it_runs_moves_its_count_along(self) -> None:
        driven = HandDrivenNode()
        driven.limits(db=1, web=1)
        driven.add("a", limit="db")
        driven.turn(MINUTE)
        assert driven.lifecycle.pending_by_limit.tolist() == [0, 1, 0]
        driven.set("a", every="1m", phase="0s", command=["true"], limit="web")
        assert driven.lifecycle.pending_by_limit.tolist() == [0, 0, 1]
        driven.end("a")
        driven.turn()
        assert driven.lifecycle.pending_by_limit.tolist() == [0, 0, 0]
        assert driven.lifecycle.pending == 0

    def test_a_limit_holds_and_can_be_raised(self) -> None:
        driven = HandDrivenNode()
        driven.limits(db=1)
        driven.add("a", limit="db")
        driven.add("b", limit="db")
        assert len(driven.turn(MINUTE)) == 1
        assert not driven.turn(SECOND)
        driven.limits(db=2)
        assert len(driven.turn(SECOND)) == 1

    def test_whoever_is_paused_is_skipped_and_goes_on_when_resumed(self) -> None:
        driven = HandDrivenNode()
        driven.add("a")
        driven.pause("a")
        assert not driven.advance(3 * MINUTE)
        driven.pause("a", paused=False)
        assert [run.nominal for run in driven.advance(MINUTE)] == [T0 + 4 * MINUTE]
        assert [(skip.times, skip.reason) for skip in driven.store.skips()] == [(3, "disabled")]

    def test_only_who_has_other_times_than_before_stands_elsewhere(self) -> None:
        driven = HandDrivenNode()
        a, b, c = (driven.add(name) for name in "abc")
        other = replace(b.task, schedule=Schedule(every=5 * MINUTE, phase=SECOND))
        changes = [(a, replace(a.task, priority=3)), (b, other), (c, c.task)]
        rows, skips = driven.tasks.change([replace(entry, task=task) for entry, task in changes], T0)
        assert (rows.tolist(), skips) == ([driven.tasks.row(b.number)], [])

    def test_a_change_of_a_task_that_is_not_here_is_no_trouble(self) -> None:
        driven = HandDrivenNode()
        entry = driven.add("a")
        driven.remove("a")
        rows, skips = driven.tasks.change([entry], T0)
        assert not len(rows)
        assert not skips


class TestStartAt:
    def test_it_runs_then_not_before_and_follows_its_schedule_after_it(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="0s", start_at=at(90 * MINUTE))
        made = driven.advance(2 * HOUR, step=MINUTE)
        assert [(run.nominal - T0, run.kind) for run in made] == [
            (90 * MINUTE, RunKind.START_AT),
            (2 * HOUR, RunKind.GRID),
        ]
        assert [(skip.times, skip.reason) for skip in driven.store.skips()] == [(1, "postponed by start_at")]

    def test_a_later_start_is_another_start(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="0s", start_at=at(90 * MINUTE))
        driven.set("a", every="1h", phase="0s", start_at=at(150 * MINUTE), command=["true"])
        assert [run.nominal - T0 for run in driven.advance(3 * HOUR, step=MINUTE)] == [150 * MINUTE, 3 * HOUR]

    def test_an_earlier_start_is_followed_by_the_schedule_at_once(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="0s", start_at=at(10 * HOUR))
        driven.set("a", every="1h", phase="0s", start_at=at(30 * MINUTE), command=["true"])
        assert [run.nominal - T0 for run in driven.advance(2 * HOUR, step=MINUTE)] == [30 * MINUTE, HOUR, 2 * HOUR]

    def test_without_the_start_the_schedule_is_followed_from_now_on(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="0s", start_at=at(10 * HOUR))
        driven.set("a", every="1h", phase="0s", command=["true"])
        assert driven.condition("a").extra is None
        assert [run.nominal - T0 for run in driven.advance(2 * HOUR, step=MINUTE)] == [HOUR, 2 * HOUR]

    def test_another_interval_does_not_let_it_run_before_its_start(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="0s", start_at=at(90 * MINUTE))
        driven.set("a", every="10m", phase="0s", start_at=at(90 * MINUTE), command=["true"])
        assert [run.nominal - T0 for run in driven.advance(100 * MINUTE, step=MINUTE)] == [90 * MINUTE, 100 * MINUTE]

    def test_an_edited_period_does_not_let_it_run_before_its_start(self) -> None:
        driven = HandDrivenNode()
        driven.periods(early=Period(ranges=("00:00-12:00",)))
        driven.add("a", every="1h", phase="0s", period="early", start_at=at(90 * MINUTE))
        driven.periods(early=Period(ranges=("00:00-13:00",)))
        assert [run.nominal - T0 for run in driven.advance(2 * HOUR, step=MINUTE)] == [90 * MINUTE, 2 * HOUR]

    def test_a_start_in_the_past_is_none(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", every="1h", phase="0s", start_at=at(-HOUR))
        assert [run.nominal - T0 for run in driven.advance(HOUR, step=MINUTE)] == [HOUR]


def at(after: int) -> str:
    from evenbeat.when.instant import format_instant
    from evenbeat.when.zone import zone

    return format_instant(Instant(T0 + after), zone("UTC"))


class TestPeriods:
    def test_an_edited_period_counts_at_once(self) -> None:
        driven = HandDrivenNode()
        driven.periods(night=Period(ranges=("22:00-24:00",)))
        driven.add("a", every="1h", phase="0s", period="night")
        assert driven.columns.nominal[driven.row("a")] == T0 + 22 * HOUR
        driven.periods(night=Period(ranges=("03:00-04:00",)))
        assert driven.columns.nominal[driven.row("a")] == T0 + 3 * HOUR

    def test_so_does_one_that_another_excludes(self) -> None:
        driven = HandDrivenNode()
        morning = Period(ranges=("00:00-06:00",))
        driven.periods(off=Period(ranges=("00:00-02:30",)), work=Period(ranges=morning.ranges, exclude=("off",)))
        driven.periods(deep=Period(ranges=("00:00-12:00",), exclude=("work",)))
        driven.add("a", every="1h", phase="0s", period="work")
        driven.add("b", every="1h", phase="0s", period="deep")
        assert driven.columns.nominal[[driven.row("a"), driven.row("b")]].tolist() == [T0 + 3 * HOUR, T0 + HOUR]
        driven.periods(off=Period(ranges=("00:00-04:30",)))
        assert driven.columns.nominal[[driven.row("a"), driven.row("b")]].tolist() == [T0 + 5 * HOUR, T0 + HOUR]
        driven.periods(off=Period(ranges=("12:00-12:30",)))
        assert driven.columns.nominal[[driven.row("a"), driven.row("b")]].tolist() == [T0 + HOUR, T0 + 6 * HOUR]

    def test_tasks_of_other_periods_and_of_none_stay_as_they_are(self) -> None:
        driven = HandDrivenNode()
        driven.periods(a=Period(ranges=("01:00-02:00",)), b=Period(ranges=("01:00-02:00",)))
        driven.add("b", every="30m", phase="0s", period="b")
        driven.add("none", every="30m", phase="0s")
        driven.periods(a=Period(ranges=("05:00-06:00",)))
        assert driven.columns.nominal[[driven.row("b"), driven.row("none")]].tolist() == [T0 + HOUR, T0 + 30 * MINUTE]

    def test_a_task_can_leave_its_period_and_take_another(self) -> None:
        driven = HandDrivenNode()
        driven.periods(a=Period(ranges=("05:00-06:00",)), b=Period(ranges=("03:00-04:00",)))
        driven.add("x", every="1h", phase="0s", period="a")
        driven.set("x", every="1h", phase="0s", period="b", command=["true"])
        assert driven.columns.nominal[driven.row("x")] == T0 + 3 * HOUR
        driven.set("x", every="1h", phase="0s", command=["true"])
        assert driven.columns.nominal[driven.row("x")] == T0 + HOUR


class TestGoing:
    def test_who_is_idle_goes_at_once(self) -> None:
        driven = HandDrivenNode()
        entry = driven.add("a")
        driven.remove("a")
        assert driven.columns.in_use == 0
        assert driven.tasks.row(entry.number) is None
        assert driven.tasks.names.find("a") is None
        assert (driven.lifecycle.idle, driven.lifecycle.pending) == (0, 0)
        assert not driven.turn(HOUR)

    def test_what_was_due_of_it_is_accounted_for(self) -> None:
        driven = HandDrivenNode(slots=1)
        driven.add("a")
        driven.add("b")
        driven.turn(MINUTE)
        assert len(driven.lifecycle.waiting) == 1
        (waiting,) = {"a", "b"} - driven.under_way.keys()
        driven.remove(waiting)
        (skip,) = driven.store.skips()
        assert (skip.task, skip.times, skip.reason) == (waiting, 1, "removed")
        (record,) = [skip for batch in driven.store.batches for skip in batch.skips]
        assert (record.accounted, record.reason) == (driven.now, "removed"), "its row was read before it was freed"
        assert not len(driven.lifecycle.waiting)

    def test_who_runs_finishes_and_does_not_come_back(self) -> None:
        driven = HandDrivenNode()
        entry = driven.add("a", check=True)
        driven.turn(MINUTE)
        driven.remove("a")
        assert driven.columns.in_use == 1
        assert not len(driven.tasks.all_rows())
        assert not driven.turn(2 * MINUTE)
        driven.end("a", Outcome.FAILED, 2, output=b"oh", cursor=b"\x01")
        driven.turn()
        assert driven.columns.in_use == 0
        assert (driven.lifecycle.idle, driven.lifecycle.pending) == (0, 0)
        (run,) = driven.store.runs(entry.number)
        assert (run.outcome, run.status, run.output) == (Outcome.FAILED, 2, "oh")
        assert not driven.turn(HOUR)
        assert not driven.turns.cursors

    def test_a_task_moves_on_to_its_former_row_with_nothing_of_it(self) -> None:
        driven = HandDrivenNode()
        driven.add(
            "old",
            check=True,
            every="1h",
            phase="0s",
            function="m:f",
            missed="all",
            catch_up="2h",
            start_at=at(30 * MINUTE),
            timebox="7s",
            tolerance="1s",
            priority=4,
            backlog="each",
        )
        driven.turn(30 * MINUTE)
        driven.end("old", Outcome.FAILED, 2, cursor=b"\x07")
        driven.turn()
        row = driven.row("old")
        driven.remove("old")
        driven.add("new", cron="0 5 * * *", second=0)
        assert driven.row("new") == row
        c = driven.columns
        assert (c.state[row], c.hard[row], c.attempt[row], c.changes[row], c.result_at[row]) == (0, True, 1, 0, NEVER)
        assert (c.off_grid_due[row], c.last_start[row], c.tolerance[row], c.priority[row]) == (FOREVER, NEVER, -1, 0)
        assert flags(driven, "new") == Flag.ENABLED | Flag.MINE | Flag.REACHABLE | Flag.PERMITTED
        assert driven.tasks.catch_up_of(np.array([row])).tolist() == [0]
        driven.periods(x=Period())  # whoever had asked for a start would ask again now
        (run,) = driven.turn(5 * HOUR)
        assert (run.name, run.cursor, run.nominal) == ("new", None, T0 + 5 * HOUR)
        assert msgspec.msgpack.decode(run.job, type=Job) == Job(("true",))
        assert driven.functions[-1] is None

    def test_who_was_an_occasion_is_none_for_the_next_in_its_row(self) -> None:
        driven = HandDrivenNode()
        driven.add("old", cron="@shutdown")
        assert driven.tasks.occasions["@shutdown"] == {driven.row("old")}
        driven.remove("old")
        driven.add("new")
        assert not driven.tasks.occasions["@shutdown"]

    def test_who_is_changed_is_no_occasion_any_more(self) -> None:
        driven = HandDrivenNode()
        driven.add("a", cron="@reboot")
        driven.set("a", cron="@shutdown", command=["true"])
        assert driven.tasks.occasions == {"@reboot": set(), "@shutdown": {driven.row("a")}}
        driven.set("a", every="1d", missed="skip", command=["true"])
        assert driven.tasks.occasions == {"@reboot": set(), "@shutdown": set()}
        assert not driven.advance(HOUR, step=MINUTE)
