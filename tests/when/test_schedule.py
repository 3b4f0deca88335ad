"""From the noun Schedule to its nominal times, whatever kind it is."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Days, Hash, Instant, Invalid, Schedule, Spread
from evenbeat.when.calendar import Calendar
from evenbeat.when.cron import Cron
from evenbeat.when.interval import Interval
from evenbeat.when.schedule import NodeEventSchedule, OnceSchedule, compile_schedule
from evenbeat.when.spread import hash_phase

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant(text: str) -> Instant:
    return Instant((datetime.fromisoformat(text) - EPOCH) // timedelta(microseconds=1))


def test_an_interval_with_a_phase_is_its_grid() -> None:
    interval = compile_schedule(Schedule(every=5 * MINUTE, phase=7 * SECOND), "x")
    assert isinstance(interval, Interval)
    assert interval.next_after(Instant(0)) == 7 * SECOND
    assert interval.next_after(Instant(7 * SECOND)) == 7 * SECOND + 5 * MINUTE


def test_an_aligned_interval_needs_no_placing() -> None:
    aligned = compile_schedule(Schedule(every=HOUR, spread=Spread.ALIGNED), "x")
    assert aligned.next_after(Instant(1)) == HOUR


def test_a_hashed_interval_takes_its_phase_from_the_name() -> None:
    for name in ("x", "y", "Grüße"):
        hashed = compile_schedule(Schedule(every=HOUR, spread=Spread.HASH), name)
        assert hashed.next_after(Instant(-1)) == hash_phase(name, HOUR)


@pytest.mark.parametrize("spread", [Spread.EVEN, Spread.ICINGA, Spread.BERGAMOT])
def test_the_other_strategies_have_no_phase_before_they_are_placed(spread: Spread) -> None:
    with pytest.raises(Invalid, match=f"spread = '{spread.value}' has no phase before the task is placed") as refusal:
        compile_schedule(Schedule(every=HOUR, spread=spread), "x")
    assert refusal.value.place == "phase"


def test_a_kept_phase_beats_the_strategy() -> None:
    for spread in Spread:
        kept = compile_schedule(Schedule(every=HOUR, spread=spread, phase=42), "x")
        assert kept.next_after(Instant(-1)) == 42


def test_a_cron_entry_takes_everything_the_schedule_says() -> None:
    schedule = Schedule(cron="H H 13 * FRI", zone="Europe/Paris", hash=Hash.JENKINS, days=Days.AND, second=5)
    cron = compile_schedule(schedule, "report")
    assert isinstance(cron, Cron)
    assert cron.resolved == "35 21 13 * FRI"
    assert cron.next_after(instant("2026-03-14T00:00+01:00")) == instant("2026-11-13T21:35:05+01:00")


def test_a_calendar_takes_the_zone() -> None:
    calendar = compile_schedule(Schedule(calendar="Mon..Fri 09:00", zone="Europe/Paris"), "x")
    assert isinstance(calendar, Calendar)
    assert calendar.next_after(instant("2026-06-05T12:00+02:00")) == instant("2026-06-08T09:00+02:00")


def test_at_is_one_time_in_the_zone() -> None:
    once = compile_schedule(Schedule(at="2026-12-01T09:00", zone="Europe/Paris"), "x")
    assert isinstance(once, OnceSchedule)
    assert once.at == instant("2026-12-01T09:00+01:00")


@given(st.integers(-DAY, DAY), st.integers(-DAY, DAY), st.integers(-DAY, DAY))
def test_once_is_before_or_after_and_never_at(at: int, t: int, end: int) -> None:
    once = OnceSchedule(Instant(at))
    assert once.next_after(Instant(t)) == (at if t < at else None)
    assert once.previous_before(Instant(t)) == (at if at < t else None)
    assert list(once.between(Instant(t), Instant(end))) == ([at] if t <= at < end else [])


def test_once_is_found_from_the_microsecond_before() -> None:
    once = OnceSchedule(Instant(10))
    assert once.next_after(Instant(9)) == 10
    assert once.next_after(Instant(10)) is None
    assert once.previous_before(Instant(11)) == 10
    assert once.previous_before(Instant(10)) is None
    assert list(once.between(Instant(10), Instant(11))) == [10]
    assert list(once.between(Instant(9), Instant(10))) == []


@pytest.mark.parametrize("event", ["@reboot", "@shutdown"])
def test_an_event_of_the_node_is_never_due_by_time(event: str) -> None:
    occasion = compile_schedule(Schedule(cron=event), "x")
    assert isinstance(occasion, NodeEventSchedule)
    assert occasion.event == event
    assert occasion.next_after(Instant(0)) is None
    assert occasion.previous_before(Instant(0)) is None
    assert list(occasion.between(Instant(-DAY), Instant(DAY))) == []


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (Schedule(cron="60 * * * *"), "cron, field 1, column 1: 60 is out of range"),
        (Schedule(cron="0 0 30 2 *"), "cron, field 3, column 5: no date ever has day of month 30"),
        (Schedule(cron="TZ=Europe/Pari @daily"), "cron, column 4: 'Europe/Pari' is not a time zone"),
        (Schedule(cron="@dayly"), "cron, column 1: '@dayly' is not an alias"),
        (Schedule(calendar="25:00"), "calendar: '25:00' is not an OnCalendar expression"),
        (Schedule(at="soon"), "at: 'soon' is not a time"),
    ],
)
def test_a_refusal_begins_with_the_field_of_the_schedule(schedule: Schedule, message: str) -> None:
    with pytest.raises(Invalid) as refusal:
        compile_schedule(schedule, "x")
    assert str(refusal.value).startswith(message)


# --- The noun itself


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {},
            "schedule: a schedule has exactly one of every, cron, calendar, at, after, after_failure; "
            "found none of them",
        ),
        ({"every": MINUTE, "cron": "@daily"}, "found every and cron"),
        ({"calendar": "daily", "at": "2026-12-01"}, "found calendar and at"),
        ({"every": SECOND - 1}, "every: 0.999999 s is out of range, accepted: 1s to 3653d"),
        ({"every": 3_654 * DAY}, "every: "),
        ({"every": MINUTE, "phase": MINUTE}, "a phase belongs to `every`, from 0 to less than it"),
        ({"every": MINUTE, "phase": -1}, "phase: "),
        ({"cron": "@daily", "phase": 0}, "a phase belongs to `every`"),
        ({"every": MINUTE, "second": 0}, "second: `second` belongs to cron entries, this schedule has `every`"),
        ({"at": "2026-12-01", "days": Days.AND}, "days: `days` belongs to cron entries, this schedule has `at`"),
        ({"calendar": "daily", "hash": Hash.JENKINS}, "hash: `hash` belongs to cron entries"),
        ({"cron": "@daily", "spread": Spread.HASH}, "spread: `spread` belongs to `every`, this schedule has `cron`"),
    ],
)
def test_a_schedule_that_contradicts_itself_is_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(Invalid) as refusal:
        Schedule(**fields)  # type: ignore[arg-type]
    assert message in str(refusal.value)


def test_the_shortest_and_longest_intervals_are_accepted() -> None:
    for every in (SECOND, 3_653 * DAY):
        assert compile_schedule(Schedule(every=every, phase=0), "x").next_after(Instant(0)) == every


def test_a_zone_that_does_not_exist_is_refused_even_where_no_time_is_asked() -> None:
    with pytest.raises(Invalid, match="'Nowhere' is not a time zone"):
        compile_schedule(Schedule(cron="TZ=Nowhere @reboot"), "x")
    with pytest.raises(Invalid) as refused:
        compile_schedule(Schedule(every=SECOND, phase=0, zone="Nowhere"), "x")
    assert refused.value.place == "zone"
