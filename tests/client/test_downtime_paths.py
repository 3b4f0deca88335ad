"""Whoever answers - a live node, a database, a URL or this program - downtimes are set, ended and refused alike."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any, TypeVar

import pytest
from http_server import HttpServer
from live_node import LiveNode
from waiting import eventually

from evenbeat.client.contract import Client
from evenbeat.client.http import HttpClient
from evenbeat.client.http_connection import ApiConnection
from evenbeat.client.in_process import InProcessBackend, InProcessClient
from evenbeat.client.node_or_database import DatabaseClient
from evenbeat.client.store_based import wall_clock
from evenbeat.load.task_tables import task_from_table
from evenbeat.model import DAY, HOUR, MINUTE, SECOND, Instant, Invalid
from evenbeat.report.downtimes import downtime_document
from evenbeat.store.contract import AuditFilter, Conflict, Filter
from evenbeat.store.memory import MemoryStore
from evenbeat.store.postgres.postgres_store import PostgresStore
from evenbeat.store.sqlite.sqlite_store import SqliteStore
from evenbeat.testing.postgres_server import PostgresServer, find_postgres_binaries
from evenbeat.wire.replies import NotFound

T = TypeVar("T")
Ask = Callable[[Callable[[Client], Any]], Any]
WAYS = ("live node", "URL", "database", "program", "cluster")
VARYING = ("id", "created", "from", "until", "next_change", "who", "ended_by")


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Callable[[], Client]]]:
    folder = tmp_path_factory.mktemp("ways")
    with ExitStack() as stack:
        near = stack.enter_context(LiveNode(folder / "near.db", grace=0.1))
        stack.enter_context(LiveNode(folder / "serving.db", grace=0.1))
        url = f"http://127.0.0.1:{stack.enter_context(HttpServer(folder)).port}"
        alone, memory = folder / "alone.db", MemoryStore()
        SqliteStore(alone).close()
        found: dict[str, Callable[[], Client]] = {
            "live node": lambda: DatabaseClient(near.database, "eva"),
            "URL": lambda: HttpClient(ApiConnection(url)),
            "database": lambda: DatabaseClient(alone, "eva"),
            "program": lambda: InProcessClient(memory, InProcessBackend(memory), "eva"),
        }
        if find_postgres_binaries():
            server = PostgresServer(durable=False)
            stack.callback(server.close)
            dsn = server.start().create_database()
            PostgresStore(dsn).close()
            found["cluster"] = lambda: DatabaseClient(dsn, "eva")
        yield found


@pytest.fixture(scope="module", params=WAYS)
def ask(request: pytest.FixtureRequest, clients: dict[str, Callable[[], Client]]) -> Ask:
    """Each time with a client of its own: who owns a database keeps others from it."""
    if request.param not in clients:
        pytest.skip("there is no PostgreSQL")

    def ask(question: Callable[[Client], Any]) -> Any:
        with closing(clients[request.param]()) as client:
            return question(client)

    for name in ("web1", "web2"):
        task = task_from_table(name, {"every": "1h", "command": ["noop"], "labels": {"site": "a"}}, check=True)
        with closing(clients[request.param]()) as client:
            client.add([task], "eva")
    return ask


def soon(length: int = HOUR) -> Instant:
    return Instant(wall_clock() + length)


def listed(ask: Ask, *, is_all: bool = False) -> list[dict[str, Any]]:
    return [downtime_document(known) for known in ask(lambda client: client.downtimes(is_all=is_all))]


def test_one_is_set_listed_ended_and_remembered(ask: Ask) -> None:
    made = ask(lambda c: c.add_downtime(["web*"], labels={"site": "a"}, end=soon(), comment="new disks"))
    (one,) = listed(ask)
    assert {key: value for key, value in one.items() if key not in VARYING} == {
        "names": ["web*"],
        "owner": None,
        "labels": {"site": "a"},
        "period": None,
        "dependents": True,
        "comment": "new disks",
        "active": True,
        "over": False,
        "declared": False,
        "limited_to": None,
    }
    assert one["id"] == made.id
    assert one["who"] == made.who
    ended = ask(lambda c: c.end_downtime(made.id))
    assert ended.ended_by == made.who
    assert listed(ask) == []
    assert [(known["id"], known["over"]) for known in listed(ask, is_all=True)] == [(made.id, True)]
    with pytest.raises(Conflict, match=f"the downtime {made.id} is over already"):
        ask(lambda c: c.end_downtime(made.id))
    lines = ask(lambda c: c.audit(AuditFilter(name=f"downtime {made.id}")))
    assert [(line.action, line.who) for line in lines] == [("ended", made.who), ("created", made.who)]
    assert "new disks" in lines[1].detail


def test_one_that_has_not_begun_is_forgotten_when_it_is_ended(ask: Ask) -> None:
    before = len(listed(ask, is_all=True))
    made = ask(lambda c: c.add_downtime(["web1"], start=soon(), end=soon(2 * HOUR), dependents=False))
    (one,) = listed(ask)
    assert (one["active"], one["dependents"]) == (False, False)
    assert one["next_change"] == one["from"]
    ask(lambda c: c.end_downtime(made.id))
    assert len(listed(ask, is_all=True)) == before


@pytest.mark.parametrize(
    ("names", "keys", "problem"),
    [
        ((), {"end": HOUR}, "which tasks? Accepted: one or more of names, owner, labels"),
        (("web1",), {}, "a downtime without an end"),
        (("web1",), {"end": -HOUR}, "it is in the past, accepted: a time after its begin"),
        (("web1",), {"start": -HOUR, "end": HOUR}, "it is in the past, accepted: now, or a time in the future"),
        (("web1",), {"start": 2 * HOUR, "end": HOUR}, "it ends before it begins"),
        (("web1",), {"end": 367 * DAY}, "accepted: a time at most 366 days after its begin"),
        (("web1",), {"end": HOUR, "period": "nigth"}, "there is no period 'nigth', known: none is defined"),
        (("web1",), {"end": HOUR, "comment": "a\x00b"}, "has U+0000"),
        (("web1\n",), {"end": HOUR}, "has U+000A"),
        (tuple(f"{i}*" for i in range(101)), {"end": HOUR}, "101 patterns, accepted: up to 100"),
    ],
)
def test_all_refuse_the_same_in_the_same_words(
    ask: Ask, names: tuple[str, ...], keys: dict[str, Any], problem: str
) -> None:
    times: dict[str, Any] = {key: soon(keys[key]) for key in ("start", "end") if key in keys}
    with pytest.raises(Invalid) as refused:
        ask(lambda c: c.add_downtime(names, **{**keys, **times}))
    assert problem in str(refused.value)
    assert listed(ask) == []


def test_a_name_that_no_task_has_is_refused_with_one_like_it(ask: Ask) -> None:
    with pytest.raises(NotFound, match=r"there is no task 'wbe1'; did you mean 'web1'\?"):
        ask(lambda c: c.add_downtime(["wbe1"], end=soon()))
    with pytest.raises(NotFound, match="there is no downtime 'd123'"):
        ask(lambda c: c.end_downtime("d123"))


def test_a_start_that_has_just_passed_is_now(ask: Ask) -> None:
    made = ask(lambda c: c.add_downtime(["web1"], start=soon(-MINUTE // 2), end=soon()))
    assert made.start >= made.created - MINUTE // 2
    ask(lambda c: c.end_downtime(made.id))


def test_a_pause_has_an_end_and_a_reason_and_both_are_shown(ask: Ask) -> None:
    only, until = Filter(names=("web2",)), Instant(soon() // 1_000_000 * 1_000_000)
    ask(lambda c: c.pause(only, paused=True, until=until, reason="new disks"))
    (condition,) = ask(lambda c: list(c.conditions(only)))
    pause = condition.entry.task.pause
    assert condition.entry.task.paused
    assert (pause.until, pause.reason) == (until, "new disks")
    with pytest.raises(Invalid, match="a time in the future, at most 366 days ahead"):
        ask(lambda c: c.pause(only, paused=True, until=soon(-HOUR)))
    ask(lambda c: c.pause(only, paused=False))
    (condition,) = ask(lambda c: list(c.conditions(only)))
    assert (condition.entry.task.paused, condition.entry.task.pause) == (False, None)


def test_a_live_node_ends_a_pause_by_itself(clients: dict[str, Callable[[], Client]]) -> None:
    only = Filter(names=("short",))
    with closing(clients["live node"]()) as client:
        client.add([task_from_table("short", {"every": "1h", "command": ["noop"]}, check=True)], "eva")
        client.pause(only, paused=True, until=soon(SECOND // 2))

    def is_paused() -> bool:
        with closing(clients["live node"]()) as client:
            return next(iter(client.conditions(only))).entry.task.paused

    assert is_paused()
    eventually(lambda: not is_paused(), "the end of the pause")
