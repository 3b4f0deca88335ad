"""Turns filters of decisions and messages into conditions of statements for PostgreSQL."""

from collections.abc import Iterator
from typing import Final

from evenbeat.store.alert_records import AlertDecisionFilter, MessageFilter
from evenbeat.store.common.problem_ids import possible_ids, within_ids
from evenbeat.store.postgres.filters import Condition, joined

_OF_TASK: Final = """d.problem = ANY(ARRAY(
    SELECT o.id FROM problems o WHERE o.task = ANY(ARRAY(
        SELECT number FROM tasks WHERE removed IS NULL AND name = %s
        UNION SELECT number FROM tasks WHERE removed IS NOT NULL AND name = %s
    ))
))"""
"""An array is looked up in an index, also by a planner without statistics."""


def decision_conditions(only: AlertDecisionFilter) -> Condition:
    """The condition and its parameters; `d` is the decision."""
    return joined(list(_decision_conditions(only)))


def _decision_conditions(only: AlertDecisionFilter) -> Iterator[Condition]:
    if only.task is not None:
        yield _OF_TASK, [only.task, only.task]
    if only.problem is not None:
        yield "d.problem = %s", [within_ids(only.problem)]
    if only.contact is not None:
        yield "d.contact = %s", [only.contact]
    if only.since is not None:
        yield "d.at >= %s", [only.since]
    if only.until is not None:
        yield "d.at < %s", [only.until]
    if only.before is not None:
        yield "(d.at, d.id) < (%s::bigint, %s::bigint)", list(only.before)


def message_conditions(only: MessageFilter) -> Condition:
    """The condition and its parameters."""
    return joined(list(_message_conditions(only)))


def _message_conditions(only: MessageFilter) -> Iterator[Condition]:
    if only.ids:
        yield "id = ANY(%s)", [possible_ids(only.ids)]
    if only.channel is not None:
        yield "channel = %s", [only.channel]
    if only.contact is not None:
        yield "contact = %s", [only.contact]
    if only.state is not None:
        yield "state = %s", [only.state]
    if only.since is not None:
        yield "created >= %s", [only.since]
    if only.before is not None:
        yield "id < %s", [within_ids(only.before)]
