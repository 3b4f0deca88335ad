"""Tables that differ from others in name, command and labels only are read as each of them is by itself."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.load.config import BadFileError, Config
from evenbeat.load.toml import parse_toml

COMMON = st.fixed_dictionaries(
    {},
    optional={
        "every": st.sampled_from(['"1m"', "60", "60.0", '"5m"', "true"]),
        "cron": st.just('"* * * * *"'),
        "weight": st.sampled_from(["1", "1.0", "true", "2"]),
        "attempts": st.sampled_from(["1", "3", "true", "0"]),
        "passive": st.sampled_from(["true", "false"]),
        "phase": st.sampled_from(["0", "3"]),
        "enabled": st.sampled_from(["true", "false", "1"]),
        "env": st.just('{ A = "x" }'),
        "period": st.just('"nowhere"'),
    },
)
OWN = st.fixed_dictionaries(
    {"command": st.sampled_from(['["a"]', '["b", "c"]', "[]", '["\\u0000"]', '["a", 1]', '"a b"'])},
    optional={"labels": st.sampled_from(['{ a = "b" }', '{ a = "" }', "{ a = 1 }", "{}"])},
)
NAMES = st.sampled_from(["x", "y" * 257, "host/ping"])


def text_of(section: str, table: dict[str, str], name: str) -> str:
    return f'[{section}."{name}"]\n' + "".join(f"{key} = {value}\n" for key, value in table.items())


def read(text: str) -> Config | list[str]:
    try:
        return parse_toml(text, "f")
    except BadFileError as e:
        return sorted(error.message for error in e.errors)


@given(st.lists(st.tuples(COMMON, st.lists(OWN, min_size=2, max_size=3)), min_size=1, max_size=3), st.data())
def test_many_tables_are_read_like_each_of_them(groups: list[tuple[Any, list[Any]]], data: st.DataObject) -> None:
    parts: list[str] = []
    for common, owns in groups:
        for own in owns:
            section, name = data.draw(st.sampled_from(["checks", "tasks"])), data.draw(NAMES)
            parts.append(text_of(section, {"every": '"1m"', **common, **own}, f"{len(parts)}{name}"))
    alone = [read(part) for part in parts]
    together = read("".join(parts))
    if isinstance(together, Config):
        assert {task.name: task for task in together.tasks} == {
            task.name: task for one in alone if isinstance(one, Config) for task in one.tasks
        }
        assert all(isinstance(one, Config) for one in alone)
    else:
        assert together == sorted(message for one in alone if isinstance(one, list) for message in one)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ('command = ["a\\u0000"]', "NUL"),
        ('command = ["a", 1]', "Expected `str`"),
        ('command = ["a"]\nlabels = { a = "" }', "length >= 1"),
    ],
)
def test_the_second_of_two_alike_is_checked(wrong: str, message: str) -> None:
    labels = 'labels = { a = "b" }\n' if "labels" in wrong else ""
    text = f'[checks.a]\nevery = "1m"\nattempts = 2\ncommand = ["a"]\n{labels}[checks.b]\nevery = "1m"\nattempts = 2\n'
    found = read(text + wrong)
    assert isinstance(found, list)
    assert len(found) == 1
    assert message in found[0]
