"""How SQLite finds alerts, decisions and messages: by their indexes, without all tasks and closed problems."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from evenbeat.model import Instant
from evenbeat.store.alert_records import AlertDecisionFilter, MessageFilter, ProblemKey
from evenbeat.store.common.rows import Parameters
from evenbeat.store.sqlite.base import Rows
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.store.sqlite.statements import query, query_of_rows, row_width
from evenbeat.testing.samples import T0


class ExplainingStore(SqliteStore):
    """Explains what it would read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.steps: list[str] = []

    def _select(self, statement: str, values: Parameters = ()) -> Rows:
        self.steps += [words for *_, words in super()._select(f"EXPLAIN QUERY PLAN {statement}", values)]
        yield from super()._select(statement, values)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ExplainingStore]:
    with closing(ExplainingStore(tmp_path / "x.db")) as made:
        yield made


SINCE = Instant(T0)
ASKED: list[tuple[Callable[[SqliteStore], Any], list[str]]] = [
    (lambda s: s.problem_ids([ProblemKey(1, "state", T0)]), ["SEARCH p USING", "problems_by_task"]),
    (lambda s: list(s.open_alert_problems()), ["problems_open", "alerts_not_over", "SEARCH a USING PRIMARY KEY"]),
    (lambda s: s.alert_problems([1, 2]), ["SEARCH p USING INTEGER PRIMARY KEY", "SEARCH a USING PRIMARY KEY"]),
    (lambda s: s.alerts(1), ["SEARCH alerts USING PRIMARY KEY (problem=?)"]),
    (lambda s: s.alert_decisions(), ["USING INDEX alert_decisions_by_time"]),
    (
        lambda s: s.alert_decisions(AlertDecisionFilter(since=SINCE, until=SINCE)),
        ["alert_decisions_by_time (at>? AND at<?)"],
    ),
    (lambda s: s.alert_decisions(AlertDecisionFilter(before=(T0, 9))), ["alert_decisions_by_time (at<?)"]),
    (lambda s: s.alert_decisions(AlertDecisionFilter(problem=1)), ["alert_decisions_by_problem (problem=?)"]),
    (
        lambda s: s.alert_decisions(AlertDecisionFilter(task="a", since=SINCE)),
        [
            "alert_decisions_by_problem (problem=? AND at>?)",
            "problems_by_task (task=?)",
            "tasks_by_name",
            "tasks_removed_by_name",
        ],
    ),
    (lambda s: s.messages(), ["messages"]),
    (lambda s: s.messages(MessageFilter(channel="c")), ["messages_by_channel (channel=?)"]),
    (lambda s: s.messages(MessageFilter(channel="c", before=9)), ["messages_by_channel (channel=? AND rowid<?)"]),
    (lambda s: s.messages(MessageFilter(contact="c", state="waiting")), ["messages_by_contact (contact=?)"]),
    (lambda s: s.messages(MessageFilter(since=SINCE)), ["messages_by_time (created>?)"]),
    (lambda s: s.messages(MessageFilter(ids=(1, 2))), ["messages USING INTEGER PRIMARY KEY"]),
    (lambda s: s.unfinished_messages(), ["messages_by_state (state=?)"]),
    (
        lambda s: s.message_document(1),
        ["message_documents USING INDEX sqlite_autoindex_message_documents_1 (message=?)"],
    ),
]


@pytest.mark.parametrize(("ask", "used"), ASKED)
def test_what_is_asked_for_is_found_by_an_index(
    store: ExplainingStore, ask: Callable[[SqliteStore], Any], used: list[str]
) -> None:
    ask(store)
    for words in used:
        assert any(words in step for step in store.steps), (words, store.steps)
    scans = [
        step for step in store.steps if step.startswith("SCAN") and "INDEX" not in step and "json_each" not in step
    ]
    assert [step for step in scans if step not in ("SCAN messages", "SCAN k VIRTUAL TABLE INDEX 1:")] == []


@pytest.mark.parametrize("only", [MessageFilter(), MessageFilter(channel="c"), MessageFilter(state="waiting")])
def test_pages_of_messages_are_not_sorted(store: ExplainingStore, only: MessageFilter) -> None:
    store.messages(only)
    assert not [step for step in store.steps if "TEMP B-TREE" in step], store.steps


@pytest.mark.parametrize(
    "only", [AlertDecisionFilter(), AlertDecisionFilter(problem=1), AlertDecisionFilter(contact="c")]
)
def test_pages_of_decisions_are_not_sorted(store: ExplainingStore, only: AlertDecisionFilter) -> None:
    store.alert_decisions(only)
    assert not [step for step in store.steps if "TEMP B-TREE FOR ORDER" in step], store.steps


@pytest.mark.parametrize("name", ["hold_problems", "put_alerts"])
def test_recording_reads_only_what_changes(store: ExplainingStore, tmp_path: Path, name: str) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        found = connection.execute(f"EXPLAIN QUERY PLAN {query_of_rows(name, 64)}", [0] * 64 * row_width(name))
        steps = [words for *_, words in found]
    assert not [step for step in steps if step.startswith(("SCAN problems", "SCAN alerts", "SCAN tasks"))], steps


@pytest.mark.parametrize("name", ["prune_problems", "prune_decisions", "prune_messages", "forgotten"])
def test_pruning_reads_only_what_is_old(store: ExplainingStore, tmp_path: Path, name: str) -> None:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        found = connection.execute(f"EXPLAIN QUERY PLAN {query(name)}", {"cutoff": 1, "part": 1})
        steps = [words for *_, words in found]
    assert not [step for step in steps if step.startswith("SCAN")], steps
