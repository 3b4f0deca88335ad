"""The numbers a name gives: stable, in range, independent of each other; and Jenkins' own, as Java computes them."""

from collections import Counter
from collections.abc import Callable
from functools import cache
from hashlib import md5
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.model import Hash
from evenbeat.when.cron_entry import FIELDS, CronField, CronTerm, parse_cron_entry, resolve_hashes, spread_second
from evenbeat.when.hashing import (
    NUMBERS_PER_ROUND,
    PHASE_NUMBER,
    SECOND_NUMBER,
    JenkinsChooser,
    StableChooser,
    stable_number,
)

names = st.text(max_size=40)
NAMES = [f"task-{i}" for i in range(20_000)]
PROMISED = {
    "report": "44 1 22 2 1",
    "team/job": "13 23 18 9 6",
    "Grüße": "26 8 21 10 5",
}
PROMISED_SECONDS = [37, 23, 50]


def drawn(entry: str, name: str, hash_: Hash = Hash.STABLE) -> list[list[int]]:
    """The values of each field after H."""
    return [
        sorted(v for v in values if isinstance(v, int))
        for values in resolve_hashes(parse_cron_entry(entry), name, hash_).fields
    ]


@cache
def all_slots() -> list[list[int]]:
    """The five slots of every name, each counted from 0."""
    low = [kind.hashed[0] for kind in FIELDS]
    return [[v[0] - lo for v, lo in zip(drawn("H H H H H", name), low, strict=True)] for name in NAMES]


def surplus(pairs: list[tuple[int, int]], width: int, height: int) -> float:
    """How far a table of counts is from independent and even: chi-square, in its own standard deviations."""
    counts, cells = Counter(pairs), width * height
    expected = len(pairs) / cells
    chi_square = sum((counts[x, y] - expected) ** 2 / expected for x in range(width) for y in range(height))
    freedom = cells - 1
    return (chi_square - freedom) / sqrt(2 * freedom)


# --- Our own


@given(names)
def test_a_name_gives_the_same_slots_for_ever(name: str) -> None:
    entry = "H H H H H"
    assert resolve_hashes(parse_cron_entry(entry), name) == resolve_hashes(parse_cron_entry(entry), name)


def test_the_slots_of_known_names_never_change() -> None:
    # A change here moves every task of every user: these literals are a promise.
    assert resolve_hashes(parse_cron_entry("H H H H H"), "report").text == PROMISED["report"]
    assert resolve_hashes(parse_cron_entry("H H H H H"), "team/job").text == PROMISED["team/job"]
    assert resolve_hashes(parse_cron_entry("H H H H H"), "Grüße").text == PROMISED["Grüße"]
    assert [spread_second(name) for name in PROMISED] == PROMISED_SECONDS


@given(names, st.sampled_from(Hash))
def test_every_bare_h_is_one_value_in_the_range_of_its_field(name: str, hash_: Hash) -> None:
    for kind, values in zip(FIELDS, drawn("H H H H H", name, hash_), strict=True):
        assert len(values) == 1
        assert values[0] in kind.hashed


@given(names, st.sampled_from(Hash), st.data())
def test_every_h_within_a_range_stays_in_it(name: str, hash_: Hash, data: st.DataObject) -> None:
    lo, hi = sorted(data.draw(st.tuples(st.integers(0, 59), st.integers(0, 59))))
    ((value,), *_) = drawn(f"H({lo}-{hi}) * * * *", name, hash_)
    assert lo <= value <= hi


@given(names, st.sampled_from(Hash), st.data())
def test_every_h_with_a_step_starts_below_it_and_fills_its_range(name: str, hash_: Hash, data: st.DataObject) -> None:
    lo, hi = sorted(data.draw(st.tuples(st.integers(0, 59), st.integers(0, 59))))
    step = data.draw(st.integers(1, hi - lo + 1))
    values, *_ = drawn(f"H({lo}-{hi})/{step} * * * *", name, hash_)
    if hash_ is Hash.JENKINS and step == 1:
        assert len(values) == 1
        return
    assert lo <= values[0] < lo + step
    assert values == list(range(values[0], hi + 1, step))


def test_every_value_of_a_range_is_used() -> None:
    for kind in range(5):
        fields = ["*"] * 5
        fields[kind] = "H"
        used = {drawn(" ".join(fields), name)[kind][0] for name in NAMES[:2_000]}
        assert used == set(FIELDS[kind].hashed)


@pytest.mark.parametrize(
    ("first", "second", "width", "height"),
    [(0, 1, 60, 24), (0, 2, 60, 28), (1, 2, 24, 28), (0, 3, 60, 12), (1, 4, 24, 7), (2, 3, 28, 12), (3, 4, 12, 7)],
)
def test_the_fields_of_a_name_are_independent(first: int, second: int, width: int, height: int) -> None:
    pairs = [(slots[first], slots[second]) for slots in all_slots()]
    assert abs(surplus(pairs, width, height)) < 4


def test_the_second_is_independent_of_the_minute() -> None:
    pairs = [(spread_second(name), slots[0]) for name, slots in zip(NAMES, all_slots(), strict=True)]
    assert abs(surplus(pairs, 60, 60)) < 4


def test_the_measure_of_independence_rejects_one_shared_number() -> None:
    def shared(name: str) -> int:
        return int.from_bytes(md5(name.encode()).digest()[:8], "big")

    pairs = [(shared(name) % 60, shared(name) % 24) for name in NAMES]
    assert surplus(pairs, 60, 24) > 100


def test_two_h_in_one_field_are_independent_too() -> None:
    pairs = []
    for name in NAMES:
        chooser = StableChooser(name)
        pairs.append((chooser.below(60, 0), chooser.below(60, 0)))
    assert abs(surplus(pairs, 60, 60)) < 4


def test_a_field_keeps_its_value_whatever_the_other_fields_are() -> None:
    for name in NAMES[:200]:
        minute, hour, *_ = drawn("H H * * *", name)
        assert drawn("H * * * *", name)[0] == minute
        assert drawn("0 H * * *", name)[1] == hour
        assert drawn("H(0-29)/10 H H H H", name)[1] == hour


@given(names)
def test_the_eight_words_of_a_name_differ_from_each_other_and_from_the_next_round(name: str) -> None:
    words = [stable_number(name, i, round_) for round_ in (0, 1) for i in range(NUMBERS_PER_ROUND)]
    assert len(set(words)) == 2 * NUMBERS_PER_ROUND
    assert all(0 <= w < 1 << 64 for w in words)


def test_seconds_and_phases_have_words_no_field_uses() -> None:
    assert len({*range(len(FIELDS)), SECOND_NUMBER, PHASE_NUMBER}) == len(FIELDS) + 2
    assert max(SECOND_NUMBER, PHASE_NUMBER) < NUMBERS_PER_ROUND


@pytest.mark.parametrize("chooser", [StableChooser, JenkinsChooser])
@pytest.mark.parametrize("name", ["", "\ud800", "\0", "x" * 10_000, "日本"])
def test_no_name_is_too_strange(chooser: Callable[[str], StableChooser | JenkinsChooser], name: str) -> None:
    values = [chooser(name).below(n, 0) for n in (1, 7, 60)]
    assert all(0 <= v < n for v, n in zip(values, (1, 7, 60), strict=True))


def test_hashes_do_not_care_about_other_names() -> None:
    field = CronField("H", (CronTerm("H", (), range(60)),), frozenset(), uses_hash=True)
    assert parse_cron_entry("H * * * *").fields[0] == field
    together = {name: drawn("H * * * *", name) for name in NAMES[:100]}
    alone = {name: drawn("H * * * *", name) for name in reversed(NAMES[:100])}
    assert together == alone


# --- Jenkins: every literal is what java.util.Random (Java 17) gave


# The columns of JENKINS below.
ENTRIES = (
    "H * * * *",
    "H H * * *",
    "H/15 * * * *",
    "H(0-29)/10 * * * *",
    "H H(9-16)/2 * * 1-5",
    "H H 1,15 1-11 *",
    "H H H H H",
    "H(0-31) H(8-11) * * *",
    "H/1 H/7 * * *",
    "H,H H(0-2) H(5-20)/4 * *",
    "H H H/9 H/5 H(1-5)",
)
JENKINS = {
    "report": (
        "35 * * * *",
        "35 21 * * *",
        "5,20,35,50 * * * *",
        "5,15,25 * * * *",
        "35 10,12,14,16 * * 1-5",
        "35 21 1,15 1-11 *",
        "35 21 10 12 3",
        "19 10 * * *",
        "35 1,8,15,22 * * *",
        "35,57 2 7,11,15,19 * *",
        "35 21 3,12,21 5,10 5",
    ),
    "backup": (
        "8 * * * *",
        "8 12 * * *",
        "8,23,38,53 * * * *",
        "8,18,28 * * * *",
        "8 10,12,14,16 * * 1-5",
        "8 12 1,15 1-11 *",
        "8 12 11 3 1",
        "18 11 * * *",
        "8 2,9,16,23 * * *",
        "8,48 1 8,12,16,20 * *",
        "8 12 8,17,26 4,9 5",
    ),
    "team/job": (
        "51 * * * *",
        "51 22 * * *",
        "6,21,36,51 * * * *",
        "1,11,21 * * * *",
        "51 9,11,13,15 * * 1-5",
        "51 22 1,15 1-11 *",
        "51 22 1 9 5",
        "2 9 * * *",
        "51 3,10,17 * * *",
        "51,58 1 6,10,14,18 * *",
        "51 22 2,11,20 3,8 1",
    ),
    "team/sub/job-7": (
        "35 * * * *",
        "35 22 * * *",
        "5,20,35,50 * * * *",
        "5,15,25 * * * *",
        "35 10,12,14,16 * * 1-5",
        "35 22 1,15 1-11 *",
        "35 22 24 2 5",
        "26 10 * * *",
        "35 0,7,14,21 * * *",
        "35,58 1 8,12,16,20 * *",
        "35 22 5,14,23 1,6,11 2",
    ),
    "a": (
        "37 * * * *",
        "37 5 * * *",
        "7,22,37,52 * * * *",
        "7,17,27 * * * *",
        "37 10,12,14,16 * * 1-5",
        "37 5 1,15 1-11 *",
        "37 5 5 3 2",
        "7 11 * * *",
        "37 0,7,14,21 * * *",
        "37,41 2 8,12,16,20 * *",
        "37 5 6,15,24 3,8 3",
    ),
    "": (
        "57 * * * *",
        "57 11 * * *",
        "12,27,42,57 * * * *",
        "7,17,27 * * * *",
        "57 10,12,14,16 * * 1-5",
        "57 11 1,15 1-11 *",
        "57 11 25 5 5",
        "21 11 * * *",
        "57 0,7,14,21 * * *",
        "57,35 2 5,9,13,17 * *",
        "57 11 3,12,21 2,7,12 2",
    ),
    "Grüße": (
        "56 * * * *",
        "56 21 * * *",
        "11,26,41,56 * * * *",
        "6,16,26 * * * *",
        "56 9,11,13,15 * * 1-5",
        "56 21 1,15 1-11 *",
        "56 21 1 12 1",
        "2 9 * * *",
        "56 1,8,15,22 * * *",
        "56,21 2 5,9,13,17 * *",
        "56 21 3,12,21 5,10 2",
    ),
    "日本/バックアップ": (
        "58 * * * *",
        "58 12 * * *",
        "13,28,43,58 * * * *",
        "8,18,28 * * * *",
        "58 10,12,14,16 * * 1-5",
        "58 12 1,15 1-11 *",
        "58 12 1 4 6",
        "26 11 * * *",
        "58 2,9,16,23 * * *",
        "58,12 2 5,9,13,17 * *",
        "58 12 3,12,21 2,7,12 4",
    ),
    "🕒 clock": (
        "41 * * * *",
        "41 14 * * *",
        "11,26,41,56 * * * *",
        "1,11,21 * * * *",
        "41 10,12,14,16 * * 1-5",
        "41 14 1,15 1-11 *",
        "41 14 22 1 4",
        "19 10 * * *",
        "41 5,12,19 * * *",
        "41,14 2 7,11,15,19 * *",
        "41 14 9,18,27 3,8 2",
    ),
    "nightly build": (
        "22 * * * *",
        "22 6 * * *",
        "7,22,37,52 * * * *",
        "2,12,22 * * * *",
        "22 10,12,14,16 * * 1-5",
        "22 6 1,15 1-11 *",
        "22 6 4 2 2",
        "1 10 * * *",
        "22 1,8,15,22 * * *",
        "22,30 2 8,12,16,20 * *",
        "22 6 9,18,27 1,6,11 3",
    ),
    "x.y.z": (
        "3 * * * *",
        "3 0 * * *",
        "3,18,33,48 * * * *",
        "3,13,23 * * * *",
        "3 9,11,13,15 * * 1-5",
        "3 0 1,15 1-11 *",
        "3 0 28 7 0",
        "12 9 * * *",
        "3 5,12,19 * * *",
        "3,36 2 7,11,15,19 * *",
        "3 0 9,18,27 5,10 1",
    ),
    "DB-Cleanup_42": (
        "28 * * * *",
        "28 23 * * *",
        "13,28,43,58 * * * *",
        "8,18,28 * * * *",
        "28 10,12,14,16 * * 1-5",
        "28 23 1,15 1-11 *",
        "28 23 2 11 2",
        "1 11 * * *",
        "28 2,9,16,23 * * *",
        "28,59 1 6,10,14,18 * *",
        "28 23 5,14,23 3,8 2",
    ),
}


@pytest.mark.parametrize(
    ("name", "entry", "expected"),
    [(name, entry, text) for name, texts in JENKINS.items() for entry, text in zip(ENTRIES, texts, strict=True)],
)
def test_jenkins_slots_are_those_that_java_computes(name: str, entry: str, expected: str) -> None:
    assert resolve_hashes(parse_cron_entry(entry), name, Hash.JENKINS).text == expected


def test_jenkins_h_with_a_step_of_one_is_a_bare_h() -> None:
    for name in NAMES[:200]:
        assert drawn("H/1 H * * *", name, Hash.JENKINS) == drawn("H H * * *", name, Hash.JENKINS)
        assert len(drawn("H/1 H * * *", name)[0]) == 60


def test_jenkins_draws_one_number_per_h_in_field_order() -> None:
    for name in NAMES[:50]:
        chooser = JenkinsChooser(name)
        expected = [chooser.below(60, 0), chooser.below(24, 1)]
        assert [v[0] for v in drawn("H H * * *", name, Hash.JENKINS)[:2]] == expected
        # A fixed minute draws nothing, so the hour gets the first number.
        assert drawn("0 H * * *", name, Hash.JENKINS)[1] == [JenkinsChooser(name).below(24, 1)]


def test_jenkins_and_stable_are_different_hashes() -> None:
    entry = parse_cron_entry("H H * * *")
    same = sum(resolve_hashes(entry, n) == resolve_hashes(entry, n, Hash.JENKINS) for n in NAMES[:1_000])
    assert same < 10
