"""A token that was removed or has expired: nothing that it began goes on, and it costs no work."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import msgspec
import pytest
from in_process_server import InProcessServer
from live_node import LiveNode
from waiting import PATIENCE

from evenbeat.admin.tokens import TOKEN_PREFIX, create_api_token, decode_tokens
from evenbeat.api.auth import authenticator, while_authorized
from evenbeat.api.auth.authenticator import TokenAuthenticator
from evenbeat.api.http.context import ApiContext
from evenbeat.api.live.event_feed import FeedPosition, LiveFeed
from evenbeat.api.routes import events
from evenbeat.api.server import protected_application
from evenbeat.client.node_or_database import open_client
from evenbeat.client.socket import NodeSocket
from evenbeat.model import HOUR, SECOND, Instant, Job, Schedule, Task


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other at once."""
    monkeypatch.setattr(events, "RECHECK_SECONDS", 0.01)
    monkeypatch.setattr(while_authorized, "RECHECK_SECONDS", 0.01)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[InProcessServer]:
    with InProcessServer(tmp_path) as server:
        yield server


async def looked_at(server: InProcessServer, monkeypatch: pytest.MonkeyPatch, times: int = 5) -> None:
    """Return when whoever waits was looked at so many times more, and is still welcome."""
    count, real = 0, TokenAuthenticator.is_still_authorized
    enough = asyncio.Event()

    async def counting(self: TokenAuthenticator, request: object) -> bool:
        nonlocal count
        count += 1
        if count >= times:
            enough.set()
        return await real(self, request)  # type: ignore[arg-type]

    monkeypatch.setattr(TokenAuthenticator, "is_still_authorized", counting)
    async with asyncio.timeout(PATIENCE):
        await enough.wait()
    monkeypatch.setattr(TokenAuthenticator, "is_still_authorized", real)


def stream_ends(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], revoke: Callable[[], object]
) -> None:
    async def scenario() -> None:
        transport = httpx.ASGITransport(app=server.app)
        async with httpx.AsyncClient(transport=transport, base_url=server.url, timeout=PATIENCE) as client:
            # Without an end there is no answer: the transport gives it as a whole.
            stream = asyncio.create_task(client.get("/v1/events", headers=headers))
            await looked_at(server, monkeypatch)
            assert not stream.done()
            await asyncio.to_thread(revoke)
            async with asyncio.timeout(PATIENCE):
                answer = await stream
            assert answer.status_code == 200
            refused = await client.get("/v1/events", headers=headers)
            assert refused.status_code == 401
            await server.context.live_feed.stop()

    asyncio.run(scenario())


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


def cookie(server: InProcessServer, text: str) -> dict[str, str]:
    answer = server("POST", "/v1/session", json={"token": text})
    assert answer.status_code == 200, answer.text
    return {"cookie": answer.headers["set-cookie"].partition(";")[0]}


By = Callable[[InProcessServer, str], dict[str, str]]
BOTH: list[By] = [lambda _, text: bearer(text), cookie]


@pytest.mark.parametrize("by", BOTH, ids=["token", "session"])
def test_an_event_stream_ends_with_its_token(server: InProcessServer, monkeypatch: pytest.MonkeyPatch, by: By) -> None:
    server.token("other", "admin")
    headers = by(server, server.token("ci", "read"))

    def remove() -> None:
        server.remove("ci")
        server.later(2.5)

    stream_ends(server, monkeypatch, headers, remove)


@pytest.mark.parametrize("by", BOTH, ids=["token", "session"])
def test_an_event_stream_ends_when_its_token_expires(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch, by: By
) -> None:
    expires = Instant(server.context.now() + HOUR)
    headers = by(server, server.token("ci", "read", expires))
    stream_ends(server, monkeypatch, headers, lambda: monkeypatch.setattr(server.context, "now", lambda: expires))


@pytest.mark.parametrize("by", BOTH, ids=["token", "session"])
def test_an_event_stream_ends_when_its_token_becomes_another(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch, by: By
) -> None:
    text = server.token("ci", "admin")
    headers = by(server, text)

    def expire() -> None:
        ((id_, token),) = decode_tokens(server.admin.store.settings(TOKEN_PREFIX)).items()
        changed = msgspec.structs.replace(token, expires=Instant(server.context.now() - SECOND))
        server.admin.store.set_settings({TOKEN_PREFIX + id_: msgspec.json.encode(changed).decode()})
        server.later(2.5)

    stream_ends(server, monkeypatch, headers, expire)


def test_an_event_stream_ends_when_somebody_signs_out(server: InProcessServer, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = cookie(server, server.token("ci", "read"))

    def sign_out() -> None:
        assert server("DELETE", "/v1/session", headers=headers).status_code == 204

    stream_ends(server, monkeypatch, headers, sign_out)


def test_an_event_stream_ends_when_its_session_is_twelve_hours_old(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = cookie(server, server.token("ci", "read"))
    stream_ends(server, monkeypatch, headers, lambda: server.later(12 * 3600))


def test_an_event_stream_of_an_open_door_ends_when_the_first_token_shuts_it(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream_ends(server, monkeypatch, {}, lambda: server.token("first", "admin"))


def test_who_reads_slowly_gets_nothing_more_once_the_token_is_gone() -> None:
    async def scenario() -> list[bytes]:
        listening = LiveFeed(NodeSocket(Path("none.sock")))
        welcome = True

        async def is_admitted() -> bool:
            return welcome

        pieces = listening.stream(None, is_admitted=is_admitted, look=0.0)
        found = [await anext(pieces)]
        listening.position = FeedPosition("boot", 7)
        found.append(await anext(pieces))
        welcome = False  # while the last piece is still being sent
        listening.position = FeedPosition("boot", 9)
        return found + [piece async for piece in pieces]

    assert asyncio.run(scenario()) == [b"retry: 1000\n\n", b"id: boot-7\n\n"]


def test_a_run_that_is_waited_for_is_not_told_to_a_token_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run itself goes on: whoever asked for it was allowed to."""
    with LiveNode(tmp_path / "a.db", grace=0.1) as live, closing(ApiContext(live.database)) as context:
        new = create_api_token("ci", "operate", Instant(0))
        with open_client(tmp_path / "a.db", "test") as admin_client:
            admin_client.add_token(new)
            admin_client.add(
                [Task(name, Schedule(every=24 * HOUR), Job(command=("sleep", "600"))) for name in "ab"], "test"
            )
        now = 1_000.0
        gate = TokenAuthenticator(context, "127.0.0.1", now=lambda: now)
        transport = httpx.ASGITransport(app=protected_application(context, gate))

        async def scenario() -> None:
            nonlocal now
            headers = bearer(new.text)
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=PATIENCE) as client:
                waits: list[Awaitable[httpx.Response]] = [
                    asyncio.create_task(client.post("/v1/tasks/a/run?wait=true", headers=headers)),
                    asyncio.create_task(client.post("/v1/runs", json={"tasks": ["b"], "wait": True}, headers=headers)),
                ]
                async with asyncio.timeout(PATIENCE):
                    while len(live.node.turns.pending_runs) < 2:
                        await asyncio.sleep(0.01)
                await asyncio.to_thread(_remove, tmp_path / "a.db")
                now += 2.5
                async with asyncio.timeout(PATIENCE):
                    answers = await asyncio.gather(*waits)
                assert [answer.status_code for answer in answers] == [401, 401]
                assert "not good any more" in answers[0].json()["detail"]
                assert len(live.node.turns.pending_runs) == 2

        asyncio.run(scenario())


def _remove(database: Path) -> None:
    with open_client(database, "test") as admin_client:
        admin_client.remove_token("ci")


def test_an_expired_token_costs_no_scrypt_and_counts_as_wrong(
    server: InProcessServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = server.token("other", "read")
    text = server.token("ci", "read", Instant(server.context.now() + HOUR))
    assert server("GET", "/v1/tasks", text).status_code == 200
    assert server("GET", "/v1/tasks", other).status_code == 200
    over = Instant(server.context.now() + HOUR)
    monkeypatch.setattr(server.context, "now", lambda: over)

    def scrypt(*_: object) -> bool:
        raise AssertionError("this costs 50 ms")

    monkeypatch.setattr(authenticator, "secret_matches", scrypt)
    with caplog.at_level(logging.WARNING, "evenbeat.api"):
        answers = [server("GET", "/v1/tasks", text) for _ in range(12)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429] * 2
    assert "expired" in answers[0].json()["detail"]
    assert server("POST", "/v1/session", json={"token": text}).status_code == 429
    assert server("GET", "/v1/tasks", other).status_code == 200  # whoever is known is not shut out by it


def test_the_session_of_an_expired_token_ends(server: InProcessServer, monkeypatch: pytest.MonkeyPatch) -> None:
    headers = cookie(server, server.token("ci", "read", Instant(server.context.now() + HOUR)))
    assert server("GET", "/v1/tasks", headers=headers).status_code == 200
    over = Instant(server.context.now() + HOUR)
    monkeypatch.setattr(server.context, "now", lambda: over)
    assert server("GET", "/v1/tasks", headers=headers).status_code == 401
    assert server("GET", "/v1/session", headers=headers).json() == {"role": None, "needs_token": True}


def test_a_cookie_that_somebody_got_while_the_node_was_stopped_opens_nothing_when_it_is_back(tmp_path: Path) -> None:
    """Another user can take the port of a stopped node, and browsers send their cookies there. With TLS they do not."""
    with LiveNode(tmp_path / "a.db", grace=0.1) as live, closing(ApiContext(live.database)) as context:
        new = create_api_token("ana", "admin", Instant(0))
        with open_client(tmp_path / "a.db", "test") as admin_client:
            admin_client.add_token(new)

        async def served(life: str, port: int, headers: dict[str, str] | None = None) -> httpx.Response:
            gate = TokenAuthenticator(context, "127.0.0.1", port, life)
            transport = httpx.ASGITransport(app=protected_application(context, gate))
            async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=PATIENCE) as client:
                if headers is None:
                    return await client.post("/v1/session", json={"token": new.text})
                return await client.get("/v1/tasks", headers=headers)

        async def scenario() -> None:
            for life, later, expected in (("one", "one", 200), ("one", "two", 401), ("one", "", 401), ("", "", 200)):
                answer = await served(life, 8629)
                cookie = {"cookie": answer.headers["set-cookie"].partition(";")[0]}
                assert (await served(later, 8629, cookie)).status_code == expected, (life, later)

        asyncio.run(scenario())
