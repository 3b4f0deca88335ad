"""From the noun to the columns: nothing that a task says is lost on the way."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.task import Flag, TaskColumns
from evenbeat.core.task_columns import TasksByKind, enrol, timebox_setting
from evenbeat.core.timebox import NO_TIMEBOX
from evenbeat.core.times import ScheduleTimes
from evenbeat.model import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Backlog,
    Instant,
    Job,
    Missed,
    Schedule,
    Spread,
    Task,
)
from evenbeat.when.windows import FOREVER

PLAIN = Flag.ENABLED | Flag.MINE | Flag.REACHABLE | Flag.PERMITTED


class Book:
    def __init__(self) -> None:
        self.columns = TaskColumns()
        self.times = ScheduleTimes(self.columns)

    def enrol(self, *tasks: Task) -> list[int]:
        rows = self.columns.allocate(len(tasks))
        self.enrol_again(rows.tolist(), *tasks)
        return [int(row) for row in rows]

    def enrol_again(self, rows: list[int], *tasks: Task) -> None:
        enrol(self.columns, self.times, np.array(rows, dtype=np.int64), tasks, {"office": 4}, {"db": 2})

    def value(self, column: str, task: Task) -> Any:
        (row,) = self.enrol(task)
        return getattr(self.columns, column)[row].item()


def task(schedule: Schedule | None = None, **fields: Any) -> Task:
    return Task("a", schedule or Schedule(every=MINUTE, phase=7 * SECOND), Job(("true",)), **fields)


@pytest.mark.parametrize(
    ("column", "of", "expected"),
    [
        ("every", task(), MINUTE),
        ("phase", task(), 7 * SECOND),
        ("calendar", task(), -1),
        ("period", task(), -1),
        ("period", task(period="office"), 4),
        ("limit", task(), 0),
        ("limit", task(limit="db"), 2),
        ("priority", task(priority=-100), -100),
        ("tolerance", task(), -1),
        ("tolerance", task(tolerance=5 * SECOND), 5 * SECOND),
        ("tolerance", task(tolerance=0), 0),
        ("attempts", task(), 3),
        ("attempts", task(attempts=255), 255),
        ("retry", task(), 0),
        ("retry", task(retry=10 * SECOND), 0),
        ("retry", task(check=True), 12 * SECOND),
        ("retry", task(Schedule(every=2 * SECOND, phase=0), check=True), SECOND),
        ("retry", task(Schedule(cron="@daily"), check=True), MINUTE),
        ("retry", task(check=True, retry=30 * SECOND), 30 * SECOND),
        ("retry", task(check=True, retry=0), 0),
        ("flags", task(), PLAIN),
        ("flags", task(enabled=False), PLAIN & ~Flag.ENABLED),
        ("flags", task(paused=True), PLAIN & ~Flag.ENABLED),
        ("flags", task(check=True), PLAIN | Flag.CHECK),
        ("flags", task(backlog=Backlog.EACH), PLAIN | Flag.EACH),
        ("flags", task(missed=Missed.SKIP), PLAIN | Flag.MISSED_SKIP),
        ("flags", task(missed=Missed.ALL), PLAIN | Flag.MISSED_ALL),
    ],
)
def test_what_a_task_says_reaches_its_column(column: str, of: Task, expected: int) -> None:
    assert Book().value(column, of) == expected


def test_a_phase_of_its_own_comes_from_the_spread() -> None:
    book = Book()
    aligned, hashed = book.enrol(
        task(Schedule(every=HOUR, spread=Spread.ALIGNED)), task(Schedule(every=HOUR, spread=Spread.HASH))
    )
    assert book.columns.phase[aligned] == 0
    assert 0 < book.columns.phase[hashed] < HOUR


def test_a_cron_task_is_due_by_its_calendar_at_its_second() -> None:
    book = Book()
    (row,) = book.enrol(task(Schedule(cron="5 12 * * *", second=30)))
    assert book.columns.second[row] == 30
    noon = 12 * HOUR + 5 * MINUTE + 30 * SECOND
    assert book.times.next_after(np.array([row]), Instant(20_000 * DAY)).tolist() == [20_000 * DAY + noon]


def test_a_one_off_is_due_once() -> None:
    book = Book()
    rows = np.array(book.enrol(task(Schedule(at="1970-01-02T00:00"))))
    assert book.times.next_after(rows, Instant(0)).tolist() == [DAY]
    assert book.times.next_after(rows, Instant(DAY)).tolist() == [FOREVER]


ANY = st.builds(
    lambda name, fields: Task(**{"name": name, "schedule": Schedule(every=HOUR, phase=0), **fields}),
    st.sampled_from("abc"),
    st.fixed_dictionaries(
        {},
        optional={
            "schedule": st.sampled_from(
                [
                    Schedule(every=MINUTE, phase=0),
                    Schedule(every=MINUTE, phase=SECOND),
                    Schedule(every=MINUTE, spread=Spread.HASH),
                    Schedule(every=HOUR, spread=Spread.ALIGNED),
                    Schedule(cron="H H * * *"),
                    Schedule(cron="@reboot"),
                    Schedule(at="2030-01-01"),
                    Schedule(calendar="daily"),
                ]
            ),
            "job": st.sampled_from([Job(("true",)), Job(function="a:b"), Job(function="a:c")]),
            "period": st.just("office"),
            "check": st.booleans(),
            "enabled": st.booleans(),
            "paused": st.booleans(),
            "timebox": st.sampled_from([1, MINUTE]),
            "tolerance": st.sampled_from([0, SECOND]),
            "missed": st.sampled_from(Missed),
            "backlog": st.sampled_from(Backlog),
            "limit": st.just("db"),
            "priority": st.sampled_from([-1, 1]),
            "retry": st.sampled_from([0, SECOND]),
            "attempts": st.sampled_from([1, 2]),
            "passive": st.booleans(),
            "pool": st.just("site"),
        },
    ),
)


@given(st.lists(ANY, max_size=20))
def test_many_at_once_are_each_as_alone(tasks: list[Task]) -> None:
    book = Book()
    rows = book.enrol(*tasks)
    for name in ("every", "phase", "second", "period", "limit", "priority", "tolerance", "retry", "attempts", "flags"):
        assert getattr(book.columns, name)[rows].tolist() == [Book().value(name, t) for t in tasks]
    assert (book.columns.calendar[rows] >= 0).tolist() == [t.schedule.every is None for t in tasks]
    for said in (timebox_setting, lambda t: len(t.job.function or ""), lambda t: len(t.pool or "")):
        assert TasksByKind.of(tasks).value_per_task(said).tolist() == [said(t) for t in tasks]


def test_a_new_definition_keeps_what_has_happened_to_the_task() -> None:
    book = Book()
    (row,) = book.enrol(task(check=True, missed=Missed.ALL, backlog=Backlog.EACH))
    happened = int(Flag.RUNNING | Flag.FORCED | Flag.WAITING)
    book.columns.flags[row] |= happened
    book.enrol_again([row], task(enabled=False))
    assert book.columns.flags[row] == (PLAIN & ~Flag.ENABLED) | happened


def test_nobody_is_enrolled_where_there_is_nobody() -> None:
    assert Book().enrol() == []


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        (task(), NO_TIMEBOX),
        (task(timebox=0), NO_TIMEBOX),
        (task(timebox=-50), MINUTE // 2),
        (task(timebox=7 * SECOND), 7 * SECOND),
        (task(check=True), 55 * SECOND),
        (task(Schedule(every=DAY, phase=0)), NO_TIMEBOX),
        (task(Schedule(every=DAY, phase=0), check=True), MINUTE),
        (task(Schedule(cron="@daily")), NO_TIMEBOX),
        (task(Schedule(cron="@daily"), check=True), 0),
        (task(Schedule(cron="@daily"), check=True, passive=True), MINUTE),
        (task(Schedule(cron="@daily"), timebox=-100), -100),
        (task(Schedule(cron="@daily"), timebox=MINUTE), MINUTE),
        (task(Schedule(cron=" @reboot ")), NO_TIMEBOX),
        (task(Schedule(cron="@shutdown")), NO_TIMEBOX),
        (task(Schedule(at="2030-01-01")), NO_TIMEBOX),
        (task(Schedule(calendar="daily")), NO_TIMEBOX),
    ],
)
def test_the_timebox_has_a_default_that_fits(of: Task, expected: int) -> None:
    assert timebox_setting(of) == expected
