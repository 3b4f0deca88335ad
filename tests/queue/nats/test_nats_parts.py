"""Parts of the queue of a cluster that need no server: messages, the clock, the staff."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core import run_lease
from evenbeat.model import MINUTE, SECOND, Job
from evenbeat.queue.nats.address import parse_where
from evenbeat.queue.nats.batches import Item, Message, packed, pieces, size_of, timebox_class
from evenbeat.queue.nats.cluster_clock import ClusterClock
from evenbeat.queue.nats.connection import Link
from evenbeat.queue.nats.known_workers import Staff
from evenbeat.queue.nats.publishing import Shipping
from evenbeat.queue.nats.stream import Stream, without_majority
from evenbeat.wire.cluster_messages import MESSAGE_LIMIT, RUNS_LIMIT, Tidings, to_pool
from evenbeat.wire.worker_frames import Run

NOW = 1_000 * SECOND


def item(token: int, size: int = 10, cursor: int = 0) -> Item:
    job = msgspec.Raw(msgspec.msgpack.encode(Job(command=("x" * size,))))
    top = 2**63 - 1
    run = Run(token, job, "ä" * 256, top, 3, top, top, -top, top, top, top, b"c" * cursor, True)
    return Item(token, top, run, "f" * 200, "default", NOW)


@given(st.lists(st.integers(1, 400_000), max_size=40), st.integers(0, 50))
def test_every_run_is_in_one_piece_that_fits_a_message(sizes: list[int], workers: int) -> None:
    items = [item(token, size, 4_096) for token, size in enumerate(sizes)]
    cut = list(pieces(items, workers))
    assert [i for piece in cut for i in piece] == items
    for piece in cut:
        message = Message("id", "default", NOW)
        message.waiting = {i.token: i for i in piece}
        data = packed(message, "node")
        assert len(data) <= MESSAGE_LIMIT
        assert to_pool.decode(data).runs == [i.run for i in piece]
        assert all(i.run is not None and size_of(i.run) <= MESSAGE_LIMIT for i in piece)


@pytest.mark.parametrize(
    ("runs", "workers", "lengths"),
    [(10, 3, [4, 4, 2]), (3, 5, [1, 1, 1]), (600, 1, [RUNS_LIMIT, RUNS_LIMIT, 600 - 2 * RUNS_LIMIT]), (2, 0, [2])],
)
def test_all_workers_of_a_pool_get_a_piece(runs: int, workers: int, lengths: list[int]) -> None:
    assert [len(piece) for piece in pieces([item(token) for token in range(runs)], workers)] == lengths


def test_a_message_has_runs_of_one_class_of_timeboxes() -> None:
    classes = [
        timebox_class(t) for t in (1, 10 * SECOND, 10 * SECOND + 1, MINUTE, MINUTE + 1, 10 * MINUTE, 3_600 * SECOND)
    ]
    assert classes == [0, 0, 1, 1, 2, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=30))
def test_the_clock_is_never_further_off_than_half_the_quickest_of_the_last_answers(ways: list[tuple[int, int]]) -> None:
    true_offset, clock, sent = 10**15, ClusterClock(0), NOW
    for there, back in ways:
        clock.learn(sent, sent + there + true_offset, sent + there + back)
        sent += 10**7
    assert abs(clock.offset - true_offset) <= (min(there + back for there, back in ways[-8:]) + 1) // 2


def tidings(worker: str, *pools: str, is_leaving: bool = False) -> Tidings:
    return Tidings(worker, 0, 0, worker, 1, list(pools), 10, is_leaving, [], 0, "", 1, 0)


def test_who_is_silent_or_leaving_serves_no_pool() -> None:
    staff = Staff()
    staff.hear(tidings("one", "a", "b"), NOW)
    staff.hear(tidings("two", "a"), NOW + run_lease.SILENT)
    staff.look(NOW, ["a", "c"])
    assert [staff.serving(pool, NOW) for pool in ("a", "b", "c")] == [2, 1, 0]
    later = NOW + run_lease.SILENT
    staff.look(later, ["a", "c"])
    views = staff.pools(later, {"a": 3})
    assert {name: (v.workers, v.slots, v.waiting) for name, v in views.items()} == {
        "a": (1, 10, 3),
        "b": (0, 0, 0),
        "c": (0, 0, 0),
    }
    assert [views[name].without_worker_for for name in ("a", "b", "c")] == [None, 0, run_lease.SILENT / SECOND]
    staff.hear(tidings("two", "a", is_leaving=True), later)
    assert staff.serving("a", later) == 0


def test_a_pool_is_not_blamed_for_the_time_that_nobody_could_be_heard() -> None:
    staff = Staff()
    staff.look(NOW, ["a"])
    assert staff.without_worker_for("a", NOW + SECOND) == SECOND
    staff.begin_anew(NOW + SECOND)
    assert staff.without_worker_for("a", NOW + 3 * SECOND) == 2 * SECOND


def test_a_silent_worker_is_missed_and_one_that_left_is_not() -> None:
    staff = Staff()
    staff.hear(tidings("one"), NOW)
    staff.hear(tidings("two", is_leaving=True), NOW)
    staff.look(NOW + 60 * SECOND, [])
    assert [(w.id, w.silent_for) for w in staff.workers(NOW + 60 * SECOND)] == [("one", 60.0)]
    staff.look(NOW + 301 * SECOND, [])
    assert staff.workers(NOW) == []


def test_what_was_not_confirmed_goes_out_again_as_soon_as_there_is_a_leader_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = parse_where("nats://127.0.0.1:1/t", 1)
    sent: list[str] = []
    answers = iter(["", "JetStream does not answer", ""])

    async def look(stream: Stream) -> str:
        try:
            return next(answers)
        except StopIteration:
            await asyncio.sleep(3600)  # nothing more is asked
            raise

    async def scene() -> None:
        link = Link(where, "test", lambda: None)
        monkeypatch.setattr(Link, "is_up", True)
        monkeypatch.setattr(link, "send", lambda subject, *_: sent.append(subject))
        shipping = Shipping(where, link, "node", lambda: NOW)
        monkeypatch.setattr(Stream, "look", look)
        monkeypatch.setattr(Stream, "agree", look)
        keeping = asyncio.create_task(shipping.keep_stream(0.01))
        shipping.send([item(1)], lambda _: 1)
        assert len(sent) == 1
        while len(sent) < 2:
            await asyncio.sleep(0.01)
        assert shipping.problem == ""
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scene(), 60))


def servers(leader: str, **silent: float) -> dict[str, Any]:
    """What JetStream says of a stream: seconds since each of the others was heard of; -1 if it ended in order."""
    others = [
        {"name": name, "active": round(max(seconds, 0) * 1e9), "offline": seconds < 0}
        for name, seconds in silent.items()
    ]
    return {"cluster": {"replicas": others} | ({"leader": leader} if leader else {})}


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({}, ""),
        ({"cluster": {"leader": "alone"}}, ""),
        (servers("a", b=0.1, c=0.9), ""),
        (servers("a", b=0.1, c=60), ""),
        (servers("a", b=0.1, c=-1), ""),
        (servers("a", b=-1, c=60), "NATS has no majority: 2 of the 3 servers of stream s are out of reach (b, c)"),
        (servers("a", b=6), "NATS has no majority: 1 of the 2 servers of stream s are out of reach (b)"),
        (servers("a", b=6, c=6, d=0.1, e=0.1), ""),
        (
            servers("", a=0.1, b=0, c=0),
            "stream s has no leader: NATS is electing one, or has no majority of its servers",
        ),
    ],
)
def test_a_stream_without_a_majority_of_its_servers_confirms_nothing(info: dict[str, Any], words: str) -> None:
    assert without_majority("s", info) == words
