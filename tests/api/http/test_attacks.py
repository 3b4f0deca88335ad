import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import HttpServer, all_of
from in_process_server import InProcessServer
from waiting import PATIENCE

from evenbeat.api.http.rate_limit import RateLimiter, client_network
from evenbeat.api.http.request_limits import SecurityMiddleware
from evenbeat.api.http.security_headers import SECURITY_HEADERS

POST = b"POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcessServer]:
    """Without tokens."""
    with InProcessServer(tmp_path_factory.mktemp("open")) as server:
        yield server


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[InProcessServer, str]]:
    """With one, of an admin."""
    with InProcessServer(tmp_path_factory.mktemp("closed")) as server:
        yield server, server.token("ana", "admin")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with HttpServer(tmp_path_factory.mktemp("serving")) as serving:
        yield serving


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


# Names that lead to us


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8629", "127.0.0.1.evil.example", "localhost.evil", ""])
def test_a_page_whose_name_leads_to_us_is_refused(server: InProcessServer, host: str) -> None:
    for method in ("GET", "DELETE"):
        assert server(method, "/v1/tasks/x", headers={"host": host}).status_code == 403
    assert server("GET", "/v1/session", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8629", "127.0.0.1", "127.9.9.9:1", "[::1]", "[::1]:8629"])
def test_names_of_this_machine_are_ours(server: InProcessServer, host: str) -> None:
    assert server("GET", "/v1/tasks", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("header", ["forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip"])
def test_what_came_through_a_proxy_is_not_from_this_machine(server: InProcessServer, header: str) -> None:
    assert server("GET", "/v1/tasks", headers={header: "127.0.0.1"}).status_code == 403


# Pages of others


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"origin": "null"},
        {"origin": ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "origin": "http://127.0.0.1:8629"},
    ],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/tasks"), ("DELETE", "/v1/tasks/x"), ("POST", "/v1/session")]
)
def test_pages_of_others_change_nothing(
    server: InProcessServer, headers: dict[str, str], method: str, path: str
) -> None:
    assert server(method, path, headers=headers).status_code == 403


def test_a_page_has_no_token_to_send_so_whoever_sends_one_is_believed(closed: tuple[InProcessServer, str]) -> None:
    server, text = closed
    headers = {"origin": "http://evil.example"}
    assert server("DELETE", "/v1/tasks/x", text, headers=headers).status_code not in (401, 403)
    assert server("POST", "/v1/session", text, headers=headers, json={"token": text}).status_code == 403


def test_our_own_page_may(server: InProcessServer) -> None:
    headers = {"origin": server.url, "sec-fetch-site": "same-origin"}
    assert server("DELETE", "/v1/tasks/x", headers=headers).status_code not in (401, 403)


def test_with_tls_a_page_without_it_is_somebody_elses(tmp_path: Path) -> None:
    with InProcessServer(tmp_path, is_secure=True) as server:
        assert server("DELETE", "/v1/tasks/x", headers={"origin": "http://127.0.0.1:8629"}).status_code == 403
        assert server("DELETE", "/v1/tasks/x", headers={"origin": server.url}).status_code != 403


def test_a_cookie_changes_nothing_without_our_header(closed: tuple[InProcessServer, str]) -> None:
    server, text = closed
    answer = server("POST", "/v1/session", json={"token": text})
    headers = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
    for wrong in ({}, {"x-evenbeat": "0"}, {"x-evenbeat": "1", "origin": "http://evil.example"}):
        assert server("DELETE", "/v1/tasks/x", headers={**headers, **wrong}).status_code == 403
    assert server("DELETE", "/v1/tasks/x", headers={**headers, "x-evenbeat": "1"}).status_code not in (401, 403)
    assert server("GET", "/v1/tasks", headers={"cookie": "evenbeat_session=guess"}).status_code == 401


@pytest.mark.parametrize("said", ["Basic YTpi", "Bearer", "Bearer ", "evb_x", "Bearer é", "bearer\tx"])
def test_what_is_no_token_lets_nobody_in(closed: tuple[InProcessServer, str], said: str) -> None:
    server, _ = closed
    assert server("GET", "/v1/tasks", headers={"authorization": said.encode()}).status_code == 401


# Paths


@pytest.mark.parametrize(
    "path",
    [
        b"/static/../../../etc/passwd",
        b"/static/..%2f..%2f..%2fetc%2fpasswd",
        b"/static/%2e%2e/routes.py",
        b"/static//etc/passwd",
        b"/v1/../metrics",
        b"/v1/tasks/..%2f..%2fmetrics",
        b"//evil.example/v1/tasks",
        b"/v1//tasks",
        b"/%76%31/tasks%2f",
        b"/v1/tasks/%ff",
    ],
)
def test_tricky_paths_lead_nowhere(serving: HttpServer, path: bytes) -> None:
    answer = serving.say(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status(answer) == 404, answer


@pytest.mark.parametrize("path", [b"/v1/tasks/%00", b"/static/%00", b"http://127.0.0.1/v1/tasks", b"*", b"v1/tasks"])
def test_what_is_no_path_of_ours_is_refused(serving: HttpServer, path: bytes) -> None:
    answer = serving.say(b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert status(answer) == 400, answer


# Too much, and too slow


def test_a_body_that_says_it_is_too_large_is_not_read(serving: HttpServer) -> None:
    answer = serving.say(POST + b"Content-Length: 999999999999\r\n\r\n")
    assert status(answer) == 413
    assert b"connection: close" in answer.lower()


def test_a_body_that_does_not_say_so_is_read_up_to_the_limit(serving: HttpServer) -> None:
    chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with serving.connect() as connection:
        connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n")
        sent = 0
        try:
            while sent < 1_000:  # 64 MiB
                connection.sendall(chunk)
                sent += 1
        except OSError:
            pass
    assert sent < 1_000  # they stopped listening long before


async def _swallow(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_the_guard_has_a_limit_of_its_own_for_routes_without_one() -> None:
    import asyncio

    import httpx

    async def ask(size: int) -> int:
        async def pieces() -> Any:
            for _ in range(size):
                yield b"x"

        transport = httpx.ASGITransport(app=SecurityMiddleware(_swallow, largest=10))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            return (await client.post("/", content=pieces())).status_code

    assert [asyncio.run(ask(size)) for size in (10, 11)] == [200, 413]


def test_a_slow_body_is_ended_with_408(serving: HttpServer) -> None:
    answer = serving.say(POST + b"Content-Length: 10\r\n\r\n{")
    assert status(answer) == 408
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize("begin", [b"", b"GET /v1/ta", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "])
def test_slow_headers_are_not_waited_for(serving: HttpServer, begin: bytes) -> None:
    assert serving.say(begin) == b""


def test_a_byte_now_and_then_keeps_no_connection(serving: HttpServer) -> None:
    with serving.connect() as connection:
        # A body that no handler reads: the answer is there at once, and still they do not wait for the rest for ever.
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        deadline = time.monotonic() + PATIENCE
        connection.settimeout(0.05)
        answer, is_closed = b"", False
        while not is_closed:
            assert time.monotonic() < deadline, "they still wait"
            try:
                connection.sendall(b"x")
                piece = connection.recv(65_536)
                answer, is_closed = answer + piece, not piece
            except TimeoutError:
                continue
            except OSError:
                is_closed = True
    assert status(answer) == 200


def test_headers_are_bounded(serving: HttpServer) -> None:
    answer = serving.say(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 100_000)
    assert status(answer) == 400


def test_two_requests_on_one_connection_are_both_answered(serving: HttpServer) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    with serving.connect() as connection:
        connection.sendall(request + b"\r\n" + request + b"Connection: close\r\n\r\n")
        assert all_of(connection).count(b'{"ok":true') == 2


def test_too_many_requests_are_told_when_to_come_again(tmp_path: Path) -> None:
    now = 0.0
    buckets = RateLimiter(3, 2, lambda: now)
    assert [buckets.take_token("a") for _ in range(4)] == [0, 0, 0, 1]
    assert buckets.take_token("b") == 0
    now = 0.5
    assert [buckets.take_token("a") for _ in range(2)] == [0, 1]
    with InProcessServer(tmp_path) as server:
        answers = [server("GET", "/v1/session") for _ in range(3)]
        server.app.request_limiter = RateLimiter(1, 1, lambda: now)
        answers += [server("GET", "/v1/session") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 200, 429]
    assert answers[-1].headers["retry-after"] == "1"


def test_buckets_forget_those_who_are_long_gone() -> None:
    buckets = RateLimiter(1, 0.001, lambda: 0.0)
    for number in range(20_000):
        buckets.take_token(str(number))
    assert len(buckets._buckets) == 10_000


def test_a_network_of_ipv6_is_one_client() -> None:
    assert client_network("2001:db8::1") == client_network("2001:db8::ffff:1")
    assert client_network("2001:db8::1") != client_network("2001:db8:0:1::1")
    assert client_network("::ffff:192.0.2.1") != client_network("::ffff:192.0.2.2")
    assert client_network("192.0.2.1") != client_network("192.0.2.2")


# What goes out


@pytest.mark.parametrize("path", ["/", "/v1/tasks", "/v1/nothing", "/healthz", "/static/app.js", "/docs", "/%00"])
def test_every_answer_has_the_rules_for_browsers(server: InProcessServer, path: str) -> None:
    answer = server("GET", path)
    for name, value in SECURITY_HEADERS.items():
        assert answer.headers[name.decode()] == value.decode()
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert answer.headers["cache-control"] in ("no-store", "no-cache")
    assert "server" not in answer.headers
    if path.startswith("/v1"):
        assert answer.headers["cache-control"] == "no-store"
