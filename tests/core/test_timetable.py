"""The timetable: what is due arrives in exact order, whatever was set, in whatever order, however time jumps."""

import numpy as np
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from evenbeat.core.timetable import SEGMENT, DueColumns, Timetable
from evenbeat.model import DAY, HOUR, Instant
from evenbeat.when.interval import nominal_after
from evenbeat.when.windows import FOREVER, NEVER

NOW = Instant(1_790_000_000 * SEGMENT)


def timetable(rows: int) -> Timetable:
    columns = DueColumns()
    columns.allocate(rows)
    return Timetable(columns)


def at(seconds: float) -> Instant:
    return Instant(NOW + round(seconds * SEGMENT))


def arrived(table: Timetable, seconds: float) -> list[int]:
    rows: list[int] = table.arrived(at(seconds)).tolist()
    return rows


def test_an_empty_timetable_has_nothing_due() -> None:
    table = Timetable(DueColumns())
    assert table.arrived(NOW).tolist() == []
    assert table.next_due() == FOREVER


def test_a_row_just_allocated_is_not_due() -> None:
    table = timetable(5)
    assert table.arrived(FOREVER).tolist() == []
    assert table.next_due() == FOREVER


def test_rows_arrive_in_order_of_due_and_of_row_where_equal() -> None:
    table = timetable(6)
    table.set_due(np.array([4, 1, 0, 3, 2]), np.array([at(1), at(1), at(1) + 1, at(0.5), at(1.1)]))
    assert arrived(table, 1.05) == [3, 1, 4, 0]


def test_a_row_is_due_at_its_due_and_not_a_microsecond_before() -> None:
    table = timetable(1)
    table.set_one(0, at(1))
    assert table.arrived(Instant(at(1) - 1)).tolist() == []
    assert table.arrived(at(1)).tolist() == [0]


def test_what_arrived_stays_until_it_is_set_anew() -> None:
    table = timetable(100)
    table.set_due(np.array([7, 9]), np.array([at(1), at(2)]))
    assert arrived(table, 3) == arrived(table, 3) == [7, 9]
    table.set_one(7, at(60))
    assert arrived(table, 4) == [9]
    table.set_one(9, FOREVER)
    assert arrived(table, 5) == []
    assert table.next_due() == at(60)


def test_many_rows_are_set_to_one_time_at_once() -> None:
    table = timetable(100)
    table.set_due(np.array([9, 5, 7]), at(1))
    assert arrived(table, 1) == [5, 7, 9]
    table.set_due(np.array([5, 7]), FOREVER)
    assert arrived(table, 1) == [9]


def test_of_a_row_set_twice_the_last_time_counts_and_it_arrives_once() -> None:
    table = timetable(100)
    assert arrived(table, 0) == []
    table.set_due(np.array([5, 5, 6, 6]), np.array([at(2), at(1), at(1), at(90)]))
    table.set_one(5, at(1.5))
    table.set_one(5, at(1))
    assert arrived(table, 2) == [5]


def test_a_row_moved_away_and_back_to_the_same_due_arrives_once() -> None:
    table = timetable(100)
    table.set_one(5, at(3))
    assert arrived(table, 0) == []
    table.set_one(5, at(9_000))
    table.set_one(5, at(3))
    assert arrived(table, 3) == [5]


def test_a_due_in_the_past_is_due_now() -> None:
    table = timetable(100)
    assert arrived(table, 0) == []
    table.set_one(5, at(-HOUR))
    table.set_one(6, NEVER)
    assert table.next_due() == NEVER
    assert arrived(table, 0) == [6, 5]


def test_time_may_jump_forward_by_hours() -> None:
    table = timetable(100)
    table.set_due(np.arange(100), NOW + np.arange(100) * 90 * SEGMENT)
    assert arrived(table, 0) == [0]
    assert arrived(table, 3_600) == list(range(41))


def test_time_may_jump_back_and_what_was_due_is_due_again_at_its_time() -> None:
    table = timetable(1_000)
    table.set_due(np.array([1, 2, 3]), np.array([at(0), at(2), at(4)]))
    assert arrived(table, 3) == [1, 2]
    assert arrived(table, 1) == [1]
    assert arrived(table, -7_200) == []
    table.set_one(4, at(-7_199))
    assert arrived(table, -7_199) == [4]
    assert arrived(table, 4) == [4, 1, 2, 3]


def test_a_freed_row_is_not_due_and_its_successor_only_when_set() -> None:
    columns = DueColumns()
    rows = columns.allocate(100)
    table = Timetable(columns)
    table.set_due(rows, NOW + rows * SEGMENT)
    assert arrived(table, 1) == [0, 1]
    columns.free(np.array([1, 3]))
    assert arrived(table, 4) == [0, 2, 4]
    assert sorted(columns.allocate(2).tolist()) == [1, 3]
    assert arrived(table, 4) == [0, 2, 4]
    table.set_one(3, at(2.5))
    assert arrived(table, 4) == [0, 2, 3, 4]


def test_rows_allocated_later_arrive_like_the_others() -> None:
    columns = DueColumns()
    columns.allocate(10)
    table = Timetable(columns)
    assert arrived(table, 0) == []
    rows = columns.allocate(50_000)
    table.set_due(rows[-3:], np.array([at(2), at(1), at(3)]))
    assert arrived(table, 2) == [50_008, 50_007]


def test_the_next_due_is_found_beyond_the_horizon_and_among_rows_that_moved_away() -> None:
    table = timetable(10_000)
    table.set_due(np.arange(600), NOW + np.arange(600) * SEGMENT // 100)
    table.set_one(700, at(DAY))
    assert arrived(table, 0) == [0]
    table.set_due(np.arange(599), FOREVER)
    assert table.next_due() == at(5.99)
    table.set_one(599, FOREVER)
    assert table.next_due() == at(DAY)
    table.set_one(700, FOREVER)
    assert table.next_due() == FOREVER


def test_dues_as_far_apart_as_can_be_are_in_order() -> None:
    table = timetable(100)
    table.set_due(np.array([7, 8, 9, 5]), np.array([FOREVER - 1, NEVER, 0, NEVER]))
    assert table.arrived(FOREVER).tolist() == [5, 8, 9, 7]


def test_equal_dues_set_lately_are_in_order_of_row_even_beside_one_ages_away() -> None:
    table = timetable(100)
    assert arrived(table, 0) == []
    for row, due in ((8, NEVER), (5, NEVER), (9, NOW)):
        table.set_one(row, due)
    assert arrived(table, 0) == [5, 8, 9]


def test_a_row_that_is_not_due_does_not_arrive_even_at_the_end_of_time_in_a_crowd() -> None:
    table = timetable(3)
    table.set_due(np.array([0, 2]), at(1))
    assert table.arrived(FOREVER).tolist() == [0, 2]


def test_a_row_put_off_for_long_does_not_hide_one_that_is_due_before_it() -> None:
    table = timetable(100)
    table.set_due(np.array([5, 6]), np.array([at(1), at(2 * 3_600)]))
    assert arrived(table, 1) == [5]
    table.set_one(5, at(3 * 3_600))
    assert table.next_due() == at(2 * 3_600)


def test_a_result_belongs_to_the_caller() -> None:
    table = timetable(100)
    table.set_due(np.array([7, 8]), at(1))
    table.arrived(at(1))[:] = 0
    assert arrived(table, 1) == [7, 8]


@pytest.mark.parametrize("everies", [[1], [10, 30, 60, 300, 900, 3_600], [3_600], [1, 86_400, 86_400, 86_400]])
def test_an_hour_of_interval_tasks_runs_each_at_all_its_nominal_times(everies: list[int]) -> None:
    n = 400
    random = np.random.default_rng(1)
    every = np.resize(everies, n) * SEGMENT
    phase = (random.random(n) * every).astype(np.int64)
    table = timetable(n)
    table.set_due(np.arange(n), nominal_after(phase, every, NOW))
    runs = np.zeros(n, dtype=np.int64)
    for segment in range(1, 3_601):
        now = at(segment)
        rows = table.arrived(now)
        runs[rows] += 1
        table.set_due(rows, nominal_after(phase[rows], every[rows], now))
    expected = (at(3_600) - phase) // every - (NOW - phase) // every
    assert runs.tolist() == expected.tolist()


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=50), st.integers(-(2**62), 2**62))
def test_any_dues_arrive_as_a_plain_sort_has_them(dues: list[int], now: int) -> None:
    table = timetable(len(dues))
    table.set_due(np.arange(len(dues)), np.array(dues))
    expected = sorted((due, row) for row, due in enumerate(dues) if due <= now and due < FOREVER)
    assert table.arrived(Instant(now)).tolist() == [row for _, row in expected]
    assert table.next_due() == min(dues)


offsets = st.one_of(
    st.integers(-5, 5).map(lambda s: s * SEGMENT),
    st.integers(-20 * SEGMENT, 20 * SEGMENT),
    st.integers(0, 30).map(lambda m: m * 60 * SEGMENT),
    st.sampled_from([-DAY, -HOUR, HOUR, DAY, FOREVER - NOW - 2 * DAY]),
)
ROWS = 40


class TimetableAgainstADict(RuleBasedStateMachine):
    """A dict from row to due, sorted whenever it is asked, says the same."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = DueColumns()
        self.table = Timetable(self.columns)
        self.model: dict[int, int] = {}
        self.now = NOW

    @initialize(sleepers=st.sampled_from([0, 60, 1_000]))
    def begin(self, sleepers: int) -> None:
        # Rows that are hardly ever due make the others few enough to be kept as near.
        self.model = dict.fromkeys(self.columns.allocate(ROWS).tolist(), FOREVER)
        self.columns.allocate(sleepers)

    def rows(self) -> st.SearchStrategy[int]:
        return st.sampled_from(sorted(self.model))

    @precondition(lambda self: self.model)
    @rule(data=st.data(), offset=offsets)
    def set_one(self, data: st.DataObject, offset: int) -> None:
        row = data.draw(self.rows())
        self.table.set_one(row, Instant(self.now + offset))
        self.model[row] = self.now + offset

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def set_due(self, data: st.DataObject) -> None:
        new = data.draw(st.lists(st.tuples(self.rows(), offsets), max_size=12))
        rows = np.array([row for row, _ in new], dtype=np.int64)
        self.table.set_due(rows, np.array([self.now + offset for _, offset in new], dtype=np.int64))
        self.model |= {row: self.now + offset for row, offset in new}

    @precondition(lambda self: self.model)
    @rule(data=st.data(), offset=offsets)
    def set_all_to_one_time(self, data: st.DataObject, offset: int) -> None:
        rows = data.draw(st.lists(self.rows(), max_size=12))
        self.table.set_due(np.array(rows, dtype=np.int64), Instant(self.now + offset))
        self.model |= dict.fromkeys(rows, self.now + offset)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def take_out(self, data: st.DataObject) -> None:
        row = data.draw(self.rows())
        self.table.set_one(row, FOREVER)
        self.model[row] = FOREVER

    @rule()
    def put_off_what_arrived(self) -> None:
        rows = self.table.arrived(self.now)
        times = self.now + (rows % 7 + 1) * SEGMENT
        self.table.set_due(rows, times)
        self.model |= dict(zip(rows.tolist(), times.tolist(), strict=True))

    @rule(seconds=st.integers(1, 10))
    def pass_segments(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now = Instant(self.now + SEGMENT)
            self.agrees()

    @rule(jump=st.sampled_from([-DAY, -HOUR, -3 * SEGMENT, -1, 1, 700_000, 3 * SEGMENT, HOUR, DAY]))
    def jump(self, jump: int) -> None:
        self.now = Instant(self.now + jump)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        rows = data.draw(st.lists(self.rows(), unique=True, max_size=5))
        self.columns.free(np.array(rows, dtype=np.int64))
        for row in rows:
            del self.model[row]

    @rule(n=st.integers(1, 5))
    def allocate(self, n: int) -> None:
        self.model |= dict.fromkeys(self.columns.allocate(n).tolist(), FOREVER)

    @rule()
    def agrees(self) -> None:
        expected = sorted((due, row) for row, due in self.model.items() if due <= self.now)
        assert self.table.arrived(self.now).tolist() == [row for _, row in expected]

    @rule()
    def next_due_agrees(self) -> None:
        assert self.table.next_due() == min(self.model.values(), default=FOREVER)

    @invariant()
    def the_column_agrees(self) -> None:
        assert {row: int(self.columns.due[row]) for row in self.model} == self.model


TestTimetableAgainstADict = TimetableAgainstADict.TestCase
TestTimetableAgainstADict.settings = settings(max_examples=examples(120), stateful_step_count=40, deadline=None)
