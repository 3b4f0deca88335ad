"""Turns filters of tasks and of problems into conditions of statements for SQLite; `t` is the task."""

from collections.abc import Iterator
from typing import Final

from evenbeat.model import Cause, State
from evenbeat.name_patterns import is_pattern
from evenbeat.store.common.filters import folded
from evenbeat.store.common.problem_ids import possible_ids
from evenbeat.store.contract import FAILURES, NEVER, Filter, ProblemFilter
from evenbeat.store.sqlite.statements import as_list

Condition = tuple[str, list[str | int]]
_LEAST: Final = str(NEVER)
_FAILED: Final = ", ".join(f"'{outcome}'" for outcome in FAILURES)
_EXACTLY: Final = """t.number IN (
    WITH said (name) AS (VALUES :names)
    SELECT number FROM tasks WHERE removed IS NULL AND name IN said
    UNION SELECT number FROM tasks WHERE removed IS NULL AND id IN said
)"""
"""Uses both indexes: no other task is read."""
_EXACTLY_OF_ANY: Final = """p.task IN (
    WITH said (name) AS (VALUES :names)
    SELECT number FROM tasks WHERE removed IS NULL AND name IN said
    UNION SELECT number FROM tasks WHERE removed IS NOT NULL AND name IN said
    UNION SELECT number FROM tasks WHERE id IN said
)"""
"""Tasks of problems, removed ones too."""
_ACKNOWLEDGED: Final = """(p.ack_at IS NOT NULL AND (p.ack_sticky OR p.ack_worst <= p.ack_severity)
    AND (p.ack_until IS NULL OR p.ack_until > coalesce(p.closed, t.removed, ?)))"""
_STATE_CONDITIONS: Final = {
    "running": "t.number IN (SELECT task FROM claims)",
    "unchecked": f"t.definition ->> 'check' AND t.number IN (SELECT task FROM progress WHERE result_at = {_LEAST})",  # noqa: S608 - a constant
    "disabled": "(NOT coalesce(t.definition ->> 'enabled', 1) OR coalesce(t.definition ->> 'paused', 0))",
    "failed": f"t.number IN (SELECT task FROM progress WHERE outcome IN ({_FAILED}))",  # noqa: S608 - our own words
    "paused": "coalesce(t.definition ->> 'paused', 0)",
    "problem": f"""CASE WHEN t.definition ->> 'check'
        THEN t.number IN (SELECT task FROM progress WHERE hard AND state != {int(State.OK)} AND result_at > {_LEAST})
        ELSE t.number IN (SELECT task FROM problems WHERE closed IS NULL AND cause = '{Cause.FAILED.value}') END""",  # noqa: S608 - our own words
}


def sql_conditions(only: Filter) -> Condition:
    """The condition and its parameters."""
    return joined([*_conditions(only, _EXACTLY), *_state_conditions(only)])


def problem_conditions(only: ProblemFilter) -> Condition:
    """The condition and its parameters; `p` is the problem, `t` its task."""
    return joined([*_problem_conditions(only), *_conditions(only.tasks, _EXACTLY_OF_ANY)])


def problems_source(only: ProblemFilter) -> str:
    """The table of problems, and the index to begin with: SQLite has no statistics to choose by."""
    if only.ids:
        return "problems p NOT INDEXED"
    if only.tasks.names and not any(map(is_pattern, only.tasks.names)):
        return "problems p INDEXED BY problems_by_task"
    return "problems p INDEXED BY problems_open" if only.is_open else "problems p NOT INDEXED"


def joined(parts: list[Condition]) -> Condition:
    """Several conditions and their parameters as one."""
    return " AND ".join(["1", *(text for text, _ in parts)]), [value for _, values in parts for value in values]


def _problem_conditions(only: ProblemFilter) -> Iterator[Condition]:
    if only.is_open:
        yield "p.closed IS NULL AND t.removed IS NULL", []
    elif only.is_open is not None:
        yield "(p.closed IS NOT NULL OR t.removed IS NOT NULL)", []
    if only.cause is not None:
        yield "p.cause = ?", [only.cause]
    if only.state is not None:
        yield "iif(coalesce(p.closed, t.removed) IS NULL, p.state, p.worst) = ?", [int(only.state)]
    if only.acknowledged is not None:
        yield f"{_ACKNOWLEDGED} = ?", [only.now, only.acknowledged]
    if only.ids:
        yield "p.id IN (SELECT value FROM json_each(?))", [as_list(possible_ids(only.ids))]


def _conditions(only: Filter, exactly: str) -> Iterator[Condition]:
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
        either = [exactly.replace(":names", ", ".join(["(?)"] * len(exact)))] if exact else []
        either += ["t.name GLOB ?"] * len(globs)
        yield f"({' OR '.join(either)})", [*exact, *globs]


def _state_conditions(only: Filter) -> Iterator[Condition]:
    if only.state in _STATE_CONDITIONS:
        yield _STATE_CONDITIONS[only.state], []
    elif only.state is not None:
        among = f"SELECT task FROM progress WHERE state = ? AND result_at > {_LEAST}"  # noqa: S608 - a constant
        yield f"t.definition ->> 'check' AND t.number IN ({among})", [State[only.state.upper()]]
