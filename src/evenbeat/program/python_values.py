"""Keys of tasks, periods and contacts as Python says them: timedelta, datetime, ZoneInfo, Path, functions as names."""

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final
from zoneinfo import ZoneInfo

from evenbeat.model import Instant, Invalid, prefix_place
from evenbeat.when.duration import format_duration, parse_duration
from evenbeat.when.instant import EPOCH_UTC, parse_instant
from evenbeat.when.zone import zone

Time = str | datetime
"""A time: a datetime, or a text as `at` has it. Without an offset it is a time in UTC."""
Length = str | float | timedelta
"""A duration: a timedelta, a text such as "5m", or a number of seconds."""

_MICROSECOND: Final = timedelta(microseconds=1)
_ARGUMENT_KEYS: Final = ("args", "kwargs")
"""Their values reach the function as they are."""
_LIST_KEYS: Final = ("after", "after_failure", "depends", "depends_any", "notify")
"""Lists whose only value may stand alone."""

NameOf = Callable[[Callable[..., object]], str]
"""The name of the task that a function is declared as."""


def file_keys(keys: Mapping[str, Any], name_of: NameOf) -> dict[str, Any]:
    """Keys as a file would have them; raise Invalid for values that no file can have."""
    found = {}
    for key, value in keys.items():
        if key in _ARGUMENT_KEYS:
            found[key] = value
            continue
        with prefix_place(key):
            if key == "retry_on":
                value = _retry_causes(value)  # noqa: PLW2901 - names for classes
            if key in _LIST_KEYS and (callable(value) or isinstance(value, str)):
                value = [value]  # noqa: PLW2901 - one for a list of one
            converted = _file_value(value, name_of)
        found[key] = f"+{converted}" if key == "at" and isinstance(value, timedelta) else converted
    return found


def _retry_causes(value: Any) -> list[Any]:
    """Exit codes and exceptions: the name for a class."""
    causes = value if isinstance(value, list | tuple) else [value]
    return [
        cause.__qualname__ if isinstance(cause, type) and issubclass(cause, BaseException) else cause
        for cause in causes
    ]


def _file_value(value: Any, name_of: NameOf) -> Any:
    if isinstance(value, timedelta):
        return format_duration(microseconds_of(value))
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, ZoneInfo):
        if value.key is None:
            raise Invalid("a ZoneInfo without a key, accepted: one with a name, such as ZoneInfo('Europe/Paris')")
        return value.key
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [_file_value(item, name_of) for item in value]
    if isinstance(value, dict):
        return {key: _file_value(item, name_of) for key, item in value.items()}
    return name_of(value) if callable(value) else value


def microseconds_of(length: Length) -> int:
    """A duration; raise Invalid if it is none, or negative."""
    if not isinstance(length, timedelta):
        return parse_duration(length)
    if length < timedelta(0):
        raise Invalid(f"{length} is negative, accepted: durations from 0 on")
    return length // _MICROSECOND


def instant_of(key: str, time: Time | None) -> Instant | None:
    """A time of a keyword argument; raise Invalid."""
    if time is None:
        return None
    with prefix_place(key):
        if not isinstance(time, datetime):
            return parse_instant(time, zone("UTC"))
        if time.tzinfo is None:
            return parse_instant(time.isoformat(), zone("UTC"))
        return Instant((time - EPOCH_UTC) // _MICROSECOND)


def end_of(begin: Instant, until: Time | None, length: Length | None) -> Instant | None:
    """The end of something that lasts `until` a time or for a `length` from `begin` on; None without both."""
    end = instant_of("until", until)
    if length is None:
        return end
    if end is not None:
        raise Invalid("give either `until` or `length`", place="length")
    with prefix_place("length"):
        return Instant(begin + microseconds_of(length))
