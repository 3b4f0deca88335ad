"""The nouns: what a schedule, a period and a task accept, and how a refusal reads."""

from itertools import combinations
from typing import Any

import msgspec
import pytest

from evenbeat.model import (
    DAY,
    HOUR,
    MAX_EVERY,
    MINUTE,
    NAME_LIMIT,
    SCHEDULE_KINDS,
    SECOND,
    TEXT_LIMIT,
    Backlog,
    Days,
    Hash,
    Invalid,
    Job,
    Missed,
    Period,
    Prefer,
    RunKind,
    Schedule,
    Spread,
    Task,
    WhenMissing,
    prefix_place,
)

KINDS: dict[str, Any] = {
    "every": 5 * MINUTE,
    "cron": "H * * * *",
    "calendar": "Mon..Fri 09:00",
    "at": "2026-12-01T09:00",
}


def refusal(**fields: Any) -> Invalid:
    with pytest.raises(Invalid) as caught:
        Schedule(**fields)
    return caught.value


# Invalid


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (Invalid("too many"), "too many"),
        (Invalid("too many", column=9), "column 9: too many"),
        (Invalid("too many", place="field 1"), "field 1: too many"),
        (Invalid("too many", column=9, place="field 1"), "field 1, column 9: too many"),
    ],
)
def test_a_refusal_says_where_as_far_as_it_knows(error: Invalid, text: str) -> None:
    assert str(error) == text


def test_a_refusal_is_a_value_error_that_keeps_its_parts() -> None:
    error = Invalid("too many", column=9, place="field 1")
    assert isinstance(error, ValueError)
    assert (error.problem, error.column, error.place) == ("too many", 9, "field 1")


# Schedule: exactly one kind


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_alone_is_a_schedule(kind: str) -> None:
    schedule = Schedule(**{kind: KINDS[kind]})
    assert [k for k in KINDS if getattr(schedule, k) is not None] == [kind]


def test_a_schedule_without_a_kind_is_refused() -> None:
    assert str(refusal()) == (
        "schedule: a schedule has exactly one of every, cron, calendar, at, after, after_failure; found none of them"
    )


@pytest.mark.parametrize(("one", "other"), list(combinations(KINDS, 2)))
def test_two_kinds_are_refused_and_both_are_named(one: str, other: str) -> None:
    error = refusal(**{one: KINDS[one], other: KINDS[other]})
    assert str(error) == f"schedule: a schedule has exactly one of {', '.join(SCHEDULE_KINDS)}; found {one} and {other}"


# Schedule: intervals


@pytest.mark.parametrize("every", [SECOND, SECOND + 1, 1_500_000, DAY, MAX_EVERY])
def test_intervals_from_a_second_to_ten_years_are_accepted(every: int) -> None:
    assert Schedule(every=every).every == every


@pytest.mark.parametrize(
    ("every", "found"),
    [(0, "0 s"), (-MINUTE, "-60 s"), (SECOND - 1, "0.999999 s"), (150_000, "0.15 s"), (4000 * DAY, "3.456e+08 s")],
)
def test_other_intervals_are_refused_with_the_range(every: int, found: str) -> None:
    assert str(refusal(every=every)) == f"every: {found} is out of range, accepted: 1s to 3653d"


@pytest.mark.parametrize("phase", [0, 1, HOUR - 1])
def test_a_phase_inside_its_interval_is_kept(phase: int) -> None:
    assert Schedule(every=HOUR, phase=phase).phase == phase


def test_an_interval_may_wait_for_its_phase() -> None:
    assert Schedule(every=HOUR).phase is None


@pytest.mark.parametrize(
    "fields", [{"every": HOUR, "phase": HOUR}, {"every": HOUR, "phase": -1}, {"cron": "H * * * *", "phase": 0}]
)
def test_a_phase_outside_its_interval_or_without_one_is_refused(fields: dict[str, Any]) -> None:
    assert str(refusal(**fields)).endswith("a phase belongs to `every`, from 0 to less than it")


@pytest.mark.parametrize("kind", ["cron", "calendar", "at"])
def test_a_spread_belongs_to_intervals(kind: str) -> None:
    error = refusal(**{kind: KINDS[kind]}, spread=Spread.HASH)
    assert str(error) == f"spread: `spread` belongs to `every`, this schedule has `{kind}`"


@pytest.mark.parametrize("spread", Spread)
def test_every_spread_strategy_goes_with_an_interval(spread: Spread) -> None:
    assert Schedule(every=MINUTE, spread=spread).spread is spread


# Schedule: cron


@pytest.mark.parametrize("kind", ["every", "calendar", "at"])
@pytest.mark.parametrize("field", [("hash", Hash.JENKINS), ("days", Days.AND), ("second", 0), ("second", 59)])
def test_what_belongs_to_cron_is_refused_elsewhere(kind: str, field: tuple[str, Any]) -> None:
    name, value = field
    error = refusal(**{kind: KINDS[kind], name: value})
    assert str(error) == f"{name}: `{name}` belongs to cron entries, this schedule has `{kind}`"


def test_what_belongs_to_cron_goes_with_cron() -> None:
    schedule = Schedule(cron="H * * * *", hash=Hash.JENKINS, days=Days.AND, second=0)
    assert (schedule.hash, schedule.days, schedule.second) == (Hash.JENKINS, Days.AND, 0)


# Job


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"command": ("a",), "function": "m:f"}, "function: a task has a command or a function, found both"),
        ({"command": ("a", "b"), "shell": True}, "command: with `shell` the command is one line, found 2 words"),
        ({"shell": True}, "command: with `shell` the command is one line, found 0 words"),
        ({"args": (1,)}, "args: arguments belong to a function; those of a command are its words"),
        ({"command": ("a",), "kwargs": {"x": 1}}, "args: arguments belong to a function"),
    ],
)
def test_a_job_is_a_command_or_a_function_with_what_belongs_to_it(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Invalid) as caught:
        Job(**fields)
    assert str(caught.value).startswith(message)


def test_the_kinds_of_runs_read_as_people_say_them() -> None:
    assert [kind.word for kind in RunKind][:3] == ["grid", "first", "catch-up"]


# Decoding


def decoding_error(data: str, type_: Any) -> str:
    with pytest.raises(msgspec.ValidationError) as caught:
        msgspec.json.decode(data, type=type_)
    return str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"evry": 1}', "Object contains unknown field `evry`"),
        ('{"every": "5m"}', "Expected `int | null`, got `str` - at `$.every`"),
        ('{"every": 1.5}', "Expected `int | null`, got `float` - at `$.every`"),
        ('{"cron": 5}', "Expected `str | null`, got `int` - at `$.cron`"),
        ('{"cron": ""}', "Expected `str` of length >= 1 - at `$.cron`"),
        (f'{{"cron": "{"*" * (TEXT_LIMIT + 1)}"}}', f"Expected `str` of length <= {TEXT_LIMIT} - at `$.cron`"),
        ('{"cron": "H * * * *", "second": 60}', "Expected `int` <= 59 - at `$.second`"),
        ('{"cron": "H * * * *", "second": -1}', "Expected `int` >= 0 - at `$.second`"),
        ('{"cron": "H * * * *", "days": "xor"}', "Invalid enum value 'xor' - at `$.days`"),
        ('{"cron": "H * * * *", "hash": "md5"}', "Invalid enum value 'md5' - at `$.hash`"),
        ('{"every": 60000000, "spread": "uneven"}', "Invalid enum value 'uneven' - at `$.spread`"),
        ('{"every": 60000000, "zone": ""}', "Expected `str` of length >= 1 - at `$.zone`"),
        ('{"every": 5}', "every: 5e-06 s is out of range, accepted: 1s to 3653d"),
    ],
)
def test_decoding_a_bad_schedule_names_the_path(data: str, message: str) -> None:
    assert decoding_error(data, Schedule) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"schedule": {"every": 60000000}}', "Object missing required field `name`"),
        ('{"name": "a"}', "Object missing required field `schedule`"),
        ('{"name": "", "schedule": {"every": 60000000}}', "Expected `str` of length >= 1 - at `$.name`"),
        (
            f'{{"name": "{"n" * (NAME_LIMIT + 1)}", "schedule": {{"every": 60000000}}}}',
            f"Expected `str` of length <= {NAME_LIMIT} - at `$.name`",
        ),
        ('{"name": "a", "schedule": {"evry": 1}}', "Object contains unknown field `evry` - at `$.schedule`"),
        ('{"name": "a", "schedule": {"every": []}}', "Expected `int | null`, got `array` - at `$.schedule.every`"),
        (
            '{"name": "a", "schedule": {"every": 60000000, "cron": "H * * * *"}}',
            "schedule: a schedule has exactly one of every, cron, calendar, at, after, after_failure; "
            "found every and cron - at `$.schedule`",
        ),
        ('{"name": "a", "schedule": {"every": 60000000}, "weight": 0}', "Expected `float` > 0.0 - at `$.weight`"),
        (
            '{"name": "a", "schedule": {"every": 60000000}, "weight": 86401}',
            "Expected `float` <= 86400.0 - at `$.weight`",
        ),
        (
            '{"name": "a", "schedule": {"every": 60000000}, "job": {"command": "ls -l"}}',
            "Expected `array`, got `str` - at `$.job.command`",
        ),
        (
            '{"name": "a", "schedule": {"every": 60000000}, "job": {"command": ["ls", 1]}}',
            "Expected `str`, got `int` - at `$.job.command[1]`",
        ),
        (
            '{"name": "a", "schedule": {"every": 60000000}, "labels": {"x": 1}}',
            "Expected `str`, got `int` - at `$.labels[...]`",
        ),
        (
            '{"name": "a", "schedule": {"every": 60000000}, "shell": true}',
            "Object contains unknown field `shell`",
        ),
        ('{"name": "a", "schedule": {"every": 60000000}, "attempts": 0}', "Expected `int` >= 1 - at `$.attempts`"),
        ('{"name": "a", "schedule": {"every": 60000000}, "priority": 101}', "Expected `int` <= 100 - at `$.priority`"),
        ('{"name": "a", "schedule": {"every": 60000000}, "timebox": -101}', "Expected `int` >= -100 - at `$.timebox`"),
        ('{"name": "a", "schedule": {"every": 60000000}, "retry": -1}', "Expected `int` >= 0 - at `$.retry`"),
        ('{"name": "a", "schedule": {"every": 60000000}, "missed": "x"}', "Invalid enum value 'x' - at `$.missed`"),
        (
            '{"name": "a", "schedule": {"every": 60000000}, "job": {"function": "m:f", "args": ['
            + "[" * 17
            + "]" * 17
            + "]}}",
            "args: an argument with lists and tables more than 16 deep, accepted: texts, numbers, true, false, lists"
            " and tables of these - at `$.job`",
        ),
    ],
)
def test_decoding_a_bad_task_names_the_path(data: str, message: str) -> None:
    assert decoding_error(data, Task) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ('{"range": []}', "Object contains unknown field `range`"),
        ('{"ranges": "monday"}', "Expected `array`, got `str` - at `$.ranges`"),
        ('{"ranges": ["monday", ""]}', "Expected `str` of length >= 1 - at `$.ranges[1]`"),
        ('{"include": [3]}', "Expected `str`, got `int` - at `$.include[0]`"),
        ('{"prefer": "both"}', "Invalid enum value 'both' - at `$.prefer`"),
        ('{"holidays": true}', "Expected `str | null`, got `bool` - at `$.holidays`"),
    ],
)
def test_decoding_a_bad_period_names_the_path(data: str, message: str) -> None:
    assert decoding_error(data, Period) == message


@pytest.mark.parametrize(
    "task",
    [
        Task("ping", Schedule(every=MINUTE, phase=17)),
        Task("report", Schedule(cron="H 3 * * *", zone="Europe/Paris", days=Days.AND), period="nights", weight=30.0),
        Task("once", Schedule(at="2026-12-01T09:00"), Job(command=("true",)), check=True, labels={"team": "db"}),
        Task(
            "line", Schedule(every=MINUTE), Job(command=("a | b",), shell=True, env={"A": "env:B"}, cwd="/", user="u")
        ),
        Task("call", Schedule(every=MINUTE), Job(function="m:f", args=(1, "x", None, 1.5, True), kwargs={"k": -1})),
        Task(
            "all",
            Schedule(every=MINUTE),
            enabled=False,
            paused=True,
            start_at="2026-12-01",
            timebox=30 * SECOND,
            tolerance=0,
            missed=Missed.ALL,
            catch_up=DAY,
            backlog=Backlog.EACH,
            limit="db",
            priority=-100,
            retry=0,
            attempts=255,
            grace=SECOND,
        ),
    ],
)
def test_what_is_encoded_decodes_to_the_same_task(task: Task) -> None:
    assert msgspec.json.decode(msgspec.json.encode(task), type=Task) == task


def test_defaults_are_the_ones_that_are_documented() -> None:
    schedule = Schedule(every=MINUTE)
    assert (schedule.spread, schedule.zone) == (Spread.EVEN, "UTC")
    assert Schedule(cron="H * * * *").second is None
    assert Schedule(cron="H * * * *").days is Days.OR
    assert Period().prefer is Prefer.INCLUDE
    task = Task("a", schedule)
    assert (task.weight, task.timebox, task.tolerance, task.retry, task.attempts) == (1.0, None, None, None, None)
    assert (task.missed, task.catch_up, task.backlog) == (Missed.ONCE, HOUR, Backlog.MERGE)
    assert (task.enabled, task.paused, task.check, task.priority, task.grace) == (True, False, False, 0, None)
    assert task.job == Job()
    assert (task.passive, task.when_missing) == (False, WhenMissing.CRITICAL)


def test_only_what_differs_from_the_default_is_written() -> None:
    assert msgspec.json.encode(Schedule(every=MINUTE)) == b'{"every":60000000}'


def test_nouns_do_not_change_under_those_who_hold_them() -> None:
    schedule = Schedule(every=MINUTE)
    with pytest.raises(AttributeError):
        schedule.every = HOUR  # type: ignore[misc]
    task = Task("a", schedule)
    task.labels["x"] = "y"
    assert Task("b", schedule).labels == {}


def test_placed_puts_a_place_in_front_and_keeps_the_column() -> None:
    with pytest.raises(Invalid) as refused, prefix_place("tasks.a"), prefix_place("cron"):
        raise Invalid("no", column=3, place="field 1")
    assert str(refused.value) == "tasks.a, cron, field 1, column 3: no"
