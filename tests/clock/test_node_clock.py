"""The node's clock: it follows what disciplines it, notices what sets it, and never goes back by itself."""

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.clock.node_clock import MIN_CLOCK_STEP, Clock
from evenbeat.model import SECOND

START = 1_700_000_000 * SECOND


class Machine:
    """Its wall clock may be set; its boot-time clock may not."""

    def __init__(self) -> None:
        self.boot = 5 * SECOND
        self.wall_ahead = START
        self.clock = Clock(lambda: self.boot + self.wall_ahead, lambda: self.boot)

    def passes(self, time: int = SECOND) -> None:
        self.boot += time

    @property
    def wall(self) -> int:
        return self.boot + self.wall_ahead

    @property
    def error(self) -> int:
        return self.clock.now() - self.wall


def test_it_reads_the_wall_clock_and_goes_on_with_the_boot_time_clock() -> None:
    machine = Machine()
    assert machine.error == 0
    machine.passes(90 * SECOND)
    assert machine.error == 0
    assert machine.clock.offset == START


def test_a_wall_clock_that_is_a_little_ahead_is_followed_at_once() -> None:
    machine = Machine()
    machine.wall_ahead += 300_000
    assert machine.clock.compare() == 0
    assert machine.error == 0


def test_a_wall_clock_that_is_a_little_behind_is_waited_for_in_small_steps() -> None:
    machine = Machine()
    machine.wall_ahead -= 35_000
    errors = []
    for _ in range(5):
        machine.passes()
        assert machine.clock.compare() == 0
        errors.append(machine.error)
    assert errors == [25_000, 15_000, 5_000, 0, 0]


def test_whoever_asks_just_before_and_just_after_it_is_slewed_does_not_see_it_go_back() -> None:
    machine = Machine()
    machine.wall_ahead -= 500_000
    machine.passes()
    before = machine.clock.now()
    machine.clock.compare()
    assert machine.clock.now() >= before


def test_a_step_forward_is_told_and_followed() -> None:
    machine = Machine()
    machine.wall_ahead += 3_600 * SECOND
    assert machine.clock.compare() == 3_600 * SECOND
    assert machine.error == 0
    assert machine.clock.compare() == 0


def test_a_step_back_is_told_and_followed() -> None:
    machine = Machine()
    machine.passes(10 * SECOND)
    machine.clock.now()
    machine.wall_ahead -= 3_600 * SECOND
    assert machine.clock.compare() == -3_600 * SECOND
    assert machine.error == 0


def test_exactly_a_second_is_no_step_yet() -> None:
    machine = Machine()
    machine.wall_ahead -= MIN_CLOCK_STEP
    assert machine.clock.compare() == 0
    machine.wall_ahead -= 1
    machine.clock.compare()
    machine.wall_ahead -= MIN_CLOCK_STEP
    assert machine.clock.compare() < -MIN_CLOCK_STEP


@given(st.lists(st.tuples(st.integers(0, 3 * SECOND), st.integers(-3 * SECOND, 3 * SECOND)), max_size=30))
def test_it_never_goes_back_unless_it_says_so_and_is_never_more_than_a_second_off(
    events: list[tuple[int, int]],
) -> None:
    machine = Machine()
    for passes, by in events:
        machine.passes(passes)
        machine.wall_ahead += by
        before = machine.clock.now()
        step = machine.clock.compare()
        after = machine.clock.now()
        assert after >= before or step < -MIN_CLOCK_STEP
        assert abs(step) > MIN_CLOCK_STEP or step == 0
        assert abs(machine.error) <= MIN_CLOCK_STEP
