from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from evenbeat.load.ineffective_keys import CONDITIONAL_KEYS, why_without_effect
from evenbeat.load.task_tables import change_table, task_from_table, task_to_table
from evenbeat.model import MINUTE, Invalid

DURATIONS = st.sampled_from(["150ms", "1s", "90s", "1m30s", "2h", "1d", 5, 0.25])
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8)
NAMES = st.text("abc-_.", min_size=1, max_size=5)
KINDS = st.one_of(
    st.fixed_dictionaries(
        {"every": st.sampled_from(["10s", "5m", 90, "1h30m"])},
        optional={
            "spread": st.sampled_from(["even", "hash", "icinga", "aligned"]),
            "phase": st.sampled_from(["0s", "3s"]),
        },
    ),
    st.fixed_dictionaries(
        {"cron": st.sampled_from(["H/15 * * * *", "0 3 * * 1", "@daily", "@reboot"])},
        optional={
            "hash": st.sampled_from(["stable", "jenkins"]),
            "days": st.sampled_from(["or", "and"]),
            "second": st.sampled_from([0, 59, "spread"]),
        },
    ),
    st.fixed_dictionaries({"calendar": st.just("Mon..Fri 09:00")}),
    st.fixed_dictionaries({"at": st.sampled_from(["2026-12-01T09:00", "2026-12-01"])}),
)
JOBS = st.one_of(
    st.fixed_dictionaries({"command": st.lists(WORDS, min_size=1, max_size=3)}),
    st.fixed_dictionaries({"command": WORDS, "shell": st.just(True)}),
    st.fixed_dictionaries(
        {"function": st.just("module:function")},
        optional={
            "args": st.lists(st.one_of(WORDS, st.integers(-9, 9), st.booleans(), st.none()), max_size=3),
            "kwargs": st.dictionaries(NAMES, st.one_of(WORDS, st.floats(0, 1)), max_size=2),
        },
    ),
)
REST = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from(["UTC", "Europe/Paris"]),
        "period": NAMES,
        "enabled": st.booleans(),
        "start_at": st.just("2026-12-01T09:00"),
        "weight": st.floats(0.1, 100),
        "timebox": st.sampled_from(["1s", "10m", "50%", "none"]),
        "longer_than": DURATIONS,
        "tolerance": DURATIONS,
        "missed": st.sampled_from(["once", "skip", "all"]),
        "catch_up": DURATIONS,
        "backlog": st.sampled_from(["merge", "each"]),
        "limit": NAMES,
        "priority": st.integers(-100, 100),
        "retry": DURATIONS,
        "attempts": st.integers(1, 255),
        "grace": DURATIONS,
        "labels": st.dictionaries(NAMES, NAMES, max_size=2),
        "env": st.dictionaries(st.sampled_from(["A", "B"]), WORDS, max_size=2),
        "cwd": st.just("/srv"),
        "user": st.just("nobody"),
    },
)
ANY_TABLES = st.tuples(KINDS, JOBS, REST).map(lambda parts: {**parts[0], **parts[1], **parts[2]})


def effective(table: dict[str, Any]) -> dict[str, Any]:
    """Without keys that have no effect on the task of this table."""
    gone = [key for key in CONDITIONAL_KEYS & table.keys() if why_without_effect(key, table, check=False)]
    return {key: value for key, value in table.items() if key not in gone}


TABLES = ANY_TABLES.map(effective)


@given(ANY_TABLES, st.booleans())
def test_a_table_becomes_a_task_and_its_flat_table_the_same_task_again(table: dict[str, Any], check: bool) -> None:
    gone = [key for key in CONDITIONAL_KEYS & table.keys() if why_without_effect(key, table, check=check)]
    if gone:
        with pytest.raises(Invalid, match="has no effect here"):
            task_from_table("name", table, check=check)
        table = {key: value for key, value in table.items() if key not in gone}
    task = task_from_table("name", table, check=check)
    assert task_from_table("name", task_to_table(task), check=check) == task


@given(TABLES)
def test_setting_nothing_changes_nothing(table: dict[str, Any]) -> None:
    assert change_table(table, {}) == table


@given(TABLES, TABLES)
def test_a_task_can_be_given_any_other_schedule_and_any_other_work(old: dict[str, Any], new: dict[str, Any]) -> None:
    whole = change_table(task_to_table(task_from_table("name", old, check=False)), new)
    task, wanted = task_from_table("name", whole, check=False), task_from_table("name", new, check=False)
    kinds = ("every", "cron", "calendar", "at")
    assert [getattr(task.schedule, k) for k in kinds] == [getattr(wanted.schedule, k) for k in kinds]
    assert (task.job.command, task.job.function) == (wanted.job.command, wanted.job.function)


def test_another_interval_leaves_the_phase_to_the_task_admin_but_another_label_does_not() -> None:
    table = {"every": "5m", "phase": "7s", "command": ["true"]}
    assert "phase" not in change_table(table, {"every": "10m"})
    assert change_table(table, {"labels.team": "web"})["phase"] == "7s"
    assert change_table(table, {"every": "10m", "phase": "1m"})["phase"] == "1m"
    assert change_table(table, {"every": "300s", "spread": "even"})["phase"] == "7s", "the same grid as before"
    assert "phase" not in change_table(table, {"spread": "bergamot"})
    assert "phase" not in change_table(table, {"every": "soon"})


def test_single_labels_are_set_and_taken_away() -> None:
    table = {"every": "5m", "command": ["true"], "labels": {"team": "web", "site": "a"}}
    assert change_table(table, {"labels.team": "db"})["labels"] == {"team": "db", "site": "a"}
    assert change_table(table, {"labels.team": None})["labels"] == {"site": "a"}
    assert "labels" not in change_table(table, {"labels": None})
    assert table["labels"] == {"team": "web", "site": "a"}


def test_none_takes_a_key_back_to_its_default() -> None:
    table = task_to_table(task_from_table("name", {"every": "5m", "timebox": "1m", "command": ["true"]}, check=False))
    assert task_from_table("name", change_table(table, {"timebox": None}), check=False).timebox is None


def test_words_replace_a_line_for_the_shell() -> None:
    table = {"every": "5m", "command": "a | b", "shell": True}
    assert task_from_table("x", change_table(table, {"command": ["a", "b"]}), check=False).job.command == ("a", "b")


def test_all_that_is_wrong_is_told_by_the_keys_that_were_typed() -> None:
    with pytest.raises(Invalid) as refused:
        task_from_table("x", {"every": "5x", "timebox": "1q", "command": ["true"], "nope": 1}, check=True)
    lines = str(refused.value).splitlines()
    assert [line.split(":")[0] for line in lines] == ["nope", "every, column 2", "timebox, column 2"]


def test_being_paused_is_no_key_of_a_file() -> None:
    task = replace(task_from_table("x", {"every": "5m", "command": ["true"]}, check=False), paused=True)
    assert "paused" not in task_to_table(task)
    assert task_to_table(task)["every"] == "5m"
    assert task_from_table("x", task_to_table(task), check=False).schedule.every == 5 * MINUTE
