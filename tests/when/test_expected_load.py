"""Cron entries on the hour of the wheel: their expected starts agree with counting them one by one."""

from collections import Counter
from datetime import UTC, datetime

import pytest

from evenbeat.model import HOUR, SECOND, Days, Instant
from evenbeat.when.cron import Cron, compile_cron
from evenbeat.when.expected_load import cron_slots


def instant(year: int, month: int = 1, day: int = 1) -> Instant:
    return Instant(int(datetime(year, month, day, tzinfo=UTC).timestamp()) * SECOND)


def counted(cron: Cron, start: Instant, end: Instant) -> dict[int, float]:
    """Starts per hour in each slot, the slow way: list them all."""
    slots = Counter(t % HOUR // SECOND for t in cron.between(start, end))
    return {slot: n * HOUR / (end - start) for slot, n in slots.items()}


WEEK_OF_2026 = (instant(2026, 6, 1), instant(2026, 6, 8))
FOUR_YEARS = (instant(2025), instant(2029))
"""Dates repeat after four years."""
TWENTY_EIGHT_YEARS = (instant(2001), instant(2029))
"""Dates and weekdays together repeat after 28."""


@pytest.mark.parametrize(
    "entry",
    [
        "* * * * *",
        "*/5 * * * *",
        "7 * * * *",
        "0,20,40 */6 * * *",
        "30 4 * * *",
        "0 0 * * 1-5",
        "15 12 * * SUN,7",
        "5 9 * * 0",
    ],
)
def test_entries_by_time_and_weekday_agree_with_a_week_of_counting(entry: str) -> None:
    cron = compile_cron(entry, second=17)
    assert cron_slots(cron) == pytest.approx(counted(cron, *WEEK_OF_2026), rel=1e-9)


@pytest.mark.parametrize(
    "entry", ["0 0 1 * *", "30 4 31 * *", "0 12 L * *", "0 0 29 2 *", "5,6 3 15 JAN-MAR *", "0 0 */2 * *"]
)
def test_entries_by_date_agree_with_four_years_of_counting(entry: str) -> None:
    cron = compile_cron(entry, second=0)
    assert cron_slots(cron) == pytest.approx(counted(cron, *FOUR_YEARS), rel=1e-9)


@pytest.mark.parametrize(
    ("entry", "days"),
    [
        pytest.param("0 6 LW * *", Days.OR, id="last working day"),
        pytest.param("0 6 * * MON#2", Days.OR, id="second Monday"),
        pytest.param("0 6 * * 5L", Days.OR, id="last Friday"),
        pytest.param("0 6 * * 7L", Days.OR, id="last Sunday, as 7"),
        pytest.param("0 6 * * 0#5", Days.OR, id="fifth Sunday"),
        pytest.param("0 6 13 * FRI", Days.OR, id="the 13th or a Friday"),
        pytest.param("0 6 13 * FRI", Days.AND, id="Friday the 13th"),
        pytest.param("0 6 L,1 * MON", Days.OR, id="ends, beginnings, Mondays"),
        pytest.param("0 6 L * SAT", Days.AND, id="Saturdays that end a month"),
        pytest.param("0 6 29 2 MON", Days.AND, id="29 February on a Monday"),
        pytest.param("0 6 */2 * MON", Days.OR, id="a leading star asks for both"),
    ],
)
def test_entries_by_date_and_weekday_agree_with_28_years_of_counting(entry: str, days: Days) -> None:
    cron = compile_cron(entry, second=0, days=days)
    assert cron_slots(cron) == pytest.approx(counted(cron, *TWENTY_EIGHT_YEARS), rel=1e-9)


def test_a_daily_entry_is_a_24th_of_an_hourly_one() -> None:
    assert cron_slots(compile_cron("10 * * * *", second=5)) == {605: 1.0}
    assert cron_slots(compile_cron("10 3 * * *", second=5)) == {605: pytest.approx(1 / 24)}


def test_the_spread_second_and_h_are_part_of_the_slot() -> None:
    cron = compile_cron("H H * * *", name="report")
    (nominal,) = cron.between(*WEEK_OF_2026[:1], Instant(WEEK_OF_2026[0] + 24 * HOUR))
    assert list(cron_slots(cron)) == [nominal % HOUR // SECOND]


def test_india_shifts_the_slot_by_half_an_hour() -> None:
    cron = compile_cron("10 9 * * *", zone_name="Asia/Kolkata", second=0)
    assert list(cron_slots(cron)) == [40 * 60]
    assert cron_slots(cron) == pytest.approx(counted(cron, *WEEK_OF_2026), rel=1e-9)


def test_nepal_shifts_the_slot_by_a_quarter() -> None:
    cron = compile_cron("50 9 * * *", zone_name="Asia/Kathmandu", second=0)
    assert list(cron_slots(cron)) == [5 * 60]
    assert cron_slots(cron) == pytest.approx(counted(cron, *WEEK_OF_2026), rel=1e-9)


@pytest.mark.parametrize("entry", ["10 9 * * *", "10 * * * *"])
def test_lord_howe_splits_it_in_two(entry: str) -> None:
    """Half the year +10:30, half the year +11:00: what matters to the hour is the half hour."""
    cron = compile_cron(entry, zone_name="Australia/Lord_Howe", second=0)
    found = cron_slots(cron)
    assert sorted(found) == [10 * 60, 40 * 60]
    assert found == pytest.approx(counted(cron, instant(2026), instant(2027)), rel=0.02)


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York"])
def test_full_hours_of_dst_move_no_slot(zone: str) -> None:
    cron = compile_cron("10 9 * * *", zone_name=zone, second=0)
    assert list(cron_slots(cron)) == [10 * 60]
    assert cron_slots(cron) == pytest.approx(counted(cron, instant(2026), instant(2027)), rel=1e-3)
