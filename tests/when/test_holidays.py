"""Public holidays by country: as a line, as a field, as an exclude, and the errors where they are not known."""

import sys
from datetime import date, timedelta

import pytest

from evenbeat.model import DAY, Instant, Invalid
from evenbeat.model import Period as PeriodNoun
from evenbeat.when.holidays import check_holidays, holiday_dates
from evenbeat.when.instant import parse_instant, to_datetime
from evenbeat.when.period import CompiledPeriod, compile_period, compile_periods
from evenbeat.when.zone import zone


def instant(text: str, zone_name: str = "UTC") -> Instant:
    return parse_instant(text, zone(zone_name))


def days_open(period: CompiledPeriod, first: str, beyond: str, zone_name: str = "UTC") -> list[str]:
    """Every local day from `first` until `beyond` on whose noon the period is open."""
    day, end = date.fromisoformat(first), date.fromisoformat(beyond)
    found = []
    while day < end:
        if period.contains(instant(f"{day}T12:00", zone_name)):
            found.append(day.isoformat())
        day += timedelta(days=1)
    return found


GERMANY_2026 = [
    "2026-01-01",
    "2026-04-03",
    "2026-04-06",
    "2026-05-01",
    "2026-05-14",
    "2026-05-25",
    "2026-10-03",
    "2026-12-25",
    "2026-12-26",
]
BAVARIA_2026 = sorted([*GERMANY_2026, "2026-01-06", "2026-06-04", "2026-08-15", "2026-11-01"])


def test_a_holidays_line_is_open_on_the_public_holidays_of_the_country() -> None:
    assert days_open(compile_period(PeriodNoun(ranges=("holidays DE",))), "2026-01-01", "2027-01-01") == GERMANY_2026


def test_a_part_of_a_country_adds_its_own_holidays() -> None:
    found = days_open(compile_period(PeriodNoun(ranges=("holidays DE-BY",))), "2026-01-01", "2027-01-01")
    # Assumption Day is a holiday in the Catholic communes of Bavaria only: whether it counts is the library's choice.
    assert set(GERMANY_2026) < set(found) <= set(BAVARIA_2026)
    assert {"2026-01-06", "2026-06-04", "2026-11-01"} <= set(found)


def test_country_and_part_are_read_in_any_case() -> None:
    period = compile_period(PeriodNoun(ranges=("Holidays de-by",)))
    assert period.contains(instant("2026-01-06T12:00"))
    assert compile_period(PeriodNoun(holidays="de-by")).contains(instant("2026-01-06T12:00"))


def test_a_part_the_library_spells_with_small_letters_is_accepted_and_has_its_holidays() -> None:
    augsburg = compile_period(PeriodNoun(ranges=("holidays DE-Augsburg",)))
    assert augsburg.contains(instant("2026-08-08T12:00")), "Augsburg's own Peace Festival"
    assert not compile_period(PeriodNoun(ranges=("holidays DE",))).contains(instant("2026-08-08T12:00"))


def test_the_field_holidays_means_the_same_as_the_line() -> None:
    assert days_open(compile_period(PeriodNoun(holidays="DE")), "2026-01-01", "2027-01-01") == GERMANY_2026


def test_the_field_holidays_joins_the_ranges() -> None:
    period = compile_period(PeriodNoun(ranges=("saturday-sunday",), holidays="DE"))
    assert days_open(period, "2026-05-01", "2026-05-16") == [
        "2026-05-01",
        "2026-05-02",
        "2026-05-03",
        "2026-05-09",
        "2026-05-10",
        "2026-05-14",
    ]


def test_hours_apply_on_each_holiday() -> None:
    period = compile_period(PeriodNoun(ranges=("holidays DE 10:00-12:00",)))
    assert period.windows(instant("2026-05-01"), instant("2026-05-14")) == [
        (instant("2026-05-01T10:00"), instant("2026-05-01T12:00"))
    ]


def test_a_holiday_is_a_local_day_of_the_period_s_zone() -> None:
    period = compile_period(PeriodNoun(holidays="DE", zone="Europe/Berlin"))
    opening = period.next_open(instant("2026-04-10"))
    assert opening == instant("2026-04-30T22:00")
    assert to_datetime(opening, zone("Europe/Berlin")).date() == date(2026, 5, 1)
    assert period.next_close(opening) == instant("2026-05-01T22:00")


def test_working_days_without_public_holidays() -> None:
    periods = compile_periods(
        {
            "work": PeriodNoun(ranges=("monday-friday 09:00-17:00",), exclude=("off",), zone="Europe/Berlin"),
            "off": PeriodNoun(holidays="DE", zone="Europe/Berlin"),
        }
    )
    # Good Friday 2026-04-03 and Easter Monday 2026-04-06 drop out of their weeks.
    assert days_open(periods["work"], "2026-03-30", "2026-04-11", "Europe/Berlin") == [
        "2026-03-30",
        "2026-03-31",
        "2026-04-01",
        "2026-04-02",
        "2026-04-07",
        "2026-04-08",
        "2026-04-09",
        "2026-04-10",
    ]
    close_before_easter = instant("2026-04-02T17:00", "Europe/Berlin")
    assert periods["work"].next_open(close_before_easter) == instant("2026-04-07T09:00", "Europe/Berlin")


def test_a_holiday_moved_from_a_weekend_counts() -> None:
    # Independence Day 2026 is a Saturday, observed on Friday.
    period = compile_period(PeriodNoun(holidays="US"))
    assert days_open(period, "2026-07-01", "2026-07-06") == ["2026-07-03", "2026-07-04"]


def test_the_dates_of_a_year_are_in_order_and_of_that_year() -> None:
    found = holiday_dates("DE", 2026)
    assert [day.isoformat() for day in found] == GERMANY_2026


def test_an_unknown_country_is_refused_with_near_ones() -> None:
    with pytest.raises(Invalid, match=r"no holidays are known for 'DEE', did you mean .*\bDE\b.*\?"):
        check_holidays("DEE")


def test_a_country_unlike_any_other_is_refused_with_what_is_accepted() -> None:
    with pytest.raises(Invalid, match=r"no holidays are known for 'QQQQ', accepted: two-letter codes such as DE"):
        check_holidays("QQQQ")


def test_an_unknown_part_is_refused_with_the_parts_there_are() -> None:
    with pytest.raises(Invalid, match=r"DE has no part 'XX', accepted: BB, BE, BW, BY, "):
        check_holidays("DE-XX")


def test_a_part_of_a_country_without_parts_is_refused() -> None:
    with pytest.raises(Invalid, match=r"JP has no part 'XX', accepted: none"):
        check_holidays("JP-XX")


def test_a_line_with_unknown_holidays_names_its_place() -> None:
    nouns = {"off": PeriodNoun(ranges=("sunday", "holidays DE-XX"))}
    with pytest.raises(Invalid) as refused:
        compile_periods(nouns)
    assert str(refused.value).startswith("periods.off.ranges[1]: DE has no part 'XX'")


@pytest.mark.parametrize("bad", ["DE-XX", "XYZZY", "DE BY", "DE-BY 09:00-10:00", "-", "12"])
def test_a_bad_field_holidays_names_its_place(bad: str) -> None:
    with pytest.raises(Invalid) as refused:
        compile_periods({"off": PeriodNoun(holidays=bad)})
    assert str(refused.value).startswith("periods.off.holidays: ")


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    with pytest.raises(Invalid, match=r"pip install 'evenbeat\[holidays\]'"):
        compile_period(PeriodNoun(holidays="DE"))
    with pytest.raises(Invalid, match=r"ranges\[0\]: holidays need the extra"):
        compile_period(PeriodNoun(ranges=("holidays DE",)))


def test_without_the_extra_periods_without_holidays_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "holidays", None)
    assert days_open(compile_period(PeriodNoun(ranges=("sunday",))), "2026-03-01", "2026-03-08") == ["2026-03-01"]


def test_a_part_that_a_line_cannot_spell_can_be_given_as_a_field() -> None:
    period = compile_period(PeriodNoun(holidays="NZ-South Canterbury"))
    assert period.next_open(Instant(0)) is not None


def test_years_the_library_only_estimates_are_no_warning() -> None:
    period = compile_period(PeriodNoun(holidays="IN"))
    assert period.windows(Instant(60 * 366 * DAY), Instant(70 * 366 * DAY))
