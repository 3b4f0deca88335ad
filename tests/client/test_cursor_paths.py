"""Cursors, by each way to ask - a live node, URL, program, database without a node: the same is set and refused."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from http_server import HttpServer
from live_node import LiveNode
from waiting import eventually

from conftest import Evenbeat
from evenbeat.app import App
from evenbeat.client.contract import Client
from evenbeat.client.http import HttpClient
from evenbeat.client.http_connection import ApiConnection
from evenbeat.client.node_or_database import DatabaseClient
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import ArgumentValue, Invalid
from evenbeat.store.contract import AuditFilter, Conflict, Filter
from evenbeat.wire.replies import ChangedCursor, NotFound

LIVE = ("live node", "URL", "program")
WAYS = (*LIVE, "database", "program without a node")
TASKS: dict[str, dict[str, Any]] = {
    "pages": {"command": ["sh", "-c", 'echo "$EVENBEAT_CURSOR"']},
    "sum": {"function": "shop:add"},
    "nap": {"command": ["sleep", "600"]},
}


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Callable[[], Client]]]:
    folder = tmp_path_factory.mktemp("ways")
    with ExitStack() as stack:
        near = stack.enter_context(LiveNode(folder / "near.db", grace=0.1))
        stack.enter_context(LiveNode(folder / "serving.db", grace=0.1))
        url = f"http://127.0.0.1:{stack.enter_context(HttpServer(folder)).port}"
        app = App(":memory:", workers=1)
        app.start()
        stack.callback(app.stop, wait=True)
        found: dict[str, Callable[[], Client]] = {
            "live node": lambda: DatabaseClient(near.database, "eva"),
            "URL": lambda: HttpClient(ApiConnection(url)),
            "program": app._client,
            "database": lambda: DatabaseClient(folder / "stopped.db", "eva"),
            "program without a node": App(":memory:")._client,
        }
        for way in WAYS:
            with closing(found[way]()) as client:
                passive = task_from_table("told", {"every": "1d", "passive": True}, check=True)
                tasks = [task_from_table(name, {"every": "1d", **work}, check=False) for name, work in TASKS.items()]
                for task in (*tasks, passive):
                    client.add([task], "eva")
        yield found


@pytest.fixture(params=WAYS)
def client(request: pytest.FixtureRequest, ways: dict[str, Callable[[], Client]]) -> Iterator[Client]:
    with closing(ways[request.param]()) as client:
        yield client


@pytest.fixture(params=LIVE)
def live(request: pytest.FixtureRequest, ways: dict[str, Callable[[], Client]]) -> Iterator[Client]:
    with closing(ways[request.param]()) as client:
        yield client


def cursor(client: Client, name: str) -> ArgumentValue:
    entry = client.find(name)
    assert entry is not None
    return client.cursor(entry)


def test_one_is_set_shown_and_reset_and_the_audit_says_by_whom(client: Client) -> None:
    assert cursor(client, "sum") is None
    assert client.set_cursor("sum", None) == ChangedCursor("sum", None, None)
    assert client.set_cursor("sum", 2.5) == ChangedCursor("sum", None, 2.5)
    assert client.set_cursor("sum", True) == ChangedCursor("sum", 2.5, True)
    assert cursor(client, "sum") is True
    assert client.set_cursor("sum", "page \u2028 7") == ChangedCursor("sum", True, "page \u2028 7")
    assert cursor(client, "sum") == "page \u2028 7"
    assert client.set_cursor("sum", None) == ChangedCursor("sum", "page \u2028 7", None)
    assert cursor(client, "sum") is None
    reset, changed, *_ = client.audit(AuditFilter("sum"))
    assert (reset.action, changed.action) == ("cursor reset", "cursor set")
    assert (changed.who, tuple(changed.fields[0])) == (reset.who, ("cursor", True, "page \u2028 7"))
    assert changed.who


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("pages", "", "empty, which to a command is no cursor"),
        ("pages", "a\0b", "has a null byte, which no command can get"),
        ("told", 5, "'told' is a passive check: it has nothing to run"),
        ("sum", float("nan"), "a text, a number, true or false, found nan"),
        ("sum", 1 << 64, "a whole number of up to 64 bits"),
        ("sum", "x" * 5_000, "at most 4096 bytes, found 5003"),
    ],
)
def test_what_cannot_be_the_cursor_of_a_task_is_refused(
    client: Client, name: str, value: ArgumentValue, message: str
) -> None:
    with pytest.raises(Invalid, match=message):
        client.set_cursor(name, value)
    assert cursor(client, name) is None


def test_a_task_that_is_not_there_has_none(client: Client) -> None:
    with pytest.raises(NotFound, match="there is no task 'nobody'"):
        client.set_cursor("nobody", "x")


def test_the_next_run_has_it(live: Client) -> None:
    live.set_cursor("pages", "page 7")
    assert [run.output for run in live.run_now(["pages"], wait=True)] == ["page 7\n"]
    live.set_cursor("pages", None)
    assert [run.output for run in live.run_now(["pages"], wait=True)] == ["\n"]


def test_it_is_refused_while_a_run_is_under_way(live: Client) -> None:
    entry = live.find("nap")
    assert entry is not None
    live.request_run(["nap"])
    eventually(lambda: live.condition(entry).running_since is not None)
    for value in ("x", None):
        with pytest.raises(Conflict, match="'nap' runs now, and its run may set the cursor: wait for its end"):
            live.set_cursor("nap", value)
    live.stop(Filter(names=("nap",)), wait=True)
    assert live.set_cursor("nap", "x").cursor == "x"


def live_filter(name: str) -> Any:
    from evenbeat.store.contract import Filter

    return Filter(names=(name,))


def test_the_command_line_says_where_the_next_run_goes_on(evenbeat: Evenbeat, tmp_path: Path) -> None:
    database = ("--db", str(tmp_path / "a.db"))
    evenbeat("add", "pages", "--every", "1d", *database, "--", *TASKS["pages"]["command"])
    evenbeat("add", "sum", "--every", "1d", "--function", "shop:add", *database)
    assert evenbeat("cursor", "pages", *database).out == "pages has no cursor: its next run begins anew\n"
    assert evenbeat("cursor", "pages", "--set", "7", *database).out == 'pages goes on from "7"\n'
    assert evenbeat("cursor", "sum", "--set", "7", "--json", *database).json == {
        "task": "sum",
        "before": None,
        "cursor": 7,
    }
    assert evenbeat("cursor", "sum", "--set", "2026-11-19", *database).out == (
        'sum goes on from "2026-11-19"; the cursor was 7\n'
    )
    with LiveNode(tmp_path / "a.db", grace=0.1):
        assert evenbeat("cursor", "pages", "--json", *database).json == {"task": "pages", "cursor": "7"}
        assert evenbeat("run", "pages", "--wait", "--json", *database).json["runs"][0]["output"] == "7\n"
        reset = evenbeat("cursor", "pages", "--reset", *database)
        assert (reset.code, reset.out) == (0, 'pages has no cursor: its next run begins anew; the cursor was "7"\n')
    assert evenbeat("cursor", "pages", *database).out == "pages has no cursor: its next run begins anew\n"
    assert evenbeat("cursor", "page", "--reset", *database).code == 2
    assert evenbeat("cursor", "pages", "--reset", "--set", "x", *database).code == 2


def test_the_command_line_says_no_while_a_run_is_under_way(evenbeat: Evenbeat, tmp_path: Path) -> None:
    database = ("--db", str(tmp_path / "a.db"))
    with LiveNode(tmp_path / "a.db", grace=0.1):
        evenbeat("add", "nap", "--every", "1d", *database, "--", "sleep", "600")
        evenbeat("run", "nap", *database)
        eventually(lambda: evenbeat("ls", "nap", "--json", *database).json["tasks"][0]["running_since"])
        refused = evenbeat("cursor", "nap", "--reset", *database)
        assert (refused.code, refused.out) == (1, "")
        assert "'nap' runs now" in refused.err


def test_a_program_reads_and_sets_cursors() -> None:
    app = App(":memory:")
    app.create("sum", every="1d", function="shop:add")
    assert app.cursor("sum") is None
    app.set_cursor("sum", 7)
    assert app.cursor("sum") == 7
    app.set_cursor("sum", None)
    assert app.cursor("sum") is None
    with pytest.raises(Invalid, match="there is no task 'nobody'"):
        app.cursor("nobody")


def test_a_program_sets_them_on_the_loop_of_its_node() -> None:
    async def pages() -> list[str]:
        async with App(":memory:", workers=1) as app:
            app.create("pages", every="1d", **TASKS["pages"])
            app.set_cursor("pages", "page 7")
            with pytest.raises(Invalid, match="there is no task 'nobody'"):
                app.set_cursor("nobody", "page 7")
            first = await app.aio.force("pages", wait=True)
            await app.aio.set_cursor("pages", None)
            return [run.output for run in (*first, *await app.aio.force("pages", wait=True))]

    assert asyncio.run(pages()) == ["page 7\n", "\n"]
