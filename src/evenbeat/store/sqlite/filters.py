"""Turns a filter into the condition of a statement for SQLite; `t` is the task."""

from collections.abc import Iterator
from typing import Final

from evenbeat.model import State
from evenbeat.store.common.filters import folded, is_pattern
from evenbeat.store.contract import FAILURES, NEVER, Filter

_LEAST: Final = str(NEVER)
_FAILED: Final = ", ".join(f"'{outcome}'" for outcome in FAILURES)
_EXACTLY: Final = """t.number IN (
    WITH said (name) AS (VALUES :names)
    SELECT number FROM tasks WHERE removed IS NULL AND name IN said
    UNION SELECT number FROM tasks WHERE removed IS NULL AND id IN said
)"""
"""Uses both indexes: no other task is read."""
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


def sql_conditions(only: Filter) -> tuple[str, list[str | int]]:
    """The condition and its parameters."""
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
        # In a GLOB a bracket opens a set of characters; a set of only the bracket matches the bracket.
        globs = [name.replace("[", "[[]") for name in only.names if is_pattern(name)]
        either = [_EXACTLY.replace(":names", ", ".join(["(?)"] * len(exact)))] if exact else []
        either += ["t.name GLOB ?"] * len(globs)
        yield f"({' OR '.join(either)})", [*exact, *globs]
    if only.state in _STATE_CONDITIONS:
        yield _STATE_CONDITIONS[only.state], []
    elif only.state is not None:
        among = f"SELECT task FROM progress WHERE state = ? AND result_at > {_LEAST}"  # noqa: S608 - a constant
        yield f"t.definition ->> 'check' AND t.number IN ({among})", [State[only.state.upper()]]
