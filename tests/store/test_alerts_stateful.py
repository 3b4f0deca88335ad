"""After any sequence of alert batches, changes of problems, removals and pruning, every store has what MemoryStore has,
and the rules of refusals hold.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from budget import examples
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from evenbeat.model import DAY, HOUR, SEVERITY, Acknowledgement, Cause, Instant, State
from evenbeat.store.alert_records import (
    WAITING,
    AlertBatch,
    AlertDecision,
    AlertDecisionFilter,
    AlertRecord,
    AlertRefusals,
    MessageAttempt,
    MessageEnd,
    MessageFilter,
    MessagePart,
    MessageRecord,
    ProblemKey,
)
from evenbeat.store.contract import Batch, Conflict, ProblemFilter, Store, StoreError
from evenbeat.store.memory import MemoryStore
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.problem_records import ProblemChange, ProblemHold
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.samples import T0, a_finish, a_task

ANY: Final = ProblemFilter(is_open=None)
CHANNELS: Final = ("ops/send/1", "ops/webhook/2", "boss\0/email/3")
WORDS: Final = ("", "downtime", "é\0'\"\\")

numbers = st.integers(1, 3)
times = st.integers(0, 6).map(lambda n: Instant(T0 + n * DAY))
or_zero = st.just(0) | times
problem_ids = st.integers(0, 8)
message_ids = st.integers(0, 8)
channels = st.sampled_from(CHANNELS)
words = st.sampled_from(WORDS)
changes = st.builds(
    lambda task, opened, at, state, is_open: ProblemChange(
        task, Cause.STATE.value, opened, at, int(state), SEVERITY[state], is_open
    ),
    numbers,
    times,
    times,
    st.sampled_from(State),
    st.booleans(),
)
alerts = st.builds(
    AlertRecord, problem_ids, channels, st.sampled_from(["ops", "boss\0"]), st.integers(0, 1), st.integers(0, 3),
    st.booleans(), or_zero, words, st.booleans(), or_zero, or_zero, words, or_zero, st.just(0) | message_ids,
    st.booleans(),
)  # fmt: skip
decisions = st.builds(
    AlertDecision, times, problem_ids, channels, st.sampled_from(["ops", "boss\0"]),
    st.sampled_from(["sent", "waiting"]), words, message_ids, words,
)  # fmt: skip
messages = st.builds(
    MessageRecord, message_ids.filter(bool), channels, st.sampled_from(["ops", "boss\0"]), times, st.integers(0, 9),
    st.binary(max_size=3), st.just(WAITING), st.integers(0, 2), st.none() | times, st.none() | times, st.booleans(),
    error=words, detail=words, is_complete=st.booleans(),
)  # fmt: skip
parts = st.builds(MessagePart, message_ids, st.integers(0, 9), st.binary(max_size=3), st.booleans())
attempts = st.builds(
    MessageAttempt, message_ids, st.integers(0, 9), st.none() | times, st.none() | times, words, words, st.booleans()
)
ends = st.builds(MessageEnd, message_ids, times, st.sampled_from(["delivered", "given up"]), words, words)


def few(of: st.SearchStrategy[Any], key: Callable[[Any], object]) -> st.SearchStrategy[list[Any]]:
    return st.lists(of, max_size=3, unique_by=key)


batches = st.builds(
    AlertBatch,
    st.lists(alerts, max_size=6, unique_by=lambda row: row.key),
    st.lists(decisions, max_size=4),
    few(messages, lambda new: new.id),
    few(attempts, lambda attempt: attempt.message),
    few(ends, lambda end: end.message),
    few(parts, lambda part: part.message),
)
decision_filters = st.builds(
    AlertDecisionFilter, st.none() | problem_ids, st.none() | st.sampled_from(["a", "b", "z"]),
    st.none() | st.sampled_from(["ops", "boss\0"]), st.none() | times, st.none() | times,
    st.none() | st.tuples(times, st.integers(0, 9)), st.sampled_from([1, 3, 1_000]),
)  # fmt: skip
message_filters = st.builds(
    MessageFilter, st.none() | channels, st.none() | st.sampled_from(["ops", "boss\0"]),
    st.none() | st.sampled_from(["waiting", "delivered"]), st.lists(message_ids, max_size=3).map(tuple),
    st.none() | times, st.none() | st.integers(0, 9), st.sampled_from([1, 3, 1_000]),
)  # fmt: skip


class AlertStores(RuleBasedStateMachine):
    """A model, and another store that must answer alike."""

    make_store: Callable[[Path], Store]

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.now = T0
        self.model: Store = MemoryStore()
        self.store = self.make_store(Path(self.folder.name))
        self.both(lambda store: len(store.create([a_task(name, check=True) for name in "abc"], "me", T0)))
        self.both(lambda store: store.reserve_messages(8))
        opened = [ProblemChange(task, "state", T0, T0, 2, 3, is_open=True) for task in (1, 2, 3)]
        self.both(lambda store: store.record(Batch(problems=opened)).result())

    def both(self, do: Callable[[Store], object]) -> Any:
        """Both do the same, or refuse it in the same way."""
        outcomes: list[object] = []
        for store in (self.model, self.store):
            try:
                outcomes.append(do(store))
            except (Conflict, StoreError) as e:
                outcomes.append(type(e))
        assert outcomes[0] == outcomes[1]
        return outcomes[0]

    def with_known_versions(self, batch: AlertBatch) -> AlertBatch:
        """Most rows have the version that is expected: 0 is replaced by it."""
        known = {row.key: row.version for row in self.rows()}
        rows = [row if row.version else row._replace(version=known.get(row.key, 0)) for row in batch.alerts]
        return AlertBatch(rows, batch.decisions, batch.messages, batch.attempts, batch.message_ends, batch.parts)

    def rows(self) -> list[AlertRecord]:
        return [row for problem in range(9) for row in self.model.alerts(problem)]

    @rule(days=st.integers(0, 3))
    def wait(self, days: int) -> None:
        self.now = Instant(self.now + days * DAY + HOUR)

    @rule(some=st.lists(changes, min_size=1, max_size=4), word=st.sampled_from(["", "downtime"]))
    def change(self, some: list[ProblemChange], word: str) -> None:
        held = [ProblemHold(change.task, change.cause, change.opened, word, change.at) for change in some]
        self.both(lambda store: store.record(Batch(problems=some, holds=held)).result())

    @rule(task=numbers, back=st.booleans())
    def remove(self, task: int, back: bool) -> None:
        self.both(lambda store: store.remove([task], self.now))
        if back:
            self.both(lambda store: [e.number for e in store.create([a_task("z", check=True)], "me", self.now)])

    @rule(some=st.lists(problem_ids, max_size=2))
    def acknowledge(self, some: list[int]) -> None:
        ack = Acknowledgement(self.now, "ann", "\0")
        self.both(lambda store: store.acknowledge(some, ack, self.now, "ann"))

    @rule(count=st.integers(1, 3))
    def reserve(self, count: int) -> None:
        self.both(lambda store: store.reserve_messages(count))

    @rule(batch=batches)
    def record(self, batch: AlertBatch) -> None:
        batch = self.with_known_versions(batch)
        before = {row.key: row for row in self.rows()}
        refused = self.both(lambda store: store.record_alerts(batch).result())
        self.must_follow_the_rules(batch, before, refused)

    @rule(some=st.lists(batches, min_size=2, max_size=4), change=changes)
    def record_several(self, some: list[AlertBatch], change: ProblemChange) -> None:
        """They are committed together, or one after the other, in their order."""
        first = self.with_known_versions(some[0])
        later = [AlertBatch([r._replace(version=1) for r in b.alerts], b.decisions, b.messages) for b in some[1:]]

        def record(store: Store) -> list[object]:
            futures: list[Any] = [store.record_alerts(first), store.record(Batch(problems=[change]))]
            futures += [store.record_alerts(batch) for batch in later]
            return [future.result() for future in futures]

        self.both(record)

    @rule(batch=batches)
    def refuse(self, batch: AlertBatch) -> None:
        """A batch that contradicts the store, or itself, does not harm what is recorded beside it."""
        twice = AlertBatch(batch.alerts + batch.alerts[:1], batch.decisions)

        def record(store: Store) -> list[object]:
            futures: list[Any] = [store.record(Batch(finishes=[a_finish(77)]))]
            futures += [store.record_alerts(some) for some in (batch, twice)]
            return [type(e) if (e := future.exception()) else future.result() for future in futures]

        self.both(record)

    def must_follow_the_rules(self, batch: AlertBatch, before: dict[Any, AlertRecord], refused: AlertRefusals) -> None:
        after = {row.key: row for row in self.rows()}
        expected = dict(before)
        for row in batch.alerts:
            known = before.get(row.key)
            if row.key in refused.alerts:
                assert after.get(row.key) == known
                continue
            assert row.version == (known.version if known else 0)
            expected[row.key] = row._replace(version=row.version + 1)
            assert row.message not in refused.messages & {new.id for new in batch.messages}
        assert after == expected
        there = {message.id: message for message in self.model.messages(MessageFilter(most=1_000))}
        for new in batch.messages:
            told = {row.key for row in batch.alerts if row.message == new.id}
            if new.id in refused.messages:
                assert told <= refused.alerts
            else:
                assert new.id in there
                assert not told & refused.alerts
        for part in batch.parts:
            told = {row.key for row in batch.alerts if row.message == part.message}
            if part.message in refused.messages:
                assert told <= refused.alerts
            else:
                assert there[part.message].is_complete is part.is_last
                assert not told & refused.alerts
        for end in batch.message_ends:
            if end.message not in refused.messages:
                found = there[end.message]
                assert (found.state, found.ended, found.started_attempt) == (end.state, end.at, None)

    @rule(keep=st.integers(0, 6))
    def prune(self, keep: int) -> None:
        waiting = {row.problem for row in self.rows() if not row.is_over}

        def all_of_it(store: Store) -> None:
            while store.prune(self.now, keep * DAY):
                pass

        self.both(all_of_it)
        assert waiting <= {problem.id for problem, _ in self.model.alert_problems(range(9))}

    @rule(only=decision_filters)
    def find_decisions(self, only: AlertDecisionFilter) -> None:
        self.both(lambda store: store.alert_decisions(only))

    @rule(only=message_filters)
    def find_messages(self, only: MessageFilter) -> None:
        self.both(lambda store: store.messages(only))

    @rule(keys=st.lists(st.builds(ProblemKey, numbers, st.sampled_from(["state", "failed"]), times), max_size=5))
    def find_ids(self, keys: list[ProblemKey]) -> None:
        self.both(lambda store: store.problem_ids(keys))

    @invariant()
    def they_have_the_same(self) -> None:
        found = self.both(lambda store: store.problems(ANY))
        ids = [problem.id for problem in found]
        whole = self.both(lambda store: store.alert_problems(ids))
        is_open = {problem.id for problem in found if problem.closed is None}
        started = self.both(lambda store: list(store.open_alert_problems()))
        assert started == [
            (problem, rows) for problem, rows in whole if problem.id in is_open or not all(row.is_over for row in rows)
        ]
        by_id = {problem.id: problem for problem in found}
        for problem, rows in whole:
            record = by_id[problem.id]
            assert (problem.hold, problem.held_since, problem.closed) == (record.hold, record.held_since, record.closed)
            assert self.both(lambda store, id_=problem.id: store.alerts(id_)) == rows  # type: ignore[misc]
        self.both(lambda store: store.alert_decisions(AlertDecisionFilter(most=1_000)))
        sent = self.both(lambda store: store.messages(MessageFilter(most=1_000)))
        assert self.both(lambda store: store.unfinished_messages()) == [m for m in sent[::-1] if m.state == WAITING]
        self.both(lambda store: [store.message_document(id_) for id_ in range(9)])

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()


def must_agree(make: Callable[[Path], Store], most: int) -> None:
    class Machine(AlertStores):
        make_store = staticmethod(make)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=most,
            stateful_step_count=25,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=[HealthCheck.too_slow],
            deadline=None,
        ),
    )


@pytest.mark.hypothesis
def test_sqlite_has_what_memory_has() -> None:
    must_agree(lambda folder: SqliteStore(folder / "x.db"), examples(40))


@pytest.mark.hypothesis
def test_postgres_has_what_memory_has(dsn: str, empty_database: Callable[[], None]) -> None:
    def make(_: Path) -> Store:
        empty_database()
        return PostgresStore(dsn)

    must_agree(make, examples(15))
