"""Turns filters of decisions and messages into conditions of statements for SQLite, and chooses the index for them."""

from collections.abc import Iterator

from evenbeat.store.alert_records import AlertDecisionFilter, MessageFilter
from evenbeat.store.common.problem_ids import possible_ids, within_ids
from evenbeat.store.sqlite.filters import Condition, joined
from evenbeat.store.sqlite.statements import as_list

_OF_TASK = """d.problem IN (SELECT id FROM problems INDEXED BY problems_by_task WHERE task IN (
    SELECT number FROM tasks WHERE removed IS NULL AND name = ?1
    UNION SELECT number FROM tasks WHERE removed IS NOT NULL AND name = ?1
))"""


def decisions_source(only: AlertDecisionFilter) -> str:
    """The table of decisions, and its index."""
    is_of_problems = only.problem is not None or only.task is not None
    return f"alert_decisions d INDEXED BY alert_decisions_by_{'problem' if is_of_problems else 'time'}"


def decision_conditions(only: AlertDecisionFilter) -> Condition:
    """The condition and its parameters; `d` is the decision."""
    return joined(list(_decision_conditions(only)))


def _decision_conditions(only: AlertDecisionFilter) -> Iterator[Condition]:
    if only.task is not None:
        yield _OF_TASK, [only.task]
    if only.problem is not None:
        yield "d.problem = ?", [within_ids(only.problem)]
    if only.contact is not None:
        yield "d.contact = ?", [only.contact]
    if only.since is not None:
        yield "d.at >= ?", [only.since]
    if only.until is not None:
        yield "d.at < ?", [only.until]
    if only.before is not None:
        yield "(d.at, d.id) < (?, ?)", list(only.before)


def messages_source(only: MessageFilter) -> str:
    """The table of messages, and its index."""
    if only.ids:
        return "messages NOT INDEXED"
    for index, value in (("channel", only.channel), ("contact", only.contact), ("state", only.state)):
        if value is not None:
            return f"messages INDEXED BY messages_by_{index}"
    return "messages NOT INDEXED" if only.since is None else "messages INDEXED BY messages_by_time"


def message_conditions(only: MessageFilter) -> Condition:
    """The condition and its parameters."""
    return joined(list(_message_conditions(only)))


def _message_conditions(only: MessageFilter) -> Iterator[Condition]:
    if only.ids:
        yield "id IN (SELECT value FROM json_each(?))", [as_list(possible_ids(only.ids))]
    if only.channel is not None:
        yield "channel = ?", [only.channel]
    if only.contact is not None:
        yield "contact = ?", [only.contact]
    if only.state is not None:
        yield "state = ?", [only.state]
    if only.since is not None:
        yield "created >= ?", [only.since]
    if only.before is not None:
        yield "id < ?", [within_ids(only.before)]
