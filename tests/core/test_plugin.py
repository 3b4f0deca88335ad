from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core.plugin import Perf, PluginOutput, parse

GUIDELINES = """\
DISK OK - free space: / 3326 MB (56%); | /=2643MB;5948;5958;0;5968
/ 15272 MB (77%);
/boot 68 MB (69%);
/home 69357 MB (27%);
/var/log 819 MB (84%); | /boot=68MB;88;93;0;98
/home=69357MB;253404;253409;0;253414
/var/log=818MB;970;975;0;980
"""

numbers = st.integers(-(10**12), 10**12).map(float) | st.floats(allow_nan=False, allow_infinity=False)
ends = st.integers(-1000, 1000).map(str)
ranges = st.one_of(
    st.just(""),
    ends,
    ends.map("{}:".format),
    ends.map("~:{}".format),
    st.tuples(ends, ends).map(":".join),
    st.tuples(ends, ends).map(lambda r: f"@{r[0]}:{r[1]}"),
)
labels = st.text(
    st.characters(codec="utf-8", exclude_characters="|", exclude_categories=("Cc", "Zl", "Zp")), min_size=1
)
perfs = st.builds(
    Perf,
    labels.filter(lambda label: label == label.strip()),
    st.none() | numbers,
    st.sampled_from(["", "s", "us", "ms", "%", "B", "KB", "MB", "TB", "c", "W", "°C", "packets/s"]),
    ranges,
    ranges,
    st.none() | numbers,
    st.none() | numbers,
)


def test_the_example_of_the_guidelines_is_read_whole() -> None:
    found = parse(GUIDELINES)
    assert found.text == "DISK OK - free space: / 3326 MB (56%);"
    assert found.long.splitlines()[0] == "/ 15272 MB (77%);"
    assert found.long.splitlines()[-1] == "/var/log 819 MB (84%);"
    assert found.perfdata == (
        Perf("/", 2643, "MB", "5948", "5958", 0, 5968),
        Perf("/boot", 68, "MB", "88", "93", 0, 98),
        Perf("/home", 69357, "MB", "253404", "253409", 0, 253414),
        Perf("/var/log", 818, "MB", "970", "975", 0, 980),
    )
    assert found.malformed == ()


def test_a_text_without_a_bar_is_only_text() -> None:
    assert parse("OK: all is well\n") == PluginOutput("OK: all is well")
    assert parse("") == PluginOutput("")


def test_labels_in_quotes_may_hold_spaces_equals_signs_and_quotes() -> None:
    found = parse("OK | 'free space'=1B 'a=b'=2 'it''s'=3")
    assert [(p.label, p.value) for p in found.perfdata] == [("free space", 1), ("a=b", 2), ("it's", 3)]


def test_ranges_are_kept_as_they_are_written() -> None:
    (perf,) = parse("OK | t=5s;@10:20;~:5").perfdata
    assert (perf.warn, perf.crit) == ("@10:20", "~:5")


def test_missing_fields_are_empty_and_u_is_no_value() -> None:
    assert parse("OK | a=1;;;0;100 b=2; c=U").perfdata == (
        Perf("a", 1, min=0, max=100),
        Perf("b", 2),
        Perf("c", None),
    )


def test_what_cannot_be_read_is_shown_and_costs_nothing_else() -> None:
    found = parse("OK | a=1 x=1,5 garbage =3 y=;1 z=1;2;3;4;5;6 w=1;high 'open=1 b=2")
    assert [p.label for p in found.perfdata] == ["a", "b"]
    assert found.malformed == ("x=1,5", "garbage", "=3", "y=;1", "z=1;2;3;4;5;6", "w=1;high", "'open=1")


@given(st.lists(perfs, max_size=5).map(tuple))
def test_perfdata_that_is_written_is_read_back(perfdata: tuple[Perf, ...]) -> None:
    written = PluginOutput("OK: fine", "more\ntext", perfdata)
    assert parse(str(written)) == written


@given(st.text(alphabet=st.sampled_from("ab='|;:@~.,0 19\n%-") | st.characters(codec="utf-8")))
def test_nothing_is_refused(output: str) -> None:
    found = parse(output)
    assert "|" not in found.text
    assert parse(str(found)).perfdata == found.perfdata
