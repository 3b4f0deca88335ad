import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from api_client import ApiClient, RoleNameAuthenticator
from http_server import HttpServer, all_of
from live_node import LiveNode
from waiting import PATIENCE

from evenbeat.api.http.context import ApiContext
from evenbeat.api.live.event_feed import FeedPosition, LiveFeed, parse_feed_position
from evenbeat.api.routes import streams
from evenbeat.client.socket import NodeSocket
from evenbeat.model import Instant, Job, Outcome, RunKind, Schedule, State, Task
from evenbeat.node.answers.status import status_of
from evenbeat.store.contract import Filter
from evenbeat.wire.events import EventMessage, RunEvent, TaskEvent
from evenbeat.wire.status import Lateness, Status

NOWHERE = NodeSocket(Path("no such node"))


class Heard(NamedTuple):
    name: str
    id: str
    data: Any


def read(piece: bytes) -> list[Heard]:
    """What a browser makes of a piece of a stream; comments are told by their text."""
    found = []
    for block in piece.decode().removesuffix("\n\n").split("\n\n"):
        if block.startswith(":"):
            found.append(Heard("comment", "", block[1:].strip()))
            continue
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        if "retry" not in fields:
            found.append(Heard(fields.get("event", ""), fields.get("id", ""), json.loads(fields.get("data", "null"))))
    return found


class Browser:
    """Reads a stream, piece by piece."""

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        self._pieces = pieces
        self.heard: list[Heard] = []

    async def until(self, question: Callable[[list[Heard]], Any]) -> list[Heard]:
        async with asyncio.timeout(PATIENCE):
            while not question(self.heard):
                self.heard += read(await anext(self._pieces))
        return self.heard

    async def until_it_ends(self) -> list[Heard]:
        async with asyncio.timeout(PATIENCE):
            async for piece in self._pieces:
                self.heard += read(piece)
        return self.heard

    async def piece(self) -> list[Heard]:
        async with asyncio.timeout(PATIENCE):
            return read(await anext(self._pieces))


def browser(listening: LiveFeed, heard: str = "", **more: Any) -> Browser:
    return browser_at(listening, parse_feed_position(heard) if heard else None, **more)


def browser_at(listening: LiveFeed, heard: FeedPosition | None, **more: Any) -> Browser:
    async def is_admitted() -> bool:
        return True

    return Browser(listening.stream(heard, is_admitted=is_admitted, look=1.0, **more))


def a_message(count: int, last: int, boot: str = "boot", status: Status | None = None) -> EventMessage:
    return EventMessage(boot, last, [TaskEvent(f"t-{last - count + 1 + i}", "changed") for i in range(count)], status)


def names(heard: list[Heard]) -> list[str]:
    return [one.data["name"] for one in heard if one.name == "task"]


def resets(heard: list[Heard]) -> int:
    return sum(one.name == "reset" for one in heard)


# Along what was heard


def test_a_new_browser_learns_where_it_is_and_all_that_follows() -> None:
    async def story() -> None:
        listening = LiveFeed(NOWHERE)
        listening.receive(a_message(3, 3))
        new = browser(listening)
        await new.until(lambda heard: heard)
        assert new.heard == [Heard("", "boot-3", None)]
        listening.receive(a_message(2, 5))
        await new.until(lambda heard: len(names(heard)) == 2)
        assert [(one.id, one.data) for one in new.heard[1:]] == [
            ("boot-4", {"name": "t-4", "change": "changed", "next": None}),
            ("boot-5", {"name": "t-5", "change": "changed", "next": None}),
        ]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("boot-7", []),
        ("boot-5", ["t-6", "t-7"]),
        ("boot-2", ["t-3", "t-4", "t-5", "t-6", "t-7"]),
    ],
)
def test_who_comes_back_gets_what_they_missed(last: str, expected: list[str]) -> None:
    async def story() -> None:
        listening = LiveFeed(NOWHERE, kept=5)
        for i in range(1, 8):
            listening.receive(a_message(1, i))
        back = browser(listening, last)
        listening.receive(a_message(0, 7, status=a_status()))
        await back.until(lambda heard: any(one.name == "status" for one in heard))
        assert names(back.heard) == expected
        assert not resets(back.heard)

    asyncio.run(story())


@pytest.mark.parametrize("last", ["boot-1", "boot-8", "other-7", "boot-x", "-", "boot-99999999999999999999", "\u0665"])
def test_who_missed_what_is_not_known_any_more_reads_everything_again(last: str) -> None:
    async def story() -> None:
        listening = LiveFeed(NOWHERE, kept=5)
        for i in range(1, 8):
            listening.receive(a_message(1, i))
        back = browser_at(listening, parse_feed_position(last) or FeedPosition("", 0))
        await back.until(lambda heard: heard)
        assert back.heard == [Heard("reset", "boot-7", {})]
        listening.receive(a_message(1, 8))
        await back.until(lambda heard: len(heard) == 2)
        assert names(back.heard) == ["t-8"]

    asyncio.run(story())


@pytest.mark.parametrize(
    "feed", [a_message(1, 9), a_message(0, 8), a_message(1, 1, "another start"), a_message(0, 0, "another start")]
)
def test_a_gap_and_another_start_of_the_node_are_told_once(feed: EventMessage) -> None:
    async def story() -> None:
        listening = LiveFeed(NOWHERE)
        listening.receive(a_message(7, 7))
        connected = browser(listening)
        await connected.until(lambda heard: heard)
        listening.receive(feed)
        await connected.until(resets)
        listening.receive(a_message(1, feed.seq + 1, feed.boot))
        await connected.until(names)
        assert [one.name for one in connected.heard] == ["", "reset", "task"]
        assert listening.position == FeedPosition(feed.boot, feed.seq + 1)

    asyncio.run(story())


def test_a_slow_reader_is_told_so_and_keeps_nobody_waiting() -> None:
    async def story() -> None:
        listening = LiveFeed(NOWHERE, kept=1_000)
        listening.receive(a_message(1, 1))
        slow, quick = browser(listening), browser(listening)
        for one in (slow, quick):
            await one.until(lambda heard: heard)
        for last in range(301, 3_002, 300):
            listening.receive(a_message(300, last))
            await quick.until(lambda heard: len(names(heard)) == last - 1)  # noqa: B023 - asked at once
        assert not resets(quick.heard)
        assert len(await slow.piece()) == 1
        await slow.until(lambda heard: True)
        listening.receive(a_message(1, 3_002))
        await slow.until(names)
        assert names(slow.heard) == ["t-3002"]

    asyncio.run(story())


def test_what_waits_for_a_browser_is_told_in_pieces() -> None:
    async def story() -> None:
        listening = LiveFeed(NOWHERE)
        listening.receive(a_message(2_000, 2_000))
        back = browser(listening, "boot-0")
        assert await back.piece() == []  # how soon to come back
        sizes = [len(await back.piece()) for _ in range(4)]
        assert sizes == [500, 500, 500, 500]

    asyncio.run(story())


def test_a_silent_connection_shows_signs_of_life_and_ends_in_time() -> None:
    async def story() -> None:
        heard = await browser(LiveFeed(NOWHERE), beat=0.01, longest=0.2).until_it_ends()
        assert {(one.name, one.data) for one in heard} == {("comment", "beat")}
        assert len(heard) > 2

    asyncio.run(story())


def test_everybody_is_let_go_when_it_is_over() -> None:
    async def story() -> None:
        listening = LiveFeed(NOWHERE)
        listening.start()
        connected = [asyncio.create_task(browser(listening).until_it_ends()) for _ in range(3)]
        await asyncio.sleep(0)
        await listening.stop()
        assert await asyncio.gather(*connected) == [[], [], []]
        assert not listening.is_live

    asyncio.run(story())


def a_status() -> Status:
    return Status(1, 1, 0, 8, 0, 0, 0, 0, {}, 5, {}, {}, 0.5, Lateness(0, 0, 0), 1.0, 0, "ok")


def test_every_status_is_told_and_only_the_latest_to_who_was_busy() -> None:
    async def story() -> None:
        listening = LiveFeed(NOWHERE)
        for started in (1, 2, 3):
            listening.receive(EventMessage("boot", 0, status=a_status(), started_last_second=started))
        connected = browser(listening)
        await connected.until(lambda heard: len(heard) == 2)
        assert (connected.heard[1].name, connected.heard[1].id) == ("status", "")
        assert (connected.heard[1].data["started_last_second"], connected.heard[1].data["runs"]) == (3, 5)
        assert listening.status is not None

    asyncio.run(story())


def test_a_run_is_told_in_the_words_of_history() -> None:
    async def story() -> None:
        listening = LiveFeed(NOWHERE)
        listening.receive(EventMessage("boot", 0))
        connected = browser(listening)
        await connected.until(lambda heard: heard)
        run = RunEvent(
            "web/ping",
            Instant(1_800_000_000_000_000),
            RunKind.CATCH_UP,
            Instant(1_800_000_000_100_000),
            Instant(1_800_000_001_000_000),
            Outcome.FAILED,
            2,
            State.CRITICAL,
            hard=False,
            attempt=1,
            flapping=False,
            output="a\u2028b\r\n: c",
            notable=True,
            next=Instant(1_800_000_300_000_000),
            number=7,
        )
        listening.receive(EventMessage("boot", 1, [run]))
        await connected.until(lambda heard: len(heard) == 2)
        assert connected.heard[1] == Heard(
            "run",
            "boot-1",
            {
                "task": "web/ping",
                "nominal": "2027-01-15T08:00:00+00:00",
                "kind": "catch-up",
                "started": "2027-01-15T08:00:00.100000+00:00",
                "ended": "2027-01-15T08:00:01+00:00",
                "outcome": "failed",
                "status": 2,
                "state": "critical",
                "hard": False,
                "attempt": 1,
                "flapping": False,
                "output": "a\u2028b\r\n: c",
                "notable": True,
                "next": "2027-01-15T08:05:00+00:00",
                "newest": True,
                "number": 7,
                "retry": None,
            },
        )

    asyncio.run(story())


# With a node that lives


def test_runs_changes_and_the_status_of_a_real_node_survive_its_restart(tmp_path: Path) -> None:
    database = tmp_path / "evenbeat.db"
    task = Task(name="failing", schedule=Schedule(every=86_400_000_000), job=Job(command=("false",)))

    async def story() -> None:
        with LiveNode(database) as live_node:
            context = ApiContext(database)
            listening = context.live_feed
            listening.start()
            connected = browser(listening)
            await connected.until(lambda heard: any(one.name == "status" for one in heard))
            await asyncio.to_thread(change, live_node)
            await connected.until(lambda heard: any(one.name == "run" for one in heard))
            await connected.until(lambda heard: "removed" in [o.data["change"] for o in heard if o.name == "task"])
            run = next(one for one in connected.heard if one.name == "run")
            assert (run.data["task"], run.data["outcome"], run.data["notable"]) == ("failing", "failed", True)
            changes = [one.data for one in connected.heard if one.name == "task"]
            assert [(one["name"], one["change"]) for one in changes] == [("failing", "created"), ("failing", "removed")]
            assert [one["next"] is None for one in changes] == [False, True]
            assert run.data["next"] == changes[0]["next"]
            assert listening.is_live
            assert listening.status is not None
            assert listening.status.tasks == status_of(live_node.node).tasks
            last = max((one.id for one in connected.heard if one.id), key=lambda id_: int(id_.rpartition("-")[2]))
            again = browser(listening, run.id)
            await again.until(names)
            assert names(again.heard) == ["failing"]
        before = len(connected.heard)
        with LiveNode(database):
            await connected.until(lambda heard: resets(heard[before:]))
            late = browser(listening, last)
            await late.until(lambda heard: heard)
            assert late.heard[0].name == "reset"
            # Our own connection to the node is not the browser's.
            await connected.until(lambda heard: any(one.name == "status" for one in heard[before:]))
        await listening.stop()
        context.close()

    def change(live_node: LiveNode) -> None:
        with live_node.client() as client:
            client.add([task], "me")
            client.run_now(["failing"], wait=True)
            client.remove(Filter(names=("failing",)))

    asyncio.run(story())


# Over HTTP


async def connect(api: ApiClient, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Ask the application, hear its answer until there is a status, and go away."""
    start: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    body = bytearray()
    heard = asyncio.Event()

    async def receive() -> dict[str, Any]:
        await heard.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            start.set_result(message)
        else:
            body.extend(message["body"])
            if b"event: status" in body or not message.get("more_body"):
                heard.set()

    route, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": route,
        "raw_path": route.encode(),
        "query_string": query.encode(),
        "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("localhost", 80),
        "app": api.app,
    }
    async with asyncio.timeout(PATIENCE):
        await api.app(scope, receive, send)  # type: ignore[arg-type]
    message = start.result()
    return message["status"], {k.decode(): v.decode() for k, v in message["headers"]}, bytes(body)


READER = {"host": "localhost", "authorization": "Bearer reader"}


@pytest.fixture
def over_http(live_node: LiveNode) -> Any:
    """Ask on one loop: what listens to the node lives on it."""

    def ask(path: str = "/v1/events", **headers: str) -> tuple[int, dict[str, str], bytes, int]:
        async def story() -> tuple[int, dict[str, str], bytes, int]:
            context = ApiContext(live_node.database)
            api = ApiClient(context, RoleNameAuthenticator())
            try:
                return *await connect(api, path, READER | headers), context.live_feed.streams
            finally:
                await context.live_feed.stop()
                context.close()

        return asyncio.run(story())

    return ask


def test_the_stream_begins_at_once_and_is_never_stored(over_http: Any) -> None:
    status, headers, body, left = over_http()
    assert (status, headers["content-type"], headers["cache-control"]) == (
        200,
        "text/event-stream; charset=utf-8",
        "no-store",
    )
    assert body.startswith(b"retry: 1000\n\n")
    assert left == 0


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/v1/events", {"last-event-id": "another-5"}),
        ("/v1/events?last_event_id=another-5", {}),
        ("/v1/events?last_event_id=rubbish", {}),
    ],
)
def test_where_to_go_on_is_said_by_header_or_query(over_http: Any, path: str, headers: dict[str, str]) -> None:
    body = over_http(path, **headers)[2]
    assert b"event: reset\n" in body


def test_somebody_without_a_token_hears_nothing(over_http: Any) -> None:
    assert over_http(authorization="")[0] == 401


def test_there_are_only_so_many_connections(over_http: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MAX_STREAMS", 0)
    status, headers, _, left = over_http()
    assert (status, headers["content-type"], headers["retry-after"]) == (503, "application/problem+json", "10")
    assert left == 0


def test_a_server_that_stops_ends_its_streams_properly(tmp_path: Path) -> None:
    with HttpServer(tmp_path) as serving, LiveNode(tmp_path / "serving.db"):
        connection = serving.connect()
        connection.sendall(f"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1:{serving.port}\r\n\r\n".encode())
        heard = b""
        while b"event: status" not in heard:
            piece = connection.recv(65_536)
            assert piece, heard
            heard += piece
        assert b"content-type: text/event-stream" in heard.lower()
        serving.__exit__(None, None, None)
        heard += all_of(connection)
        connection.close()
    # The last chunk is there: it was ended, not broken off.
    assert heard.endswith(b"0\r\n\r\n")
