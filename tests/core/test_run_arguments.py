"""What a run with arguments of its own executes."""

from typing import Any

import pytest

from evenbeat.core.run_arguments import job_with_arguments
from evenbeat.model import Invalid, Job

FUNCTION = Job(function="m:f", args=(1, 2), kwargs={"a": 1}, env={"X": "1"})


def made(job: Job, *args: Any, env: dict[str, str] | None = None, **kwargs: Any) -> Job:
    return job_with_arguments(job, args, kwargs, env or {})


def test_positional_arguments_replace_and_named_ones_are_added() -> None:
    assert made(FUNCTION, 3, b=[2]) == Job(function="m:f", args=(3,), kwargs={"a": 1, "b": [2]}, env={"X": "1"})
    assert made(FUNCTION, a=5) == Job(function="m:f", args=(1, 2), kwargs={"a": 5}, env={"X": "1"})


def test_a_command_gets_further_words() -> None:
    assert made(Job(command=("tar", "-c")), "--verbose", "/data").command == ("tar", "-c", "--verbose", "/data")


def test_variables_are_added() -> None:
    assert made(FUNCTION, env={"Y": "2"}).env == {"X": "1", "Y": "2"}
    assert made(Job(command=("true",)), env={"Y": "2"}).env == {"Y": "2"}


@pytest.mark.parametrize(
    ("job", "args", "kwargs", "env", "message"),
    [
        (Job(command=("true",)), (), {"a": 1}, {}, "kwargs: a command has no named arguments, found 'a'"),
        (Job(command=("true",)), (1,), {}, {}, "args: 1 is no word of a command, accepted: texts"),
        (Job(command=("true",)), ("a\0b",), {}, {}, "args: 'a.x00b' is no word of a command"),
        (Job(command=("echo $X",), shell=True), ("a",), {}, {}, r"args: a line for the shell .* \(\$NAME in the line"),
        (FUNCTION, (), {}, {"A=B": "1"}, "env: 'A=B' cannot be the name of a variable"),
        (FUNCTION, (object(),), {}, {}, "args: a object cannot be an argument"),
    ],
)
def test_what_the_job_cannot_have_is_refused(job: Job, args: Any, kwargs: Any, env: Any, message: str) -> None:
    with pytest.raises(Invalid, match=message):
        job_with_arguments(job, args, kwargs, env)
