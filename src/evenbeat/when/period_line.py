"""One line of a period, `[days] [hours]`: the grammar, with errors that point at the column.

monday-friday 09:00-17:00      day 15      day -1      day 1 - 5      december 24 - january 2
monday 2      monday -1 may    2026-12-24 - 2027-01-02 / 3            holidays DE
"""

import re
from calendar import monthrange
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final, NamedTuple

from evenbeat.did_you_mean import nearest_words
from evenbeat.model import TEXT_LIMIT, Invalid

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
MONTHS: Final = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
LONGEST_MONTH: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
DAY_SECONDS: Final = 86_400
WHOLE_DAY: Final = ((0, DAY_SECONDS),)

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?![\d:])|(?P<time>[0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?)(?![\d:])"
    r"|(?P<number>[0-9]+)(?![\w:])|(?P<word>[A-Za-z]+)(?!\w)|(?P<sign>[-,/])|(?P<end>$))"
)
_ACCEPTED_DAYS: Final = "accepted: a weekday, `day N`, a month with a day, a date, `holidays CC`, or hours HH:MM-HH:MM"


class DayRule(NamedTuple):
    """A day named by a rule: a weekday, a day of a month or of every month, the nth weekday, or a date."""

    month: int | None = None
    day: int | None = None
    """Of the month, from 1; from its end if negative."""
    weekday: int | None = None
    nth: int | None = None
    """Which such weekday of the month; from its end if negative; None for every week."""
    on: date | None = None

    def kind(self) -> tuple[bool, ...]:
        """Ranges run between days named in the same way."""
        return self.on is not None, self.weekday is not None, self.nth is not None, self.month is not None


class PeriodLine(NamedTuple):
    """A parsed line: on which days, every how many of them, during which seconds of the day."""

    text: str
    first: DayRule | None = None
    last: DayRule | None = None
    step: int = 1
    holidays: str | None = None
    hours: tuple[tuple[int, int], ...] = WHOLE_DAY
    """Seconds of the day, start inclusive, end exclusive; an end beyond 24:00 is on the next day."""

    def days(self, year: int) -> Iterator[tuple[date, date]]:
        """Ranges of days (first and last) that touch a year; a range may begin before or end after it."""
        if self.first is None:
            yield date(year, 1, 1), date(year, 12, 31)
            return
        assert self.last is not None
        if self.first.on and self.last.on:
            if self.first.on.year <= year <= self.last.on.year:
                yield self.first.on, self.last.on
        elif self.first.weekday is not None and self.first.nth is None:
            yield from self._weekly(year)
        elif self.first.month is None:
            # A range that began in December reaches into January.
            months = [(year - 1, 12), *((year, m) for m in range(1, 13))]
            yield from self._anchored(months)
        else:
            yield from self._anchored([(year - 1, self.first.month), (year, self.first.month)])

    def _weekly(self, year: int) -> Iterator[tuple[date, date]]:
        assert self.first and self.last and self.first.weekday is not None and self.last.weekday is not None
        length = timedelta(days=(self.last.weekday - self.first.weekday) % 7)
        start = date(year, 1, 1) - timedelta(days=7)
        start += timedelta(days=(self.first.weekday - start.weekday()) % 7)
        while start.year <= year:
            yield start, start + length
            start += timedelta(days=7)

    def _anchored(self, months: list[tuple[int, int]]) -> Iterator[tuple[date, date]]:
        assert self.first and self.last
        for year, month in months:
            start = _in_month(self.first, year, month, clamp=False)
            if start is None:
                continue
            end = _in_month(self.last, year, self.last.month or month, clamp=True)
            if end is not None and end < start:
                over = (year, month + 1) if self.last.month is None else (year + 1, self.last.month)
                end = _in_month(self.last, over[0] + over[1] // 13, (over[1] - 1) % 12 + 1, clamp=True)
            if end is not None:
                yield start, end


def _in_month(day: DayRule, year: int, month: int, *, clamp: bool) -> date | None:
    """The date of a rule in one month. What lies beyond its end: nothing, or its last day if `clamp`."""
    first_weekday, length = monthrange(year, month)
    if day.weekday is not None and day.nth is not None:
        first = (day.weekday - first_weekday) % 7 + 1
        all_such = range(first, length + 1, 7)
        index = day.nth - 1 if day.nth > 0 else day.nth
        if -len(all_such) <= index < len(all_such):
            return date(year, month, all_such[index])
        return date(year, month, length) if clamp and day.nth > 0 else None
    assert day.day is not None
    number = day.day if day.day > 0 else length + 1 + day.day
    if 1 <= number <= length:
        return date(year, month, number)
    return date(year, month, length) if clamp and number > length else None


class _Token(NamedTuple):
    kind: str
    text: str
    column: int


class _LineReader:
    def __init__(self, text: str) -> None:
        self.tokens: list[_Token] = []
        position = 0
        while not self.tokens or self.tokens[-1].kind != "end":
            m = _TOKEN.match(text, position)
            if m is None or m.lastgroup is None:
                start = position + len(text[position:]) - len(text[position:].lstrip())
                bad = re.match(r"\S+", text[start:])
                raise Invalid(f"{bad.group() if bad else ''!r} is not understood, {_ACCEPTED_DAYS}", column=start + 1)
            self.tokens.append(_Token(m.lastgroup, m[m.lastgroup].lower(), m.start(m.lastgroup) + 1))
            position = m.end()
        self.at = 0

    @property
    def now(self) -> _Token:
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> _Token:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def take(self) -> _Token:
        token = self.now
        self.at = min(self.at + 1, len(self.tokens) - 1)
        return token

    def accept(self, text: str) -> bool:
        if self.now.text == text and self.now.kind == "sign":
            self.take()
            return True
        return False

    def fail(self, expected: str) -> Invalid:
        found = "the end of the line" if self.now.kind == "end" else repr(self.now.text)
        return Invalid(f"{found} where {expected} should be", column=self.now.column)


def parse_line(text: str) -> PeriodLine:
    """Parse one line to its end; raise Invalid that points at the column."""
    if len(text) > TEXT_LIMIT:
        raise Invalid(f"a line of {len(text)} characters, accepted: at most {TEXT_LIMIT}")
    reader = _LineReader(text)
    if reader.now.kind == "end":
        raise Invalid(f"an empty line, {_ACCEPTED_DAYS}", column=1)
    line = PeriodLine(text)
    if reader.now.kind == "word" and reader.now.text == "holidays":
        line = line._replace(holidays=_holidays(reader))
    elif reader.now.kind in ("word", "date"):
        line = _days(reader, line)
    elif reader.now.kind == "number":
        raise Invalid(f"{reader.now.text!r} is neither a day nor a time, {_ACCEPTED_DAYS}", column=reader.now.column)
    slash = reader.now
    if reader.accept("/"):
        line = _step(reader, line, slash.column)
    if reader.now.kind == "time":
        line = line._replace(hours=_hours(reader))
    if reader.now.kind != "end":
        raise reader.fail("hours (HH:MM-HH:MM), `/ N` or the end of the line")
    return line


def _days(reader: _LineReader, line: PeriodLine) -> PeriodLine:
    start = reader.now
    first = last = _day(reader)
    dash = reader.now
    if reader.accept("-"):
        if reader.now.kind == "number" or (reader.now.text == "-" and reader.peek().kind == "number"):
            if first.day is None:
                raise reader.fail("the name of a day, like the one the range starts with,")
            last = first._replace(day=_day_number(reader, first.month))
        else:
            last = _day(reader)
    if first.kind() != last.kind():
        raise Invalid(
            "a range runs between days named the same way, such as monday-friday, day 1 - 5, 2026-12-24 - 2027-01-02",
            column=dash.column,
        )
    if first.on and last.on and last.on < first.on:
        raise Invalid(f"the range {first.on} - {last.on} runs backwards", column=start.column)
    return line._replace(first=first, last=last)


def _day(reader: _LineReader) -> DayRule:
    token = reader.take()
    if token.kind == "date":
        try:
            return DayRule(on=date.fromisoformat(token.text))
        except ValueError:
            raise Invalid(f"{token.text} is not a date of the calendar", column=token.column) from None
    if token.text == "day":
        return DayRule(day=_day_number(reader, None))
    word = _full_name(token)
    if word in MONTHS:
        month = MONTHS.index(word) + 1
        return DayRule(month=month, day=_day_number(reader, month))
    weekday = WEEKDAYS.index(word)
    if not (reader.now.kind == "number" or (reader.now.text == "-" and reader.peek().kind == "number")):
        return DayRule(weekday=weekday)
    column = reader.now.column
    nth = _signed(reader)
    if not 1 <= abs(nth) <= 5:
        raise Invalid(f"{nth} is not a week of the month, accepted: 1 to 5, or -1 to -5 from its end", column=column)
    named_month = reader.now.kind == "word" and reader.now.text not in ("day", "holidays")
    if named_month and (name := _full_name(reader.now)) in MONTHS:
        reader.take()
        return DayRule(weekday=weekday, nth=nth, month=MONTHS.index(name) + 1)
    return DayRule(weekday=weekday, nth=nth)


def _full_name(token: _Token) -> str:
    names = (*WEEKDAYS, *MONTHS)
    for name in names:
        if token.text in (name, name[:3]):
            return name
    if token.kind != "word":
        found = repr(token.text) if token.text else "the end of the line"
        raise Invalid(f"{found} where a day should be, {_ACCEPTED_DAYS}", column=token.column)
    near = nearest_words(token.text, [*names, "day", "holidays"])
    hint = f"did you mean {near[0]}?" if near else _ACCEPTED_DAYS
    raise Invalid(f"{token.text!r} is not a day, {hint}", column=token.column)


def _day_number(reader: _LineReader, month: int | None) -> int:
    if not (reader.now.kind == "number" or (reader.now.text == "-" and reader.peek().kind == "number")):
        raise reader.fail("the number of a day (-1 is the last)")
    column = reader.now.column
    number = _signed(reader)
    longest = LONGEST_MONTH[month - 1] if month else 31
    if not 1 <= abs(number) <= longest:
        of = MONTHS[month - 1] if month else "the month"
        raise Invalid(f"{number} is not a day of {of}, accepted: 1 to {longest}, or -1 to -{longest}", column=column)
    return number


def _signed(reader: _LineReader) -> int:
    sign = -1 if reader.accept("-") else 1
    token = reader.take()
    if len(token.text) > 4:
        raise Invalid(f"{token.text[:20]} is out of range", column=token.column)
    return sign * int(token.text)


def _step(reader: _LineReader, line: PeriodLine, column: int) -> PeriodLine:
    if reader.now.kind != "number":
        raise reader.fail("a number of days, such as / 2,")
    number = reader.now
    step = _signed(reader)
    if step == 0:
        raise Invalid("every 0th day is never, accepted: a number from 1", column=number.column)
    if line.holidays:
        raise Invalid("holidays take no `/ N`", column=column)
    if line.first is not None and line.first == line.last and step > 1:
        if line.first.on is None:
            raise Invalid(
                f"'/ {step}' changes nothing on a single day: give a range (monday-friday / {step}), "
                f"or a date to count from (2026-01-05 / 14 is every other Monday)",
                column=column,
            )
        # A single date with a step has no end: every Nth day from it on. A range from a date to itself ends there.
        if line.first is line.last:
            line = line._replace(last=DayRule(on=date.max))
    return line._replace(step=step)


def _holidays(reader: _LineReader) -> str:
    reader.take()
    country = reader.now
    if country.kind != "word":
        raise reader.fail("a country (DE), or a country and its part (DE-BY),")
    reader.take()
    if reader.now.text == "-" and reader.peek().kind in ("word", "number"):
        reader.take()
        return f"{country.text}-{reader.take().text}".upper()
    return country.text.upper()


def _hours(reader: _LineReader) -> tuple[tuple[int, int], ...]:
    hours = []
    while True:
        if reader.now.kind != "time":
            raise reader.fail("a time HH:MM")
        start_token = reader.take()
        start = _time(start_token)
        if start == DAY_SECONDS:
            raise Invalid(
                "24:00 can only end a range, accepted as a start: 00:00 to 23:59:59", column=start_token.column
            )
        if not reader.accept("-"):
            raise reader.fail("the '-' of hours HH:MM-HH:MM")
        if reader.now.kind != "time":
            raise reader.fail("the time HH:MM that ends the hours")
        end = _time(reader.take())
        hours.append((start, end if end > start else end + DAY_SECONDS))
        if not reader.accept(","):
            return tuple(hours)


def _time(token: _Token) -> int:
    hour, minute, second = (*map(int, token.text.split(":")), 0)[:3]
    if minute > 59 or second > 59 or hour > 24 or (hour == 24 and (minute or second)):
        raise Invalid(f"{token.text} is not a time of day, accepted: 00:00 to 24:00", column=token.column)
    return hour * 3_600 + minute * 60 + second
