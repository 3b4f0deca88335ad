"""Reading cron entries: what is understood, how H resolves, and where a refusal points."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
from budget import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenbeat.model import TEXT_LIMIT, Days, Hash, Instant, Invalid
from evenbeat.when.cron import compile_cron
from evenbeat.when.cron_entry import ALIASES, FIELDS, parse_cron_entry, resolve_hashes

NAMES = [f"task-{i}" for i in range(500)] + ["", "Grüße", "日本", "team/job"]


def values(entry: str, name: str = "", hash_: Hash = Hash.STABLE) -> list[list[int]]:
    fields = resolve_hashes(parse_cron_entry(entry), name, hash_).fields
    return [sorted(v for v in field if isinstance(v, int)) for field in fields]


def slots(entry: str) -> Iterator[list[list[int]]]:
    """The resolved fields under many names and both hashes."""
    for hash_ in Hash:
        for name in NAMES:
            yield values(entry, name, hash_)


# --- The five entries of the Instinct document; the comment of each is the assertion


def test_instinct_report_every_fifteen_minutes() -> None:
    """Perhaps at :07, :22, :37, :52."""
    firsts = set()
    for minutes, *_ in slots("H/15 * * * *"):
        assert len(minutes) == 4
        assert minutes[0] < 15
        assert [b - a for a, b in pairwise(minutes)] == [15, 15, 15]
        firsts.add(minutes[0])
    assert firsts == set(range(15))


def test_instinct_refresh_three_times_in_the_first_half_of_every_hour() -> None:
    """Perhaps at :04, :14, :24."""
    firsts = set()
    for minutes, hours, *_ in slots("H(0-29)/10 * * * *"):
        assert len(minutes) == 3
        assert minutes == [minutes[0], minutes[0] + 10, minutes[0] + 20]
        assert minutes[0] < 10
        assert minutes[2] < 30
        assert hours == list(range(24))
        firsts.add(minutes[0])
    assert firsts == set(range(10))


def test_instinct_restart_every_two_hours_from_9_45_to_15_45_on_weekdays() -> None:
    cron = compile_cron("45 9-16/2 * * 1-5", second=0)
    monday = Instant(1_780_272_000_000_000)  # 2026-06-01T00:00Z
    hour = 3_600_000_000
    due = [(t - monday) / hour for t in cron.between(monday, Instant(monday + 7 * 24 * hour))]
    assert due == [24 * day + at for day in range(5) for at in (9.75, 11.75, 13.75, 15.75)]


def test_instinct_restart_once_in_every_two_hour_slot_on_weekdays() -> None:
    """Perhaps at 10:38, 12:38, 14:38, 16:38."""
    used = set()
    for minutes, hours, days, months, weekdays in slots("H H(9-16)/2 * * 1-5"):
        assert len(minutes) == 1
        assert [(h - 9) // 2 for h in hours] == [0, 1, 2, 3]
        assert len({h % 2 for h in hours}) == 1
        assert (days, months, weekdays) == (list(range(1, 32)), list(range(1, 13)), [1, 2, 3, 4, 5])
        used.add((minutes[0], hours[0]))
    assert {hour for _, hour in used} == {9, 10}
    assert {minute for minute, _ in used} == set(range(60))


def test_instinct_once_a_day_on_the_1st_and_15th_except_in_december() -> None:
    for minutes, hours, days, months, weekdays in slots("H H 1,15 1-11 *"):
        assert (len(minutes), len(hours)) == (1, 1)
        assert (days, months) == ([1, 15], list(range(1, 12)))
        assert weekdays == list(range(8))
    cron = compile_cron("H H 1,15 1-11 *", name="cleanup")
    year = Instant(1_767_225_600_000_000), Instant(1_798_761_600_000_000)  # 2026
    assert len(list(cron.between(*year))) == 22


# --- What is understood


@pytest.mark.parametrize(
    ("field", "text", "expected"),
    [
        (0, "*", list(range(60))),
        (0, "5", [5]),
        (0, "05", [5]),
        (0, "1-5", [1, 2, 3, 4, 5]),
        (0, "7-7", [7]),
        (0, "0-30/10", [0, 10, 20, 30]),
        (0, "5-30/10", [5, 15, 25]),
        (0, "*/20", [0, 20, 40]),
        (0, "*/90", [0]),
        (0, "1,3,5", [1, 3, 5]),
        (0, "5,1-3,*/30", [0, 1, 2, 3, 5, 30]),
        (0, "1,1,1", [1]),
        (1, "*/6", [0, 6, 12, 18]),
        (2, "*/10", [1, 11, 21, 31]),
        (3, "JAN", [1]),
        (3, "jan,Dec", [1, 12]),
        (3, "MAR-MAY", [3, 4, 5]),
        (3, "*/5", [1, 6, 11]),
        (4, "MON-FRI", [1, 2, 3, 4, 5]),
        (4, "sun", [0]),
        (4, "7", [7]),
        (4, "5-7", [5, 6, 7]),
        (4, "MON,3-5/2", [1, 3, 5]),
    ],
)
def test_plain_fields(field: int, text: str, expected: list[int]) -> None:
    fields = ["*"] * 5
    fields[field] = text
    assert values(" ".join(fields))[field] == expected


def test_zero_and_seven_are_both_sunday() -> None:
    start, end = Instant(0), Instant(10**15)
    zero, seven, name = (compile_cron(f"0 0 * * {day}", second=0) for day in ("0", "7", "SUN"))
    assert list(zero.between(start, end)) == list(seven.between(start, end)) == list(name.between(start, end))


def test_blanks_and_case_do_not_matter() -> None:
    assert values("  h/15\t*  *  jan   mon-fri ", "x") == values("H/15 * * JAN MON-FRI", "x")


def test_lists_may_mix_h_and_plain_values() -> None:
    for minutes, *_ in slots("0,H(30-59) * * * *"):
        assert minutes[0] == 0
        assert len(minutes) == 2
        assert 30 <= minutes[1] <= 59


def test_the_resolved_entry_is_plain_and_means_the_same() -> None:
    entries = ("H/7 H H H H", "H/2 H(0-11)/3 * * *", "H,H(0-5)/2,59 * * * *", "H/1 H L * 5L", "* H H(1-31)/4 * MON#1")
    for entry in entries:
        for name in NAMES[:50]:
            resolved = resolve_hashes(parse_cron_entry(entry), name)
            assert "H" not in resolved.text
            again = resolve_hashes(parse_cron_entry(resolved.text), "another name")
            assert again.text == resolved.text
            assert again.fields == resolved.fields


def test_an_entry_without_h_resolves_to_itself_whatever_the_name() -> None:
    assert {resolve_hashes(parse_cron_entry("*/5 1-3 * * MON"), name).text for name in NAMES} == {"*/5 1-3 * * MON"}


def test_h_of_the_month_is_never_beyond_the_28th() -> None:
    assert max(days[0] for _, _, days, *_ in slots("0 0 H * *")) == 28
    assert {days[0] for _, _, days, *_ in slots("0 0 H(29-31) * *")} == {29, 30, 31}


# --- Aliases, events, zones


@pytest.mark.parametrize(
    ("alias", "entry"),
    [
        ("@yearly", "H H H H *"),
        ("@annually", "H H H H *"),
        ("@monthly", "H H H * *"),
        ("@weekly", "H H * * H"),
        ("@daily", "H H * * *"),
        ("@midnight", "H H(0-2) * * *"),
        ("@hourly", "H * * * *"),
    ],
)
def test_aliases_are_h_forms(alias: str, entry: str) -> None:
    assert alias in ALIASES
    for name in NAMES[:20]:
        assert resolve_hashes(parse_cron_entry(alias), name) == resolve_hashes(parse_cron_entry(entry), name)
        assert resolve_hashes(parse_cron_entry(f"  {alias.upper()} "), name) == resolve_hashes(
            parse_cron_entry(entry), name
        )


def test_midnight_is_in_the_first_three_hours() -> None:
    assert {hours[0] for _, hours, *_ in slots("@midnight")} == {0, 1, 2}


@pytest.mark.parametrize("event", ["@reboot", "@shutdown"])
def test_events_of_the_node_are_no_times(event: str) -> None:
    entry = parse_cron_entry(f" {event.upper()} ")
    assert entry.occasion == event
    assert entry.fields == ()


def test_ordinary_entries_are_no_events() -> None:
    assert parse_cron_entry("@daily").occasion is None
    assert parse_cron_entry("* * * * *").occasion is None


@pytest.mark.parametrize("prefix", ["TZ=", "CRON_TZ=", "  TZ="])
def test_a_zone_may_come_first(prefix: str) -> None:
    for rest in ("5 4 * * *", "@daily", "@reboot"):
        entry = parse_cron_entry(f"{prefix}Europe/Paris {rest}")
        assert entry.zone == "Europe/Paris"
        assert entry.fields == parse_cron_entry(rest).fields
        assert entry.occasion == parse_cron_entry(rest).occasion


def test_without_a_prefix_there_is_no_zone() -> None:
    assert parse_cron_entry("5 4 * * *").zone is None
    assert parse_cron_entry("@daily").zone is None


# --- Refusals: entry, place, column, and a part of the message that no other refusal here needs to share

MALFORMED: list[tuple[str, str, int | None, str]] = [
    ("", "", None, "an empty entry, accepted: minute hour day-of-month month day-of-week"),
    (" \t ", "", None, "an empty entry"),
    ("TZ=Europe/Paris", "", None, "an empty entry"),
    ("5", "", 2, "1 field, a cron entry has five: hour is missing"),
    ("5 4 *", "", 6, "3 fields, a cron entry has five: month is missing"),
    ("* * * *", "", 8, "4 fields, a cron entry has five: day of week is missing"),
    ("0 5 4 * * *", "", 11, "6 fields, a cron entry has five; the second is not a field here, `second = 0` pins it"),
    ("* * * * * a b", "", 11, "7 fields, a cron entry has five: 'a' is too much"),
    ("60 * * * *", "field 1", 1, "60 is out of range, accepted for minute: 0-59"),
    ("* 24 * * *", "field 2", 3, "24 is out of range, accepted for hour: 0-23"),
    ("* * 0 * *", "field 3", 5, "0 is out of range, accepted for day of month: 1-31"),
    ("* * 32 * *", "field 3", 5, "32 is out of range"),
    ("* * * 13 *", "field 4", 7, "13 is out of range, accepted for month: 1-12 or JAN-DEC"),
    ("* * * * 8", "field 5", 9, "8 is out of range, accepted for day of week: 0-7 or SUN-SAT"),
    ("0,15,75 * * * *", "field 1", 6, "75 is out of range"),
    ("10-70 * * * *", "field 1", 4, "70 is out of range"),
    ("99999999999999999999 * * * *", "field 1", 1, "99999999999999999999 is out of range"),
    ("-1 * * * *", "field 1", 1, "'-1' is not understood"),
    ("1-2-3 * * * *", "field 1", 1, "'1-2-3' is not understood"),
    ("1/2/3 * * * *", "field 1", 1, "'1/2/3' is not understood"),
    ("*5 * * * *", "field 1", 1, "'*5' is not understood"),
    ("* (H) * * *", "field 2", 3, "'(H)' is not understood"),
    ("H(1,2) * * * *", "field 1", 1, "'H(1' is not understood"),
    ("*/0 * * * *", "field 1", 3, "a step of 0 goes nowhere, accepted: a whole number from 1"),
    ("*/ * * * *", "field 1", 3, "'' is not a step"),
    ("* */x * * *", "field 2", 5, "'X' is not a step"),
    ("*/99999 * * * *", "field 1", 3, "'99999' is not a step"),
    ("*/-5 * * * *", "field 1", 3, "'-5' is not a step"),
    ("5/10 * * * *", "field 1", 2, "'5/10' has a step but no range, write 5-59/10"),
    ("30-10 * * * *", "field 1", 1, "the range 30-10 runs backwards, write 30-59,0-10"),
    ("* 22-2 * * *", "field 2", 3, "the range 22-2 runs backwards, write 22-23,0-2"),
    ("* * * * FRI-SUN", "field 5", 9, "the range FRI-SUN runs backwards, write 5-7 (7 is Sunday too)"),
    ("* * * NOV-FEB *", "field 4", 7, "the range NOV-FEB runs backwards, write 11-12,1-2"),
    ("1,,2 * * * *", "field 1", 3, "an empty element in the list of the minute field"),
    ("* 1,2, * * *", "field 2", 7, "an empty element in the list of the hour field"),
    ("1- * * * *", "field 1", 3, "'' is not a value"),
    ("* * * FOO *", "field 4", 7, "'FOO' is not a value, accepted for month: 1-12 or JAN-DEC"),
    ("* * * * MONDAY", "field 5", 9, "'MONDAY' is not a value"),
    ("MON * * * *", "field 1", 1, "'MON' is not a value, accepted for minute"),
    ("1.5 * * * *", "field 1", 1, "'1.5' is not a value"),
    ("٣ * * * *", "field 1", 1, "'٣' is not a value"),
    ("HH * * * *", "field 1", 1, "'HH' is not a value"),
    ("* * ? * *", "field 3", 5, "'?' is not a value"),
    ("L * * * *", "field 1", 1, "'L' is not a value, accepted for minute"),
    ("* * L-3 * *", "field 3", 5, "'L' is not a value, accepted for day of month"),
    ("* * * * L", "field 5", 9, "'L' is not a value, accepted for day of week"),
    ("* * * * 9L", "field 5", 9, "9 is out of range"),
    ("* * 1#2 * *", "field 3", 6, "'#' belongs to the day-of-week field (MON#2 is the second Monday)"),
    ("* * * * MON#6", "field 5", 13, "'6' is not a week of the month, accepted: 1 to 5"),
    ("* * * * MON#", "field 5", 13, "'' is not a week of the month"),
    ("H(0-3)/15 * * * *", "field 1", 8, "15 is too large a step, the range 0-3 has 4 values"),
    ("* H/25 * * *", "field 2", 5, "25 is too large a step, the range 0-23 has 24 values"),
    ("* * H/29 * *", "field 3", 7, "29 is too large a step, the range 1-28 has 28 values"),
    ("* * * * H/8", "field 5", 11, "8 is too large a step, the range 0-6 has 7 values"),
    ("H/0 * * * *", "field 1", 3, "a step of 0 goes nowhere"),
    ("H(5) * * * *", "field 1", 3, "'H(5)' needs a range, such as H(0-29)"),
    ("H() * * * *", "field 1", 3, "'H()' needs a range"),
    ("H(30-10) * * * *", "field 1", 3, "the range 30-10 of H runs backwards, write H(10-30)"),
    ("H(0-60) * * * *", "field 1", 5, "60 is out of range"),
    ("H(a-b) * * * *", "field 1", 3, "'A' is not a value"),
    ("0,H(5-) * * * *", "field 1", 7, "'' is not a value"),
    (
        "@dayly",
        "",
        1,
        "'@dayly' is not an alias, accepted: @yearly @annually @monthly @weekly @daily @midnight @hourly",
    ),
    ("  @", "", 3, "'@' is not an alias"),
    ("TZ=UTC @daily at noon", "", 8, "'@daily at noon' is not an alias"),
    ("  TZ=UTC  0 0 * * 9", "field 5", 19, "9 is out of range"),
    ("*" * (TEXT_LIMIT + 1), "", None, "an entry of 1001 characters, accepted: at most 1000"),
]


@pytest.mark.parametrize(("entry", "place", "column", "fragment"), MALFORMED, ids=[m[0][:20] for m in MALFORMED])
def test_a_malformed_entry_is_refused_with_its_place_and_column(
    entry: str, place: str, column: int | None, fragment: str
) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_cron_entry(entry)
    assert fragment in refusal.value.problem
    assert (refusal.value.place, refusal.value.column) == (place, column)


def test_the_message_reads_place_column_problem() -> None:
    with pytest.raises(Invalid) as refusal:
        parse_cron_entry("H(0-3)/15 * * * *")
    assert str(refusal.value) == "field 1, column 8: 15 is too large a step, the range 0-3 has 4 values"


@pytest.mark.parametrize(
    ("entry", "better"),
    [
        ("5/10 * * * *", "5-59/10 * * * *"),
        ("30-10 * * * *", "30-59,0-10 * * * *"),
        ("* 22-2 * * *", "* 22-23,0-2 * * *"),
        ("* * * * FRI-SUN", "* * * * 5-7"),
        ("* * * NOV-FEB *", "* * * 11-12,1-2 *"),
        ("* * 25-5 * *", "* * 25-31,1-5 * *"),
        ("* * * * 5-2", "* * * * 5-7,0-2"),
        ("H(30-10) * * * *", "H(10-30) * * * *"),
    ],
)
def test_what_a_refusal_says_to_write_is_understood(entry: str, better: str) -> None:
    with pytest.raises(Invalid) as refusal:
        parse_cron_entry(entry)
    written = refusal.value.problem.partition(", write ")[2].split(" ")[0]
    assert written in better
    assert parse_cron_entry(better).text == better


# --- Fuzz: any text either works or is refused, and quickly


def read(text: str) -> None:
    """Parse, resolve and ask for a time, as a user's entry would be."""
    for days in Days:
        try:
            cron = compile_cron(text, name="x", days=days)
        except Invalid as refusal:
            assert refusal.problem
            assert refusal.column is None or 1 <= refusal.column <= len(text) + 1
        else:
            t = cron.next_after(Instant(0))
            assert t is not None
            assert t > 0


@given(st.text(max_size=60))
@example("TZ=\0 * * * * *")
@example("TZ=\ud800 @daily")
@example("ŉ * * * *")
@example("ﬀ,1 * * * *")
@example("²,1 * * * *")
def test_any_text_is_read_or_refused(text: str) -> None:
    read(text)


cron_like = st.text(alphabet="0123456789*/-,#HLW() ", max_size=30)
word = st.text(alphabet="0123456789*/-,#HLW()", min_size=1, max_size=8)
plausible = st.one_of(
    st.sampled_from(["*", "H", "*/5", "1-5", "H/2", "H(1-5)", "H(1-9)/3", "L", "LW", "MON#2", "5L", "JAN", "31", "30"]),
    st.builds("{}-{}".format, st.integers(0, 40), st.integers(0, 40)),
    st.builds("{}/{}".format, st.sampled_from(["*", "H", "1-9", "H(0-9)", "L"]), st.integers(0, 99)),
    word,
)


@settings(deadline=None)
@given(cron_like)
def test_any_text_of_cron_s_alphabet_is_read_or_refused(text: str) -> None:
    read(text)


@settings(max_examples=examples(500), deadline=None)
@given(st.lists(plausible, min_size=5, max_size=5).map(" ".join))
def test_any_five_fields_are_read_or_refused(text: str) -> None:
    read(text)


@settings(max_examples=examples(50), deadline=None)
@given(st.sampled_from("*/-,#HLW()0@= "), st.integers(1, TEXT_LIMIT), st.sampled_from(["", "* * * *", " * * * *"]))
def test_long_runs_of_one_sign_are_refused_or_read_at_once(sign: str, length: int, rest: str) -> None:
    read(sign * length + rest)


@given(st.sampled_from(range(5)), st.data())
def test_what_is_out_of_the_range_of_a_field_is_always_refused(kind: int, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, 10**6).filter(lambda n: n not in FIELDS[kind].values))
    fields = ["*"] * 5
    fields[kind] = str(number)
    with pytest.raises(Invalid, match="is out of range") as refusal:
        parse_cron_entry(" ".join(fields))
    assert (refusal.value.place, refusal.value.column) == (f"field {kind + 1}", 2 * kind + 1)
