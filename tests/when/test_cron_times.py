"""The times of a cron entry, against an oracle that looks at every minute, and beside bare cronsim."""

import calendar
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from budget import examples
from cronsim import CronSim
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from evenbeat.model import DAY, MINUTE, SECOND, Days, Instant, Invalid
from evenbeat.when.cron import Cron, CronTimes, clear_shared, compile_cron
from evenbeat.when.cron_entry import parse_cron_entry, resolve_hashes, spread_second
from evenbeat.when.zone import Zone

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = (
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "America/Havana",
    "Africa/Cairo",
    "Africa/Casablanca",
)

# What a field may hold, written down a second time: the oracle shares no code with the parser.
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES: tuple[list[str], ...] = (
    [],
    [],
    [],
    ["", "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"],
    ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"],
)


def instant(text: str) -> Instant:
    """An ISO time with an offset, as microseconds."""
    return Instant((datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1))


def moment(t: int, zone: str = "UTC") -> datetime:
    return (EPOCH + timedelta(microseconds=t)).astimezone(ZoneInfo(zone))


def found(t: Instant | None) -> Instant:
    assert t is not None
    return t


class Oracle:
    """Decides minute by minute, on the wall clock of zoneinfo, when a plain entry is due."""

    def __init__(self, entry: str, zone: str, days: Days = Days.OR) -> None:
        self.texts = entry.split()
        self.allowed = [{self._value(i, v) for v in self._values(i, text)} for i, text in enumerate(self.texts)]
        self.zone = ZoneInfo(zone)
        self.both_days = days is Days.AND or self.texts[2].startswith("*") or self.texts[4].startswith("*")
        self.fixed = not (self.texts[0].startswith("*") or self.texts[1].startswith("*"))

    @staticmethod
    def _value(field: int, value: int) -> int:
        return value % 7 if field == 4 else value

    @staticmethod
    def _values(field: int, text: str) -> Iterator[int]:
        def number(word: str) -> int:
            return NAMES[field].index(word) if word in NAMES[field] else int(word)

        for part in text.split(","):
            span, _, step = part.partition("/")
            lo, hi = RANGES[field]
            if span != "*":
                first, _, last = span.partition("-")
                lo, hi = number(first), number(last or first)
            yield from range(lo, hi + 1, int(step or 1))

    def matches(self, wall: datetime) -> bool:
        minutes, hours, days, months, weekdays = self.allowed
        if wall.minute not in minutes or wall.hour not in hours or wall.month not in months:
            return False
        by_day, by_weekday = wall.day in days, wall.isoweekday() % 7 in weekdays
        return (by_day and by_weekday) if self.both_days else (by_day or by_weekday)

    def due(self, t: Instant) -> bool:
        """Is a run due at this whole minute?"""
        now = (EPOCH + timedelta(microseconds=t)).astimezone(self.zone)
        wall = now.replace(tzinfo=None)
        if not self.fixed:
            return self.matches(wall)
        if self.matches(wall) and not now.fold:
            return True
        before = (EPOCH + timedelta(microseconds=t - MINUTE)).astimezone(self.zone).replace(tzinfo=None)
        skipped = int((wall - before) / timedelta(minutes=1)) - 1
        return any(self.matches(before + timedelta(minutes=i)) for i in range(1, skipped + 1))

    def between(self, start: int, end: int) -> list[int]:
        """Every due minute m with start <= m < end."""
        return [m for m in range(start + -start % MINUTE, end, MINUTE) if self.due(Instant(m))]


def changes(zone: str) -> list[int]:
    """The instants between 2020 and 2030 at which the offset of a zone changes."""
    result = []
    start, end = instant("2020-01-01T00:00+00:00"), instant("2030-01-01T00:00+00:00")
    for day in range(start, end, DAY):
        if moment(day, zone).utcoffset() != moment(day + DAY, zone).utcoffset():
            after = moment(day + DAY, zone).utcoffset()
            minutes = range(day, day + DAY + 1, MINUTE)
            result.append(next(t for t in minutes if moment(t, zone).utcoffset() == after))
    return result


CHANGES = {zone: changes(zone) for zone in ZONES}


def item(field: int) -> st.SearchStrategy[str]:
    lo, hi = RANGES[field]
    value = st.integers(lo, hi)
    span = st.tuples(value, value).map(sorted)
    step = st.integers(1, 1 + (hi - lo) // 2)
    return st.one_of(
        value.map(str),
        st.builds(lambda s: f"{s[0]}-{s[1]}", span),
        st.builds(lambda s, n: f"{s[0]}-{s[1]}/{n}", span, step),
        st.builds(lambda n: f"*/{n}", step),
    )


def field(index: int) -> st.SearchStrategy[str]:
    return st.one_of(st.just("*"), item(index), st.lists(item(index), min_size=2, max_size=3).map(",".join))


entries = st.builds(
    lambda *texts: " ".join(texts),
    field(0),
    field(1),
    st.one_of(st.just("*"), field(2)),
    st.one_of(st.just("*"), st.just("*"), st.just("*"), field(3)),
    st.one_of(st.just("*"), field(4)),
)
# Times at which DST happens: one and a half days around the changes decide more than years of quiet.
zones = st.sampled_from(ZONES)
around = st.integers(-2_000 * MINUTE, 2_000 * MINUTE)
quiet = st.integers(instant("2019-01-01T00:00+00:00"), instant("2031-01-01T00:00+00:00"))


@st.composite
def places(draw: st.DrawFn, among: st.SearchStrategy[str] = zones) -> tuple[str, Instant]:
    """A zone, and an instant that is often near one of its changes."""
    zone = draw(among)
    often = draw(st.sampled_from((True, True, True, False)))
    if often and CHANGES[zone]:
        change: int = draw(st.sampled_from(CHANGES[zone]))
        return zone, Instant(change + draw(around))
    return zone, Instant(draw(quiet))


def compiled(entry: str, zone: str, days: Days = Days.OR) -> Cron:
    try:
        return compile_cron(entry, zone_name=zone, days=days, second=0)
    except Invalid as refusal:
        assert "no date ever" in refusal.problem
        assume(False)  # a generated 30 February
        raise


# --- Properties


@settings(max_examples=examples(150), deadline=None)
@given(entries, places(), st.sampled_from(Days))
@example("30 2 * * *", ("Europe/Paris", instant("2026-03-28T12:00+01:00")), Days.OR)
@example("*/20 * * * *", ("Australia/Lord_Howe", instant("2026-04-04T10:00+11:00")), Days.OR)
@example("15 0 * * *", ("America/Havana", instant("2026-03-07T12:00-05:00")), Days.OR)
def test_two_days_of_any_entry_are_what_the_minute_by_minute_oracle_says(
    entry: str, place: tuple[str, Instant], days: Days
) -> None:
    zone, start = place
    cron = compiled(entry, zone, days)
    end = Instant(start + 2 * DAY)
    assert list(cron.between(start, end)) == Oracle(entry, zone, days).between(start, end)


@settings(max_examples=examples(200), deadline=None)
@given(entries, places())
def test_next_is_strictly_later_and_matches(entry: str, place: tuple[str, Instant]) -> None:
    zone, t = place
    after = found(compiled(entry, zone).next_after(t))
    assert after > t
    assert after % MINUTE == 0
    assert Oracle(entry, zone).due(after)


@settings(max_examples=examples(200), deadline=None)
@given(entries, places())
def test_previous_is_strictly_earlier_and_matches(entry: str, place: tuple[str, Instant]) -> None:
    zone, t = place
    before = found(compiled(entry, zone).previous_before(t))
    assert before < t
    assert before % MINUTE == 0
    assert Oracle(entry, zone).due(before)


@settings(max_examples=examples(200), deadline=None)
@given(entries, places(), st.integers(0, 59))
def test_next_and_previous_are_inverse(entry: str, place: tuple[str, Instant], second: int) -> None:
    zone, t = place
    compiled(entry, zone)
    cron = compile_cron(entry, zone_name=zone, second=second)
    after = found(cron.next_after(t))
    later = found(cron.next_after(after))
    assert cron.previous_before(later) == after
    before = found(cron.previous_before(after))
    assert before <= t
    assert cron.next_after(before) == after


@settings(max_examples=examples(100), deadline=None)
@given(entries, places(), st.integers(0, 3 * DAY), st.integers(0, 3 * DAY))
def test_iterating_in_two_halves_equals_iterating_once(
    entry: str, place: tuple[str, Instant], first: int, second: int
) -> None:
    zone, start = place
    cron = compiled(entry, zone)
    middle, end = Instant(start + first), Instant(start + first + second)
    once = list(cron.between(start, end))
    assert [*cron.between(start, middle), *cron.between(middle, end)] == once
    assert once == sorted(set(once))
    assert all(start <= t < end for t in once)


@settings(max_examples=examples(100), deadline=None)
@given(entries, places(), st.lists(around, min_size=2, max_size=8))
def test_the_shared_memory_never_changes_an_answer(
    entry: str, place: tuple[str, Instant], questions: list[int]
) -> None:
    zone, t = place
    shared = compiled(entry, zone).times
    for question in questions:
        alone = CronTimes(resolve_hashes(parse_cron_entry(entry), ""), Days.OR, shared.zone)
        assert shared.next_after(Instant(t + question)) == alone.next_after(Instant(t + question))


# --- Beside cronsim


def by_cronsim(entry: str, zone: str, start: Instant, count: int) -> list[int]:
    walk = islice(CronSim(entry, moment(start, zone)), count)
    return [(t.astimezone(UTC) - EPOCH) // timedelta(microseconds=1) for t in walk]


def ours(entry: str, zone: str, start: Instant, count: int) -> list[int]:
    cron = compile_cron(entry, zone_name=zone, second=0)
    return list(islice(cron.between(Instant(start + 1), Instant(start + 400 * 366 * DAY)), count))


@settings(max_examples=examples(150), deadline=None)
@given(entries, places(st.sampled_from(("UTC", "Europe/Paris", "America/New_York"))))
def test_we_agree_with_bare_cronsim_in_ordinary_zones(entry: str, place: tuple[str, Instant]) -> None:
    zone, start = place
    assume(not moment(start, zone).fold)
    assume(not re.search(r"\b(\d+)-\1/", entry))
    compiled(entry, zone)
    # An entry for fixed times inside a gap is told by cronsim once per skipped minute, all at the change.
    theirs = list(dict.fromkeys(by_cronsim(entry, zone, start, 40)))
    assert ours(entry, zone, start, len(theirs)) == theirs


def test_a_step_through_a_range_of_one_value_is_that_value_where_cronsim_goes_on_to_the_end() -> None:
    noon = instant("2026-06-01T12:00+00:00")
    assert ours("30-30/5 * * * *", "UTC", noon, 2) == [noon + 30 * MINUTE, noon + 90 * MINUTE]
    assert by_cronsim("30-30/5 * * * *", "UTC", noon, 2) == [noon + 30 * MINUTE, noon + 35 * MINUTE]


def test_we_are_right_where_cronsim_is_not_in_a_change_of_half_an_hour() -> None:
    zone, entry = "Australia/Lord_Howe", "*/20 */2 * * *"
    wrong = 0
    for change in CHANGES[zone]:
        start, end = Instant(change - DAY // 2), Instant(change + DAY // 2)
        expected = Oracle(entry, zone).between(start, end)
        assert list(compile_cron(entry, zone_name=zone, second=0).between(start, end)) == expected
        wrong += by_cronsim(entry, zone, Instant(start - 1), len(expected)) != expected
    assert wrong > 0


def test_we_are_right_where_cronsim_is_not_in_the_second_pass_of_a_repeated_hour() -> None:
    zone, entry = "Europe/Paris", "45 2 * * *"
    start = instant("2026-10-25T02:30+01:00")
    tomorrow = instant("2026-10-26T02:45+01:00")
    assert Oracle(entry, zone).between(start, start + 2 * DAY) == [tomorrow]
    assert ours(entry, zone, start, 1) == [tomorrow]
    assert by_cronsim(entry, zone, start, 1) != [tomorrow]


# --- Rare and impossible dates


@pytest.mark.parametrize(
    ("entry", "days", "after", "expected"),
    [
        ("0 0 29 2 *", Days.OR, "2026-01-01T00:00+00:00", "2028-02-29T00:00+00:00"),
        ("0 0 29 2 *", Days.OR, "2096-03-01T00:00+00:00", "2104-02-29T00:00+00:00"),
        ("0 0 29 2 MON", Days.AND, "2026-01-01T00:00+00:00", "2044-02-29T00:00+00:00"),
        ("0 0 29 2 MON#5", Days.AND, "2026-01-01T00:00+00:00", "2044-02-29T00:00+00:00"),
        ("0 0 29 2 SUN", Days.AND, "2072-01-01T00:00+00:00", "2088-02-29T00:00+00:00"),
        ("0 0 13 * FRI", Days.AND, "2026-03-14T00:00+00:00", "2026-11-13T00:00+00:00"),
        ("0 0 31 * *", Days.OR, "2026-01-31T00:00+00:00", "2026-03-31T00:00+00:00"),
        ("0 0 L * *", Days.OR, "2028-02-01T00:00+00:00", "2028-02-29T00:00+00:00"),
        ("0 0 LW * *", Days.OR, "2026-05-02T00:00+00:00", "2026-05-29T00:00+00:00"),
        ("0 0 * * MON#2", Days.OR, "2026-06-01T00:00+00:00", "2026-06-08T00:00+00:00"),
        ("0 0 * * 5L", Days.OR, "2026-06-01T00:00+00:00", "2026-06-26T00:00+00:00"),
        ("0 0 * * SUNL", Days.OR, "2026-06-01T00:00+00:00", "2026-06-28T00:00+00:00"),
        ("0 0 * * 7", Days.OR, "2026-06-01T00:00+00:00", "2026-06-07T00:00+00:00"),
    ],
)
def test_rare_dates_are_found(entry: str, days: Days, after: str, expected: str) -> None:
    cron = compile_cron(entry, days=days, second=0)
    assert cron.next_after(instant(after)) == instant(expected)
    assert found(cron.previous_before(Instant(instant(expected) + 1))) == instant(expected)


@pytest.mark.parametrize(
    ("entry", "days"),
    [
        ("0 0 30 2 *", Days.OR),
        ("0 0 30,31 2 *", Days.OR),
        ("0 0 31 4 *", Days.OR),
        ("0 0 31 4,6,9,11 *", Days.OR),
        ("0 0 31 APR,JUN *", Days.AND),
        ("0 0 30 2 */2", Days.OR),  # a leading star: both must match, and no 30 February is any weekday
        ("0 0 30 2 MON", Days.AND),
        ("0 0 1 * MON#5", Days.AND),
        ("0 0 28 2 MON#5", Days.AND),
        ("0 0 LW * SUN", Days.AND),
        ("0 0 1-7 * 5L", Days.AND),
    ],
)
def test_dates_that_never_come_are_refused_at_once(entry: str, days: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    walks = count_walks(monkeypatch)
    with pytest.raises(Invalid, match="no date ever has day of month") as refusal:
        compile_cron(entry, days=days)
    assert refusal.value.column == 5
    assert refusal.value.place == "field 3"
    assert len(walks) <= 1


def test_an_impossible_day_of_month_is_fine_where_the_weekday_suffices() -> None:
    mondays = compile_cron("0 0 30 2 MON", second=0)
    start, end = instant("2026-01-01T00:00+00:00"), instant("2027-01-01T00:00+00:00")
    assert [moment(t).day for t in mondays.between(start, end)] == [2, 9, 16, 23]


@given(st.integers(1, 31), st.integers(1, 12))
def test_a_date_is_refused_exactly_when_no_year_has_it(day: int, month: int) -> None:
    exists = day <= calendar.monthrange(2024, month)[1]
    try:
        compile_cron(f"0 0 {day} {month} *")
    except Invalid:
        assert not exists
    else:
        assert exists


# --- Days: either or both


def first_days(entry: str, days: Days) -> list[int]:
    cron = compile_cron(entry, days=days, second=0)
    start, end = instant("2026-11-01T00:00+00:00"), instant("2026-12-01T00:00+00:00")
    return [moment(t).day for t in cron.between(start, end)]


def test_both_day_fields_restricted_means_either() -> None:
    assert first_days("0 0 13 * FRI", Days.OR) == [6, 13, 20, 27]
    assert first_days("0 0 12 * FRI", Days.OR) == [6, 12, 13, 20, 27]


def test_days_and_asks_for_both() -> None:
    assert first_days("0 0 13 * FRI", Days.AND) == [13]
    assert first_days("0 0 1-14 * FRI", Days.AND) == [6, 13]


def test_one_day_field_alone_is_a_restriction_whatever_days_says() -> None:
    for days in Days:
        assert first_days("0 0 13 * *", days) == [13]
        assert first_days("0 0 * * FRI", days) == [6, 13, 20, 27]


def test_a_leading_star_is_no_restriction_of_its_own_so_both_must_match() -> None:
    # Debian's reading: */2 begins with a star. 1-31/2 has the same values, but does not.
    assert first_days("0 0 */2 * FRI", Days.OR) == [13, 27]
    assert first_days("0 0 1-31/2 * FRI", Days.OR) == sorted({*range(1, 31, 2), 6, 20})
    assert first_days("0 0 13 * */5", Days.OR) == [13]  # Sundays and Fridays; the 13th is a Friday
    assert first_days("0 0 12 * */5", Days.OR) == []
    assert first_days("0 0 *,13 * SAT", Days.OR) == [7, 14, 21, 28]


# --- The second


def test_the_second_is_spread_by_name_and_stable() -> None:
    seconds = {name: compile_cron("0 0 * * *", name=name).second for name in map(str, range(2_000))}
    assert set(seconds.values()) == set(range(60))
    assert all(spread_second(name) == second for name, second in seconds.items())


def test_a_pinned_second_is_kept() -> None:
    at = instant("2026-06-01T09:30+00:00")
    for second in (0, 1, 59):
        cron = compile_cron("30 9 * * *", name="report", second=second)
        assert cron.next_after(Instant(at - 1)) == at + second * SECOND
        assert cron.previous_before(Instant(at + MINUTE)) == at + second * SECOND


@pytest.mark.parametrize("second", [-1, 60, 1_000])
def test_a_second_outside_the_minute_is_refused(second: int) -> None:
    with pytest.raises(Invalid, match=f"{second} is not a second, accepted: 0-59"):
        compile_cron("0 0 * * *", second=second)


@given(st.integers(0, 59), st.integers(-120 * SECOND, 120 * SECOND))
def test_next_is_strict_within_the_minute_too(second: int, offset: int) -> None:
    due = instant("2026-06-01T09:30+00:00") + second * SECOND
    cron = compile_cron("30 9 * * *", second=second)
    t = Instant(due + offset)
    assert cron.next_after(t) == (due if t < due else due + DAY)
    assert cron.previous_before(t) == (due if t > due else due - DAY)


def test_fractions_of_a_second_count() -> None:
    due = instant("2026-06-01T09:30+00:00")
    cron = compile_cron("30 9 * * *", second=0)
    assert cron.next_after(Instant(due - 1)) == due
    assert cron.next_after(due) == due + DAY
    assert cron.previous_before(Instant(due + 1)) == due
    assert cron.previous_before(due) == due - DAY


# --- One cache for all


def count_walks(monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """Where each search through the calendar began, from now on."""
    walks: list[datetime] = []
    step = CronSim.__next__

    def counted(self: CronSim) -> datetime:
        walks.append(self.dt)
        return step(self)

    monkeypatch.setattr(CronSim, "__next__", counted)
    return walks


def test_tasks_with_one_resolved_entry_and_zone_share_their_times() -> None:
    one = compile_cron("5 4 * * *", name="one", zone_name="Europe/Paris")
    assert compile_cron("5 4 * * *", name="two", zone_name="Europe/Paris").times is one.times
    assert compile_cron("TZ=Europe/Paris 5 4 * * *", name="three").times is one.times
    name = next(
        n for n in map(str, range(10_000)) if resolve_hashes(parse_cron_entry("H H * * *"), n).text == "5 4 * * *"
    )
    assert compile_cron("H H * * *", name=name, zone_name="Europe/Paris").times is one.times


def test_another_zone_or_rule_of_days_has_its_own_times() -> None:
    one = compile_cron("5 4 13 * FRI", zone_name="Europe/Paris")
    assert compile_cron("5 4 13 * FRI", zone_name="Europe/Berlin").times is not one.times
    assert compile_cron("5 4 13 * FRI", zone_name="Europe/Paris", days=Days.AND).times is not one.times


def test_ten_thousand_names_make_at_most_1440_times_and_few_walks(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_shared()
    tasks = [compile_cron("H H * * *", name=f"task-{i}", zone_name="Europe/Paris") for i in range(10_000)]
    distinct = len({id(task.times) for task in tasks})
    assert 1_400 < distinct <= 1_440
    walks = count_walks(monkeypatch)
    t = instant("2026-06-01T09:30:30+02:00")
    first = [task.next_after(t) for task in tasks]
    assert len(walks) < 3 * distinct
    walks.clear()
    assert [task.next_after(t) for task in tasks] == first
    assert len(walks) <= 30  # those whose minute is this one: before and after their second


def test_what_is_remembered_serves_the_whole_stretch_up_to_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    cron = compile_cron("17 3 * * *", zone_name="Asia/Kolkata", second=0)
    due = instant("2026-06-01T03:17+05:30")
    walks = count_walks(monkeypatch)
    answers = {cron.next_after(Instant(due - DAY + i * MINUTE)) for i in range(1_440)}
    assert answers == {due}
    assert len(walks) == 1


# --- Zones


def test_a_zone_in_the_entry_beats_the_task_s_own() -> None:
    for prefix in ("TZ=", "CRON_TZ="):
        cron = compile_cron(f"{prefix}Asia/Tokyo 0 9 * * *", zone_name="Europe/Paris", second=0)
        assert cron.zone.name == "Asia/Tokyo"
        assert cron.next_after(instant("2026-06-01T00:00+09:00")) == instant("2026-06-01T09:00+09:00")


def test_without_any_zone_it_is_utc() -> None:
    assert compile_cron("0 9 * * *", second=0).next_after(Instant(0)) == 9 * 60 * MINUTE


@pytest.mark.parametrize(
    ("entry", "column", "fragment"),
    [
        ("TZ=Europe/Pariss 0 0 * * *", 4, "did you mean Europe/Paris"),
        ("CRON_TZ=Americas/New_York 0 0 * * *", 9, "did you mean America/New_York"),
        ("  TZ=utc 0 0 * * *", 6, "did you mean UTC"),
        ("TZ= 0 0 * * *", 4, "accepted: an IANA name such as Europe/Paris"),
        ("TZ=../../etc/passwd @daily", 4, "is not a time zone"),
    ],
)
def test_an_unknown_zone_is_refused_with_the_nearest_that_exist(entry: str, column: int, fragment: str) -> None:
    with pytest.raises(Invalid) as refusal:
        compile_cron(entry)
    assert fragment in refusal.value.problem
    assert refusal.value.column == column


def test_an_unknown_zone_of_the_task_has_no_column_in_the_entry() -> None:
    with pytest.raises(Invalid, match="did you mean Europe/Paris") as refusal:
        compile_cron("0 0 * * *", zone_name="Europe/Pari")
    assert refusal.value.column is None


@pytest.mark.parametrize("event", ["@reboot", "@shutdown", "TZ=UTC @reboot"])
def test_an_event_of_the_node_has_no_times(event: str) -> None:
    with pytest.raises(Invalid, match="is an event of the node and has no times"):
        compile_cron(event)


def test_a_rare_time_far_back_is_told_by_the_offset_it_had_then() -> None:
    # Moscow was at +04:00 from 2011 to 2014; a table of zone changes that starts later must not guess.
    moscow = Zone("Europe/Moscow", ZoneInfo("Europe/Moscow"))
    times = CronTimes(resolve_hashes(parse_cron_entry("*/5 * 29 2 WED"), ""), Days.AND, moscow)
    before = times.previous_before(instant("2026-06-01T00:00+03:00"))
    assert before == instant("2012-02-29T23:55+04:00")


@pytest.mark.parametrize("entry", ["*/5 * 29 2 *", "30 12 29 2 *"])
@pytest.mark.parametrize("zone", ["Europe/Paris", "Europe/Moscow", "Pacific/Apia"])
def test_a_century_of_rare_dates_is_the_same_forwards_and_backwards(entry: str, zone: str) -> None:
    fresh = [Zone(zone, ZoneInfo(zone)) for _ in range(2)]
    forth, back = (CronTimes(resolve_hashes(parse_cron_entry(entry), ""), Days.OR, z) for z in fresh)
    start, end = instant("1980-01-01T00:00+00:00"), instant("2070-01-01T00:00+00:00")
    forwards, backwards = [], []
    t = forth.next_after(start)
    while t is not None and t < end:
        forwards.append(t)
        t = forth.next_after(t)
    t = back.previous_before(end)
    while t is not None and t > start:
        backwards.append(t)
        t = back.previous_before(t)
    assert forwards == backwards[::-1]
    assert {moment(t, zone).month for t in forwards} == {2}
    assert len(forwards) == 23 * (288 if entry.startswith("*") else 1)


def test_plain_words_mean_the_same_as_the_choices_they_name() -> None:
    by_word = compile_cron("0 0 11 * 3", days="and")  # type: ignore[arg-type]
    by_choice = compile_cron("0 0 11 * 3", days=Days.AND)
    assert by_word.times.day_and
    assert by_choice.times.day_and
