"""PostgreSQL stops, restarts, or does not answer: nothing is lost, and nothing is stored twice."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

import psycopg
import pytest

from evenbeat.store.alert_records import NONE_REFUSED, AlertBatch, AlertRecord
from evenbeat.store.contract import Batch, StoreError
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.postgres_server import PostgresServer
from evenbeat.testing.samples import T0, a_claim, a_decision, a_finish, a_task, an_alert
from evenbeat.testing.store_alerts import MAIL, WEBHOOK, refused
from evenbeat.testing.store_problems import a_problem

_READY: Final = b"Z\0\0\0\5I"
"""The last message of the server about a transaction: it is committed."""


class Pair:
    """Two ends of one connection through the proxy."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.is_muted = False
        self.ended = threading.Event()

    def cut(self) -> None:
        for end in (self.client, self.server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


Fault = Callable[[Pair, bytes], None]


class Proxy:
    """A proxy between a store and its server. The fault happens once, when the store sends marked data."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._mark: bytes = b""
        self._fault: Fault | None = None
        self.struck = False
        self._pairs: list[Pair] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def strike(self, mark: bytes, fault: Fault) -> None:
        self._mark, self._fault = mark, fault

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                pair = Pair(client, socket.create_connection(("127.0.0.1", self._port)))
                self._pairs.append(pair)
                threading.Thread(target=self._up, args=(pair,), daemon=True).start()
                threading.Thread(target=self._down, args=(pair,), daemon=True).start()

    def _up(self, pair: Pair) -> None:
        with suppress(OSError):
            while piece := pair.client.recv(1 << 20):
                fault = self._fault
                if fault is not None and self._mark in piece:
                    self._fault, self.struck = None, True
                    fault(pair, piece)
                else:
                    pair.server.sendall(piece)

    def _down(self, pair: Pair) -> None:
        with suppress(OSError):
            while piece := pair.server.recv(1 << 20):
                if not pair.is_muted:
                    pair.client.sendall(piece)
                elif piece.endswith(_READY):
                    pair.cut()
        pair.ended.set()
        pair.cut()

    def close(self) -> None:
        self._socket.close()
        for pair in self._pairs:
            pair.cut()
            assert pair.ended.wait(20)
            pair.client.close()
            pair.server.close()


def answer_lost(pair: Pair, piece: bytes) -> None:
    """The server commits the transaction, and its answer is lost."""
    pair.is_muted = True
    pair.server.sendall(piece)


def never_sent(pair: Pair, piece: bytes) -> None:
    """The connection is cut before the server receives the transaction."""
    pair.cut()


class Late:
    """The store considers the transaction lost; the server receives it later."""

    def __init__(self) -> None:
        self.pair: Pair | None = None
        self.pieces = b""

    def __call__(self, pair: Pair, piece: bytes) -> None:
        self.pair, self.pieces = pair, piece
        pair.is_muted = True
        pair.client.settimeout(0.2)
        with suppress(TimeoutError):
            while more := pair.client.recv(1 << 20):
                self.pieces += more
        pair.client.shutdown(socket.SHUT_RDWR)

    def deliver(self) -> None:
        assert self.pair is not None
        self.pair.server.sendall(self.pieces)
        with suppress(OSError):  # the server may have answered and gone by then
            self.pair.server.shutdown(socket.SHUT_WR)
        assert self.pair.ended.wait(20)


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    made = Proxy(_port(dsn))
    yield made
    made.close()


@pytest.fixture
def store(dsn: str, proxy: Proxy) -> Iterator[PostgresStore]:
    made = PostgresStore(dsn.replace(f":{_port(dsn)}/", f":{proxy.port}/"))
    yield made
    made.close()


def _port(dsn: str) -> int:
    return int(dsn.rsplit(":", 1)[1].partition("/")[0])


def is_kept_once(store: PostgresStore, task: int) -> bool:
    return [run.output for run in store.runs(task)] == ["the marked one"]


# What became of it?


@pytest.mark.parametrize("fault", [answer_lost, never_sent])
def test_what_was_recorded_as_the_connection_broke_is_kept_once(
    store: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    (entry,) = store.create([a_task("a")], "me", T0)
    store.record(Batch(claims=[a_claim(entry.number)])).result()
    proxy.strike(b"the marked one", fault)
    store.record(Batch(finishes=[a_finish(entry.number, output="the marked one")])).result(20)
    assert proxy.struck
    assert is_kept_once(store, entry.number)
    store.record(Batch(claims=[a_claim(entry.number)])).result()


def test_what_reaches_the_server_too_late_is_not_kept_twice(store: PostgresStore, proxy: Proxy, dsn: str) -> None:
    a, b = store.create([a_task("a"), a_task("b")], "me", T0)
    late = Late()
    store.record(Batch(claims=[a_claim(a.number)])).result()
    assert store._recorder is not None
    proxy.strike(store._recorder.session.writer.encode(), late)
    store.record(Batch(finishes=[a_finish(a.number, output="ENDED LATE")], claims=[a_claim(b.number)])).result(20)
    assert late.pair is not None
    store.record(Batch(finishes=[a_finish(b.number)], claims=[a_claim(a.number)])).result()
    # All that it needs is there again: without its number the server would take it.
    late.deliver()
    assert [run.output for run in store.runs(a.number)] == ["", "ENDED LATE"]
    assert [run.ended is None for run in store.runs(a.number)] == [True, False]
    assert len(store.runs(b.number)) == 1


@pytest.mark.parametrize("fault", [answer_lost, never_sent])
def test_a_change_that_was_made_as_the_connection_broke_is_made_once(
    store: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    store.create([a_task("a")], "me", T0)
    proxy.strike(b"COMMIT", fault)
    (entry,) = store.create([a_task("b")], "me", T0)
    assert proxy.struck
    assert store.find("b") == entry
    assert [change.name for change in store.changes()] == ["b", "a"]


@pytest.mark.parametrize("fault", [answer_lost, never_sent])
def test_partitions_that_were_taken_as_the_connection_broke_are_told_as_taken(
    store: PostgresStore, proxy: Proxy, fault: Fault
) -> None:
    store.join("a", 3_600_000_000, b"")
    proxy.strike(b"COMMIT", fault)
    taken = store.take([1, 2])
    assert proxy.struck
    assert (taken.partitions, taken.new) == ([1, 2], [1, 2])


@pytest.mark.parametrize(
    ("mark", "fault"),
    [(b"the marked one", answer_lost), (b"the marked one", never_sent), (b"the marked contact", never_sent)],
)
def test_alerts_that_were_recorded_as_the_connection_broke_are_kept_once(
    store: PostgresStore, proxy: Proxy, mark: bytes, fault: Fault
) -> None:
    """In the question what is known, or as it was written and committed."""
    problem = a_problem(store).id
    contact = AlertRecord(problem, WEBHOOK, "the marked contact", 0, sent=3)
    stale = an_alert(problem, MAIL, version=7)
    decisions = [a_decision(problem, WEBHOOK, reason="the marked one"), a_decision(problem, MAIL)]
    proxy.strike(mark, fault)
    answer = store.record_alerts(AlertBatch([contact, stale], decisions)).result(20)
    assert proxy.struck
    assert answer == refused(stale)
    assert store.alerts(problem) == [contact._replace(version=1)]
    assert [found.decision.reason for found in store.alert_decisions()] == ["the marked one"]
    assert store.record_alerts(AlertBatch([contact._replace(version=1)])).result() == NONE_REFUSED


# Restarts


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_restart_of_the_server_under_load_loses_nothing_and_doubles_nothing(
    dsn: str, postgres: PostgresServer, mode: str
) -> None:
    store = PostgresStore(dsn)
    numbers = [entry.number for entry in store.create([a_task(f"t{i}") for i in range(20)], "me", T0)]
    restart = threading.Thread(target=postgres.restart, args=(mode,))
    failures = 0
    rounds = 0
    while rounds < 40 or restart.is_alive():
        if rounds == 20 and not restart.ident:
            restart.start()
        for batch in (
            Batch(claims=[a_claim(n, T0 + rounds) for n in numbers]),
            Batch(finishes=[a_finish(n, T0 + rounds) for n in numbers]),
        ):
            while (error := store.record(batch).exception(30)) is not None:
                # As the outbox does: what was not kept is offered again. Kept twice, it would be a contradiction.
                assert type(error) is StoreError, error
                failures += 1
        rounds += 1
    restart.join()
    assert len(store.runs(most=100_000)) == rounds * 20
    assert [progress.claimed for progress in store.progress() if progress.claimed] == []
    assert store.create([a_task("after")], "me", T0)
    store.close()


def test_a_server_that_is_away_is_said_to_be_and_all_goes_on_when_it_is_back(
    dsn: str, postgres: PostgresServer
) -> None:
    store = PostgresStore(dsn)
    store.create([a_task("a")], "me", T0)
    assert store.count() == 1
    postgres.stop()
    try:
        for ask in (
            store.count,
            lambda: list(store.entries()),
            lambda: store.create([a_task("b")], "me", T0),
            lambda: store.record(Batch()).result(),
            store.view,
        ):
            with pytest.raises(StoreError, match=r"cannot be reached.*goes on by itself"):
                ask()
    finally:
        postgres.start()
    assert store.count() == 1
    assert [entry.task.name for entry in store.entries()] == ["a"]
    store.create([a_task("b")], "me", T0)
    store.record(Batch()).result()
    store.close()


def test_nobody_is_left_idle_in_a_transaction(dsn: str) -> None:
    store = PostgresStore(dsn)
    store.create([a_task(f"t{i}") for i in range(5_000)], "me", T0)
    reading = store.entries()
    next(reading)
    store.record(Batch()).result()
    with psycopg.connect(dsn, autocommit=True) as other:
        asked = (
            "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%' "
            "AND datname = current_database()"
        )
        assert other.execute(asked).fetchone() == (0,)
    assert len(list(reading)) == 4_999
    store.close()
