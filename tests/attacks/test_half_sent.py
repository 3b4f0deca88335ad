"""Connections that send nothing, half a request or half a body, answers that nobody reads: others are answered."""

import resource
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from http_server import HttpServer, all_of
from in_process_server import InProcessServer
from waiting import PATIENCE, eventually

from evenbeat.api.http import connections, request_limits
from evenbeat.api.http.connections import (
    IDLE_GRACE_SECONDS,
    MAX_IDLE,
    MAX_IDLE_PER_ADDRESS,
    ConnectionTable,
    ListeningSocket,
    TrackedConnection,
)
from evenbeat.api.http.protocol import TimeoutProtocol
from evenbeat.api.http.rate_limit import RateLimiter
from evenbeat.api.http.refusals import CONNECTION_REASON, RefusalCounter

HALF_SENT = 2_000
BEGUN = b"GET /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\n"
HALF_A_BODY = (
    b"POST /v1/validate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)


class Patient(TimeoutProtocol):
    """Longer than the test: what was opened stays open unless it must give way."""

    headers_timeout = body_timeout = response_timeout = 2 * PATIENCE


@pytest.fixture(scope="module", autouse=True)
def descriptors() -> Iterator[None]:
    """Both ends of each connection are in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    enough = 3 * HALF_SENT
    if hard != resource.RLIM_INFINITY and hard < enough:
        pytest.skip(f"this takes {enough} descriptors, and the system allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, enough), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with HttpServer(tmp_path_factory.mktemp("serving"), Patient) as serving:
        yield serving


@contextmanager
def many(serving: HttpServer, count: int, begin: bytes) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = stack.enter_context(serving.connect())
            connection.sendall(begin)
            opened.append(connection)
        yield opened


def get(serving: HttpServer, path: str) -> int:
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
    return int(serving.say(request.encode()).split(b" ", 2)[1])


@pytest.mark.parametrize("begin", [b"", BEGUN, HALF_A_BODY], ids=["nothing", "half a head", "half a body"])
def test_two_thousand_half_sent_requests_keep_nobody_from_being_answered(serving: HttpServer, begin: bytes) -> None:
    before = serving.context.refusals.counts[CONNECTION_REASON]
    with many(serving, HALF_SENT, begin):
        listed: ConnectionTable = serving.server.connections  # type: ignore[attr-defined]
        eventually(lambda: serving.context.refusals.counts[CONNECTION_REASON] > before or listed.total >= HALF_SENT)
        assert get(serving, "/healthz") == 200
        assert get(serving, "/readyz") == 503  # no node is there, and that is what it says
        assert get(serving, "/v1/tasks") == 200
        # One more, after the grace: then the oldest are closed, down to what one address may have.
        late = listed.now
        listed.now = lambda: late() + 2 * IDLE_GRACE_SECONDS
        try:
            assert get(serving, "/v1/tasks") == 200
            assert listed.idle_count("127.0.0.1") <= MAX_IDLE_PER_ADDRESS
            assert serving.context.refusals.counts[CONNECTION_REASON] >= before + HALF_SENT - MAX_IDLE_PER_ADDRESS
        finally:
            listed.now = late
    eventually(lambda: listed.total == 0)


def test_a_connection_that_gives_way_is_closed_and_the_younger_ones_work(serving: HttpServer) -> None:
    listed: ConnectionTable = serving.server.connections  # type: ignore[attr-defined]
    with many(serving, MAX_IDLE_PER_ADDRESS, BEGUN) as opened:
        eventually(lambda: listed.idle_count() == MAX_IDLE_PER_ADDRESS)
        late = listed.now
        listed.now = lambda: late() + 2 * IDLE_GRACE_SECONDS
        try:
            assert get(serving, "/healthz") == 200
        finally:
            listed.now = late
        assert all_of(opened[0]) == b""
        opened[-1].sendall(b"Connection: close\r\n\r\n")
        assert all_of(opened[-1]).startswith(b"HTTP/1.1 200")


def test_answers_are_counted_and_health_is_not_among_them(serving: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Counter(serving.context.refusals.counts)
    monkeypatch.setattr(request_limits, "MAX_CONCURRENT_REQUESTS_PER_ADDRESS", 0)
    assert get(serving, "/v1/tasks") == 503
    assert get(serving, "/healthz") == 200
    monkeypatch.setattr(request_limits, "MAX_CONCURRENT_REQUESTS_PER_ADDRESS", 1)
    monkeypatch.setattr(request_limits, "MAX_CONCURRENT_REQUESTS", 0)
    assert get(serving, "/v1/tasks") == 503
    assert get(serving, "/healthz") == 200
    assert serving.context.refusals.counts - before == {"busy": 2}


def test_who_asks_too_often_does_not_make_us_look_dead(tmp_path: Path) -> None:
    with InProcessServer(tmp_path) as server:
        server.app.request_limiter = RateLimiter(1, 1, lambda: 0.0)
        assert [server("GET", "/v1/tasks").status_code for _ in range(2)] == [200, 429]
        assert server("GET", "/healthz").status_code == 200
        assert server.context.refusals.counts["too-many"] == 1


class Impatient(TimeoutProtocol):
    response_timeout = 0.2


def test_an_answer_that_nobody_reads_is_given_up(tmp_path: Path) -> None:
    with HttpServer(tmp_path, Impatient) as serving, socket.socket() as connection:
        listed: ConnectionTable = serving.server.connections  # type: ignore[attr-defined]
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.connect(("127.0.0.1", serving.port))
        # Megabytes of answers: more than all buffers on the way hold.
        connection.sendall(b"GET /v1/openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 100)
        eventually(lambda: listed.total == 1)
        eventually(lambda: listed.total == 0)


def test_a_handshake_that_never_ends_is_a_connection_that_waits() -> None:
    """TLS or not: the list begins where connections are accepted."""
    refusals, now = RefusalCounter(), [0.0]
    listed = ConnectionTable(refusals, lambda: now[0])
    with ListeningSocket.of(socket.create_server(("127.0.0.1", 0)), listed) as listener, ExitStack() as stack:
        accepted = []
        for _ in range(MAX_IDLE_PER_ADDRESS + 1):
            stack.enter_context(socket.create_connection(listener.getsockname(), PATIENCE))
            accepted.append(stack.enter_context(listener.accept()[0]))
            now[0] += IDLE_GRACE_SECONDS / MAX_IDLE_PER_ADDRESS
        assert (listed.total, listed.idle_count()) == (MAX_IDLE_PER_ADDRESS + 1, MAX_IDLE_PER_ADDRESS)
        assert accepted[0].recv(1) == b""
        assert refusals.counts[CONNECTION_REASON] == 1
    assert (listed.total, listed.idle_count()) == (0, 0)


# The rule itself


class Fake(TrackedConnection):
    """Never connected."""

    def __init__(self, listed: ConnectionTable, address: str, port: int) -> None:
        super().__init__()
        self.connections, self.address, self.peer = listed, address, (address, port)
        self.was_ended = False

    def shutdown(self, how: int) -> None:
        self.was_ended = True


Come = Callable[[str], Fake]


@pytest.fixture
def world() -> Iterator[tuple[ConnectionTable, list[float], Come, list[Fake]]]:
    now: list[float] = [0.0]
    all_: list[Fake] = []
    listed = ConnectionTable(RefusalCounter(), lambda: now[0])

    def come(address: str) -> Fake:
        fake = Fake(listed, address, len(all_))
        all_.append(fake)
        listed.opened(fake)
        return fake

    yield listed, now, come, all_
    for fake in all_:
        fake.close()


def test_a_burst_is_read_before_anything_is_closed(world: Any) -> None:
    listed, now, come, everybody = world
    for _ in range(MAX_IDLE_PER_ADDRESS + 50):
        come("10.0.0.1")
    assert not any(fake.was_ended for fake in everybody)
    # They are read, and answered: nobody waits for them any more.
    for fake in everybody:
        listed.mark_busy(fake.peer)
    now[0] += 2 * IDLE_GRACE_SECONDS
    come("10.0.0.1")
    assert not any(fake.was_ended for fake in everybody)


def test_an_address_takes_from_itself_first_and_then_all_from_the_oldest(world: Any) -> None:
    listed, now, come, everybody = world
    other = come("10.0.0.2")
    for _ in range(MAX_IDLE_PER_ADDRESS + 10):
        now[0] += IDLE_GRACE_SECONDS
        come("10.0.0.1")
    assert (listed.idle_count("10.0.0.1"), other.was_ended) == (MAX_IDLE_PER_ADDRESS, False)
    for number in range(MAX_IDLE):
        now[0] += IDLE_GRACE_SECONDS
        come(f"10.0.1.{number}")
    assert (listed.idle_count(), other.was_ended) == (MAX_IDLE, True)
    assert everybody[-1].was_ended is False


def test_a_kept_connection_waits_again_after_its_answer(world: Any) -> None:
    listed, _, come, _ = world
    one = come("10.0.0.1")
    listed.mark_busy(one.peer)
    assert listed.idle_count() == 0
    listed.mark_idle(one.peer)
    listed.mark_idle(one.peer)
    assert listed.idle_count() == 1
    one.close()
    assert (listed.idle_count(), listed.total) == (0, 0)


def test_without_grace_above_the_last_bound(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, come, _ = world
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 10)
    modest = come("10.0.0.2")
    first = come("10.0.0.1")
    for _ in range(9):
        come("10.0.0.1")
    assert (first.was_ended, modest.was_ended) == (True, False)


def test_networks_of_ipv6_are_one_address() -> None:
    listed = ConnectionTable(RefusalCounter())
    assert listed.idle_count("2001:db8::1") == 0
