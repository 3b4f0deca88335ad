"""What a filter means: as a question to one task in memory, and as the condition of an SQL statement."""

import re
import string
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from evenbeat.model import NAME_LIMIT, Entry, Invalid, Outcome, State
from evenbeat.store.contract import FAILURES, FILTER_STATES, NEVER, Filter

_LEAST: Final = str(NEVER)
_TO_LOWER: Final = {ord(letter): letter.lower() for letter in string.ascii_uppercase}
_FAILED: Final = ", ".join(f"'{outcome}'" for outcome in FAILURES)
_EXACTLY: Final = """t.number IN (
    WITH said (name) AS (VALUES :names)
    SELECT number FROM tasks WHERE removed IS NULL AND name IN said
    UNION SELECT number FROM tasks WHERE removed IS NULL AND id IN said
)"""
"""Through both indexes: no other task is looked at."""
MAX_PATTERNS: Final = 100
"""Each is held against every name."""
_STATE_CONDITIONS: Final = {
    "running": "t.number IN (SELECT task FROM claims)",
    "unchecked": f"t.definition ->> 'check' AND t.number IN (SELECT task FROM progress WHERE result_at = {_LEAST})",  # noqa: S608 - a constant
    "disabled": "(NOT coalesce(t.definition ->> 'enabled', 1) OR coalesce(t.definition ->> 'paused', 0))",
    "failed": f"t.number IN (SELECT task FROM progress WHERE outcome IN ({_FAILED}))",  # noqa: S608 - our own words
    "paused": "coalesce(t.definition ->> 'paused', 0)",
    "problem": f"""CASE WHEN t.definition ->> 'check'
        THEN t.number IN (SELECT task FROM progress WHERE hard AND state != {int(State.OK)} AND result_at > {_LEAST})
        ELSE t.number IN (SELECT task FROM progress WHERE outcome IN ({_FAILED})) END""",  # noqa: S608 - our own words
}


def check_filter(only: Filter) -> None:
    """Refuse a state that does not exist, a part of a name that no name has room for, too many patterns."""
    patterns = sum(map(is_pattern, only.names))
    if patterns > MAX_PATTERNS:
        raise Invalid(f"{patterns} patterns, accepted: up to {MAX_PATTERNS}, and any number of names", place="names")
    if only.contains is not None and len(only.contains) > NAME_LIMIT:
        raise Invalid(f"{len(only.contains)} characters, accepted: up to {NAME_LIMIT}", place="contains")
    if only.state is not None and only.state not in FILTER_STATES:
        raise Invalid(f"found {only.state!r}, accepted: {', '.join(FILTER_STATES)}", place="state")


def matches(only: Filter, entry: Entry) -> bool:
    """All but the state, which the definition does not tell."""
    task = entry.task
    return (
        (only.owner is None or entry.owner == only.owner)
        and all(task.labels.get(key) == value for key, value in only.labels.items())
        and (only.contains is None or folded(only.contains) in folded(task.name))
        and (not only.names or any(_is_named(entry, name) for name in only.names))
    )


def matches_state(
    word: str | None, entry: Entry, state: State | None, outcome: Outcome | None, *, hard: bool, running: bool
) -> bool:
    """Whether a task is in the state that a filter asks for."""
    match word:
        case None:
            return True
        case "running":
            return running
        case "unchecked":
            return entry.task.check and state is None
        case "disabled":
            return entry.task.paused or not entry.task.enabled
        case "failed":
            return outcome in FAILURES
        case "paused":
            return entry.task.paused
        case "problem":
            return hard and state not in (None, State.OK) if entry.task.check else outcome in FAILURES
        case _:
            return state is State[word.upper()]


def folded(text: str) -> str:
    """As SQLite does it: only the letters of ASCII."""
    return text.translate(_TO_LOWER)


def is_pattern(name: str) -> bool:
    """Whether it stands for many names."""
    return "*" in name or "?" in name


def _is_named(entry: Entry, name: str) -> bool:
    if name in (entry.task.name, entry.id):
        return True
    return _matcher(name).match(entry.task.name) is not None


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> re.Pattern[str]:
    """Each star takes as little as it can and is not asked again: many of them cost no more than one."""
    *parts, last = ("".join("." if char == "?" else re.escape(char) for char in part) for part in pattern.split("*"))
    if not parts:
        return re.compile(f"(?:{last})\\Z", re.DOTALL)
    first, *between = parts
    stars = "".join(f"(?>.*?{part})" for part in between if part)
    return re.compile(f"{first}{stars}.*{last}\\Z", re.DOTALL)


def sql_conditions(only: Filter) -> tuple[str, list[str | int]]:
    """The same for SQL, `t` being the task: a condition and its parameters."""
    parts = list(_conditions(only))
    return " AND ".join(["1", *(text for text, _ in parts)]), [value for _, values in parts for value in values]


def _conditions(only: Filter) -> Iterator[tuple[str, list[str | int]]]:
    if only.owner is not None:
        yield "t.owner = ?", [only.owner]
    for key, value in only.labels.items():
        yield "EXISTS (SELECT 1 FROM json_each(t.definition, '$.labels') WHERE key = ? AND value = ?)", [key, value]
    if only.contains is not None:
        yield "instr(lower(t.name), ?)", [folded(only.contains)]
    if only.names:
        exact = [name for name in only.names if not is_pattern(name)]
        # In a GLOB a bracket opens a set of characters; a set of only the bracket is the bracket.
        globs = [name.replace("[", "[[]") for name in only.names if is_pattern(name)]
        either = [_EXACTLY.replace(":names", ", ".join(["(?)"] * len(exact)))] if exact else []
        either += ["t.name GLOB ?"] * len(globs)
        yield f"({' OR '.join(either)})", [*exact, *globs]
    if only.state in _STATE_CONDITIONS:
        yield _STATE_CONDITIONS[only.state], []
    elif only.state is not None:
        among = f"SELECT task FROM progress WHERE state = ? AND result_at > {_LEAST}"  # noqa: S608 - a constant
        yield f"t.definition ->> 'check' AND t.number IN ({among})", [State[only.state.upper()]]
