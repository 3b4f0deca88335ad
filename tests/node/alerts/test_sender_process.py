"""A node gives the sender process what to deliver. Every order ends once, whatever receivers and processes do."""

import asyncio
import json
import logging
import os
import signal
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from message_receivers import HttpReceiver, SmtpReceiver
from sample_messages import document, item, order
from waiting import eventually, eventually_async

from evenbeat.child_processes.process_table import process_info
from evenbeat.model import Contact
from evenbeat.node.alerts import sender_process
from evenbeat.node.alerts.sender_process import SENDER_DIED, SenderProcess
from evenbeat.wire.sender_documents import DeliveryEnd, DeliveryOrder

SECRET = "Zm9v-s3cr3t-0123456789"


class Delivering:
    """A sender process, and the ends of its deliveries."""

    def __init__(self, **options: Any) -> None:
        self.ends: list[DeliveryEnd] = []
        self.sender = SenderProcess(self.ends.append, **options)

    def order(self, *orders: DeliveryOrder) -> None:
        for one in orders:
            self.sender.order(one)

    async def wait(self, count: int = 1) -> list[DeliveryEnd]:
        """The first so many ends."""
        await eventually_async(lambda: len(self.ends) >= count, f"{count} deliveries end")
        return self.ends[:count]

    async def deliver(self, one: DeliveryOrder) -> DeliveryEnd:
        before = len(self.ends)
        self.order(one)
        await self.wait(before + 1)
        return self.ends[before]


@asynccontextmanager
async def delivering(**options: Any) -> AsyncIterator[Delivering]:
    found = Delivering(**options)
    found.sender.start()
    try:
        yield found
    finally:
        await found.sender.stop(0.0)


def descriptors() -> set[str]:
    return {entry.name for entry in os.scandir("/proc/self/fd")}


def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    before = descriptors()
    asyncio.run(scene())
    eventually(lambda: descriptors() == before, "all that was opened is closed")


@pytest.fixture
def receiver() -> Iterator[HttpReceiver]:
    with HttpReceiver() as receiver:
        yield receiver


def hook(
    receiver: HttpReceiver, path: str = "ok", *, message: int = 12, contact: str = "ops", **fields: Any
) -> DeliveryOrder:
    return order(Contact(webhook=receiver.url(path)), document(message=message, contact=contact), **fields)


def script(folder: Path, text: str) -> tuple[str]:
    path = folder / "notify"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(stat.S_IRWXU)
    return (str(path),)


def is_alive(pid: int) -> bool:
    found = process_info(pid)
    return found is not None and found.is_alive


def test_each_kind_of_channel_is_delivered(receiver: HttpReceiver, tmp_path: Path) -> None:
    async def scene() -> None:
        with SmtpReceiver() as server:
            smtp = f"smtp://127.0.0.1:{server.port}"
            async with delivering() as it:
                it.order(
                    hook(receiver, message=1),
                    order(Contact(command=script(tmp_path, f"cat > {tmp_path}/in")), document(message=2)),
                    order(Contact(email=("a@example.org",), smtp=smtp), document(message=3)),
                    order(Contact(send=("mailto:b@example.org",)), document(message=4), smtp=smtp),
                )
                ends = await it.wait(4)
                assert sorted((end.message, end.is_delivered, end.error) for end in ends) == [
                    (n, True, "") for n in (1, 2, 3, 4)
                ]
                assert it.sender.under_way == 0
            assert json.loads((tmp_path / "in").read_text())["message"] == 2
            assert len(server.mails) == 2

    play(scene)


def test_512_receivers_that_hang_keep_nobody_elses_message(receiver: HttpReceiver) -> None:
    async def scene() -> None:
        async with delivering() as it:
            it.order(*(hook(receiver, f"hang/{n}", message=n, contact=f"c{n}") for n in range(512)))
            end = await it.deliver(hook(receiver, message=1_000, contact="good"))
            assert (end.message, end.is_delivered) == (1_000, True), "all others have 30 s"
            await eventually_async(lambda: len(receiver.requests) == 513)
            assert it.sender.under_way == 512
            assert (await it.deliver(hook(receiver, message=1_001, contact="good"))).is_delivered
        assert {end.may_have_arrived for end in it.ends[2:]} == {True}
        assert len(it.ends) == 514

    play(scene)


def test_services_that_hang_keep_no_other_service(receiver: HttpReceiver) -> None:
    pytest.importorskip("apprise", reason="the extra `notify` is not installed")

    def service(path: str, n: int) -> DeliveryOrder:
        contact = Contact(send=(f"json://127.0.0.1:{receiver.port}/{path}?rto=29",))
        return order(contact, document(message=n, contact=f"c{n}"))

    async def scene() -> None:
        async with delivering() as it:
            it.order(*(service(f"hang/{n}", n) for n in range(100)))
            end = await it.deliver(service("ok", 1_000))
            assert (end.message, end.is_delivered) == (1_000, True), "all others have 30 s"
            await eventually_async(lambda: len(receiver.requests) == 101, "all are under way at once")
            assert it.sender.under_way == 100

    play(scene)


def test_a_channel_gets_one_message_at_a_time_in_their_order(tmp_path: Path) -> None:
    async def scene() -> None:
        words = script(
            tmp_path, f"echo begin $EVENBEAT_MESSAGE >> {tmp_path}/log; sleep 0.1; echo end >> {tmp_path}/log"
        )
        async with delivering() as it:
            it.order(*(order(Contact(command=words), document(message=n)) for n in range(4)))
            await it.wait(4)
            assert [end.message for end in it.ends] == [0, 1, 2, 3]
        assert (tmp_path / "log").read_text() == "begin 0\nend\nbegin 1\nend\nbegin 2\nend\nbegin 3\nend\n"

    play(scene)


@pytest.mark.parametrize("path", ["hang", "trickle"])
def test_time_runs_out_and_the_channel_gets_its_next_message(receiver: HttpReceiver, path: str) -> None:
    async def scene() -> None:
        async with delivering() as it:
            end = await it.deliver(hook(receiver, path, seconds=2))
            assert (end.is_delivered, end.may_have_arrived) == (False, True)
            assert end.error.startswith("gave up after 2 s while waiting for the answer of 127.0.0.1")
            assert end.lasted >= 2_000_000
            assert (await it.deliver(hook(receiver))).is_delivered
            again = await it.deliver(hook(receiver, path, seconds=0.3))
            assert not again.is_delivered
            await eventually_async(lambda: receiver.open_connections == 0, "the connections are closed")

    play(scene)


def test_a_name_server_that_does_not_answer_costs_only_the_time_of_its_delivery(
    receiver: HttpReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The sender waits for an address in a call that nothing interrupts.
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, threading\n"
        "ask = socket.getaddrinfo\n"
        "def answer(host, *rest, **more):\n"
        "    if host == 'hangs.example.org':\n"
        "        threading.Event().wait()\n"
        "    return ask(host, *rest, **more)\n"
        "socket.getaddrinfo = answer\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async def scene() -> None:
        async with delivering() as it:
            end = await it.deliver(order(Contact(webhook="http://hangs.example.org/x"), seconds=1))
            assert end.error == "gave up after 1 s while waiting for the address of hangs.example.org"
            assert not end.may_have_arrived
            assert (await it.deliver(hook(receiver))).is_delivered

    play(scene)


def test_a_command_that_takes_too_long_is_killed_with_what_it_has_started(tmp_path: Path) -> None:
    async def scene() -> None:
        words = script(tmp_path, f"echo $$ > {tmp_path}/pid\nsleep 300 & echo $! >> {tmp_path}/pid; sleep 301")
        async with delivering() as it:
            end = await it.deliver(order(Contact(command=words), seconds=3))
            assert end.error.startswith("gave up after 3 s while waiting for the command ")
            assert end.may_have_arrived
            for pid in (tmp_path / "pid").read_text().split():
                await eventually_async(lambda pid=pid: not is_alive(int(pid)))  # type: ignore[misc]

    play(scene)


def test_the_command_is_started_by_the_sender_not_by_the_node(tmp_path: Path) -> None:
    async def scene() -> None:
        async with delivering() as it:
            end = await it.deliver(order(Contact(command=script(tmp_path, "echo $PPID"))))
            assert end.detail == str(it.sender.pid)
            assert it.sender.pid != os.getpid()

    play(scene)


# Deaths


def test_a_sender_that_is_killed_leaves_nothing_and_its_orders_end_as_unknown(
    receiver: HttpReceiver, tmp_path: Path
) -> None:
    async def scene() -> None:
        words = script(tmp_path, f"sleep 300 & echo $! > {tmp_path}/pid\nsleep 301")
        async with delivering() as it:
            it.order(hook(receiver, "hang", message=1), order(Contact(command=words), document(message=2)))
            await eventually_async(lambda: receiver.requests and (tmp_path / "pid").exists())
            await eventually_async(lambda: (tmp_path / "pid").read_text().strip())
            first = it.sender.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            ends = await it.wait(2)
            assert sorted((end.message, end.is_delivered, end.may_have_arrived, end.error) for end in ends) == [
                (n, False, True, SENDER_DIED) for n in (1, 2)
            ]
            left = int((tmp_path / "pid").read_text())
            await eventually_async(lambda: not is_alive(left), "the command ends")
            await eventually_async(lambda: it.sender.pid not in (None, first), "another sender")
            assert it.sender.restarts == 1
            assert (await it.deliver(hook(receiver, message=3))).is_delivered
            assert receiver.requests[-1].document["message"] == 3
        assert len(it.ends) == 3

    play(scene)


def test_an_order_ends_once_however_often_the_sender_is_killed(receiver: HttpReceiver) -> None:
    async def scene() -> None:
        async with delivering() as it:
            for n in range(30):
                it.order(*(hook(receiver, message=100 * n + k, contact=f"c{k}") for k in range(3)))
                if n % 3 == 0 and it.sender.pid is not None:
                    await asyncio.sleep(0)
                    with suppress(ProcessLookupError):
                        os.kill(it.sender.pid, signal.SIGKILL)
                await it.wait(3 * (n + 1))
                await eventually_async(lambda: it.sender.pid)
        assert sorted(end.message for end in it.ends) == sorted(100 * n + k for n in range(30) for k in range(3))
        delivered = {end.message for end in it.ends if end.is_delivered}
        arrived = {request.document["message"] for request in receiver.requests}
        assert delivered <= arrived
        may_have_arrived = {end.message for end in it.ends if end.may_have_arrived}
        assert arrived <= delivered | may_have_arrived

    RestartFast.play(scene)


class RestartFast:
    """Without pauses between two starts."""

    @staticmethod
    def play(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("evenbeat.child_processes.supervisor.RestartBackoff.LONGEST_PAUSE", 0.0)
            play(scene)


def test_a_sender_that_says_nothing_any_more_is_replaced(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with delivering() as it:
            assert (await it.deliver(hook(receiver))).is_delivered
            monkeypatch.setattr(sender_process, "SILENCE_LIMIT", 0.3)
            first = it.sender.pid
            assert first is not None
            os.kill(first, signal.SIGSTOP)
            end = await it.deliver(hook(receiver, message=13))
            assert (end.error, end.may_have_arrived) == (SENDER_DIED, True)
            await eventually_async(lambda: it.sender.pid not in (None, first))
            monkeypatch.setattr(sender_process, "SILENCE_LIMIT", 90)
            assert (await it.deliver(hook(receiver, message=14))).is_delivered

    with caplog.at_level(logging.ERROR, "evenbeat.node"):
        play(scene)
    assert "the sender process has not reported anything for 0 s, and is killed" in caplog.text


NODE: str = """
import asyncio, sys
from pathlib import Path
import msgspec
from evenbeat.node.alerts.sender_process import SenderProcess
from evenbeat.wire.sender_documents import order_decoder

async def node():
    sender = SenderProcess(print)
    sender.start()
    for path in sys.argv[1:]:
        sender.order(order_decoder.decode(Path(path).read_bytes()))
    print(sender.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(node())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_sender_ends_with_its_node_and_so_do_its_commands(
    receiver: HttpReceiver, tmp_path: Path, number: signal.Signals
) -> None:
    from msgspec import msgpack

    words = script(tmp_path, f"echo $$ > {tmp_path}/pid\nsleep 300 & echo $! >> {tmp_path}/pid; sleep 301")
    files = [tmp_path / "hang.order", tmp_path / "command.order"]
    for path, one in zip(files, (hook(receiver, "hang"), order(Contact(command=words))), strict=True):
        path.write_bytes(msgpack.encode(one))
    command = [sys.executable, "-c", NODE, *map(str, files)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as node:
        assert node.stdout is not None
        sender = int(node.stdout.readline())
        eventually(lambda: receiver.requests and (tmp_path / "pid").exists())
        pids = eventually(lambda: len(found := (tmp_path / "pid").read_text().split()) == 2 and found)
        assert pids
        node.send_signal(number)
        node.wait(60)
    for pid in (sender, *map(int, pids)):
        eventually(lambda pid=pid: not is_alive(pid), f"process {pid} ends")  # type: ignore[misc]


def test_an_orderly_stop_lets_deliveries_end(receiver: HttpReceiver) -> None:
    async def scene() -> None:
        it = Delivering()
        it.sender.start()
        it.order(hook(receiver, "slow"))
        await eventually_async(lambda: receiver.requests)
        pid = it.sender.pid
        await it.sender.stop(60)
        assert [end.is_delivered for end in it.ends] == [True]
        assert pid is not None
        assert not is_alive(pid)
        it.order(hook(receiver))
        await it.wait(2)
        assert it.ends[1].error == "there is no sender process at the moment"

    play(scene)


def test_a_stop_does_not_wait_for_receivers_that_hang(receiver: HttpReceiver) -> None:
    async def scene() -> None:
        it = Delivering()
        it.sender.start()
        it.order(hook(receiver, "hang"))
        await eventually_async(lambda: receiver.requests)
        await it.sender.stop(0.1)
        assert [(end.is_delivered, end.may_have_arrived) for end in it.ends] == [(False, True)]

    play(scene)


def test_a_sender_that_cannot_be_started_is_a_problem(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    async def scene() -> None:
        async with delivering() as it:
            assert it.sender.problem == "the sender process cannot be started: No such file or directory"
            end = await it.deliver(hook(receiver))
            assert (end.is_delivered, end.may_have_arrived, end.error) == (False, False, it.sender.problem)

    play(scene)


# Secrets


def test_references_are_read_when_a_message_is_delivered(
    receiver: HttpReceiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "hook"
    place.write_text(receiver.url("first"))
    monkeypatch.setenv("HOOK_KEY", SECRET)

    async def scene() -> None:
        async with delivering() as it:
            contact = Contact(webhook=f"file:{place}", secret="env:HOOK_KEY")
            assert (await it.deliver(order(contact))).is_delivered
            place.write_text(receiver.url("second"))
            assert (await it.deliver(order(contact))).is_delivered
            assert receiver.paths() == ["/first", "/second"]
            assert all(request.headers["evenbeat-signature"] for request in receiver.requests)

    play(scene)


def test_evenbeats_own_secrets_are_not_there_to_be_sent(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENBEAT_TOKEN", SECRET)
    monkeypatch.setenv("PGPASSWORD", SECRET)

    async def scene() -> None:
        for name, in_cluster in (("EVENBEAT_TOKEN", False), ("PGPASSWORD", True)):
            async with delivering(in_cluster=in_cluster) as it:
                end = await it.deliver(order(Contact(webhook=receiver.url(), secret=f"env:{name}")))
                assert end.error == (
                    f"secret: the node has no variable {name} in its environment, or keeps it for itself"
                )
        assert not receiver.requests

    play(scene)


def test_no_secret_is_ever_reported(
    receiver: HttpReceiver,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Receivers repeat what they got, break off and hang; hosts do not exist; URLs are broken."""
    receiver.answer_body = f"hello {SECRET} /{SECRET}/x".encode()
    port = receiver.port
    urls = [
        *(
            f"http://bot:{SECRET}@127.0.0.1:{port}/{how}/{SECRET}?key={SECRET}#{SECRET}"
            for how in ("500", "close", "garbage")
        ),
        f"http://127.0.0.1:1/{SECRET}",
        f"http://{SECRET}.invalid/",
        f"http://127.0.0.1:{port}/hang/{SECRET}",
        f"{SECRET}",
        f"http://[{SECRET}",
        f"http://127.0.0.1:{port}/ok\n{SECRET}",
    ]
    contacts = []
    for n, url in enumerate(urls):
        (tmp_path / f"url{n}").write_text(url)
        contacts.append(Contact(webhook=f"file:{tmp_path}/url{n}"))
        contacts.append(Contact(email=("a@example.org",), smtp=f"file:{tmp_path}/url{n}"))
        contacts.append(Contact(send=(f"file:{tmp_path}/url{n}",)))
        if n not in (4, 8):  # hosts are shown if they are no reference
            contacts.append(Contact(webhook=url))
    contacts += [
        Contact(send=(f"json://bot:{SECRET}@127.0.0.1:{port}/{how}/{SECRET}?rto=20&+X-Key={SECRET}",))
        for how in ("500", "close", "garbage", "hang")
    ]
    contacts.append(Contact(send=(f"slack://{SECRET}/{SECRET}",)))
    for scheme in ("smtp", "smtps", "smtp+starttls"):
        monkeypatch.setenv(f"MAIL_{scheme[-3:]}", f"{scheme}://bot:{SECRET}@127.0.0.1:{port}")
        contacts.append(Contact(email=("a@example.org",), smtp=f"env:MAIL_{scheme[-3:]}"))

    async def scene() -> None:
        async with delivering() as it:
            it.order(*(order(one, document(message=n, contact=f"c{n}"), seconds=1) for n, one in enumerate(contacts)))
            await it.wait(len(contacts))
            assert not any(end.is_delivered for end in it.ends)
            assert all(end.error for end in it.ends)
            for end in it.ends:
                assert SECRET not in repr(end)
                assert SECRET.lower() not in repr(end).lower()

    with caplog.at_level(logging.DEBUG):
        play(scene)
    said = capfd.readouterr()
    assert SECRET not in said.out + said.err + caplog.text


def test_a_message_that_is_too_large_ends_and_harms_no_other(
    receiver: HttpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sender_process, "MAX_DOCUMENT_SIZE", 1_000)

    async def scene() -> None:
        message = document(item(output="x" * 1_000))
        async with delivering() as it:
            end = await it.deliver(order(Contact(webhook=receiver.url()), message))
            assert (end.is_delivered, end.may_have_arrived) == (False, False)
            assert end.error.endswith("bytes, accepted: at most 1,000")
            assert (await it.deliver(hook(receiver))).is_delivered
            assert it.sender.restarts == 0

    play(scene)


def test_a_huge_message_gets_through(receiver: HttpReceiver) -> None:
    async def scene() -> None:
        message = document(*(item(f"task {n}", output="x" * 1_000) for n in range(10_000)))
        async with delivering() as it:
            assert (await it.deliver(order(Contact(webhook=receiver.url()), message))).is_delivered
            assert len(receiver.requests[0].document["items"]) == 10_000

    play(scene)
