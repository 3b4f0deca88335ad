"""Batches on their way: in order, each safe before what waits for it is done, however often the store refuses."""

import logging
from concurrent.futures import Future

import pytest
from hand_driven_node import VirtualLoop
from hypothesis import given
from hypothesis import strategies as st

from evenbeat.node.loop.outbox import Outbox
from evenbeat.store.cluster_contract import LeaseLost
from evenbeat.store.contract import NONE_WITHDRAWN, Batch, ContradictoryBatch, StoreError, WithdrawnTasks
from evenbeat.store.memory import MemoryStore


class Slow(MemoryStore):
    """Answers when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[tuple[Batch, ...], Future[WithdrawnTasks]]] = []
        self.kept: list[Batch] = []

    def record(self, *batches: Batch) -> Future[WithdrawnTasks]:
        future: Future[WithdrawnTasks] = Future()
        self.asked.append((batches, future))
        return future

    def answer(self, error: Exception | None) -> None:
        batches, future = self.asked.pop(0)
        if error is None:
            self.kept += batches
            future.set_result(NONE_WITHDRAWN)
        else:
            future.set_exception(error)


class Post:
    def __init__(self) -> None:
        self.loop = VirtualLoop()
        self.store = Slow()
        self.failures: list[BaseException] = []
        self.outbox = Outbox(self.store, self.loop, self.failures.append)
        self.batches: list[Batch] = []
        self.safe: list[int] = []

    def put(self) -> None:
        number = len(self.batches)
        self.batches.append(Batch())
        self.outbox.put(self.batches[-1], lambda: self.safe.append(number))

    def answer(self, *, well: bool = True, error: Exception | None = None) -> None:
        self.store.answer(error if error is not None or well else StoreError("database is locked"))
        self.loop.wait(0)
        self.loop.wait(0)

    @property
    def kept(self) -> list[int]:
        return [next(i for i, batch in enumerate(self.batches) if batch is kept) for kept in self.store.kept]


def test_what_is_to_be_done_then_is_done_when_the_batch_is_safe_not_before() -> None:
    post = Post()
    post.put()
    assert (post.safe, post.outbox.waiting) == ([], 1)
    post.answer()
    assert (post.safe, post.outbox.waiting) == ([0], 0)


def test_the_store_has_the_next_batch_before_what_follows_from_the_last_is_done() -> None:
    post = Post()
    asked: list[int] = []
    post.outbox.put(Batch(), lambda: asked.append(len(post.store.asked)))
    post.put()
    post.answer()
    assert asked == [1]


def test_what_follows_is_done_in_order_also_if_the_store_answers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    post = Post()
    post.put()
    post.put()
    monkeypatch.setattr(post.store, "record", lambda *batches: MemoryStore.record(post.store, *batches))
    post.answer()
    post.loop.wait(0)
    assert (post.safe, post.outbox.waiting) == ([0, 1], 0)


def test_while_the_store_fails_all_wait_behind_the_first() -> None:
    post = Post()
    post.put()
    post.answer(well=False)
    assert post.outbox.store_error == "database is locked"
    post.put()
    post.put()
    assert not post.store.asked
    post.loop.wait(1.5)
    post.answer()
    assert post.kept == [0, 1, 2]
    assert post.safe == [0, 1, 2]
    assert post.outbox.store_error == ""


def test_a_store_that_goes_on_failing_is_asked_once_a_second_and_told_of_once(caplog: pytest.LogCaptureFixture) -> None:
    post = Post()
    post.put()
    with caplog.at_level(logging.ERROR, "evenbeat.node"):
        for _ in range(5):
            post.answer(well=False)
            post.loop.wait(1.1)
            assert len(post.store.asked) == 1
    assert post.safe == []
    assert "the store cannot take anything: database is locked" in caplog.text
    post.answer()
    assert post.safe == [0]


@pytest.mark.parametrize("error", [ContradictoryBatch("a second claim"), TypeError("no number")])
def test_a_batch_that_can_never_be_true_is_a_failure_of_the_node_and_nothing_follows_it(error: Exception) -> None:
    post = Post()
    post.put()
    post.put()
    post.answer(error=error)
    post.loop.wait(5)
    assert post.failures == [error]
    assert (post.safe, post.store.asked) == ([], [])


def test_who_waits_for_what_was_put_so_far_does_not_wait_for_what_comes_after_it() -> None:
    post = Post()
    post.put()
    waiting = post.loop.create_task(post.outbox.wait_committed())
    post.loop.wait(0)
    post.answer()
    assert not waiting.done()
    post.put()
    post.answer()
    assert waiting.done()
    assert post.safe == [0]
    post.answer()


def test_those_that_come_while_the_store_is_busy_are_offered_together() -> None:
    post = Post()
    for _ in range(4):
        post.put()
    post.answer()
    assert post.safe == [0]
    assert [len(batches) for batches, _ in post.store.asked] == [3]
    post.answer()
    assert post.safe == [0, 1, 2, 3]


@given(st.lists(st.sampled_from(["put", "well", "ill", "wait"]), max_size=60))
def test_everything_arrives_once_in_order_and_is_told_once_whatever_happens(events: list[str]) -> None:
    post = Post()
    for event in events:
        if event == "put":
            post.put()
        elif event == "wait":
            post.loop.wait(1.1)
        elif post.store.asked:
            post.answer(well=event == "well")
    while post.outbox.waiting:
        post.loop.wait(1.1)
        while post.store.asked:
            post.answer()
    everything = list(range(len(post.batches)))
    assert post.kept == everything
    assert post.safe == everything
    post.loop.run_until_complete(post.outbox.empty())


class TestDropped:
    """Somebody else decides about what waited: none of it may be kept any more, or count for what comes after."""

    @pytest.mark.parametrize("late", [None, StoreError("the server is away"), LeaseLost("the lease is lost")])
    def test_a_late_answer_is_not_taken_for_that_of_what_came_after(self, late: Exception | None) -> None:
        post = Post()
        post.put()
        post.outbox.discard_all(LeaseLost("the lease is lost"))
        post.put()
        assert len(post.store.asked) == 2, "what is new is offered at once"
        post.answer(well=late is None, error=late)
        assert (post.safe, post.failures) == ([], [])
        post.loop.wait(2)
        assert len(post.store.asked) == 1, "and not offered again for what failed before it"
        post.answer()
        assert post.safe == [1]

    def test_who_waits_for_it_is_told(self) -> None:
        post = Post()
        waiting = post.loop.create_task(post.outbox.wait_committed())
        post.loop.wait(0)
        post.outbox.discard_all(LeaseLost("the lease is lost"))
        post.loop.wait(0)
        assert isinstance(waiting.exception(), LeaseLost)
