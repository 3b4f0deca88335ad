"""Alerts in PostgreSQL while several nodes record, and what a node learns of problems of others' tasks."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import psycopg
import pytest
from waiting import eventually

from evenbeat.model import SECOND, Acknowledgement, Instant, State
from evenbeat.store.alert_records import (
    NONE_REFUSED,
    AlertBatch,
    AlertDecisionFilter,
    MessageAttempt,
    MessageEnd,
    MessageFilter,
    ProblemKey,
)
from evenbeat.store.cluster_contract import LeaseLost, ProblemRevision
from evenbeat.store.contract import Batch, ContradictoryBatch
from evenbeat.store.postgres import alert_changes
from evenbeat.store.postgres.alert_filters import decision_conditions, message_conditions
from evenbeat.store.postgres.batch_recorder import batch_statements
from evenbeat.store.postgres.connect import Connection, PostgresAddress
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.postgres.statements import fill_in, query
from evenbeat.testing.samples import (
    T0,
    a_claim,
    a_decision,
    a_finish,
    a_hold,
    a_message,
    a_problem_change,
    a_task,
    an_alert,
)
from evenbeat.testing.store_alerts import MAIL, WEBHOOK, keep, refused
from evenbeat.testing.store_problems import a_problem, change_problem

LONG: Final = 3600 * SECOND
ACK: Final = Acknowledgement(T0, "ann")


@pytest.fixture
def open_store(dsn: str) -> Iterator[Callable[[], PostgresStore]]:
    opened: list[PostgresStore] = []

    def open_() -> PostgresStore:
        opened.append(PostgresStore(dsn))
        return opened[-1]

    yield open_
    for store in opened:
        store.close()


@pytest.fixture
def a(open_store: Callable[[], PostgresStore]) -> PostgresStore:
    return open_store()


@pytest.fixture
def b(open_store: Callable[[], PostgresStore]) -> PostgresStore:
    return open_store()


@contextmanager
def recording(dsn: str) -> Iterator[Connection]:
    """A node in the middle of a transaction."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = evenbeat")
        connection.execute("BEGIN")
        yield connection


def is_waiting(store: PostgresStore) -> bool:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return bool(store._readers.all(asked)[0][0])


def record_within(connection: Connection, batch: AlertBatch) -> None:
    alert_changes.lock_contacts(connection, [batch])
    alert_changes.known(connection, alert_changes.ask(connection, batch))
    alert_changes.write(connection, batch)


# Several nodes


def test_what_another_node_has_recorded_is_refused_and_read_again(a: PostgresStore, b: PostgresStore) -> None:
    problem = a_problem(a).id
    keep(a, an_alert(problem))
    keep(b, an_alert(problem, version=1, sent=2))
    stale = an_alert(problem, version=1, sent=3)
    assert keep(a, stale) == refused(stale)
    (row,) = a.alerts(problem)
    assert keep(a, row._replace(sent=3)) == NONE_REFUSED
    assert b.alerts(problem) == [an_alert(problem, version=3, sent=3)]


@pytest.mark.parametrize("version", [0, 1])
def test_of_two_nodes_that_record_a_row_at_once_the_second_is_refused(a: PostgresStore, dsn: str, version: int) -> None:
    """It waits for the first, also if there is no row yet that could be locked; its message and both alerts go."""
    first, second = a_problem(a), a_problem(a, "b")
    message = a.reserve_messages(1)
    keep(a, *(an_alert(problem.id) for problem in (first, second)[: 2 * version]))
    rows = [an_alert(problem.id, version=version, message=message) for problem in (first, second)]
    batch = AlertBatch(rows, [a_decision(*row.key) for row in rows], [a_message(message)])
    with recording(dsn) as node, ThreadPoolExecutor(1) as other:
        record_within(node, AlertBatch([an_alert(first.id, version=version, sent=2)]))
        answer = other.submit(lambda: a.record_alerts(batch).result())
        eventually(lambda: is_waiting(a))
        node.execute("COMMIT")
        assert answer.result() == refused(*rows, messages=(message,))
    assert a.alerts(first.id) == [an_alert(first.id, version=version + 1, sent=2)]
    assert (a.messages(), a.alert_decisions()) == ([], [])


def test_a_message_ends_once_whoever_ends_it(a: PostgresStore, dsn: str) -> None:
    message = a.reserve_messages(1)
    a.record_alerts(AlertBatch(messages=[a_message(message)])).result()
    ends = [AlertBatch(message_ends=[MessageEnd(message, T0, state)]) for state in ("delivered", "given up")]
    with recording(dsn) as node, ThreadPoolExecutor(1) as other:
        record_within(node, ends[0])
        answer = other.submit(lambda: a.record_alerts(ends[1]).result())
        eventually(lambda: is_waiting(a))
        node.execute("COMMIT")
        assert answer.result() == refused(messages=(message,))
    assert a.messages()[0].state == "delivered"


def test_nodes_that_record_other_contacts_do_not_wait_for_each_other(a: PostgresStore, dsn: str) -> None:
    problem = a_problem(a)
    with recording(dsn) as node:
        record_within(node, AlertBatch([an_alert(problem.id, WEBHOOK)], [a_decision(problem.id)]))
        assert keep(a, an_alert(problem.id, MAIL)) == NONE_REFUSED
        change_problem(a, problem.number, at=T0 + 1, state=State.WARNING)
        assert a.acknowledge([problem.id], ACK, T0, "ann") == [problem.id]
        node.execute("COMMIT")
    assert [row.channel for row in a.alerts(problem.id)] == [MAIL, WEBHOOK]


def test_a_problem_that_is_pruned_meanwhile_waits_for_its_alert(a: PostgresStore, dsn: str) -> None:
    problem = a_problem(a)
    change_problem(a, problem.number, at=T0 + 5, is_open=False)
    with recording(dsn) as node, ThreadPoolExecutor(1) as other:
        record_within(node, AlertBatch([an_alert(problem.id)], [a_decision(problem.id)]))
        pruned = other.submit(a.prune, Instant(T0 + 10 * LONG), LONG)
        eventually(lambda: is_waiting(a))
        node.execute("COMMIT")
        pruned.result()
    left = a.find_problem(problem.id) is not None
    assert left is bool(a.alerts(problem.id)) is bool(a.alert_decisions())


def test_a_node_without_its_lease_records_no_alert(a: PostgresStore, b: PostgresStore) -> None:
    problem = a_problem(a).id
    a.join("a", LONG, b"")
    epoch = b.join("b", -SECOND, b"")
    assert a.revoke_expired_lease("b", epoch)
    batch = AlertBatch([an_alert(problem)], [a_decision(problem)], [a_message(b.reserve_messages(1))])
    assert isinstance(b.record_alerts(batch).exception(), LeaseLost)
    assert (a.alerts(problem), a.alert_decisions(), a.messages()) == ([], [], [])
    assert a.record_alerts(batch).result() == NONE_REFUSED


def test_ids_of_messages_are_never_given_to_two_nodes(open_store: Callable[[], PostgresStore]) -> None:
    stores = [open_store() for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: stores[i % 4].reserve_messages(i), range(1, 41)))
    given = [id_ for first, count in zip(found, range(1, 41), strict=True) for id_ in range(first, first + count)]
    assert sorted(given) == list(range(1, 821))


# One node


def test_what_waits_together_is_recorded_in_order(a: PostgresStore, dsn: str) -> None:
    """Batches and alert batches wait behind a lock; each sees what was submitted before it, and none is harmed."""
    numbers = [entry.number for entry in a.create([a_task(name, check=True) for name in "abc"], "me", T0)]
    futures: list[Any] = []
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE evenbeat.problems IN ACCESS EXCLUSIVE MODE")
        futures.append(a.record(Batch(problems=[a_problem_change(number) for number in numbers])))
        futures.append(a.record_alerts(AlertBatch([an_alert(1)], [a_decision(1)])))
        futures.append(a.record_alerts(AlertBatch([an_alert(1, version=1, sent=1), an_alert(2)])))
        futures.append(a.record(Batch(finishes=[a_finish(numbers[0])])))
        futures.append(a.record_alerts(AlertBatch([an_alert(1, version=7)])))
        futures.append(a.record_alerts(AlertBatch([an_alert(1, version=2, sent=2), an_alert(3)])))
        eventually(lambda: is_waiting(a))
    outcomes = [type(e) if (e := future.exception()) else future.result() for future in futures]
    assert outcomes == [
        frozenset(),
        NONE_REFUSED,
        NONE_REFUSED,
        ContradictoryBatch,
        refused(an_alert(1)),
        NONE_REFUSED,
    ]
    assert [a.alerts(id_) for id_ in (1, 2, 3)] == [
        [an_alert(1, version=3, sent=2)],
        [an_alert(2, version=1)],
        [an_alert(3, version=1)],
    ]


def test_values_that_cannot_be_sent_harm_nothing_beside_them(a: PostgresStore) -> None:
    problem = a_problem(a).id
    bad: Any = object()
    first = a.record_alerts(AlertBatch([an_alert(problem)]))
    broken = a.record_alerts(AlertBatch([an_alert(problem, MAIL, last_sent=bad)]))
    surrogate = a.record_alerts(AlertBatch(decisions=[a_decision(problem, reason="\ud800")]))
    last = a.record_alerts(AlertBatch([an_alert(problem, version=1, sent=2)]))
    assert (first.result(), last.result()) == (NONE_REFUSED, NONE_REFUSED)
    assert broken.exception() is not None
    assert surrogate.exception() is not None
    assert a.alerts(problem) == [an_alert(problem, version=2, sent=2)]
    assert a.record(Batch()).result() == frozenset()


# What has changed of problems


class Watch:
    """A node that asks again and again what has changed."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._revision = store.problem_revision()

    def changed(self) -> list[int]:
        found = self._store.problems_changed_since(self._revision)
        self._revision = found.revision
        everything = {problem.id: problem for problem, _ in self._store.alert_problems(range(1, 100))}
        assert [everything[problem.id] for problem in found.problems] == found.problems
        return [problem.id for problem in found.problems]


def test_each_change_of_a_problem_is_seen_once_and_nothing_else(a: PostgresStore, b: PostgresStore) -> None:
    a_problem(a, "other")
    watch = Watch(b)
    number = a_problem(a).number
    steps: list[tuple[Callable[[], object], list[int]]] = [
        (lambda: None, [2]),
        (lambda: None, []),
        (lambda: change_problem(a, number, at=T0 + 1, state=State.WARNING), [2]),
        (lambda: a.record(Batch(holds=[a_hold(number, at=T0 + 2)])).result(), [2]),
        (lambda: a.record(Batch(holds=[a_hold(number, at=T0 + 2)])).result(), []),
        (lambda: a.acknowledge([2], ACK, T0, "ann"), [2]),
        (lambda: a.acknowledge([2], None, T0, "ann"), [2]),
        (lambda: a.comment([2], "x", T0, "ann"), []),
        (lambda: keep(a, an_alert(2)), []),
        (lambda: a.record(Batch(claims=[a_claim(number)])).result(), []),
        (lambda: a.remove([number], T0), [2]),
        (lambda: a.create([a_task("a", check=True)], "me", T0), [2]),
        (lambda: change_problem(a, number, opened=T0 + 9), [2, 3]),
        (lambda: change_problem(a, number, opened=T0 + 9, at=T0 + 10, is_open=False), [3]),
        (lambda: change_problem(a, number, opened=T0 + 9, at=T0 + 11, is_open=False), []),
    ]
    for place, (do, seen) in enumerate(steps):
        do()
        assert (place, watch.changed()) == (place, seen)


def test_what_is_committed_later_than_it_was_changed_is_not_missed(a: PostgresStore, dsn: str) -> None:
    """Transactions become visible in another order than that of what they write."""
    problems = [a_problem(a, name) for name in "abc"]
    watch = Watch(a)
    with recording(dsn) as slow:
        for text, values, _ in batch_statements(Batch(problems=[a_problem_change(problems[0].number, at=T0 + 1)])):
            slow.execute(text, values)
        change_problem(a, problems[1].number, at=T0 + 2)
        seen = [watch.changed()]
        change_problem(a, problems[2].number, at=T0 + 3)
        seen.append(watch.changed())
        slow.execute("COMMIT")
    seen.append(watch.changed())
    assert [problems[i].id in some for i, some in ((1, seen[0]), (2, seen[1]), (0, seen[2]))] == [True] * 3
    assert watch.changed() == []


def test_a_database_that_was_restored_from_a_dump_does_not_return_the_same_for_ever(a: PostgresStore, dsn: str) -> None:
    """Its problems were changed by transactions with numbers that are yet to come here."""
    problem = a_problem(a)
    with psycopg.connect(dsn, autocommit=True) as restored:
        restored.execute("UPDATE evenbeat.problems SET changed_by = 1 << 60")
    watch = Watch(a)
    assert watch.changed() == []
    change_problem(a, problem.number, at=T0 + 1)
    assert watch.changed() == [problem.id]
    assert [p.id for p in a.problems_changed_since(ProblemRevision(0, 0)).problems] == [problem.id]


# What is read for it


def steps_of(dsn: str, statement: str, values: Any, *, by_key: bool) -> list[str]:
    """The steps of a plan that read a table."""
    with PostgresAddress(dsn).connect(by_key=by_key) as connection:
        if not by_key:
            # Of so few rows the planner may read a table as a whole; here it does so only if no index serves.
            connection.execute("SET enable_seqscan = off")
        found = connection.execute(f"EXPLAIN {statement}", values).fetchall()
    return [step for (step,) in found if "Scan" in step]


@pytest.fixture
def full(a: PostgresStore) -> PostgresStore:
    """2,000 problems with two alerts each, and no statistics."""
    entries = a.create([a_task(f"t{i}", check=True) for i in range(2_000)], "me", T0)
    a.record(Batch(problems=[a_problem_change(entry.number) for entry in entries])).result()
    rows = [an_alert(id_, channel) for id_ in range(1, 2_001) for channel in (WEBHOOK, MAIL)]
    first = a.reserve_messages(2_000)
    new = [a_message(first + i, f"c{i}/email/1") for i in range(2_000)]
    a.record_alerts(AlertBatch(rows, [a_decision(*row.key) for row in rows], new)).result()
    return a


def test_alerts_are_looked_up_when_they_are_recorded(full: PostgresStore, dsn: str) -> None:
    asked: list[tuple[str, Any]] = [
        *((text, values) for text, values, _ in batch_statements(Batch(holds=[a_hold(i) for i in range(1, 500)]))),
        (query("known_alerts"), ("{1,2,3}",)),
        (query("known_problems"), ("{1,2,3}",)),
        (query("known_messages"), ("{1,2,3}",)),
    ]

    class Explained:
        def execute(self, text: str, values: Any, prepare: bool = False) -> None:
            asked.append((text, values))

    explained: Any = Explained()
    batch = AlertBatch(
        [an_alert(1, version=1)], [a_decision(1)], [a_message(9_999)], [MessageAttempt(1, 1, None, T0)],
        [MessageEnd(2, T0, "delivered")],
    )  # fmt: skip
    alert_changes.write(explained, batch)
    assert len(asked) == 11
    for text, values in asked:
        steps = steps_of(dsn, text, values, by_key=True)
        assert not [step for step in steps if "Seq Scan" in step], (text, steps)


@pytest.mark.parametrize(
    ("statement", "values", "table"),
    [
        (query("problem_ids"), ("{1,2}", "{state,state}", f"{{{T0},{T0}}}"), "problems_by_task"),
        (fill_in("alert_problems", ":filter", "p.id = ANY(%s)"), ([1, 2],), "alerts"),
        (query("alerts"), ([1],), "alerts"),
        *(
            (fill_in("alert_decisions", ":filter", condition), (*values, 100), index)
            for (condition, values), index in (
                (decision_conditions(AlertDecisionFilter(problem=7)), "by_problem"),
                (decision_conditions(AlertDecisionFilter(task="t7")), "by_problem"),
                (decision_conditions(AlertDecisionFilter(since=Instant(T0), until=Instant(T0 + 1))), "by_time"),
                (decision_conditions(AlertDecisionFilter()), "by_time"),
            )
        ),
        *(
            (fill_in("messages", ":filter", condition), (*values, 100), index)
            for (condition, values), index in (
                (message_conditions(MessageFilter(channel="c7/email/1")), "by_channel"),
                (message_conditions(MessageFilter(contact="c7")), "by_contact"),
                (message_conditions(MessageFilter(ids=(1, 2))), "messages_pkey"),
            )
        ),
    ],
)  # fmt: skip
def test_what_is_asked_for_is_looked_up(full: PostgresStore, dsn: str, statement: str, values: Any, table: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("ANALYZE evenbeat.alerts, evenbeat.alert_decisions, evenbeat.messages, evenbeat.problems")
    steps = steps_of(dsn, statement, values, by_key=False)
    assert any(table in step for step in steps), steps
    assert not [step for step in steps if "Seq Scan" in step and "on tasks" not in step], steps


def test_problems_are_found_by_thousands_of_keys(full: PostgresStore) -> None:
    numbers = {problem.number: problem.id for problem in full.problems()}
    keys = [ProblemKey(number, "state", T0 + i % 2) for i, number in enumerate(numbers)]
    assert full.problem_ids(keys) == [None if i % 2 else numbers[key.task] for i, key in enumerate(keys)]
