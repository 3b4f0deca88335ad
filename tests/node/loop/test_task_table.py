"""Tasks come, change and go while the node lives; a row is given to others, and nothing of its former task with it."""

from typing import Any

import msgspec
import numpy as np
import pytest
from hand_driven_node import T0, Hand
from msgspec.structs import replace

from evenbeat.core.task import Flag
from evenbeat.model import HOUR, MINUTE, SECOND, Instant, Job, Outcome, Period, RunKind, Schedule
from evenbeat.when.windows import FOREVER, NEVER


def flags(hand: Hand, name: str) -> Flag:
    return Flag(int(hand.columns.flags[hand.row(name)]))


class TestComing:
    def test_a_task_is_found_by_its_number_and_knows_its_name_and_its_job(self) -> None:
        hand = Hand()
        entry = hand.add("web", command=["echo", "hello"])
        row = hand.row("web")
        assert hand.roster.names.name(row) == "web"
        assert hand.roster.names.find("web") == row
        assert msgspec.msgpack.decode(hand.roster.jobs.get(row), type=Job) == Job(("echo", "hello"))
        assert hand.roster.rows([entry.number, 999, -1]).tolist() == [row]
        assert hand.roster.row(999) is None
        assert hand.roster.row(-1) is None

    def test_functions_are_numbered_and_commands_have_none(self) -> None:
        hand = Hand()
        hand.add("a", function="m:f")
        hand.add("b", function="m:f")
        hand.add("c")
        hand.add("d", function="m:g")
        assert [int(hand.columns.function[hand.row(n)]) for n in "abcd"] == [0, 0, -1, 1]
        assert hand.roster.functions == ["m:f", "m:g"]

    def test_the_mean_rate_counts_what_is_enabled_and_goes_by_interval(self) -> None:
        hand = Hand()
        hand.add("a", every="10s")
        hand.add("b", every="5s")
        hand.add("c", cron="@hourly")
        hand.pause("b")
        assert hand.roster.mean_rate == pytest.approx(0.1)

    def test_thousands_come_in_pieces_and_each_is_where_it_belongs(self) -> None:
        hand = Hand()
        entries = hand.desk.add([hand_task(f"t{i:05}", i) for i in range(12_345)], "ana", "ana").created
        hand.node.apply_changes()
        rows = hand.roster.rows([entry.number for entry in entries])
        assert len(np.unique(rows)) == 12_345
        for i in (0, 9_999, 10_000, 12_344):
            assert hand.columns.priority[rows[i]] == i % 100
            assert hand.roster.names.name(int(rows[i])) == f"t{i:05}"


def hand_task(name: str, i: int) -> Any:
    from evenbeat.load.task_keys import task_from_table

    return task_from_table(name, {"every": "1h", "phase": "0s", "priority": i % 100, "command": ["true"]}, check=False)


class TestChanging:
    def test_a_new_interval_counts_from_now_on(self) -> None:
        hand = Hand()
        hand.add("web", every="1h", phase="30m")
        hand.set("web", every="10m", phase="1m", command=["true"])
        assert hand.condition("web").next_run == T0 + MINUTE
        assert hand.advance(2 * MINUTE)[0].nominal == T0 + MINUTE

    def test_what_is_no_matter_of_time_leaves_the_nominal_time_alone(self) -> None:
        hand = Hand()
        hand.add("web", every="1m", phase="30s")
        hand.turn(31 * SECOND)
        before = hand.columns.nominal[hand.row("web")]
        hand.set("web", every="1m", phase="30s", command=["false"], priority=3)
        assert hand.columns.nominal[hand.row("web")] == before
        assert hand.columns.priority[hand.row("web")] == 3

    def test_a_task_gets_another_name_and_keeps_its_row(self) -> None:
        hand = Hand()
        hand.add("web")
        row = hand.row("web")
        hand.set("web", new_name="www", every="1m", phase="0s", command=["true"])
        assert hand.row("www") == row
        assert hand.roster.names.find("web") is None
        assert hand.turn(MINUTE)[0].name == "www"

    def test_another_limit_while_it_runs_moves_its_count_along(self) -> None:
        hand = Hand()
        hand.limits(db=1, web=1)
        hand.add("a", limit="db")
        hand.turn(MINUTE)
        assert hand.life.pending_by_limit.tolist() == [0, 1, 0]
        hand.set("a", every="1m", phase="0s", command=["true"], limit="web")
        assert hand.life.pending_by_limit.tolist() == [0, 0, 1]
        hand.end("a")
        hand.turn()
        assert hand.life.pending_by_limit.tolist() == [0, 0, 0]
        assert hand.life.pending == 0

    def test_a_limit_holds_and_can_be_raised(self) -> None:
        hand = Hand()
        hand.limits(db=1)
        hand.add("a", limit="db")
        hand.add("b", limit="db")
        assert len(hand.turn(MINUTE)) == 1
        assert not hand.turn(SECOND)
        hand.limits(db=2)
        assert len(hand.turn(SECOND)) == 1

    def test_whoever_is_paused_is_skipped_and_goes_on_when_resumed(self) -> None:
        hand = Hand()
        hand.add("a")
        hand.pause("a")
        assert not hand.advance(3 * MINUTE)
        hand.pause("a", paused=False)
        assert [run.nominal for run in hand.advance(MINUTE)] == [T0 + 4 * MINUTE]
        assert [(skip.times, skip.reason) for skip in hand.store.skips()] == [(3, "disabled")]

    def test_only_who_has_other_times_than_before_stands_elsewhere(self) -> None:
        hand = Hand()
        a, b, c = (hand.add(name) for name in "abc")
        other = replace(b.task, schedule=Schedule(every=5 * MINUTE, phase=SECOND))
        changes = [(a, replace(a.task, priority=3)), (b, other), (c, c.task)]
        rows, skips = hand.roster.change([replace(entry, task=task) for entry, task in changes], T0)
        assert (rows.tolist(), skips) == ([hand.roster.row(b.number)], [])

    def test_a_change_of_a_task_that_is_not_here_is_no_trouble(self) -> None:
        hand = Hand()
        entry = hand.add("a")
        hand.remove("a")
        rows, skips = hand.roster.change([entry], T0)
        assert not len(rows)
        assert not skips


class TestStartAt:
    def test_it_runs_then_not_before_and_follows_its_schedule_after_it(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="0s", start_at=at(90 * MINUTE))
        made = hand.advance(2 * HOUR, step=MINUTE)
        assert [(run.nominal - T0, run.kind) for run in made] == [
            (90 * MINUTE, RunKind.START_AT),
            (2 * HOUR, RunKind.GRID),
        ]
        assert [(skip.times, skip.reason) for skip in hand.store.skips()] == [(1, "postponed by start_at")]

    def test_a_later_start_is_another_start(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="0s", start_at=at(90 * MINUTE))
        hand.set("a", every="1h", phase="0s", start_at=at(150 * MINUTE), command=["true"])
        assert [run.nominal - T0 for run in hand.advance(3 * HOUR, step=MINUTE)] == [150 * MINUTE, 3 * HOUR]

    def test_an_earlier_start_is_followed_by_the_schedule_at_once(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="0s", start_at=at(10 * HOUR))
        hand.set("a", every="1h", phase="0s", start_at=at(30 * MINUTE), command=["true"])
        assert [run.nominal - T0 for run in hand.advance(2 * HOUR, step=MINUTE)] == [30 * MINUTE, HOUR, 2 * HOUR]

    def test_without_the_start_the_schedule_is_followed_from_now_on(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="0s", start_at=at(10 * HOUR))
        hand.set("a", every="1h", phase="0s", command=["true"])
        assert hand.condition("a").extra is None
        assert [run.nominal - T0 for run in hand.advance(2 * HOUR, step=MINUTE)] == [HOUR, 2 * HOUR]

    def test_another_interval_does_not_let_it_run_before_its_start(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="0s", start_at=at(90 * MINUTE))
        hand.set("a", every="10m", phase="0s", start_at=at(90 * MINUTE), command=["true"])
        assert [run.nominal - T0 for run in hand.advance(100 * MINUTE, step=MINUTE)] == [90 * MINUTE, 100 * MINUTE]

    def test_an_edited_period_does_not_let_it_run_before_its_start(self) -> None:
        hand = Hand()
        hand.periods(early=Period(ranges=("00:00-12:00",)))
        hand.add("a", every="1h", phase="0s", period="early", start_at=at(90 * MINUTE))
        hand.periods(early=Period(ranges=("00:00-13:00",)))
        assert [run.nominal - T0 for run in hand.advance(2 * HOUR, step=MINUTE)] == [90 * MINUTE, 2 * HOUR]

    def test_a_start_in_the_past_is_none(self) -> None:
        hand = Hand()
        hand.add("a", every="1h", phase="0s", start_at=at(-HOUR))
        assert [run.nominal - T0 for run in hand.advance(HOUR, step=MINUTE)] == [HOUR]


def at(after: int) -> str:
    from evenbeat.when.instant import format_instant
    from evenbeat.when.zone import zone

    return format_instant(Instant(T0 + after), zone("UTC"))


class TestPeriods:
    def test_an_edited_period_counts_at_once(self) -> None:
        hand = Hand()
        hand.periods(night=Period(ranges=("22:00-24:00",)))
        hand.add("a", every="1h", phase="0s", period="night")
        assert hand.columns.nominal[hand.row("a")] == T0 + 22 * HOUR
        hand.periods(night=Period(ranges=("03:00-04:00",)))
        assert hand.columns.nominal[hand.row("a")] == T0 + 3 * HOUR

    def test_so_does_one_that_another_excludes(self) -> None:
        hand = Hand()
        morning = Period(ranges=("00:00-06:00",))
        hand.periods(off=Period(ranges=("00:00-02:30",)), work=Period(ranges=morning.ranges, exclude=("off",)))
        hand.periods(deep=Period(ranges=("00:00-12:00",), exclude=("work",)))
        hand.add("a", every="1h", phase="0s", period="work")
        hand.add("b", every="1h", phase="0s", period="deep")
        assert hand.columns.nominal[[hand.row("a"), hand.row("b")]].tolist() == [T0 + 3 * HOUR, T0 + HOUR]
        hand.periods(off=Period(ranges=("00:00-04:30",)))
        assert hand.columns.nominal[[hand.row("a"), hand.row("b")]].tolist() == [T0 + 5 * HOUR, T0 + HOUR]
        hand.periods(off=Period(ranges=("12:00-12:30",)))
        assert hand.columns.nominal[[hand.row("a"), hand.row("b")]].tolist() == [T0 + HOUR, T0 + 6 * HOUR]

    def test_tasks_of_other_periods_and_of_none_stay_as_they_are(self) -> None:
        hand = Hand()
        hand.periods(a=Period(ranges=("01:00-02:00",)), b=Period(ranges=("01:00-02:00",)))
        hand.add("b", every="30m", phase="0s", period="b")
        hand.add("none", every="30m", phase="0s")
        hand.periods(a=Period(ranges=("05:00-06:00",)))
        assert hand.columns.nominal[[hand.row("b"), hand.row("none")]].tolist() == [T0 + HOUR, T0 + 30 * MINUTE]

    def test_a_task_can_leave_its_period_and_take_another(self) -> None:
        hand = Hand()
        hand.periods(a=Period(ranges=("05:00-06:00",)), b=Period(ranges=("03:00-04:00",)))
        hand.add("x", every="1h", phase="0s", period="a")
        hand.set("x", every="1h", phase="0s", period="b", command=["true"])
        assert hand.columns.nominal[hand.row("x")] == T0 + 3 * HOUR
        hand.set("x", every="1h", phase="0s", command=["true"])
        assert hand.columns.nominal[hand.row("x")] == T0 + HOUR


class TestGoing:
    def test_who_is_idle_goes_at_once(self) -> None:
        hand = Hand()
        entry = hand.add("a")
        hand.remove("a")
        assert hand.columns.in_use == 0
        assert hand.roster.row(entry.number) is None
        assert hand.roster.names.find("a") is None
        assert (hand.life.idle, hand.life.pending) == (0, 0)
        assert not hand.turn(HOUR)

    def test_what_was_due_of_it_is_accounted_for(self) -> None:
        hand = Hand(slots=1)
        hand.add("a")
        hand.add("b")
        hand.turn(MINUTE)
        assert len(hand.life.waiting) == 1
        (waiting,) = {"a", "b"} - hand.under_way.keys()
        hand.remove(waiting)
        assert [(s.task, s.times, s.reason) for s in hand.store.skips()] == [(waiting, 1, "removed")]
        assert not len(hand.life.waiting)

    def test_who_runs_finishes_and_does_not_come_back(self) -> None:
        hand = Hand()
        entry = hand.add("a", check=True)
        hand.turn(MINUTE)
        hand.remove("a")
        assert hand.columns.in_use == 1
        assert not len(hand.roster.all_rows())
        assert not hand.turn(2 * MINUTE)
        hand.end("a", Outcome.FAILED, 2, output=b"oh", cursor=b"\x01")
        hand.turn()
        assert hand.columns.in_use == 0
        assert (hand.life.idle, hand.life.pending) == (0, 0)
        (run,) = hand.store.runs(entry.number)
        assert (run.outcome, run.status, run.output) == (Outcome.FAILED, 2, "oh")
        assert not hand.turn(HOUR)
        assert not hand.beat.cursors

    def test_a_task_moves_on_to_its_former_row_with_nothing_of_it(self) -> None:
        hand = Hand()
        hand.add(
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
        hand.turn(30 * MINUTE)
        hand.end("old", Outcome.FAILED, 2, cursor=b"\x07")
        hand.turn()
        row = hand.row("old")
        hand.remove("old")
        hand.add("new", cron="0 5 * * *", second=0)
        assert hand.row("new") == row
        c = hand.columns
        assert (c.state[row], c.hard[row], c.attempt[row], c.changes[row], c.result_at[row]) == (0, True, 1, 0, NEVER)
        assert (c.off_grid_due[row], c.last_start[row], c.tolerance[row], c.priority[row]) == (FOREVER, NEVER, -1, 0)
        assert flags(hand, "new") == Flag.ENABLED | Flag.MINE | Flag.REACHABLE | Flag.PERMITTED
        assert hand.roster.catch_up_of(np.array([row])).tolist() == [0]
        hand.periods(x=Period())  # whoever had asked for a start would ask again now
        (run,) = hand.turn(5 * HOUR)
        assert (run.name, run.cursor, run.nominal) == ("new", None, T0 + 5 * HOUR)
        assert msgspec.msgpack.decode(run.job, type=Job) == Job(("true",))
        assert hand.functions[-1] is None

    def test_who_was_an_occasion_is_none_for_the_next_in_its_row(self) -> None:
        hand = Hand()
        hand.add("old", cron="@shutdown")
        assert hand.roster.occasions["@shutdown"] == {hand.row("old")}
        hand.remove("old")
        hand.add("new")
        assert not hand.roster.occasions["@shutdown"]

    def test_who_is_changed_is_no_occasion_any_more(self) -> None:
        hand = Hand()
        hand.add("a", cron="@reboot")
        hand.set("a", cron="@shutdown", command=["true"])
        assert hand.roster.occasions == {"@reboot": set(), "@shutdown": {hand.row("a")}}
        hand.set("a", every="1d", missed="skip", command=["true"])
        assert hand.roster.occasions == {"@reboot": set(), "@shutdown": set()}
        assert not hand.advance(HOUR, step=MINUTE)
