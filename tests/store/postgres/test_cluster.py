"""Leases, partitions, shares, requests and notifications of changes, for nodes that share a PostgreSQL database."""

import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from msgspec.structs import replace
from waiting import eventually

from evenbeat.model import DAY, PARTITION_COUNT, SECOND, Instant, Period, partition_of
from evenbeat.store.cluster_contract import CheckPosition, LeaseLost
from evenbeat.store.contract import NEVER, Batch, StoreError
from evenbeat.store.postgres import cluster as postgres_cluster
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.postgres.write_session import SessionLease
from evenbeat.testing.samples import T0, a_claim, a_finish, a_progress_record, a_refusal, a_task

ALL = range(PARTITION_COUNT)
LONG = 3600 * SECOND
OVER = -SECOND
"""A lease that expires at once."""


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


def is_waiting(store: PostgresStore) -> bool:
    asked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    return bool(store._readers.all(asked)[0][0])


# Leases


def test_who_joins_is_seen_by_all_with_a_higher_epoch_each(a: PostgresStore, b: PostgresStore) -> None:
    before = a.clock()
    first, second = a.join("a", LONG, b"one"), b.join("b", 2 * LONG, b"two")
    assert second > first
    view = a.view()
    assert [(lease.node, lease.epoch, lease.about) for lease in view.leases] == [
        ("a", first, b"one"),
        ("b", second, b"two"),
    ]
    assert before <= view.now <= b.clock()
    assert before + LONG <= view.leases[0].expires <= view.now + LONG
    assert view.holders == [None] * PARTITION_COUNT


def test_renewing_moves_the_end_and_tells_who_there_is(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", OVER, b"")
    b.join("b", LONG, b"")
    view = a.renew(LONG, b"well")
    (mine,) = [lease for lease in view.leases if lease.node == "a"]
    assert mine.about == b"well"
    assert mine.expires > view.now, "one that has ended, and nobody took"
    assert len(view.leases) == 2


def test_a_store_that_never_joined_records_and_holds_nothing(a: PostgresStore) -> None:
    a.record(Batch()).result()
    for ask in (lambda: a.renew(LONG, b""), lambda: a.take([1]), lambda: a.release([1]), a.may_leave, a.leave):
        with pytest.raises(LeaseLost, match="joined no cluster"):
            ask()


def test_a_lease_is_buried_only_when_it_is_over(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", LONG, b"")
    epoch = b.join("b", LONG, b"")
    b.take([1, 2])
    assert not a.revoke_expired_lease("b", epoch)
    b.renew(OVER, b"")
    assert not a.revoke_expired_lease("b", epoch - 1), "of another lease"
    assert a.revoke_expired_lease("b", epoch)
    assert not a.revoke_expired_lease("b", epoch), "it is gone"
    assert a.view().holders == [None] * PARTITION_COUNT
    assert [lease.node for lease in a.view().leases] == ["a"]


def test_whoever_was_buried_can_do_nothing_any_more(a: PostgresStore, b: PostgresStore) -> None:
    (entry,) = a.create([a_task("x")], "me", T0)
    a.join("a", LONG, b"")
    epoch = b.join("b", OVER, b"")
    b.record(Batch(claims=[a_claim(entry.number)])).result()
    assert a.revoke_expired_lease("b", epoch)
    with pytest.raises(LeaseLost):
        b.record(Batch(finishes=[a_finish(entry.number)])).result()
    for ask in (
        lambda: b.renew(LONG, b""),
        lambda: b.take([1]),
        lambda: b.release([1]),
        lambda: b.set_share("k", 9, lambda others: 1),
    ):
        with pytest.raises(LeaseLost):
            ask()
    a.record(Batch(finishes=[a_finish(entry.number)])).result()
    assert b.join("b", LONG, b"") > epoch
    b.record(Batch(claims=[a_claim(entry.number)])).result()


def test_what_was_decided_under_one_lease_is_recorded_under_that_or_not_at_all(a: PostgresStore, dsn: str) -> None:
    (entry,) = a.create([a_task("x")], "me", T0)
    a.join("a", LONG, b"")
    with psycopg.connect(dsn) as other:
        other.execute("LOCK TABLE evenbeat.skips IN ACCESS EXCLUSIVE MODE")
        first = a.record(Batch(refusals=[a_refusal(entry.number)]))  # under way, and held up
        second = a.record(Batch(standings=[a_progress_record(entry.number)]))  # waits behind it
        a._held = SessionLease("another", 1)  # a lease that is not there, as if it had joined anew and lost that too
        third = a.record(Batch(standings=[a_progress_record(entry.number)]))
    first.result()
    second.result()
    with pytest.raises(LeaseLost):
        third.result()


def test_burying_waits_for_what_the_dead_is_recording(a: PostgresStore, dsn: str) -> None:
    """It may still be committed, and then the node that takes over must see it."""
    epoch = a.join("dead", OVER, b"")
    with psycopg.connect(dsn, options="-c search_path=evenbeat") as dead:
        dead.execute("SELECT begin_writing('dead', 1, 'dead', %s)", (epoch,))
        dead.execute("INSERT INTO settings VALUES ('last', 'words')")
        with ThreadPoolExecutor() as pool:
            burying = pool.submit(a.revoke_expired_lease, "dead", epoch)
            eventually(lambda: is_waiting(a))
            assert not burying.done()
            dead.commit()
            assert burying.result()
    assert a.setting("last") == "words"


def test_a_dead_one_that_holds_on_to_its_lock_is_cut_off(
    a: PostgresStore, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_cluster, "_REVOKE_TIMEOUT", 0.1)
    epoch = a.join("dead", OVER, b"")
    with psycopg.connect(dsn, options="-c search_path=evenbeat", application_name="evenbeat dead") as dead:
        dead.execute("SELECT begin_writing('dead', 1, 'dead', %s)", (epoch,))
        dead.execute("INSERT INTO settings VALUES ('last', 'words')")
        assert a.revoke_expired_lease("dead", epoch)
        with pytest.raises(psycopg.OperationalError):
            dead.execute("SELECT 1")
    assert a.setting("last") is None


def test_the_server_knows_whose_connections_may_hold_the_lock_of_a_lease(a: PostgresStore, dsn: str) -> None:
    a.join("a-node", LONG, b"")
    with psycopg.connect(dsn, autocommit=True) as connection:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'evenbeat a-node'"
        a.record(Batch()).result()
        assert connection.execute(asked).fetchone() == (1,)
        a.renew(LONG, b"")
        assert connection.execute(asked).fetchone() == (2,)


def test_renewing_does_not_wait_for_what_is_being_recorded(a: PostgresStore, dsn: str) -> None:
    epoch = a.join("a", LONG, b"")
    with psycopg.connect(dsn, options="-c search_path=evenbeat") as slow:
        slow.execute("SELECT begin_writing('slow', 1, 'a', %s)", (epoch,))
        with ThreadPoolExecutor() as pool:
            assert pool.submit(a.renew, LONG, b"meanwhile").result(5).leases[0].about == b"meanwhile"
        slow.rollback()


# Partitions


def test_a_partition_is_held_by_one(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", LONG, b"")
    b.join("b", LONG, b"")
    with ThreadPoolExecutor() as pool:
        mine, theirs = pool.map(lambda store: store.take(ALL), (a, b))
    assert sorted(mine.partitions + theirs.partitions) == list(ALL)
    assert mine.fence != theirs.fence
    assert {p for p, holder in enumerate(a.view().holders) if holder == "a"} == set(mine.partitions)


def test_fences_grow_and_are_higher_than_any_epoch(a: PostgresStore, b: PostgresStore) -> None:
    fences = [a.join("a", LONG, b""), a.take([1]).fence, b.join("b", LONG, b""), a.take([2]).fence, b.take([3]).fence]
    assert fences == sorted(set(fences))


def test_what_was_released_is_free_and_not_new(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", LONG, b"")
    assert a.take([1, 2, 3]).new == [1, 2, 3]
    b.join("b", LONG, b"")
    a.release([1, 2, 9])
    taken = b.take([1, 2, 3, 4])
    assert (taken.partitions, taken.new) == ([1, 2, 4], [4])


def test_what_the_dead_held_is_not_new_either(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", LONG, b"")
    epoch = b.join("b", LONG, b"")
    b.take([5])
    b.renew(OVER, b"")
    assert a.take([5]).partitions == [], "not before it was buried"
    a.revoke_expired_lease("b", epoch)
    assert (a.take([5]).partitions, a.view().holders[5]) == ([5], "a")


def test_a_cluster_that_nobody_is_alive_in_starts_anew(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", LONG, b"")
    a.take(ALL)
    a.leave()
    b.join("b", LONG, b"")
    assert b.take(ALL).new == list(ALL)
    b.renew(OVER, b"")
    a.join("a2", LONG, b"")
    assert a.revoke_expired_lease("b", next(lease.epoch for lease in a.view().leases if lease.node == "b"))
    assert a.take(ALL).new == list(ALL), "dead is not alive"


def test_who_leaves_holds_nothing_and_records_nothing(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", LONG, b"")
    b.join("b", LONG, b"")
    a.take([7])
    a.set_share("k", 9, lambda others: 4)
    a.leave()
    view = b.view()
    assert [lease.node for lease in view.leases] == ["b"]
    assert (view.holders[7], view.shares) == (None, {})
    with pytest.raises(LeaseLost):
        a.record(Batch()).result()
    assert b.set_share("k", 9, lambda others: 9 - others) == 9, "at once"


def test_how_long_a_run_was_not_answered_for_is_told_to_the_next_owner_and_to_no_other(
    a: PostgresStore, b: PostgresStore
) -> None:
    a.join("a", LONG, b"")
    b.join("b", LONG, b"")
    a.take([1, 2, 3])
    a.release([1, 2], [], {1: {7: 5 * SECOND, 8: SECOND}, 2: {9: 3}})
    assert b.take([1]).silent == {7: 5 * SECOND, 8: SECOND}
    b.release([1])
    assert a.take([1, 2]).silent == {9: 3}, "of the first it may have been answered for again"


def test_of_those_who_leave_one_is_the_last(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", LONG, b"")
    epoch = b.join("b", LONG, b"")
    assert a.may_leave()
    assert a.may_leave(), "said twice"
    assert not b.may_leave(), "who is about to leave does not stay"
    a.leave()
    assert not b.may_leave()
    a.join("a2", LONG, b"")
    assert b.may_leave(), "somebody came"
    a.renew(OVER, b"")
    assert not b.may_leave(), "dead is not alive"
    a.renew(LONG, b"")
    b.renew(OVER, b"")
    assert a.revoke_expired_lease("b", epoch)
    with pytest.raises(LeaseLost):
        b.may_leave()


def test_the_tasks_of_partitions_with_their_tokens(a: PostgresStore) -> None:
    entries = a.create([a_task(f"t{i}") for i in range(300)], "me", T0)
    numbers = [entry.number for entry in entries]
    first, second = numbers[0], numbers[1]
    a.record(Batch(standings=[a_progress_record(n) for n in numbers])).result()
    a.record(Batch(claims=[a_claim(first)._replace(token=(7 << 32) + 1)])).result()
    some = [partition_of(first), partition_of(second)]
    expected = [entry for entry in entries if partition_of(entry.number) in some]
    assert list(a.entries_in(some)) == expected
    found = list(a.progress_in(some))
    assert [progress.task for progress in found] == [entry.number for entry in expected]
    assert [progress.claimed_token for progress in found][:2] == [(7 << 32) + 1, 0]
    assert (list(a.entries_in([])), list(a.progress_in([]))) == ([], [])


# Limits


def test_shares_never_add_up_to_more_than_the_limit(open_store: Callable[[], PostgresStore]) -> None:
    stores = [open_store() for _ in range(3)]
    for i, store in enumerate(stores):
        store.join(f"n{i}", LONG, b"")
    watcher, over, stop = open_store(), [], threading.Event()

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(40):
            stores[seed].set_share("k", 10, lambda others: draw.randint(0, 12))

    def watch() -> None:
        while not stop.is_set():
            total = sum(watcher.view().shares.get("k", {}).values())
            if total > 10:
                over.append(total)

    watching = threading.Thread(target=watch)
    watching.start()
    with ThreadPoolExecutor() as pool:
        list(pool.map(work, range(3)))
    stop.set()
    watching.join()
    assert over == []


def test_a_share_is_decided_by_what_the_others_have(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", LONG, b"")
    b.join("b", LONG, b"")
    asked: list[int] = []

    def decide(share: int) -> Callable[[int], int]:
        def decided(others: int) -> int:
            asked.append(others)
            return share

        return decided

    assert a.set_share("", 10, decide(6)) == 6
    assert b.set_share("", 10, decide(9)) == 4, "no more than is free"
    assert a.set_share("other", 10, decide(10)) == 10
    assert a.set_share("", 3, decide(5)) == 5, "what it has is never cut by the store"
    assert asked == [0, 6, 0, 4]
    assert b.view().shares == {"": {"a": 5, "b": 4}, "other": {"a": 10}}


def test_the_share_of_what_runs_goes_where_its_partition_goes(a: PostgresStore, b: PostgresStore) -> None:
    tasks = [replace(a_task(f"t{i}"), limit="k") for i in range(3)]
    one, two, three = (entry.number for entry in a.create(tasks, "me", T0))
    a.join("a", LONG, b"")
    epoch = b.join("b", LONG, b"")
    b.take(ALL)
    b.set_share("k", 10, lambda others: 8)
    b.record(Batch(standings=[a_progress_record(n) for n in (one, two, three)])).result()
    b.record(Batch(claims=[a_claim(n)._replace(token=n) for n in (one, two, three)])).result()
    b.release([partition_of(one)], [one])
    assert b.view().shares == {"k": {"b": 7}}
    assert a.set_share("k", 10, lambda others: 10 - others) == 2, "one runs in a partition that nobody holds"
    taken = a.take([partition_of(one)])
    assert taken.shares == {"k": 3, "": 1}
    assert [p.claimed_untaken for p in a.progress_in([partition_of(one)])] == [True]
    a.retake([one])
    assert [p.claimed_untaken for p in a.progress_in([partition_of(one)])] == [False]
    b.renew(OVER, b"")
    a.revoke_expired_lease("b", epoch)
    assert a.view().shares == {"k": {"a": 3}, "": {"a": 1}}
    assert a.set_share("k", 10, lambda others: 10 - others) == 8, "two that ran with b are left"
    assert a.take(ALL).shares == {"k": 10, "": 3}
    assert a.set_share("k", 5, lambda others: 0, 3) == 3, "what runs keeps its part"


def test_a_share_goes_with_its_partition_whatever_the_task_and_the_limit_are_called(a: PostgresStore) -> None:
    """A name may hold characters that JSON allows and PostgreSQL does not. A limit may also be set later."""
    odd, plain = a.create([replace(a_task("n\0x"), limit="k\0"), a_task("plain")], "me", T0)
    a.update([(plain.number, replace(plain.task, limit="later"))], T0)
    a.record(Batch(claims=[a_claim(odd.number), a_claim(plain.number)])).result()
    a.join("a", LONG, b"")
    assert a.set_share("k\0", 10, lambda others: 10 - others) == 9
    assert a.take(ALL).shares == {"k\0": 10, "later": 1, "": 2}


# News, orders, hints


def test_news_tell_what_others_have_changed(a: PostgresStore, b: PostgresStore) -> None:
    one, two, _ = b.create([a_task(name) for name in "abc"], "me", T0)
    stamp = a.stamp()
    assert a.changes_since(stamp, ALL).entries == []
    assert a.changes_since(stamp, ALL).stamp == stamp
    (changed,) = b.update([(one.number, a_task("a", check=True))], T0)
    b.remove([two.number], T0)
    (new,) = b.create([a_task("d")], "me", T0)
    news = a.changes_since(stamp, ALL)
    assert (news.entries, news.removed, news.settings) == ([changed, new], [two], False)
    assert a.changes_since(news.stamp, ALL) == type(news)(news.stamp)
    assert a.changes_since(stamp, [partition_of(two.number)]).entries == []
    assert a.changes_since(stamp, [partition_of(two.number)]).removed == [two]


def test_periods_limits_and_settings_of_the_node_are_news_others_are_not(a: PostgresStore, b: PostgresStore) -> None:
    stamp = a.stamp()
    b.set_settings({"whatever": "1"})
    assert a.changes_since(stamp, ALL) == type(a.changes_since(stamp, ALL))(stamp)
    changes: list[Callable[[], None]] = [
        lambda: b.set_settings({"limits:x": "{}"}),
        lambda: b.set_settings({"node:x": None}),
        lambda: b.set_periods({"work": Period()}, "me", T0),
    ]
    for change in changes:
        change()
        news = a.changes_since(stamp, ALL)
        assert news.settings
        assert news.stamp > stamp
        stamp = news.stamp
        assert not a.changes_since(stamp, ALL).settings


def test_no_news_are_missed_however_many_change_things_at_once(open_store: Callable[[], PostgresStore]) -> None:
    writers, reader = [open_store() for _ in range(3)], open_store()
    heard: set[int] = set()
    stamp = reader.stamp()

    def make(writer: int) -> list[int]:
        return [writers[writer].create([a_task(f"{writer}-{i}")], "me", T0)[0].number for i in range(15)]

    with ThreadPoolExecutor() as pool:
        made = [pool.submit(make, writer) for writer in range(3)]
        is_last = False
        while not is_last:
            is_last = all(future.done() for future in made)
            news = reader.changes_since(stamp, ALL)
            heard |= {entry.number for entry in news.entries}
            stamp = news.stamp
    assert heard == {number for future in made for number in future.result()}
    assert len(heard) == 45


def test_an_order_is_taken_by_one_and_answered_once(a: PostgresStore, b: PostgresStore) -> None:
    a.join("a", LONG, b"")
    b.join("b", LONG, b"")
    first, second, third = a.forward_request(5, b"one"), a.forward_request(6, b"two"), a.forward_request(5, b"three")
    assert [o.id for o in b.take_requests([6])] == [second]
    assert [(o.id, o.task, o.request) for o in b.take_requests(ALL)] == [(first, 5, b"one"), (third, 5, b"three")]
    assert a.take_requests(ALL) == [], "also if it gets the partition meanwhile"
    b.return_request(third)
    assert [o.id for o in a.take_requests(ALL)] == [third]
    assert a.reply(first) is None
    b.answer(first, b"done")
    b.answer(first, b"done again")
    b.return_request(first)
    assert b.take_requests(ALL) == [], "what is done is done"
    assert a.reply(first) == b"done"
    assert a.reply(first) is None, "once"
    with pytest.raises(StoreError, match="bytes"):
        a.forward_request(5, b"x" * (2 << 20))


def test_an_order_that_is_too_old_is_for_nobody(a: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    a.forward_request(5, b"one")
    monkeypatch.setattr(postgres_cluster, "FORWARDED_REQUEST_LIFETIME", -SECOND)
    a.join("a", LONG, b"")
    assert a.take_requests(ALL) == []


def test_who_listens_hears_what_to_look_at(a: PostgresStore, b: PostgresStore) -> None:
    heard: list[str] = []
    stop = b.listen(heard.append)
    (entry,) = a.create([a_task("x")], "me", T0)
    a.set_settings({"limits:x": "{}"})
    a.answer(a.forward_request(entry.number, b""), b"")
    a.join("a", LONG, b"")
    eventually(lambda: len(heard) == 5)
    assert heard == ["tasks", "settings", "orders", "answers", "partitions"]
    stop()
    a.leave()
    a.create([a_task("y")], "me", T0)
    assert len(heard) == 5


def test_a_listener_whose_connection_is_cut_comes_back_and_looks_at_everything(a: PostgresStore, dsn: str) -> None:
    heard: list[str] = []
    stop = a.listen(heard.append)
    with psycopg.connect(dsn, autocommit=True) as other:
        asked = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        assert other.execute(asked).fetchall() == [(True,)]
    eventually(lambda: len(heard) >= 6)
    assert set(heard) == {"tasks", "settings", "orders", "answers", "partitions", "shares"}
    stop()


def test_only_one_at_a_time_is_alone(a: PostgresStore, b: PostgresStore) -> None:
    inside: list[str] = []
    with a.exclusive_change():
        waiting = threading.Thread(target=lambda: _enter(b, inside))
        waiting.start()
        waiting.join(0.1)
        assert inside == []
        inside.append("a left")
    waiting.join()
    assert inside == ["a left", "b"]


def _enter(store: PostgresStore, inside: list[str]) -> None:
    with store.exclusive_change():
        inside.append("b")


def test_nobody_forgets_history_twice_at_once(a: PostgresStore, b: PostgresStore, dsn: str) -> None:
    a.create([a_task("x")], "me", T0)
    with psycopg.connect(dsn) as other:
        other.execute("SELECT pg_advisory_xact_lock(hashtextextended('evenbeat prune', 0))")
        assert b.prune(Instant(T0 + 500 * DAY), DAY) == 0
    assert b.prune(Instant(T0 + 500 * DAY), DAY) == 1


# Checks that tasks of other nodes depend on


def test_a_node_asks_where_checks_of_other_nodes_stand_by_their_names(a: PostgresStore, b: PostgresStore) -> None:
    names = ["gw", "null\0name", "paused", "task", "removed"]
    tasks = [replace(a_task(name, check=name != "task"), paused=name == "paused") for name in names]
    gateway, odd, paused, plain, removed = b.create(tasks, "me", T0)
    b.remove([removed.number], T0)
    (gateway,) = b.update([(gateway.number, replace(a_task("gw", check=True), enabled=False))], T0)
    b.join("b", LONG, b"")
    b.take(ALL)
    number = plain.number
    b.record(Batch(claims=[a_claim(number)])).result(5)
    b.record(Batch(finishes=[a_finish(number)._replace(state=2, hard=False)])).result(5)
    assert a.positions_of([*names, "unknown"]) == [
        CheckPosition("gw", gateway.number, 2, is_check=True, is_off=True, state=0, hard=True, result_at=NEVER),
        CheckPosition("null\0name", odd.number, 1, is_check=True, is_off=False, state=0, hard=True, result_at=NEVER),
        CheckPosition("paused", paused.number, 1, is_check=True, is_off=True, state=0, hard=True, result_at=NEVER),
        CheckPosition("task", number, 1, is_check=False, is_off=False, state=2, hard=False, result_at=T0 + 2_000),
    ]
    assert a.entries_named(["gw", "removed", "null\0name"]) == [gateway, odd]
