"""Whoever answers - a live node, a URL or a database - the same output is read, also while a run writes it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from http_server import HttpServer
from live_node import LiveNode
from waiting import eventually

from evenbeat.client.contract import Client
from evenbeat.client.http import HttpClient
from evenbeat.client.http_connection import ApiConnection
from evenbeat.client.node_or_database import DatabaseClient
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import OUTPUT_LIMIT, Instant, Outcome, RunKind
from evenbeat.store.contract import PLAIN_OUTPUT_LENGTH
from evenbeat.wire.live_runs import OutputPart
from evenbeat.wire.replies import NotFound

WAYS = ("live node", "URL")
SCRIPT = 'echo begin $$; until test -e "$0"; do sleep 0.02; done; echo disk full; exit 3'


class Asked:
    """A task on a live node, asked in one way."""

    def __init__(self, client: Callable[[], Client], name: str, go_on: Path) -> None:
        self.client = client
        self.name = name
        self.go_on = go_on

    def read(self, **question: object) -> OutputPart:
        with closing(self.client()) as client:
            entry = client.find(self.name)
            assert entry is not None
            return client.read_output(entry, **question)  # type: ignore[arg-type]

    def until(self, is_it: Callable[[OutputPart], bool], **question: object) -> OutputPart:
        def found() -> OutputPart | None:
            part = self.read(wait=0.2, **question)
            return part if is_it(part) else None

        part = eventually(found)
        assert part is not None
        return part

    def run(self) -> None:
        with closing(self.client()) as client:
            client.request_run([self.name])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ways")


@pytest.fixture(scope="module")
def clients(folder: Path) -> Iterator[dict[str, Callable[[], Client]]]:
    with ExitStack() as stack:
        near = stack.enter_context(LiveNode(folder / "near.db", grace=0.1))
        stack.enter_context(LiveNode(folder / "serving.db", grace=0.1))
        url = f"http://127.0.0.1:{stack.enter_context(HttpServer(folder)).port}"
        yield {
            "live node": lambda: DatabaseClient(near.database, "eva"),
            "URL": lambda: HttpClient(ApiConnection(url)),
        }


@pytest.fixture(params=WAYS)
def asked(request: pytest.FixtureRequest, clients: dict[str, Callable[[], Client]], folder: Path) -> Asked:
    name = request.node.name
    go_on = folder / f"go on {name.replace('/', ' ')}"
    task = task_from_table(name, {"every": "1h", "command": ["sh", "-c", SCRIPT, str(go_on)]}, check=False)
    with closing(clients[request.param]()) as client:
        client.add([task], "eva")
    return Asked(clients[request.param], name, go_on)


def test_a_run_is_read_while_it_writes_and_then_to_its_end(asked: Asked) -> None:
    before = asked.read()
    assert (before.claimed, before.text, before.ended) == (None, "", None)
    assert asked.read(since=before.now, forced=True).claimed is None
    asked.run()
    first = asked.until(lambda part: bool(part.text), since=before.now, forced=True)
    assert first.text.startswith("begin ")
    assert (first.kind, first.ended, first.position) == (RunKind.FORCED, None, len(first.text))
    assert asked.read(run=first.claimed, position=first.position).text == ""
    asked.go_on.touch()
    last = asked.until(lambda part: part.ended is not None, run=first.claimed, position=first.position)
    assert (last.text, last.outcome, last.status) == ("disk full\n", Outcome.FAILED, 3)
    whole = asked.read(run=last.started)
    assert (whole.claimed, whole.text) == (first.claimed, first.text + "disk full\n")
    assert asked.read().claimed == first.claimed


def test_a_run_that_ended_before_anybody_looked_is_found_too(asked: Asked) -> None:
    before = asked.read().now
    asked.go_on.touch()
    asked.run()
    part = asked.until(lambda part: part.ended is not None, since=before, forced=True)
    assert part.text.endswith("disk full\n")


def test_a_run_is_found_by_a_time_at_which_it_was_under_way(asked: Asked) -> None:
    with pytest.raises(NotFound, match="no run was claimed, started or under way then"):
        asked.read(run=Instant(1_000_000))


def whole_of(client: Client, name: str, run: Instant | None = None) -> str:
    """What `evenbeat logs NAME` prints."""
    entry = client.find(name)
    assert entry is not None
    text, position = "", 0
    while True:
        part = client.read_output(entry, run=run, position=position)
        assert part.left_out == 0
        text, position, run = text + part.text, part.position, part.claimed
        if part.ended is not None:
            return text


def test_all_of_a_long_output_is_kept_for_a_task_that_asks_for_it(
    clients: dict[str, Callable[[], Client]], folder: Path
) -> None:
    table = {"every": "1h", "command": ["seq", "1", "300000"], "output_keep": "4MB"}
    said = "".join(f"{i}\n" for i in range(1, 300_001))
    for way in WAYS:
        with closing(clients[way]()) as client:
            client.add([task_from_table("long", table, check=False)], "eva")
            first, _ = client.run_now(["long"], wait=True)[0], client.run_now(["long"], wait=True)
            assert len(first.output) <= OUTPUT_LIMIT
            assert "bytes left out" in first.output
            assert whole_of(client, "long") == said
            assert whole_of(client, "long", Instant(first.started)) == said, "of the run before, too"


def test_successes_keep_more_than_a_line_for_a_task_that_asks_for_it(tmp_path: Path) -> None:
    table = {"every": "1h", "command": ["seq", "1", "500"]}
    database, said = tmp_path / "x.db", "".join(f"{i}\n" for i in range(1, 501))
    with LiveNode(database, grace=1), closing(DatabaseClient(database, "eva")) as client:
        client.add([task_from_table("plain", table, check=False)], "eva")
        client.add([task_from_table("kept", {**table, "output_keep": "64KB"}, check=False)], "eva")
        runs = {name: client.run_now([name], wait=True)[0] for name in ("plain", "kept")}
        client.run_now(["plain", "kept"], wait=True)
        assert whole_of(client, "kept", Instant(runs["kept"].started)) == said
        assert len(whole_of(client, "plain", Instant(runs["plain"].started))) == PLAIN_OUTPUT_LENGTH


def test_without_a_node_the_stored_output_is_read(tmp_path: Path) -> None:
    database = tmp_path / "x.db"
    job = task_from_table("job", {"every": "1h", "command": ["echo", "hello"]}, check=False)
    with LiveNode(database, grace=1), closing(DatabaseClient(database, "eva")) as client:
        client.add([job], "eva")
        client.run_now(["job"], wait=True)
    with closing(DatabaseClient(database, "eva")) as client:
        entry = client.find("job")
        assert entry is not None
        part = client.read_output(entry)
        assert (part.text, part.position, part.outcome) == ("hello\n", 6, Outcome.SUCCEEDED)
        assert client.read_output(entry, run=part.claimed, position=2).text == "llo\n"


def test_the_end_of_a_worker_is_said_although_it_is_no_output(tmp_path: Path) -> None:
    job = task_from_table("job", {"every": "1h", "command": ["kill -9 $PPID; sleep 60"], "shell": True}, check=False)
    with LiveNode(tmp_path / "x.db", grace=0.1) as live, closing(DatabaseClient(live.database, "eva")) as client:
        client.add([job], "eva")
        entry = client.find("job")
        assert entry is not None
        before = client.read_output(entry).now
        client.request_run(["job"])

        def ended() -> OutputPart | None:
            part = client.read_output(entry, since=before, forced=True, position=1_000, wait=0.2)
            return part if part.ended is not None else None

        last = eventually(ended)
        assert last is not None
        assert last.outcome is Outcome.LOST
        assert "died" in last.text
