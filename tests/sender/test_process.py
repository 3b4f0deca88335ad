"""The main loop of the sender: which deliveries begin, which wait, and what becomes of threads that do not return."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sample_messages import document, order
from waiting import PATIENCE, eventually

from evenbeat.model import Contact
from evenbeat.sender import process
from evenbeat.sender.attempt import Attempt
from evenbeat.sender.process import Sender
from evenbeat.wire.sender_documents import (
    DeliveryEnd,
    DeliveryOrder,
    SenderReady,
    delivery_frames,
    encode_delivery_frame,
    sender_frame_decoder,
)


class Playing:
    """A sender in a thread, whose deliveries last until the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun: list[str] = []
        self.ends: list[DeliveryEnd] = []
        self.status: int | None = None
        self._may_end: dict[str, threading.Event] = {}
        self._ours, theirs = socket.socketpair()
        self._ours.settimeout(PATIENCE)
        self._frames = delivery_frames()
        monkeypatch.setattr(process, "deliver", self._deliver)
        sender = Sender(theirs)

        def run() -> None:
            with theirs:
                self.status = sender.run()

        self.thread = threading.Thread(target=run)
        self.thread.start()
        (ready,) = self._receive()
        assert isinstance(ready, SenderReady)

    def order(self, *contacts: str, seconds: float = 60) -> None:
        for name in contacts:
            self._may_end.setdefault(name, threading.Event())
            one: DeliveryOrder = order(Contact(webhook="http://x/"), document(contact=name), seconds=seconds)
            self._ours.sendall(encode_delivery_frame(one))

    def end(self, *contacts: str) -> None:
        """Let these deliveries end, and wait until that is reported."""
        for name in contacts:
            self._may_end[name].set()
            self.wait_for(name)

    def wait_for(self, contact: str) -> DeliveryEnd:
        while not (found := [end for end in self.ends if end.channel.startswith(f"{contact}/")]):
            self.ends += [message for message in self._receive() if isinstance(message, DeliveryEnd)]
        return found[0]

    def wait_until_begun(self, *contacts: str) -> None:
        eventually(lambda: set(contacts) <= set(self.begun), f"{contacts} begin")

    def close(self) -> None:
        self._ours.close()
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()
        for event in self._may_end.values():
            event.set()

    def _deliver(self, attempt: Attempt, pass_env: Any) -> DeliveryEnd:
        name = attempt.order.contact
        self.begun.append(name)
        assert self._may_end[name].wait(PATIENCE)
        return DeliveryEnd(attempt.order.message, attempt.order.channel, is_delivered=True)

    def _receive(self) -> list[Any]:
        data = self._ours.recv(1 << 16)
        assert data, "the sender has ended"
        return [sender_frame_decoder.decode(bytes(frame)) for frame in self._frames.split(data)]


@contextmanager
def playing(monkeypatch: pytest.MonkeyPatch) -> Iterator[Playing]:
    played = Playing(monkeypatch)
    try:
        yield played
    finally:
        played.close()


def test_it_ends_when_its_node_closes_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    with playing(monkeypatch) as it:
        it.order("a")
        it.wait_until_begun("a")
    assert it.status == 0


def test_more_begin_when_those_before_have_had_their_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_QUICK_LIMIT", 2)
    with playing(monkeypatch) as it:
        names = [f"c{n}" for n in range(10)]
        it.order(*names)
        it.wait_until_begun(*names)
        assert it.begun == names
        assert not it.ends


def test_those_that_took_all_their_time_wait_for_each_other_and_for_nobody_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(process, "_SUSPECT_LIMIT", 2)
    with playing(monkeypatch) as it:
        it.order("s1", "s2", seconds=0.05)
        for name in ("s1", "s2"):
            assert it.wait_for(name).error == "gave up after 0.05 s while waiting for the delivery to begin"
        it.wait_until_begun("s1", "s2")  # and their threads have not returned
        it.ends.clear()
        it.order("s1", "good", "s2")
        it.end("good")
        assert it.begun == ["s1", "s2", "good"]
        it._may_end["s1"].set()
        it._may_end["s2"].set()
        assert it.wait_for("s1").is_delivered
        assert it.wait_for("s2").is_delivered
        it.ends.clear()
        it.order("s3", "s4", seconds=0.05)
        for name in ("s3", "s4"):
            assert not it.wait_for(name).is_delivered
        it.order("s1")
        assert it.wait_for("s1").is_delivered, "it is suspected no more"


def test_too_many_threads_that_do_not_return_end_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_SUSPECT_LIMIT", 3)
    with playing(monkeypatch) as it:
        it.order(*(f"s{n}" for n in range(4)), seconds=0.05)
        it.thread.join(PATIENCE)
        assert it.status == process._CANNOT_GO_ON


def test_an_end_after_its_time_is_not_reported_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with playing(monkeypatch) as it:
        it.order("a", seconds=0.05)
        assert not it.wait_for("a").is_delivered
        it._may_end["a"].set()
        it.order("b")
        it.end("b")
        assert [end.channel.partition("/")[0] for end in it.ends] == ["a", "b"]


def test_an_order_that_cannot_be_read_ends() -> None:
    one = order(Contact(webhook="http://127.0.0.1:1/"))
    end = process.deliver(Attempt(DeliveryOrder(1, one.channel, "ops", "webhook", b"{}", one.place)))
    assert end.error == "the message cannot be read"
