"""Turns a filter into the condition of a statement for PostgreSQL; `t` is the task."""

from collections.abc import Iterator
from typing import Final

from evenbeat.model import State
from evenbeat.store.common.filters import folded, is_pattern
from evenbeat.store.contract import FAILURES, NEVER, Filter
from evenbeat.store.postgres.task_changes import label

_FAILED: Final = ", ".join(f"'{outcome}'" for outcome in FAILURES)
_EXACTLY: Final = """t.number IN (
    SELECT number FROM tasks WHERE removed IS NULL AND name = ANY(%s)
    UNION SELECT number FROM tasks WHERE removed IS NULL AND id = ANY(%s)
)"""
"""Uses both indexes: no other task is read."""
_STATE_CONDITIONS: Final = {
    "running": "t.number IN (SELECT task FROM claims)",
    "unchecked": f"t.is_check AND t.number IN (SELECT task FROM progress WHERE result_at = {NEVER})",  # noqa: S608 - a constant
    "disabled": "t.is_off",
    "failed": f"t.number IN (SELECT task FROM progress WHERE outcome IN ({_FAILED}))",  # noqa: S608 - our own words
    "paused": "t.is_off AND coalesce((t.definition::jsonb ->> 'paused')::boolean, false)",
    "problem": f"""CASE WHEN t.is_check
        THEN t.number IN (SELECT task FROM progress WHERE hard AND state != {int(State.OK)} AND result_at > {NEVER})
        ELSE t.number IN (SELECT task FROM progress WHERE outcome IN ({_FAILED})) END""",  # noqa: S608 - our own words
}
_LIKE: Final = {"\\": r"\\", "%": r"\%", "_": r"\_", "*": "%", "?": "_"}


def sql_conditions(only: Filter) -> tuple[str, list[object]]:
    """The condition and its parameters."""
    parts = list(_conditions(only))
    return " AND ".join(["true", *(text for text, _ in parts)]), [value for _, values in parts for value in values]


def _conditions(only: Filter) -> Iterator[tuple[str, list[object]]]:
    if only.owner is not None:
        yield "t.owner = %s", [only.owner]
    if only.labels:
        yield "t.labels @> %s::text[]", [[label(key, value) for key, value in only.labels.items()]]
    if only.contains is not None:
        # Names have the collation C, in which only ASCII letters have a lower case.
        yield "strpos(lower(t.name), %s) > 0", [folded(only.contains)]
    if only.names:
        exact = [name for name in only.names if not is_pattern(name)]
        likes = ["".join(_LIKE.get(char, char) for char in name) for name in only.names if is_pattern(name)]
        either = [_EXACTLY] if exact else []
        either += ["t.name LIKE %s"] * len(likes)
        yield f"({' OR '.join(either)})", [*([exact, exact] if exact else []), *likes]
    if only.state in _STATE_CONDITIONS:
        yield _STATE_CONDITIONS[only.state], []
    elif only.state is not None:
        among = f"SELECT task FROM progress WHERE state = %s AND result_at > {NEVER}"  # noqa: S608 - a constant
        yield f"t.is_check AND t.number IN ({among})", [int(State[only.state.upper()])]
