"""What `retries`, `backoff` and `retry_on` may say, beyond their types."""

from typing import Final

from evenbeat.model import DEFAULT_BACKOFF, Task
from evenbeat.when.duration import format_duration

_ACCEPTED: Final = "accepted: 1 to 255, or a name such as ConnectionError"


def backoff_error(task: Task) -> str:
    """Why the longest delay does not suit the first one; empty if it does."""
    backoff = DEFAULT_BACKOFF if task.backoff is None else task.backoff
    if task.backoff_max is None or task.backoff_max >= backoff:
        return ""
    shown = format_duration(task.backoff_max), format_duration(backoff)
    return f"{shown[0]} is shorter than the first delay, `backoff`, which is {shown[1]}"


def retry_on_error(cause: int | str) -> str:
    """Why a task cannot try again after this; empty if it can."""
    if isinstance(cause, int) or all(part.isidentifier() for part in cause.split(".")):
        return ""
    return f"{cause[:64]!r} is neither an exit code nor the name of an exception, {_ACCEPTED}"
