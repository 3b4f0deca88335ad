"""How long a run may last, and when it is killed."""

from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.timebox import NO_TIMEBOX, Timebox, default_timebox, kill_after
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant


def at(text: str) -> Instant:
    minutes, seconds = text.split(":")
    return Instant((int(minutes) * 60 + int(seconds)) * SECOND)


def test_a_task_has_no_timebox_unless_it_says_so() -> None:
    assert default_timebox(20 * SECOND, check=False) == NO_TIMEBOX
    assert default_timebox(None, check=False) == NO_TIMEBOX


@given(st.integers(SECOND, DAY))
def test_a_check_is_gone_before_the_next_is_due(interval: int) -> None:
    timebox = default_timebox(interval, check=True)
    assert timebox + kill_after(timebox) <= interval
    assert timebox == MINUTE or timebox >= interval // 2, "and has as long as that allows"


def test_a_check_has_at_most_a_minute() -> None:
    assert default_timebox(MINUTE, check=True) == 55 * SECOND
    assert default_timebox(20 * SECOND, check=True) == 15 * SECOND
    assert default_timebox(3 * SECOND, check=True) == 2 * SECOND
    assert default_timebox(DAY, check=True) == MINUTE
    assert default_timebox(None, check=True) == MINUTE


def test_the_run_of_the_fourth_table_ends_at_its_box() -> None:
    box = Timebox(at("00:35"), MINUTE // 2)
    assert box.ends == at("01:05")
    assert box.remaining(at("00:45")) == 20 * SECOND
    assert not box.is_expired(Instant(box.ends - 1))
    assert box.is_expired(box.ends)
    assert box.remaining(at("02:00")) == 0


def test_the_kill_follows_after_five_seconds_or_half_the_box() -> None:
    assert kill_after(HOUR) == 5 * SECOND
    assert kill_after(4 * SECOND) == 2 * SECOND
    assert Timebox(Instant(0), HOUR).kills == HOUR + 5 * SECOND
