"""The job of a line of a crontab: a command for a shell, with its input behind a bare `%`, or a function."""

import re
import shlex
from pathlib import PurePath
from typing import Final

import msgspec

from evenbeat.load.function_call import is_call, parse_call
from evenbeat.model import HOME_FOLDER, Invalid, Job

_SHELLS_LIKE_SH: Final = ("sh", "bash", "dash", "ash", "ksh", "mksh", "zsh")
_BARE_PERCENT: Final = re.compile(r"(?<!\\)%")


def bare_percent(line: str) -> int:
    """The column of the first % that is not escaped, where the input of the command begins; 0 if there is none."""
    found = _BARE_PERCENT.search(line)
    return found.start() + 1 if found else 0


def split_input(line: str) -> tuple[str, str]:
    """The command of a line, and its input as it is written."""
    column = bare_percent(line)
    return (line[: column - 1].rstrip(), line[column:]) if column else (line, "")


def job_of_line(line: str, env: dict[str, str], user: str | None) -> Job:
    """What cron does with a line; raise Invalid with the column."""
    if is_call(line):
        if column := bare_percent(line):
            raise Invalid("a function has no input: write \\% for a percent sign", column=column)
        return msgspec.structs.replace(
            parse_call(line.replace("\\%", "%")), env=env, cwd=env.get("HOME") or None, user=user
        )
    command, *input_lines = (part.replace("\\%", "%") for part in _BARE_PERCENT.split(line))
    command = command.rstrip()
    if not command:
        raise Invalid("a command should stand before its input, which begins at the first %", column=1)
    # cron gives the line to SHELL; ours is /bin/sh too, unless the crontab says otherwise.
    shell = env.get("SHELL") or "/bin/sh"
    if any(input_lines):
        if PurePath(shell).name not in _SHELLS_LIKE_SH:
            command, shell = f"{shlex.quote(shell)} -c {shlex.quote(command)}", "/bin/sh"
        command = _with_input(command, "\n".join(input_lines))
    cwd = env.get("HOME") or HOME_FOLDER
    if shell == "/bin/sh":
        return Job((command,), True, env=env, cwd=cwd, user=user)  # noqa: FBT003
    return Job(command=(shell, "-c", command), env=env, cwd=cwd, user=user)


def _with_input(command: str, text: str) -> str:
    """The command with a text as its input; the braces take in all of `a; b`."""
    mark = "END"
    while mark in text.split("\n"):
        mark += "_"
    return f"{{\n{command}\n}} <<'{mark}'\n{text}\n{mark}"
