"""Turns filters of tasks and of problems into conditions of statements for PostgreSQL; `t` is the task."""

from collections.abc import Iterator
from typing import Final

from evenbeat.model import Cause, State
from evenbeat.name_patterns import is_pattern
from evenbeat.store.common.filters import folded
from evenbeat.store.common.problem_ids import possible_ids
from evenbeat.store.contract import FAILURES, NEVER, Filter, ProblemFilter
from evenbeat.store.postgres.task_changes import label

Condition = tuple[str, list[object]]
_FAILED: Final = ", ".join(f"'{outcome}'" for outcome in FAILURES)
_EXACTLY: Final = """t.number IN (
    SELECT number FROM tasks WHERE removed IS NULL AND name = ANY(%s)
    UNION SELECT number FROM tasks WHERE removed IS NULL AND id = ANY(%s)
)"""
"""Uses both indexes: no other task is read."""
_EXACTLY_OF_ANY: Final = """p.task = ANY(ARRAY(
    SELECT number FROM tasks WHERE removed IS NULL AND name = ANY(%s)
    UNION SELECT number FROM tasks WHERE id = ANY(%s)
    UNION SELECT number FROM tasks WHERE removed IS NOT NULL AND name = ANY(%s)
))"""
"""Tasks of problems, removed ones too. An array is looked up in an index, also by a planner without statistics."""
_ACKNOWLEDGED: Final = """(p.ack_at IS NOT NULL AND (p.ack_sticky OR p.ack_worst <= p.ack_severity)
    AND (p.ack_until IS NULL OR p.ack_until > coalesce(p.closed, t.removed, %s)))"""
_STATE_CONDITIONS: Final = {
    "running": "t.number IN (SELECT task FROM claims)",
    "unchecked": f"t.is_check AND t.number IN (SELECT task FROM progress WHERE result_at = {NEVER})",  # noqa: S608 - a constant
    "disabled": "t.is_off",
    "failed": f"t.number IN (SELECT task FROM progress WHERE outcome IN ({_FAILED}))",  # noqa: S608 - our own words
    "paused": "t.is_off AND coalesce((t.definition::jsonb ->> 'paused')::boolean, false)",
    "problem": f"""CASE WHEN t.is_check
        THEN t.number IN (SELECT task FROM progress WHERE hard AND state != {int(State.OK)} AND result_at > {NEVER})
        ELSE t.number IN (SELECT task FROM problems WHERE closed IS NULL AND cause = '{Cause.FAILED.value}') END""",  # noqa: S608 - our own words
}
_LIKE: Final = {"\\": r"\\", "%": r"\%", "_": r"\_", "*": "%", "?": "_"}


def sql_conditions(only: Filter) -> Condition:
    """The condition and its parameters."""
    return joined([*_conditions(only, _EXACTLY), *_state_conditions(only)])


def problem_conditions(only: ProblemFilter) -> Condition:
    """The condition and its parameters; `p` is the problem, `t` its task."""
    return joined([*_problem_conditions(only), *_conditions(only.tasks, _EXACTLY_OF_ANY)])


def joined(parts: list[Condition]) -> Condition:
    """Several conditions and their parameters as one."""
    return " AND ".join(["true", *(text for text, _ in parts)]), [value for _, values in parts for value in values]


def _problem_conditions(only: ProblemFilter) -> Iterator[Condition]:
    if only.is_open and only.tasks.names and not any(map(is_pattern, only.tasks.names)):
        yield "coalesce(p.closed, t.removed) IS NULL", []  # does not lead the planner to the index of all open ones
    elif only.is_open:
        yield "p.closed IS NULL AND t.removed IS NULL", []
    elif only.is_open is not None:
        yield "(p.closed IS NOT NULL OR t.removed IS NOT NULL)", []
    if only.cause is not None:
        yield "p.cause = %s", [only.cause]
    if only.state is not None:
        yield "CASE WHEN coalesce(p.closed, t.removed) IS NULL THEN p.state ELSE p.worst END = %s", [int(only.state)]
    if only.acknowledged is not None:
        yield f"{_ACKNOWLEDGED} = %s", [only.now, only.acknowledged]
    if only.ids:
        yield "p.id = ANY(%s)", [possible_ids(only.ids)]


def _conditions(only: Filter, exactly: str) -> Iterator[Condition]:
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
        either = [exactly] if exact else []
        either += ["t.name LIKE %s"] * len(likes)
        yield f"({' OR '.join(either)})", [*([exact] * exactly.count("%s") if exact else []), *likes]


def _state_conditions(only: Filter) -> Iterator[Condition]:
    if only.state in _STATE_CONDITIONS:
        yield _STATE_CONDITIONS[only.state], []
    elif only.state is not None:
        among = f"SELECT task FROM progress WHERE state = %s AND result_at > {NEVER}"  # noqa: S608 - a constant
        yield f"t.is_check AND t.number IN ({among})", [int(State[only.state.upper()])]
