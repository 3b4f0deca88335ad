"""Parts of the queue of a cluster that need no server: messages, the clock, the staff."""

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.core import run_lease
from evenbeat.model import SECOND, Job
from evenbeat.queue.nats.address import parse_queue_address
from evenbeat.queue.nats.batches import (
    HandedOverRun,
    OutgoingOffer,
    packed_offer,
    packed_size,
    split_into_offers,
)
from evenbeat.queue.nats.cluster_clock import ClusterClock
from evenbeat.queue.nats.connection import NatsConnection
from evenbeat.queue.nats.known_workers import WorkerRegistry
from evenbeat.queue.nats.publishing import OfferPublisher
from evenbeat.queue.nats.stream import RunStream, missing_majority
from evenbeat.wire.cluster_messages import MAX_MESSAGE_SIZE, MAX_RUNS_PER_OFFER, WorkerStatus, run_offer_decoder
from evenbeat.wire.worker_frames import RunSpec

NOW = 1_000 * SECOND


def item(token: int, size: int = 10, cursor: int = 0) -> HandedOverRun:
    job = msgspec.Raw(msgspec.msgpack.encode(Job(command=("x" * size,))))
    top = 2**63 - 1
    run = RunSpec(token, job, "ä" * 256, top, 3, top, top, -top, top, top, top, b"c" * cursor, True)
    return HandedOverRun(token, top, run, "f" * 200, "default", NOW)


@given(st.lists(st.integers(1, 400_000), max_size=40), st.integers(0, 50))
def test_every_run_is_in_one_piece_that_fits_a_message(sizes: list[int], workers: int) -> None:
    items = [item(token, size, 4_096) for token, size in enumerate(sizes)]
    cut = list(split_into_offers(items, workers))
    assert [i for piece in cut for i in piece] == items
    for piece in cut:
        message = OutgoingOffer("id", "default", NOW)
        message.waiting = {i.token: i for i in piece}
        data = packed_offer(message, "node")
        assert len(data) <= MAX_MESSAGE_SIZE
        assert run_offer_decoder.decode(data).runs == [i.run for i in piece]
        assert all(i.run is not None and packed_size(i.run) <= MAX_MESSAGE_SIZE for i in piece)


@pytest.mark.parametrize(
    ("runs", "workers", "lengths"),
    [
        (10, 3, [4, 4, 2]),
        (3, 5, [1, 1, 1]),
        (600, 1, [MAX_RUNS_PER_OFFER, MAX_RUNS_PER_OFFER, 600 - 2 * MAX_RUNS_PER_OFFER]),
        (2, 0, [2]),
    ],
)
def test_all_workers_of_a_pool_get_a_piece(runs: int, workers: int, lengths: list[int]) -> None:
    assert [len(piece) for piece in split_into_offers([item(token) for token in range(runs)], workers)] == lengths


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=30))
def test_the_clock_is_never_further_off_than_half_the_quickest_of_the_last_answers(ways: list[tuple[int, int]]) -> None:
    true_offset, clock, sent = 10**15, ClusterClock(0), NOW
    for there, back in ways:
        clock.learn(sent, sent + there + true_offset, sent + there + back)
        sent += 10**7
    assert abs(clock.offset - true_offset) <= (min(there + back for there, back in ways[-8:]) + 1) // 2


def tidings(worker: str, *pools: str, is_leaving: bool = False) -> WorkerStatus:
    return WorkerStatus(worker, 0, 0, worker, 1, list(pools), 10, is_leaving, [], 0, "", 1, 0)


def test_who_is_silent_or_leaving_serves_no_pool() -> None:
    staff = WorkerRegistry()
    staff.record_status(tidings("one", "a", "b"), NOW)
    staff.record_status(tidings("two", "a"), NOW + run_lease.WORKER_SILENT_AFTER)
    staff.forget_old(NOW, ["a", "c"])
    assert [staff.serving(pool, NOW) for pool in ("a", "b", "c")] == [2, 1, 0]
    later = NOW + run_lease.WORKER_SILENT_AFTER
    staff.forget_old(later, ["a", "c"])
    views = staff.pools(later, {"a": 3})
    assert {name: (v.workers, v.slots, v.waiting) for name, v in views.items()} == {
        "a": (1, 10, 3),
        "b": (0, 0, 0),
        "c": (0, 0, 0),
    }
    assert [views[name].without_worker_for for name in ("a", "b", "c")] == [
        None,
        0,
        run_lease.WORKER_SILENT_AFTER / SECOND,
    ]
    staff.record_status(tidings("two", "a", is_leaving=True), later)
    assert staff.serving("a", later) == 0


def test_a_pool_is_not_blamed_for_the_time_that_nobody_could_be_heard() -> None:
    staff = WorkerRegistry()
    staff.forget_old(NOW, ["a"])
    assert staff.without_worker_for("a", NOW + SECOND) == SECOND
    staff.begin_anew(NOW + SECOND)
    assert staff.without_worker_for("a", NOW + 3 * SECOND) == 2 * SECOND


def test_a_silent_worker_is_missed_and_one_that_left_is_not() -> None:
    staff = WorkerRegistry()
    staff.record_status(tidings("one"), NOW)
    staff.record_status(tidings("two", is_leaving=True), NOW)
    staff.forget_old(NOW + 60 * SECOND, [])
    assert [(w.id, w.silent_for) for w in staff.workers(NOW + 60 * SECOND)] == [("one", 60.0)]
    staff.forget_old(NOW + 301 * SECOND, [])
    assert staff.workers(NOW) == []


def test_what_was_not_confirmed_goes_out_again_as_soon_as_there_is_a_leader_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    where = parse_queue_address("nats://127.0.0.1:1/t", 1)
    sent: list[str] = []
    answers = iter(["", "JetStream does not answer", ""])

    async def look(stream: RunStream) -> str:
        try:
            return next(answers)
        except StopIteration:
            await asyncio.sleep(3600)  # nothing more is asked
            raise

    async def scene() -> None:
        link = NatsConnection(where, "test", lambda: None)
        monkeypatch.setattr(NatsConnection, "is_up", True)
        monkeypatch.setattr(link, "send", lambda subject, *_: sent.append(subject))
        shipping = OfferPublisher(where, link, "node", lambda: NOW)
        monkeypatch.setattr(RunStream, "ensure", look)
        monkeypatch.setattr(RunStream, "set_replicas", look)
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
    assert missing_majority("s", info) == words
