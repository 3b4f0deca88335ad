"""A database that has lost commits which it had confirmed: a node notices before it does anything else."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from evenbeat.model import SECOND
from evenbeat.store.cluster_contract import CommitsForgotten, LeaseLost
from evenbeat.store.contract import Batch
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.testing.samples import T0, a_claim, a_progress_record, a_task

LONG = 3600 * SECOND
QUIET = 60 * SECOND


class Server:
    """Does to the database what the promotion of a standby does: restores an earlier state and ends all connections."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    def do(self, *statements: str) -> None:
        with psycopg.connect(self._dsn, autocommit=True, options="-c search_path=evenbeat") as connection:
            for statement in statements:
                connection.execute(statement)

    def forget(self, *statements: str) -> None:
        self.do(
            *statements,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )


@pytest.fixture
def server(dsn: str) -> Server:
    return Server(dsn)


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
    store = open_store()
    store.join("a", LONG, b"", quiet=QUIET)
    return store


def test_a_lost_connection_alone_is_no_reason_to_worry(a: PostgresStore, server: Server) -> None:
    (entry,) = a.create([a_task("x")], "me", T0)
    a.renew(LONG, b"")
    a.record(Batch(standings=[a_progress_record(entry.number)])).result()
    server.forget()
    a.record(Batch(standings=[a_progress_record(entry.number)])).result()
    a.renew(LONG, b"")
    assert a.take([1]).quiet_until == 0


def test_a_renewal_that_is_missing_is_noticed(a: PostgresStore, server: Server) -> None:
    a.renew(LONG, b"")
    server.forget("UPDATE leases SET expires = expires - 1000000")
    with pytest.raises(CommitsForgotten):
        a.renew(LONG, b"")


def test_a_record_that_is_missing_is_noticed_before_the_next_and_when_the_lease_is_renewed(
    a: PostgresStore, server: Server
) -> None:
    (entry,) = a.create([a_task("x")], "me", T0)
    a.renew(LONG, b"")
    for _ in range(2):
        a.record(Batch(standings=[a_progress_record(entry.number)])).result()
    server.forget("UPDATE writers SET recorded = recorded - 1")
    with pytest.raises(CommitsForgotten):
        a.record(Batch(claims=[a_claim(entry.number)])).result()
    with pytest.raises(CommitsForgotten):
        a.renew(LONG, b"")
    assert not any(p.claimed_token for p in a.progress())


def test_partitions_that_were_given_and_forgotten_are_noticed_by_whoever_records(
    a: PostgresStore, server: Server
) -> None:
    (entry,) = a.create([a_task("x")], "me", T0)
    a.take([1])
    server.forget("DELETE FROM writers", "UPDATE partitions SET holder = NULL")
    with pytest.raises(CommitsForgotten):
        a.record(Batch(standings=[a_progress_record(entry.number)])).result()


def test_a_lease_that_was_forgotten_is_lost_like_any_other_and_the_next_node_is_careful(
    a: PostgresStore, server: Server
) -> None:
    (entry,) = a.create([a_task("x")], "me", T0)
    a.record(Batch(standings=[a_progress_record(entry.number)])).result()
    server.forget("DELETE FROM leases", "DELETE FROM writers")
    with pytest.raises(LeaseLost):
        a.renew(LONG, b"")
    a.join("b", LONG, b"", quiet=QUIET)
    assert a.take([1]).quiet_until > a.clock()


def test_a_node_that_was_buried_did_not_meet_a_database_that_forgot(
    a: PostgresStore, open_store: Callable[[], PostgresStore]
) -> None:
    other = open_store()
    other.join("other", LONG, b"", quiet=QUIET)
    epoch = a.join("a", -SECOND, b"", quiet=QUIET)
    assert other.revoke_expired_lease("a", epoch)
    a.join("a", LONG, b"", quiet=QUIET)
    assert a.take([1]).quiet_until == 0


def test_numbers_of_leases_and_tokens_are_new_even_on_a_database_that_forgot_them(
    a: PostgresStore, server: Server, open_store: Callable[[], PostgresStore]
) -> None:
    given = [a.take([p]).fence for p in range(20)]
    assert given == sorted(set(given))
    server.forget(
        "UPDATE settings SET value = '7' WHERE key = 'cluster:fence'", "UPDATE leases SET expires = expires - 1"
    )
    assert open_store().join("stranger", LONG, b"", quiet=QUIET) > 100_000_000, "the clock is in it"
    assert a.join("b", LONG, b"", quiet=QUIET, forgot=True) > max(given)


def test_the_lease_from_before_is_given_back_and_that_starts_no_cluster(a: PostgresStore) -> None:
    a.take([1, 2])
    a.join("b", LONG, b"", quiet=QUIET, forgot=True)
    assert [lease.node for lease in a.view().leases] == ["b"]
    taken = a.take([1, 2, 3])
    assert taken.partitions == [1, 2, 3]
    assert taken.new == [3]


def test_after_a_promotion_what_changes_hands_is_quiet_and_no_share_grows(
    a: PostgresStore, server: Server, open_store: Callable[[], PostgresStore]
) -> None:
    (entry,) = a.create([a_task("x")], "me", T0)
    assert a.set_share("db", 4, lambda _: 2) == 2
    server.do("UPDATE settings SET value = '00000099' WHERE key = 'cluster:timeline'")  # that of the primary
    a.renew(LONG, b"")  # who lost nothing goes on
    a.record(Batch(claims=[a_claim(entry.number)])).result()
    other = open_store()
    other.join("other", LONG, b"", quiet=QUIET)
    taken = other.take([1])
    assert taken.quiet_until > other.clock()
    assert other.take([2]).quiet_until == taken.quiet_until, "noticed once"
    assert other.set_share("db", 4, lambda _: 2) == 0
    assert a.set_share("db", 4, lambda _: 1) == 1
    server.do("UPDATE settings SET value = '0' WHERE key = 'cluster:quiet until'")
    assert other.set_share("db", 4, lambda _: 2) == 2
