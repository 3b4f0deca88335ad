"""Problems in PostgreSQL while nodes record, people acknowledge, and tasks are removed at the same time."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import psycopg
import pytest
from waiting import eventually

from evenbeat.model import PARTITION_COUNT, SECOND, Acknowledgement, State, partition_of
from evenbeat.store.cluster_contract import LeaseLost
from evenbeat.store.contract import Batch, Filter, ProblemFilter
from evenbeat.store.postgres.batch_recorder import batch_statements
from evenbeat.store.postgres.connect import Connection, PostgresAddress
from evenbeat.store.postgres.filters import problem_conditions
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.postgres.statements import fill_in
from evenbeat.store.problem_records import ProblemChange
from evenbeat.testing.samples import T0, a_finish, a_problem_change, a_task
from evenbeat.testing.store_problems import ANY, a_problem, change_problem

LONG = 3600 * SECOND
ACK = Acknowledgement(T0, "ann")


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
def store(open_store: Callable[[], PostgresStore]) -> PostgresStore:
    return open_store()


@contextmanager
def recording(dsn: str) -> Iterator[Connection]:
    """A node in the middle of a transaction."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("SET search_path = evenbeat")
        connection.execute("BEGIN")
        yield connection


def record_within(connection: Connection, *changes: ProblemChange) -> None:
    for text, values, _ in batch_statements(Batch(problems=list(changes))):
        connection.execute(text, values)


def is_waiting(connection: Connection) -> bool:
    asked = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return connection.execute(asked).fetchone() is not None


def test_a_problem_that_opens_while_its_task_is_removed_is_closed(store: PostgresStore, dsn: str) -> None:
    """The batch does not see the removal, and is committed after it. Neither waits for the other."""
    (entry,) = store.create([a_task("a", check=True)], "me", T0)
    with recording(dsn) as node:
        record_within(node, a_problem_change(entry.number))
        store.remove([entry.number], T0)
        node.execute("COMMIT")
    (found,) = store.problems(ANY)
    assert (found.closed, found.reason) == (T0, "removed")
    assert (store.problems(), list(store.open_problems()), store.count_problems()) == ([], [], 0)
    assert store.acknowledge([found.id], ACK, T0, "ann") == []
    while store.prune(T0, -SECOND):
        pass
    assert store.problems(ANY) == []


def test_a_person_and_a_node_that_change_the_same_problems_wait_for_each_other(store: PostgresStore, dsn: str) -> None:
    """In opposite orders: without a lock for all of them, each would wait for the other for ever."""
    first, second = a_problem(store, "a"), a_problem(store, "b")
    with recording(dsn) as node, psycopg.connect(dsn, autocommit=True) as watching, ThreadPoolExecutor(1) as person:
        record_within(node, a_problem_change(second.number, T0, T0 + 1, State.WARNING))
        answer = person.submit(store.acknowledge, [first.id, second.id], ACK, T0, "ann")
        eventually(lambda: is_waiting(watching))
        record_within(node, a_problem_change(first.number, T0, T0 + 1, State.UNKNOWN))
        node.execute("COMMIT")
        assert answer.result() == [first.id, second.id]
    given = [problem.acknowledgement for problem in store.problems()]
    assert [(ack.severity, ack.worst_since) for ack in given if ack is not None] == [(1, 1), (2, 2)]


def test_nodes_do_not_wait_for_each_other(store: PostgresStore, dsn: str) -> None:
    first, second = a_problem(store, "a"), a_problem(store, "b")
    with recording(dsn) as node:
        record_within(node, a_problem_change(first.number, T0, T0 + 1, State.WARNING))
        change_problem(store, second.number, at=T0 + 1, state=State.WARNING)
        node.execute("COMMIT")
    assert [problem.state for problem in store.problems()] == [State.WARNING, State.WARNING]


def test_a_node_without_its_lease_opens_no_problem_but_its_users_acknowledge(
    open_store: Callable[[], PostgresStore],
) -> None:
    a, b = open_store(), open_store()
    opened = a_problem(a)
    a.join("a", LONG, b"")
    epoch = b.join("b", -SECOND, b"")
    assert a.revoke_expired_lease("b", epoch)
    with pytest.raises(LeaseLost):
        change_problem(b, opened.number, at=T0 + 5, is_open=False)
    assert a.problems() == [opened]
    assert b.acknowledge([opened.id], ACK, T0, "ann") == [opened.id]
    assert b.comment([opened.id], "known", T0, "ann") == [opened.id]
    assert [note.action for note in a.problem_notes(opened.id)] == ["acknowledged", "commented"]
    change_problem(a, opened.number, at=T0 + 5, is_open=False)
    assert b.problems() == []


def test_a_node_reads_the_open_problems_of_its_partitions(store: PostgresStore) -> None:
    numbers = [a_problem(store, name).number for name in "abc"]
    change_problem(store, numbers[1], at=T0 + 5, is_open=False)
    found = {number: list(store.open_problems_in([partition_of(number)])) for number in numbers}
    assert [[problem.task for problem in found[number]] for number in numbers] == [[numbers[0]], [], [numbers[2]]]
    assert list(store.open_problems_in(range(PARTITION_COUNT))) == list(store.open_problems())
    assert list(store.open_problems_in([])) == []


def test_thousands_are_acknowledged_in_the_order_of_the_question(store: PostgresStore) -> None:
    entries = store.create([a_task(f"t{i}", check=True) for i in range(2_500)], "me", T0)
    store.record(Batch(problems=[a_problem_change(entry.number) for entry in entries])).result()
    ids = [problem.id for problem in store.problems()]
    assert store.acknowledge([*ids, *ids[:9]], ACK, T0, "ann") == ids
    assert store.comment(ids, "x", T0, "ann") == ids
    assert store.acknowledge(ids[::2], None, T0, "ann") == ids[::2]
    assert sum(problem.acknowledgement is None for problem in store.problems()) == 1_250
    assert store.count_problems(ProblemFilter(Filter(names=("t1*",)))) == 1 + 10 + 100 + 1_000


def test_a_batch_looks_up_its_problems_and_reads_no_others(store: PostgresStore, dsn: str) -> None:
    """Also before the server has statistics, when it takes all tables for small ones."""
    entries = store.create([a_task(f"t{i}", check=True) for i in range(2_000)], "me", T0)
    store.record(Batch(problems=[a_problem_change(entry.number) for entry in entries])).result()
    changes = [a_problem_change(entry.number, at=T0 + 5, state=State.WARNING) for entry in entries]
    with PostgresAddress(dsn).connect(by_key=True) as connection:
        for text, values, _ in batch_statements(Batch(problems=changes)):
            found = connection.execute(f"EXPLAIN {text}", values).fetchall()
            steps = [step for (step,) in found if "Scan" in step]
            assert not [step for step in steps if "Seq Scan" in step or " problems_open " in step], steps


@pytest.mark.parametrize("is_open", [True, None])
def test_problems_of_a_task_are_looked_up(store: PostgresStore, dsn: str, is_open: bool | None) -> None:
    entries = store.create([a_task(f"t{i}", check=True) for i in range(2_000)], "me", T0)
    store.record(Batch(problems=[a_problem_change(entry.number) for entry in entries])).result()
    only = ProblemFilter(Filter(names=("t7", "t8")), is_open=is_open)
    assert [problem.task for problem in store.problems(only)] == ["t8", "t7"]
    condition, values = problem_conditions(only)
    with PostgresAddress(dsn).connect() as connection:
        connection.execute("ANALYZE tasks, problems")  # the plan must not depend on the server having done so
        statement = fill_in("problems", ":filter", condition)
        found = connection.execute(f"EXPLAIN {statement}", [*values, 1 << 60, 100]).fetchall()
    steps = [step for (step,) in found if " on problems" in step]
    assert steps, found
    assert all("by_task" in step for step in steps if "Index" in step), steps
    assert not [step for step in steps if "Seq Scan" in step], steps


def test_a_batch_without_problems_sends_nothing_about_problems() -> None:
    statements = [statement.text for statement in batch_statements(Batch(finishes=[a_finish(1)]))]
    assert [text for text in statements if "problem" in text] == []
