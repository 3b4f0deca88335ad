"""The grammar of one period line: what each form means, and an error that points at the column for all else."""

from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from evenbeat.model import TEXT_LIMIT, Invalid
from evenbeat.when.period_line import MONTHS, WEEKDAYS, WHOLE_DAY, DayRule, PeriodLine, parse_line

MONDAY, TUESDAY, FRIDAY, SUNDAY = DayRule(weekday=0), DayRule(weekday=1), DayRule(weekday=4), DayRule(weekday=6)
NINE, NOON, FIVE = 9 * 3600, 12 * 3600, 17 * 3600


def meaning(text: str) -> PeriodLine:
    """The line without its text, to compare spellings."""
    return parse_line(text)._replace(text="")


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("monday", MONDAY, MONDAY),
        ("monday-friday", MONDAY, FRIDAY),
        ("friday-monday", FRIDAY, MONDAY),
        ("day 15", DayRule(day=15), DayRule(day=15)),
        ("day -1", DayRule(day=-1), DayRule(day=-1)),
        ("day 1 - 5", DayRule(day=1), DayRule(day=5)),
        ("day 1 - day 5", DayRule(day=1), DayRule(day=5)),
        ("day -3 - -1", DayRule(day=-3), DayRule(day=-1)),
        ("december 25", DayRule(month=12, day=25), DayRule(month=12, day=25)),
        ("december -1", DayRule(month=12, day=-1), DayRule(month=12, day=-1)),
        ("december 24 - 26", DayRule(month=12, day=24), DayRule(month=12, day=26)),
        ("december 24 - january 2", DayRule(month=12, day=24), DayRule(month=1, day=2)),
        ("february 29", DayRule(month=2, day=29), DayRule(month=2, day=29)),
        ("monday 2", DayRule(weekday=0, nth=2), DayRule(weekday=0, nth=2)),
        ("monday -1 may", DayRule(weekday=0, nth=-1, month=5), DayRule(weekday=0, nth=-1, month=5)),
        ("monday 1 - friday 2", DayRule(weekday=0, nth=1), DayRule(weekday=4, nth=2)),
        (
            "thursday 4 november - friday 4 november",
            DayRule(weekday=3, nth=4, month=11),
            DayRule(weekday=4, nth=4, month=11),
        ),
        ("2026-12-24", DayRule(on=date(2026, 12, 24)), DayRule(on=date(2026, 12, 24))),
        ("2026-12-24 - 2027-01-02", DayRule(on=date(2026, 12, 24)), DayRule(on=date(2027, 1, 2))),
    ],
)
def test_days_are_read(text: str, first: DayRule, last: DayRule) -> None:
    assert meaning(text) == PeriodLine("", first, last)


@pytest.mark.parametrize(
    ("text", "hours"),
    [
        ("09:00-17:00", ((NINE, FIVE),)),
        ("9:00-17:00", ((NINE, FIVE),)),
        ("09:00 - 17:00", ((NINE, FIVE),)),
        ("09:00-12:00,12:30-17:00", ((NINE, NOON), (NOON + 1800, FIVE))),
        ("09:00-12:00 , 12:30-17:00", ((NINE, NOON), (NOON + 1800, FIVE))),
        ("09:00:30-09:00:45", ((NINE + 30, NINE + 45),)),
        ("09:00:30-10:00", ((NINE + 30, 36_000),)),
        ("00:00-24:00", ((0, 86_400),)),
        ("22:00-24:00", ((79_200, 86_400),)),
        ("22:00-00:00", ((79_200, 86_400),)),
        ("22:00-06:00", ((79_200, 108_000),)),
        ("12:00-12:00", ((NOON, NOON + 86_400),)),
        ("23:59:59-24:00:00", ((86_399, 86_400),)),
    ],
)
def test_hours_are_read(text: str, hours: tuple[tuple[int, int], ...]) -> None:
    assert meaning(text) == PeriodLine("", hours=hours)
    assert meaning(f"monday-friday {text}") == PeriodLine("", MONDAY, FRIDAY, hours=hours)


@pytest.mark.parametrize(
    ("text", "step"),
    [("monday-friday / 2", 2), ("monday-friday/2", 2), ("monday-friday / 1", 1), ("monday-friday / 9999", 9999)],
)
def test_a_step_counts_days_of_the_range(text: str, step: int) -> None:
    assert meaning(text) == PeriodLine("", MONDAY, FRIDAY, step)


def test_a_step_stands_between_days_and_hours() -> None:
    assert meaning("monday-friday / 2 09:00-17:00") == PeriodLine("", MONDAY, FRIDAY, 2, hours=((NINE, FIVE),))


def test_a_step_without_days_is_every_nth_day() -> None:
    assert meaning("/ 3") == PeriodLine("", step=3)
    assert meaning("/ 3 09:00-17:00") == PeriodLine("", step=3, hours=((NINE, FIVE),))


def test_a_single_date_with_a_step_goes_on_for_ever() -> None:
    assert meaning("2026-01-05 / 14") == PeriodLine("", DayRule(on=date(2026, 1, 5)), DayRule(on=date.max), 14)


def test_a_single_date_with_step_one_is_that_date() -> None:
    assert meaning("2026-01-05 / 1") == meaning("2026-01-05")


def test_a_range_from_a_date_to_itself_ends_there_even_with_a_step() -> None:
    line = meaning("2026-01-05 - 2026-01-05 / 14")
    assert (line.first, line.last) == (DayRule(on=date(2026, 1, 5)), DayRule(on=date(2026, 1, 5)))


@pytest.mark.parametrize(
    ("text", "where"),
    [("holidays DE", "DE"), ("holidays de", "DE"), ("HOLIDAYS de-by", "DE-BY"), ("holidays FR-57", "FR-57")],
)
def test_holidays_are_read(text: str, where: str) -> None:
    assert meaning(text) == PeriodLine("", holidays=where)


def test_holidays_take_hours() -> None:
    assert meaning("holidays DE 09:00-17:00") == PeriodLine("", holidays="DE", hours=((NINE, FIVE),))


def test_a_line_without_hours_is_all_day() -> None:
    assert parse_line("monday").hours == WHOLE_DAY == ((0, 86_400),)


def test_a_line_keeps_its_text() -> None:
    assert parse_line("  Mon-Fri  09:00-17:00 ").text == "  Mon-Fri  09:00-17:00 "


@pytest.mark.parametrize("name", [*WEEKDAYS, *MONTHS])
def test_names_may_be_cut_to_three_letters_and_written_in_capitals(name: str) -> None:
    day = "" if name in WEEKDAYS else " 5"
    expected = meaning(name + day)
    for spelling in (name[:3], name.upper(), name[:3].upper(), name.title()):
        assert meaning(spelling + day) == expected


@pytest.mark.parametrize(
    ("spelling", "plain"),
    [
        ("monday - friday", "monday-friday"),
        ("monday  -friday", "monday-friday"),
        ("  monday-friday  ", "monday-friday"),
        ("monday\t-\tfriday\n", "monday-friday"),
        ("day 1-5", "day 1 - 5"),
        ("dec 24-jan 2", "december 24 - january 2"),
        ("2026-12-24-2027-01-02", "2026-12-24 - 2027-01-02"),
        ("mon -1 may", "monday -1 may"),
        ("mon-fri/2 9:00 - 17:00", "monday-friday / 2 09:00-17:00"),
    ],
)
def test_spaces_around_signs_are_free(spelling: str, plain: str) -> None:
    assert meaning(spelling) == meaning(plain)


MALFORMED = [
    # nothing, or nothing known
    ("", 1, "an empty line, accepted: a weekday"),
    ("   ", 1, "an empty line"),
    ("foo", 1, "'foo' is not a day, accepted: a weekday"),
    ("modnay", 1, "'modnay' is not a day, did you mean monday?"),
    ("  thursdya", 3, "'thursdya' is not a day, did you mean thursday?"),
    ("mo", 1, "'mo' is not a day"),
    ("5", 1, "'5' is neither a day nor a time"),
    ("20260101", 1, "'20260101' is neither a day nor a time"),
    ("9-17", 1, "'9' is neither a day nor a time"),
    ("monday §", 8, "'§' is not understood"),
    ("mönday", 1, "'mönday' is not understood"),
    ("09.00-17.00", 3, "'.00-17.00' is not understood"),
    ("monday 9am-5pm", 8, "'9am-5pm' is not understood"),
    ("2026-06-06T09:00-10:00", 11, "'T09:00-10:00' is not understood"),
    # days
    ("monday-", 8, "the end of the line where a day should be"),
    ("monday-fridday", 8, "'fridday' is not a day, did you mean friday?"),
    ("monday - 2026-12-24", 8, "a range runs between days named the same way"),
    ("2026-12-24 - monday", 12, "a range runs between days named the same way"),
    ("monday - day 5", 8, "a range runs between days named the same way"),
    ("day 1 - monday", 7, "a range runs between days named the same way"),
    ("monday 2 - friday", 10, "a range runs between days named the same way"),
    ("day 1 - december 5", 7, "a range runs between days named the same way"),
    ("2026-12-24 - 5", 14, "'5' where the name of a day, like the one the range starts with, should be"),
    ("monday 2 - 4", 12, "'4' where the name of a day"),
    ("monday 0", 8, "0 is not a week of the month, accepted: 1 to 5, or -1 to -5 from its end"),
    ("monday 6", 8, "6 is not a week of the month"),
    ("monday -6", 8, "-6 is not a week of the month"),
    ("monday 99999", 8, "99999 is out of range"),
    ("monday 2 mya", 10, "'mya' is not a day, did you mean may?"),
    ("day", 4, "the end of the line where the number of a day (-1 is the last) should be"),
    ("day x", 5, "'x' where the number of a day"),
    ("day --1", 5, "'-' where the number of a day"),
    ("day 0", 5, "0 is not a day of the month, accepted: 1 to 31, or -1 to -31"),
    ("day 32", 5, "32 is not a day of the month"),
    ("day -32", 5, "-32 is not a day of the month"),
    ("day 1 - 40", 9, "40 is not a day of the month"),
    ("day 1 -", 8, "the end of the line where a day should be"),
    ("december", 9, "the end of the line where the number of a day"),
    ("december 32", 10, "32 is not a day of december, accepted: 1 to 31"),
    ("february 30", 10, "30 is not a day of february, accepted: 1 to 29"),
    ("april 1 - 31", 11, "31 is not a day of april, accepted: 1 to 30"),
    ("december 24 - january", 22, "the end of the line where the number of a day"),
    ("2026-02-30", 1, "2026-02-30 is not a date of the calendar"),
    ("2026-13-01", 1, "2026-13-01 is not a date of the calendar"),
    ("0000-01-01", 1, "0000-01-01 is not a date of the calendar"),
    ("2026-1-1", 1, "'2026' is neither a day nor a time"),
    ("2026-12-24 - 2026-12-01", 1, "the range 2026-12-24 - 2026-12-01 runs backwards"),
    # steps
    ("monday-friday / 0", 17, "every 0th day is never, accepted: a number from 1"),
    ("monday-friday /", 16, "the end of the line where a number of days, such as / 2, should be"),
    ("monday-friday / x", 17, "'x' where a number of days"),
    ("monday-friday / -2", 17, "'-' where a number of days"),
    ("monday-friday / 10000", 17, "10000 is out of range"),
    ("monday / 2", 8, "'/ 2' changes nothing on a single day"),
    ("day 15 / 2", 8, "'/ 2' changes nothing on a single day"),
    ("holidays DE / 2", 13, "holidays take no `/ N`"),
    # holidays
    ("holidays", 9, "the end of the line where a country (DE), or a country and its part (DE-BY), should be"),
    ("holidays 12", 10, "'12' where a country"),
    ("holidays DE-", 12, "'-' where hours (HH:MM-HH:MM), `/ N` or the end of the line should be"),
    # hours
    ("09:00", 6, "the end of the line where the '-' of hours HH:MM-HH:MM should be"),
    ("09:00-", 7, "the end of the line where the time HH:MM that ends the hours should be"),
    ("09:00-17", 7, "'17' where the time HH:MM that ends the hours should be"),
    ("09:00-17:00,", 13, "the end of the line where a time HH:MM should be"),
    ("09:00-17:00,monday", 13, "'monday' where a time HH:MM should be"),
    ("09:60-10:00", 1, "09:60 is not a time of day, accepted: 00:00 to 24:00"),
    ("25:00-26:00", 1, "25:00 is not a time of day"),
    ("00:00-24:01", 7, "24:01 is not a time of day"),
    ("00:00-24:00:01", 7, "24:00:01 is not a time of day"),
    ("24:00-02:00", 1, "24:00 can only end a range, accepted as a start: 00:00 to 23:59:59"),
    ("09:00:60-10:00", 1, "09:00:60 is not a time of day"),
    ("09:00:00:00-10:00", 1, "'09:00:00:00-10:00' is not understood"),
    ("monday 09:0-10:00", 8, "'09:0-10:00' is not understood"),
]


@pytest.mark.parametrize(("text", "column", "fragment"), MALFORMED)
def test_a_malformed_line_is_refused_at_its_column(text: str, column: int, fragment: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_line(text)
    assert refused.value.column == column
    assert fragment in refused.value.problem


@pytest.mark.parametrize(
    ("good", "rest"),
    [
        ("monday", "tuesday"),
        ("monday", ",tuesday"),
        ("monday", "may"),
        ("monday 2 june", "5"),
        ("monday 2", "2026-01-01"),
        ("day 1", "5"),
        ("day 5", "may"),
        ("may 5", "june"),
        ("may 5", "2026"),
        ("2022-06-06", "2022-06-07"),
        ("2022-06-06", "x"),
        ("monday-friday", "- sunday"),
        ("monday-friday / 2", "/ 3"),
        ("holidays DE", "FR"),
        ("09:00-17:00", "18:00-19:00"),
        ("09:00-17:00", "monday"),
        ("09:00-17:00", "/ 2"),
        ("09:00-17:00", "- 18:00"),
        ("monday 09:00-17:00", "x"),
    ],
)
def test_a_line_that_parses_only_in_its_beginning_is_refused(good: str, rest: str) -> None:
    """Peers read the beginning and ignore the rest, so that a slip of the pen opens a period for ever."""
    parse_line(good)
    with pytest.raises(Invalid) as refused:
        parse_line(f"{good} {rest}")
    assert refused.value.column == len(good) + 2
    assert "where hours (HH:MM-HH:MM), `/ N` or the end of the line should be" in refused.value.problem


def test_a_line_is_bounded() -> None:
    hours = "09:00-17:00," * (TEXT_LIMIT // 12 + 1)
    with pytest.raises(Invalid, match=f"accepted: at most {TEXT_LIMIT}"):
        parse_line(hours.rstrip(","))


def works_or_is_refused(text: str) -> None:
    try:
        line = parse_line(text)
    except Invalid as refused:
        assert refused.problem
        assert refused.column is None or 1 <= refused.column <= len(text) + 1
    else:
        assert line.text == text
        assert line.hours
        assert all(0 <= start < 86_400 and start < end <= start + 86_400 for start, end in line.hours)
        for year in (1999, 2024, 2026):
            assert all(first <= last for first, last in line.days(year))


@given(st.text(max_size=40))
@example("monday ٢")
@example("²")
@example("monday\x00")
@example(" " * TEXT_LIMIT)
@example("9" * TEXT_LIMIT)
@example("a" * (TEXT_LIMIT - 1) + "1")
@example(" " * (TEXT_LIMIT - 1) + "!")
@example("9999-12-31 / 9999")
@example("0001-01-01 - 9999-12-31")
def test_any_text_parses_or_is_refused(text: str) -> None:
    works_or_is_refused(text)


ALPHABET = [
    *(name for word in (*WEEKDAYS, *MONTHS) for name in (word, word[:3].upper())),
    *("day", "holidays", "DE", "BY", "-", "-", "-", "-", "/", "/", ",", ",", " "),
    *("0", "1", "2", "5", "-1", "15", "29", "31", "32", "366", "99999"),
    *("00:00", "09:00", "9:30", "17:00:30", "24:00", "24:01", "23:59:59"),
    *("2026-12-24", "2027-01-02", "2026-02-30", "9999-12-31"),
]


@given(st.lists(st.sampled_from(ALPHABET), max_size=9), st.sampled_from(["", " "]))
def test_any_words_of_the_grammar_parse_or_are_refused(words: list[str], between: str) -> None:
    works_or_is_refused(between.join(words))


@given(st.sampled_from([good for good, *_ in MALFORMED if good.strip()]), st.integers(0, 30))
def test_a_malformed_line_is_refused_at_the_same_place_after_any_indent(text: str, indent: int) -> None:
    with pytest.raises(Invalid) as plain:
        parse_line(text)
    with pytest.raises(Invalid) as indented:
        parse_line(" " * indent + text)
    assert plain.value.column is not None
    assert indented.value.column == plain.value.column + indent


@pytest.mark.parametrize("text", ["monday-friday", "day 30 - 2", "december 24 - january 2", "friday-monday", "day 31"])
@pytest.mark.parametrize("year", [1999, 2000, 2026, 2028])
def test_ranges_asked_for_by_year_touch_it_or_lead_into_it(text: str, year: int) -> None:
    ranges = list(parse_line(text).days(year))
    assert any(first.year == year for first, _ in ranges)
    assert all(date(year - 1, 12, 1) <= first <= last <= date(year + 1, 1, 31) for first, last in ranges)


def test_only_the_digits_of_the_west_are_digits() -> None:
    with pytest.raises(Invalid):
        parse_line("１２:００-１３:００")
