"""The fast parser of TOML against the one of the standard library: where do they differ, and does it matter?"""

import tomllib
from typing import Any

import pytest
import rtoml
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evenbeat.load.config import BadFileError
from evenbeat.load.toml import parse_toml
from evenbeat.load.write_toml import write_document

KEYS = st.text(min_size=1, max_size=8)
SCALARS = (
    st.text(max_size=20)
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.booleans()
    | st.datetimes().map(lambda t: t.replace(microsecond=0).isoformat())
)
VALUES = st.recursive(SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=3), max_leaves=8)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=4), max_size=4))
def test_both_read_what_we_write_and_keep_the_order(tables: dict[str, dict[str, Any]]) -> None:
    text = write_document({"tasks": tables})
    fast, slow = rtoml.loads(text), tomllib.loads(text)
    assert fast == slow == ({"tasks": tables} if tables else {})
    assert list(fast.get("tasks", {})) == list(slow.get("tasks", {})) == list(tables)


@pytest.mark.parametrize(
    "text",
    [
        "a = 2026-12-01",
        "a = 2026-12-01T09:00:00",
        "a = 2026-12-01 09:00:00.5",
        "a = 2026-12-01T09:00:00Z",
        "a = 2026-12-01T09:00:00+01:30",
        "a = 2026-12-01T09:00:00-00:00",
        "a = 09:00:00",
    ],
)
def test_dates_and_times_read_the_same(text: str) -> None:
    fast, slow = rtoml.loads(text)["a"], tomllib.loads(text)["a"]
    assert fast == slow
    assert fast.isoformat() == slow.isoformat()


@pytest.mark.parametrize(
    "text",
    ["a = 1\na = 2", "[a]\n[a]", "[a]\nb = 1\n[a.b]", "a = { x = 1 }\na.y = 2", "[[a]]\n[a]", "a.b.c = 1\n[a.b]"],
)
def test_what_is_said_twice_is_refused_by_both(text: str) -> None:
    for loads in (rtoml.loads, tomllib.loads):
        with pytest.raises(ValueError):
            loads(text)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("key", ["weight", "every", "timebox"])
def test_numbers_that_are_none_are_refused_like_any_other(key: str, value: str) -> None:
    every = "" if key == "every" else "every = 60\n"
    with pytest.raises(BadFileError, match=rf"tasks\.a\.{key}"):
        parse_toml(f"[tasks.a]\n{every}{key} = {value}\n", "x.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tasks.a]\npriority = 9223372036854775808\n", "x.toml:2:12: "),
        ("[tasks.a]\nweight = 1e400\n", "x.toml:2:10: floating-point number overflowed"),
        ("a = " + "[" * 100 + "]" * 100, "x.toml:1:85: tables or arrays nested too deep"),
        ("a = " + "{ a = " * 100 + "1" + " }" * 100, "nested too deep"),
        (".".join("a" * 3_000) + " = 1", "x.toml: tables or arrays nested too deep"),
        ('x = 1\n"é" = "ééé" oops', "x.toml:2:13: unexpected key or value"),
    ],
)
def test_what_only_the_fast_one_refuses_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(BadFileError) as caught:
        parse_toml(text, "x.toml")
    assert message in str(caught.value)


def test_toml_1_1_is_read_on_every_version_of_python() -> None:
    text = '[checks.a]\nevery = "1m"\nlabels = {\n  a = "\\e", # why not\n}\n'
    assert parse_toml(text, "x.toml").tasks[0].labels == {"a": "\x1b"}


def test_lines_of_a_script_end_alike_wherever_it_was_written() -> None:
    text = "[tasks.a]\r\nevery = 60\r\nshell = true\r\ncommand = '''\r\none\r\ntwo'''\r\n"
    assert parse_toml(text, "x.toml").tasks[0].job.command == ("one\ntwo",)


WORDS = st.sampled_from(
    [
        *("every", "cron", "calendar", "at", "zone", "second", "command", "shell", "function", "args", "kwargs", "env"),
        *("use", "for", "period", "labels", "timebox", "start_at", "limit", "keep", "ranges", "exclude", "a", "{a}"),
    ]
)
LIKELY = st.sampled_from(
    ["5m", "@daily", "0 0 * * *", "t", "a", "{a}", "[1-3]", "Europe/Paris", "monday", "m:f", 60, 0, True]
)
NESTED = st.recursive(LIKELY | SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(WORDS, v, max_size=3))
SECTIONS = ["node", "defaults", "templates", "periods", "limits", "checks", "tasks"]


@settings(max_examples=examples(50), deadline=None)
@given(st.dictionaries(st.sampled_from(SECTIONS), NESTED | st.dictionaries(WORDS, st.dictionaries(WORDS, NESTED))))
def test_no_document_makes_it_fail_other_than_with_problems(document: dict[str, Any]) -> None:
    try:
        parse_toml(rtoml.dumps(document), "x.toml")
    except BadFileError as e:
        assert e.errors
