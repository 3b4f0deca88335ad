"""Downtimes in files: what is accepted, what is refused and where, and that what is written reads back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.config import BadFileError, Config
from evenbeat.load.config_validation import validate_configs
from evenbeat.load.downtimes import IN_FILE, downtime_errors
from evenbeat.load.toml import parse_toml, parse_toml_file
from evenbeat.load.write_toml import write_config
from evenbeat.model import HOUR, SECOND, Downtime, Instant, Period
from evenbeat.when.instant import parse_instant
from evenbeat.when.zone import zone

HEAD = '[[downtimes]]\nnames = ["web"]\nuntil = "2030-01-01"\n\n[[downtimes]]\n'
BAD = [
    ('names = ["db"]\nunti = "2030"\n', "7:9", "'unti' is not a key here"),
    ('names = ["db"]\nuntil = "soon"\n', "7:10", "'soon' is not a time"),
    ('names = ["db"]\nfrom = "2030-01-02"\nuntil = "2030-01-01"\n', "8:10", "it ends before it begins"),
    ('names = ["db"]\n', "5:3", "a downtime without a time"),
    ('until = "2030-01-01"\n', "5:3", "a downtime of no tasks"),
    ('names = "db"\nuntil = "2030-01-01"\n', "6:10", "Expected `array`"),
    ('names = ["db"]\nuntil = "2030-01-01"\nzone = "Europe/Atlantis"\n', "8:9", "Europe/Atlantis"),
    ('names = ["a\\u0001"]\nuntil = "2030-01-01"\n', "6:", "has U+0001"),
    ('names = ["db"]\nuntil = "2030-01-01"\ncomment = "a\\u0001"\n', "8:", "has U+0001"),
    ('labels = { site = "a\\u0001" }\nuntil = "2030-01-01"\n', "6:", "has U+0001"),
]


@pytest.mark.parametrize(("text", "place", "message"), BAD)
def test_a_problem_is_reported_where_it_stands(text: str, place: str, message: str) -> None:
    with pytest.raises(BadFileError) as refused:
        parse_toml(HEAD + text, "x.toml")
    (problem,) = map(str, refused.value.errors)
    assert problem.startswith(f"x.toml:{place}")
    assert message in problem


def test_times_are_those_of_the_zone_and_may_be_dates_of_toml() -> None:
    text = '[defaults]\nzone = "Europe/Berlin"\n'
    text += '[[downtimes]]\nnames = ["*"]\nfrom = "2030-01-01T12:00"\nuntil = 2030-01-01T15:00:00Z\n'
    text += '[[downtimes]]\nowner = "ana"\nzone = "UTC"\nfrom = 2030-01-01\ndependents = false\n'
    one, two = parse_toml(text, "x.toml").downtimes
    noon = parse_instant("2030-01-01T11:00", zone("UTC"))
    assert (one.start, one.end) == (noon, noon + 4 * HOUR)
    assert (two.start, two.end, two.owner, two.dependents) == (noon - 11 * HOUR, None, "ana", False)


def test_an_unknown_period_is_found_where_it_stands() -> None:
    text = HEAD + 'names = ["db"]\nperiod = "night"\n'
    source = parse_toml_file(text, "x.toml")
    (finding,) = validate_configs({"file": source.config})
    assert finding.message == "there is no period 'night', known: none is defined"
    place = source.place_of(finding.path, None)
    assert place is not None
    assert (place.line, place.column) == (7, 11)
    assert validate_configs({"file": source.config, "other": Config((), {"night": Period()}, {}, None)}) == []


def test_too_many_patterns_are_refused() -> None:
    some = Downtime(IN_FILE, tuple(f"{i}*" for i in range(101)), end=Instant(HOUR))
    assert [path for path, _ in downtime_errors(some)] == [("names",)]


TEXTS = st.text(alphabet="ab\"*? é'", min_size=1, max_size=5).map(lambda text: f"x{text}x")


@given(
    names=st.lists(TEXTS, max_size=3).map(tuple),
    labels=st.dictionaries(TEXTS, TEXTS, max_size=2),
    owner=st.none() | TEXTS,
    start=st.none() | st.integers(0, 10**9),
    length=st.none() | st.integers(1, 10**6),
    period=st.none() | st.just("night"),
    comment=st.sampled_from(["", "new disks", "a\nb"]),
    dependents=st.booleans(),
)
def test_what_is_written_reads_back(
    names: tuple[str, ...],
    labels: dict[str, str],
    owner: str | None,
    start: int | None,
    length: int | None,
    period: str | None,
    comment: str,
    *,
    dependents: bool,
) -> None:
    begin = None if start is None else Instant(start * SECOND)
    end = None if length is None else Instant(((start or 0) + length) * SECOND)
    if not (names or labels or owner) or (begin, end, period) == (None, None, None):
        return
    one = Downtime(IN_FILE, names, owner, labels, begin, end, period, dependents, comment)
    config = Config((), {"night": Period()}, {}, None, downtimes=(one, one))
    assert parse_toml(write_config(config), "x") == config
