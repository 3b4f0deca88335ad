"""`pass_env`: names of variables, each of which may end with a * for all that begin so."""

import re
from collections.abc import Sequence
from typing import Final

from evenbeat.model import SECRET_VARIABLE_PREFIXES

MAX_VARIABLES: Final = 256
"""Names in a list."""
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,255}\*?|\*")


def pass_env_error(name: str) -> str:
    """Why this cannot be passed on; empty if it can."""
    if not _NAME.fullmatch(name):
        return f"{name[:64]!r} is not the name of a variable, accepted: NAME, or a beginning of names such as DB_*"
    if name.startswith(SECRET_VARIABLE_PREFIXES):
        return f"{name}: tokens and the address of the queue are never passed on; a task gets a token by its own `env`"
    return ""


def pass_env_errors(names: Sequence[str]) -> list[tuple[int, str]]:
    """The errors of a list of names: position and problem."""
    found = [(i, problem) for i, name in enumerate(names) if (problem := pass_env_error(name))]
    return (
        [(MAX_VARIABLES, f"{len(names)} names, accepted: at most {MAX_VARIABLES}"), *found]
        if len(names) > MAX_VARIABLES
        else found
    )
